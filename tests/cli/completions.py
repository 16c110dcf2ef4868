#!/usr/bin/python3
"""completions/ holds what every built program prints with --completion, and shells can parse it.

usage: completions.py --bin FOLDER [--accept]
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FILE_NAMES = {"bash": "{}", "zsh": "_{}", "fish": "{}.fish"}


def check(program, shell, accept):
    script = subprocess.run([program, "--completion", shell], capture_output=True, check=True, text=True).stdout
    path = SOURCE / "completions" / shell / FILE_NAMES[shell].format(program.name)
    if accept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
    problems = []
    if not path.exists() or path.read_text() != script:
        problems.append(f"{path.relative_to(SOURCE)} is not what {program.name} prints: run completions.py --accept")
    if shutil.which(shell):
        parsed = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        if parsed.returncode or parsed.stderr:
            problems.append(f"{program.name}: {shell} cannot parse its completion: {parsed.stderr.strip()}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--accept", action="store_true")
    arguments = parser.parse_args()
    programs = sorted(p for p in arguments.bin.resolve().glob("dgx-*") if p.is_file())
    problems = [p for program in programs for shell in FILE_NAMES for p in check(program, shell, arguments.accept)]
    print("\n".join(problems) or f"completions of {len(programs)} programs hold")
    return 1 if problems or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
