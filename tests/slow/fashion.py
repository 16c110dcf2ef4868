"""A folder in which programs of dgx are called, and Fashion-MNIST as datasets there."""

import pathlib
import subprocess
import sys


class Folder:
    """Calls programs of one build inside a folder, which it makes."""

    def __init__(self, bin_folder, folder):
        self.bin, self.folder = pathlib.Path(bin_folder).resolve(), pathlib.Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, program, *words):
        """Its output; ends the script if it fails."""
        done = subprocess.run([self.bin / program, *map(str, words)], cwd=self.folder, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{program} {' '.join(map(str, words))}: exit {done.returncode}")
        return done.stdout

    def make_key(self):
        """key.pem, unless it is there."""
        if not (self.folder / "key.pem").exists():
            self.run("dgx-key", "new", "key")

    def pack_fashion(self, train, test):
        """Packs Debian's Fashion-MNIST as datasets of these names, unless they are there."""
        listed = subprocess.run(["dpkg", "-L", "dataset-fashion-mnist"], capture_output=True, text=True).stdout.split()
        path = {kind: next(p for p in listed if kind in p) for kind in ("train-images", "train-labels", "t10k-images", "t10k-labels")}
        for name, kind in ((test, "t10k"), (train, "train")):
            if not (self.folder / name).exists():
                self.run("dgx-pack", "idx", "--images", path[f"{kind}-images"], "--labels", path[f"{kind}-labels"], "--scale", 1 / 255, "-o", name)
