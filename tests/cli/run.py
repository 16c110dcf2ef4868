#!/usr/bin/python3
"""Golden tests of the built programs: exact standard output, standard error and exit code.

usage: run.py --bin FOLDER [--have NAME ...] [--accept] CASES...

CASES are *.test files or folders of them. Each file runs in a fresh folder of its own, top to bottom:

    # a comment
    mask digest              replace what always differs before comparing (MASKS below)
    mask /REGEX/NAME/        ... or what this regular expression matches, by <NAME>
    needs torch              skip the file unless --have torch was given
    needs numpy              ... or unless the commands' python3 has this module

    $ dgx-key id alice.pub.pem          a shell command; its folder holds what earlier commands left
    > key id:  <digest>                 its standard output, line by line
    >| half a line                      the last line, if no newline ends it
    2> dgx-key: error: ...              its standard error
    ? 66                                its exit code, if it is not 0

In commands, $CASES is the folder of the case file and $SOURCE the source tree. --accept writes what came out into the case files,
for review with git diff. Exits 77 if all files are skipped.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

MASKS = {
    "digest": (r"\b[0-9a-f]{64}\b", "<digest>"),
    "brief": (r"\b[0-9a-f]{12}\b", "<brief>"),
    "signature": (r'"sig":"[A-Za-z0-9+/=]+"', '"sig":"<signature>"'),
    "time": (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "<time>"),
    "seconds": (r"\b\d+(\.\d+)? (s|ms)\b", "<seconds>"),
    "version": (r"\b\d+\.\d+(\.\d+)*\b", "<version>"),
}
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 300


class CaseFile:
    """A parsed case file: literal lines, and commands with what is expected of them."""

    def __init__(self, path):
        self.path = path
        self.masks = []
        self.needs = []
        self.parts = []  # a line of text, or [command, expected lines]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            self.take(line, number)

    def take(self, line, number):
        if line.startswith("$ "):
            self.parts.append([line[2:], []])
        elif re.match(r">\|? ?|2>\|? ?|\? ", line):
            if not self.parts or not isinstance(self.parts[-1], list):
                sys.exit(f"{self.path}:{number}: expected output without a command")
            self.parts[-1][1].append(line)
        else:
            self.directive(line, number)
            self.parts.append(line)

    def directive(self, line, number):
        word, _, rest = line.partition(" ")
        if word == "mask" and rest.startswith("/"):
            pattern, name = rest.strip("/").rsplit("/", 1)
            self.masks.append((pattern, f"<{name}>"))
        elif word == "mask" and rest in MASKS:
            self.masks.append(MASKS[rest])
        elif word == "needs":
            self.needs.append(rest)
        elif line and not line.startswith("#"):
            sys.exit(f"{self.path}:{number}: not understood: {line}")

    def text(self, outputs):
        lines = []
        for part in self.parts:
            lines += [part] if isinstance(part, str) else ["$ " + part[0]] + outputs.pop(0)
        return "\n".join(lines) + "\n"


def marked(prefix, text):
    """Lines of output with their mark; trailing spaces stay visible to the comparison."""
    lines = text.split("\n")
    last = lines.pop()
    out = [f"{prefix} {line}".rstrip() if not line else f"{prefix} {line}" for line in lines]
    return out + ([f"{prefix}| {last}"] if last else [])


def environment(binaries, folder, cases):
    keep = {k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "UBSAN_", "LSAN_", "PYTHONPATH"))}
    return keep | {"PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8", "TZ": "UTC", "DGX_CACHE": "",
                   "CASES": str(cases), "SOURCE": str(SOURCE)}


def run_command(command, case, folder, binaries):
    # A session of its own has no terminal, on which a program would ask for a passphrase.
    done = subprocess.run(["/bin/bash", "-c", command], cwd=folder, capture_output=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                          start_new_session=True, env=environment(binaries, folder, case.path.resolve().parent))
    text = []
    for prefix, content in ((">", done.stdout), ("2>", done.stderr)):
        content = content.decode("utf-8", "backslashreplace").replace(str(folder), "<folder>")
        for pattern, name in case.masks:
            content = re.sub(pattern, name, content)
        text += marked(prefix, content)
    return text + ([f"? {done.returncode}"] if done.returncode else [])


def missing(case, arguments):
    """Of what the file needs what is not there."""
    found = environment(arguments.bin, "/", "/")
    modules = [name for name in case.needs if name != "torch"]
    gone = [name for name in modules if subprocess.run(["python3", "-c", f"import {name}"], env=found, capture_output=True).returncode]
    return gone + sorted({"torch"} & set(case.needs) - set(arguments.have))


def run_case(path, arguments):
    """Whether it holds; None if it was skipped."""
    case = CaseFile(path)
    if gone := missing(case, arguments):
        print(f"skipped: {path.name}: needs {' '.join(gone)}")
        return None
    with tempfile.TemporaryDirectory(prefix="dgx-cli-") as folder:
        outputs = [run_command(part[0], case, pathlib.Path(folder), arguments.bin) for part in case.parts if not isinstance(part, str)]
    expected, found = path.read_text(), case.text(outputs)
    if expected == found:
        return True
    if arguments.accept:
        path.write_text(found)
        print(f"accepted {path}")
        return True
    sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), found.splitlines(True), f"{path} (expected)", "found"))
    return False


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--bin", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--have", action="append", default=[])
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("cases", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    files = [f for c in arguments.cases for f in (sorted(c.glob("*.test")) if c.is_dir() else [c])]
    results = {f.name: run_case(f, arguments) for f in files}
    failed = [name for name, holds in results.items() if holds is False]
    run = sum(holds is not None for holds in results.values())
    print(f"{run - len(failed)} of {run} case files hold" + (f"; not: {', '.join(failed)}" if failed else ""))
    needs.counted(run, len(files) - run)
    if files and not run:
        return needs.SKIPPED
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
