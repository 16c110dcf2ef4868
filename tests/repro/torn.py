"""A run with checkpoints that are cut off or damaged goes on, to the same digests, and loses nothing that is whole: torn.py --bin FOLDER

No writer leaves such a file: a checkpoint is durable before the index names it (slow/cuts). A disk that says too early what is durable does.
"""

import argparse
import os
import shutil
import sys
import tempfile

import tasks

FIRST, MIDDLE, LAST = 0, 2, 4  # of the checkpoints at the steps 0, 10, 20, 30, 40


def torn(content):
    """A name, and what is left of a checkpoint."""
    middle = len(content) // 2
    yield "empty", b""
    yield "a superblock", content[:48]
    yield "a half", content[:middle]
    yield "all but a byte", content[:-1]
    yield "zeros at the end", content[:middle] + bytes(len(content) - middle)


def flipped(content):
    """A bit of a checkpoint's numbers."""
    changed = bytearray(content)
    changed[len(content) * 5 // 8] ^= 16
    return bytes(changed)


class Tester:
    def __init__(self, bin_folder, folder):
        self.bin, self.folder, self.failures, self.cases = bin_folder, folder, 0, 0
        self.data = tasks.pack_small(bin_folder, folder)
        self.wanted = tasks.expected()["small"]["states"]["300"]
        self.begun = os.path.join(folder, "begun")
        self.train(self.begun, "--until", "43")
        whole = os.path.join(folder, "whole")
        self.train(whole)
        self.names = self.checkpoints(whole)

    def train(self, run, *words, codes=(0,)):
        return tasks.run(self.bin, "dgx-train", tasks.stored("small"), "--data", self.data, "-o", run, "--threads", "1", *words, codes=codes)[1]

    @staticmethod
    def checkpoints(run):
        return sorted(name for name in os.listdir(run) if name.startswith("checkpoint-"))

    def check(self, condition, what):
        if not condition:
            self.failures += 1
            print("FAILED:", what)

    def goes_on(self, what, damage, resumed_from, words=(), saved=True, whole=True):
        """A copy of the begun run, after damage(number, path, content) of each of its checkpoints, goes on at that step and ends as one that nobody hurt."""
        self.cases += 1
        run = os.path.join(self.folder, "copy")
        shutil.copytree(self.begun, run)
        if not saved:
            os.remove(os.path.join(run, "resume.h5"))
        for number, name in enumerate(self.checkpoints(run)):
            with open(os.path.join(run, name), "r+b") as file:
                content = damage(number, file.read())
                file.seek(0), file.truncate(), file.write(content)
        try:
            done = self.train(run, *words)
            self.check(done["state"] == self.wanted, f"{what}: ends with {done['state']}")
            self.check(done.get("resumed_from", 0) == resumed_from, f"{what}: goes on from step {done.get('resumed_from', 0)}, not {resumed_from}")
            tasks.run(self.bin, "dgx-inspect", run, *(["--check"] if whole else []))
            kept = [name for name in self.checkpoints(run)]
            self.check(set(kept) <= set(self.names), f"{what}: other states: {set(kept) - set(self.names)}")
        except AssertionError as failure:
            self.check(False, f"{what}: {failure}")
        shutil.rmtree(run)

    def all_damage(self):
        def only(*numbers):
            return lambda change: lambda number, content: change(content) if number in numbers else content

        for name, _ in torn(b"x" * 100):
            def change(content, name=name):
                return dict(torn(content))[name]

            # The state that was saved after it serves.
            self.goes_on(f"last, {name}", only(LAST)(change), 43)
            # Without that, the last whole checkpoint before.
            self.goes_on(f"last, {name}, none saved", only(LAST)(change), 30, saved=False)
            self.goes_on(f"last two, {name}, none saved", only(LAST, LAST - 1)(change), 20, saved=False)
            # Only what cannot be opened is found to be damaged, since the first is not read.
            opens = name == "zeros at the end"
            self.goes_on(f"first, {name}", only(FIRST)(change), 43, whole=not opens)
            self.goes_on(f"first and last, {name}, none saved", only(FIRST, LAST)(change), 30, saved=False, whole=not opens)
            self.goes_on(f"all, {name}, none saved", only(*range(5))(change), 0, saved=False)
            self.goes_on(f"all, {name}", only(*range(5))(change), 43, whole=False)
            # Pruning must not drop the checkpoint that a torn last one makes the run go back to.
            self.goes_on(f"last, {name}, one is kept", only(LAST)(change), 30, words=("--keep", "last"), saved=False)
            # Not needed, so not noticed: readers name it.
            self.goes_on(f"one between, {name}", only(MIDDLE)(change), 43, whole=False)
        self.goes_on("last, a bit", only(LAST)(flipped), 43)
        self.goes_on("last, a bit, none saved", only(LAST)(flipped), 30, saved=False)

    def refused(self):
        """A last checkpoint that is whole, and another's, is none to go on without."""
        run = os.path.join(self.folder, "other")
        shutil.copytree(self.begun, run)
        names = self.checkpoints(run)
        shutil.copy(os.path.join(run, names[FIRST]), os.path.join(run, names[LAST]))
        self.train(run, codes=(65,))
        # Nor does anything go while the last one cannot be opened.
        with open(os.path.join(run, names[LAST]), "wb"):
            pass
        tasks.run(self.bin, "dgx-train", "prune", run, codes=(65,))
        self.check(self.checkpoints(run) == names, "prune removed checkpoints before one that is damaged")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    with tempfile.TemporaryDirectory(prefix="dgx-torn-") as folder:
        tester = Tester(parser.parse_args().bin, folder)
        tester.all_damage()
        tester.refused()
        print(f"{tester.cases} damaged runs, {tester.failures} failures")
    return 1 if tester.failures else 0


if __name__ == "__main__":
    sys.exit(main())
