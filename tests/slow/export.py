"""What dgx-submit makes of the archives in FOLDER/VERSION (export_models.py): export.py --bin FOLDER --folder FOLDER

All releases that are taken give one program and one initial state for each model; older ones are refused with what mends them.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

TAKEN = ("2.11.0", "2.10.0", "2.9.1")
REFUSED = {"2.8.0": "2.8", "2.5.1": "2.5"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    options = parser.parse_args()
    programs, archives = options.bin.resolve(), options.folder.resolve()
    with tempfile.TemporaryDirectory(dir=archives) as name:
        work = pathlib.Path(name)

        def run(*words):
            return subprocess.run([programs / words[0], *map(str, words[1:])], cwd=work, capture_output=True, text=True)

        def submit(version, model):
            archive, evaluation = (archives / version / f"{model}{suffix}.pt2" for suffix in ("", "_eval"))
            return run("dgx-submit", "--data", "data.h5", "--model", archive, "--eval-model", evaluation,
                       "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", 8, "--steps", 4, "--key", "key.pem", "-o", f"{model}-{version}.json",
                       "--json", "-q")

        np.save(work / "x.npy", (np.arange(32 * 256).reshape(32, 256) % 17 / 17).astype("f4"))
        np.save(work / "y.npy", (np.arange(32) % 10).astype("u1"))
        run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
        run("dgx-key", "new", "key")
        models = sorted(path.name[:-4] for path in (archives / TAKEN[0]).glob("*.pt2") if not path.name.endswith("_eval.pt2"))
        failed = len(models) != 8
        for model in models:
            found = {version: submit(version, model) for version in TAKEN}
            told = {(json.loads(done.stdout)["program"], json.loads(done.stdout)["initial_state"]) for done in found.values() if done.returncode == 0}
            same = len(told) == 1 and all(done.returncode == 0 for done in found.values())
            failed |= not same
            print(f"{model}: " + (f"program {min(told)[0]}" if same else f"FAILED: {told} {[done.stderr for done in found.values()]}"))
        for version, older in REFUSED.items():
            done = submit(version, models[0])
            print(f"torch {version}: exit {done.returncode}: {done.stderr.strip()}")
            failed |= done.returncode not in (2, 65) or "hint" not in done.stderr or f"torch {older}" not in done.stderr
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
