#!/usr/bin/python3
"""The README's walk through a task works as written: readme.py --bin FOLDER

Its indented commands, in their order and in one shell, on the dataset that it names. Exits 77 where the dataset is not installed.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
# All that is said beside the results and a slow training's progress: how long a segment takes Vera and Bob as they profile, then Bob and the cheat as they train.
TOLD = r"(dgx-profile: the longest segment takes \d+ ms here and .*\n){2}(dgx-train: the longest segment takes \d+ ms here and .*\n){2}"


def commands_of(title):
    """The commands of a section: what is indented by four spaces."""
    section = README.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^    (.*)$", section, re.M)


def problems_of(done):
    """The walk ends with the cheat: their difference is found (exit 1), and the honest solver was paid before."""
    problems = []
    told = re.sub(r"^dgx-train: training: [\d,]+ of [\d,]+ .*\n", "", done.stderr, flags=re.M)
    if done.returncode != 1 or not re.fullmatch(TOLD, told):
        problems.append(f"exit {done.returncode}, expected 1 of the last command: {done.stderr}")
    for line in (r"verdict: +accepted", r"same: +yes", r"reason: accepted", r"^value:$", r"confirmed: +ours"):
        if not re.search(line, done.stdout, re.M):
            problems.append(f"nothing printed is like '{line}'")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    arguments = parser.parse_args()
    needs.fashion_mnist("train-images")
    with tempfile.TemporaryDirectory(prefix="dgx-readme-") as folder:
        # The section begins where the programs were built.
        os.mkdir(os.path.join(folder, "build"))
        os.symlink(os.path.dirname(arguments.bin), os.path.join(folder, "build/release"))
        script = "set -e\n" + "\n".join(commands_of("Five minutes in a shell")) + "\n"
        done = subprocess.run(["/bin/sh", "-c", script], cwd=folder, capture_output=True, text=True, timeout=1800,
                              env=os.environ | {"PATH": "/usr/bin:/bin"})
    problems = problems_of(done)
    print("\n".join(problems) or "the README's walk works")
    if problems:
        print(done.stdout)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
