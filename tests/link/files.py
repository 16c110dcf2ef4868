#!/usr/bin/python3
"""The house's rules for files: none that somebody writes is over 500 lines, headers are guarded, no comment begins with a bare clause, and nothing names a place of one machine.

Only what a program writes is left out: completions/, the pictures, and tests/vectors but for the scripts that make them.
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["lib", "tools", "tests", "cmake", "examples", "man", ".ci"]
WRITTEN_BY_PROGRAMS = {".svg", ".pyc"}
SCRIPTS = {".py", ".sh", ".mjs"}
MAX_LINES = 500
SOURCES = {".h", ".cc", ".cuh", ".cu"}
BARE_CLAUSE = {"What", "Where", "That", "Which", "How", "When", "Who", "Whose", "Why", "Of", "Whether"}
HOME_FOLDER = re.compile(r"/(home|root|work)/\w")


def bare_clauses(text):
    """Lines whose comment begins with a relative clause or a genitive, and so names nothing."""
    within = False
    for number, line in enumerate(text.splitlines(), 1):
        whole, behind = re.match(r"\s*///?<?\s+(\w+)", line), re.search(r"[;,{})\w]\s+///?<?\s+(\w+)", line)
        if (whole and not within and whole[1] in BARE_CLAUSE) or (not whole and behind and behind[1] in BARE_CLAUSE):
            yield number
        within = bool(whole)


def check(path):
    where, text = path.relative_to(SOURCE), path.read_text()
    lines = text.count("\n")
    problems = []
    if lines > MAX_LINES:
        problems.append(f"{where}: {lines} lines, at most {MAX_LINES}")
    if path.suffix in (".h", ".cuh") and not path.name.endswith("-inl.h") and "#pragma once" not in text:
        problems.append(f"{where}: no #pragma once")
    if HOME_FOLDER.search(text) and path != pathlib.Path(__file__).resolve():
        problems.append(f"{where}: names a folder of one machine")
    if re.search(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b", text):
        problems.append(f"{where}: unfinished")
    if path.suffix in SOURCES:
        problems += [f"{where}:{number}: the comment names nothing" for number in bare_clauses(text)]
    return problems


def is_ours(path):
    return path.is_file() and path.suffix not in WRITTEN_BY_PROGRAMS and ("vectors" not in path.parts or path.suffix in SCRIPTS)


def main():
    files = [p for f in FOLDERS for p in sorted((SOURCE / f).rglob("*")) if is_ours(p)] + [p for p in sorted(SOURCE.glob("*")) if p.is_file() and p.name != ".git"]
    problems = [problem for path in files for problem in check(path)]
    print("\n".join(problems) or f"{len(files)} files keep the rules")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
