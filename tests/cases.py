#!/usr/bin/python3
"""Runs ctest and counts: entries, and the cases of tests that count their own, each as run and skipped.

usage: cases.py JUNIT CTEST-ARGUMENT …

JUNIT is the file for CTest's results. A test counts by a line `cases: N run, M skipped`, a Catch2 program by its own last line; what is skipped is a
line `skipped: REASON`. The sums come before CTest's own summary, which stays last; the exit code is CTest's.
"""

import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

CASES = re.compile(r"^cases: (\d+) run, (\d+) skipped$", re.M)
CATCH = re.compile(r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)$", re.M)
WHY = re.compile(r"^skipped: .*$", re.M)
SUMMARY = re.compile(r"^\d+% tests passed, ")


def results(path):
    """{name: (status, output)}, the status "run", "fail" or "skipped"."""
    found = {}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        status = "skipped" if case.find("skipped") is not None else case.get("status")
        found[case.get("name")] = (status, case.findtext("system-out") or "")
    return found


def counted(output):
    """Cases run and skipped of one test's output."""
    pairs = [(int(run), int(skipped)) for run, skipped in CASES.findall(output)] + [(int(run), 0) for run in CATCH.findall(output)]
    return sum(run for run, _ in pairs), sum(skipped for _, skipped in pairs)


def sums(found):
    lines = [f"skipped: {name}: {why.removeprefix('skipped: ')}" for name, (_, output) in found.items() for why in WHY.findall(output)]
    silent = [name for name, (status, output) in found.items() if status == "skipped" and not WHY.search(output)]
    lines += [f"skipped: {name}: without a reason" for name in silent]
    skipped = sum(status == "skipped" for status, _ in found.values())
    cases = [counted(output) for _, output in found.values()]
    lines.append(f"tests: {len(found)} = {len(found) - skipped} run + {skipped} skipped")
    counting, run, left = sum(any(pair) for pair in cases), sum(run for run, _ in cases), sum(left for _, left in cases)
    lines.append(f"cases of the {counting} tests that count their own: {run + left} = {run} run + {left} skipped")
    return lines


def main():
    junit, *words = os.path.abspath(sys.argv[1]), *sys.argv[2:]  # CTest goes to its build folder
    pathlib.Path(junit).unlink(missing_ok=True)
    command = ["ctest", *words, "--output-junit", junit, "--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000"]
    held = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as ctest:
        for line in ctest.stdout:
            if held or SUMMARY.match(line):
                held.append(line)
            else:
                print(line, end="", flush=True)
    if held and os.path.exists(junit):
        print("\n".join(sums(results(junit))) + "\n")
    print("".join(held), end="")
    return ctest.returncode


if __name__ == "__main__":
    sys.exit(main())
