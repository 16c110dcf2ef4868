#!/usr/bin/python3
"""completions/ holds what every built program prints with --completion, and shells can parse it.

usage: completions.py --bin FOLDER [--accept | --parse SHELL]

--parse: what is printed for a shell is given to it, and nothing compared; exits 77 where the shell is not installed.
"""

import argparse
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

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
    return problems


def parse(program, name, shell):
    script = subprocess.run([program, "--completion", name], capture_output=True, check=True, text=True).stdout
    parsed = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
    wrong = parsed.returncode or parsed.stderr or not script
    return [f"{program.name}: {name} cannot parse its completion: {parsed.stderr.strip()}"] if wrong else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--parse", choices=FILE_NAMES)
    arguments = parser.parse_args()
    programs = sorted(p for p in arguments.bin.resolve().glob("dgx-*") if p.is_file())
    if arguments.parse:
        shell = needs.program(arguments.parse)
        problems = [p for program in programs for p in parse(program, arguments.parse, shell)]
    else:
        problems = [p for program in programs for shell in FILE_NAMES for p in check(program, shell, arguments.accept)]
    print("\n".join(problems) or f"completions of {len(programs)} programs hold")
    return 1 if problems or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
