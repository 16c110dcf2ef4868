#!/usr/bin/python3
"""The real module where there is no GPU: a clear error, exit 70, nothing written. driver.py --bin FOLDER; exits 77 where there is one."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("repro", "support")]
import needs  # noqa: E402
import tasks  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    bin_folder = pathlib.Path(parser.parse_args().bin).resolve()
    with tempfile.TemporaryDirectory(prefix="dgx-gpu-") as folder:
        small = tasks.pack_small(bin_folder, folder)
        run = os.path.join(folder, "run")
        done = subprocess.run([bin_folder / "dgx-train", tasks.stored("small"), "--data", small, "-o", run, "--until", "1", "--device", "cuda"],
                              capture_output=True, text=True)
        if done.returncode == 0:
            needs.skip("there is a GPU")
        lines = done.stderr.splitlines()
        print(done.stderr, end="")
        # "no NVIDIA driver", "there is no GPU", "the driver knows CUDA …": each with a hint.
        clear = done.returncode == 70 and lines[0].startswith("dgx-train: error: --device cuda: ") and lines[1].startswith("hint: ") and len(lines) == 2
        if not clear or "module" in lines[0] or os.path.exists(run):
            print(f"FAILED: exit {done.returncode}")
            sys.exit(1)


if __name__ == "__main__":
    main()
