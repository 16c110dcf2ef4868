#!/usr/bin/python3
"""The house's rules for files: none that somebody writes is over 500 lines, no class over 200, headers are guarded, no comment begins with a bare clause,
the modules that are hard to read have their share of comments, and nothing names a place of one machine.

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
MAX_CLASS_LINES = 200
# Percentages of the non-blank lines that are or bear a comment, at least.
LEAST_COMMENTS = {"lib/exec": 12, "lib/jobs": 12, "lib/kernels": 12, "lib/protocol": 12}
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


def classes(text):
    """(name, first line, number of lines) of each class, struct and union, by the layout that clang-format gives it: it ends where its indentation comes back."""
    lines = text.splitlines()
    for first, line in enumerate(lines):
        head = re.match(r"( *)(?:template <.*> )?(?:class|struct|union) (?:\[\[\w+\]\] |\w+\(.*\) )*(\w+)", line)
        if not head or line.endswith(";"):
            continue
        last = next((n for n in range(first + 1, len(lines)) if lines[n].startswith(head[1] + "}")), first)
        yield head[2], first + 1, last - first + 1


def check_classes(texts):
    for path, text in texts.items():
        for name, line, size in classes(text):
            if size > MAX_CLASS_LINES:
                yield f"{path.relative_to(SOURCE)}:{line}: {name} has {size} lines, at most {MAX_CLASS_LINES}"


def check_comments(texts):
    for folder, least in LEAST_COMMENTS.items():
        lines = [line for path, text in texts.items() if path.is_relative_to(SOURCE / folder) for line in text.splitlines() if line.strip()]
        share = 100 * sum(bool(re.search(r"(^|\s)//", line)) for line in lines) / len(lines)
        if share < least:
            yield f"{folder}: {share:.2f} % of the lines have comments, at least {least}"


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
    texts = {path: path.read_text() for path in files if path.suffix in SOURCES}
    problems += [*check_classes(texts), *check_comments(texts)]
    print("\n".join(problems) or f"{len(files)} files keep the rules")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
