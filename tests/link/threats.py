#!/usr/bin/python3
"""The tests that dgx-threats(7) and tests/attacks/README.md cite are there, and every row of the page that is answered cites one.

usage: threats.py --build FOLDER

A row of the page ends with "Tests: _unit/NAME_, "TITLE", "BEGINNING …"; _cli/PROGRAM/CASES_; _slow/NAME_." A name is that of a test of CTest or of a
script; titles are of the cases in that test's sources; CASES is a file of golden cases.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TESTS = SOURCE / "tests"
TITLE = re.compile(r'(?:TEST_CASE|SECTION)\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)')


def sources_of_tests():
    """The C++ sources of each test that a CMakeLists.txt declares with its sources, by the test's name."""
    out = {"attacks/flips": [TESTS / "attacks/flips_test.cc"]}
    for lists in TESTS.rglob("CMakeLists.txt"):
        for kind, name, rest in re.findall(r"(?m)^dgx_(unit|attack)_test\((\w+)\s([^)]*)\)", re.sub(r"\$\{\w+\}", str(SOURCE), lists.read_text())):
            files = [lists.parent / file for file in re.findall(r"[\w./-]+\.cc", rest)]
            if kind == "attack":
                files.append(lists.parent / f"{name}_test.cc")
            out["unit/" + name if kind == "unit" else "attacks/" + name] = files
    return out


def titles_of(files):
    texts = [re.findall(r'"((?:\\.|[^"\\])*)"', literals) for file in files for literals in TITLE.findall(file.read_text())]
    return ["".join(parts) for parts in texts]


class Tests:
    """What may be cited."""

    def __init__(self, build):
        listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
        self.names = {test["name"] for test in json.loads(listed)["tests"]}
        self.titles = {name: titles_of(files) for name, files in sources_of_tests().items()}

    def has(self, name):
        """Whether a test has this name: of CTest, a file of cases, or a script, as those of slow."""
        folder, _, rest = name.partition("/")
        if folder == "cli" and "/" in rest:
            return (TESTS / folder / f"{rest}.test").is_file()
        return name in self.names or name in self.titles or any((TESTS / folder / f"{rest}{end}").is_file() for end in (".py", ".sh"))

    def problems(self, citations):
        """What is not there, of [(name, [titles])]."""
        out = [f"{name}: no such test" for name, _ in citations if not self.has(name)]
        for name, titles in citations:
            out += [f'{name}: no case "{title}"' for title in titles if self.has(name) and not self.has_title(name, title)]
        return out

    def has_title(self, name, title):
        """Whether a case of a test is called so, or begins so if "…" stands for the rest."""
        known = self.titles.get(name, [])
        if title.endswith("…"):
            return any(one.startswith(title.removesuffix("…").rstrip()) for one in known)
        return title in known


def cited(text, name):
    """[(test, [titles])]: each match of the pattern `name`, whose group is the test's name, with the quoted titles that follow it."""
    found = list(re.finditer(name, text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return [(match[1], re.findall(r'"([^"]+)"', text[match.end():end])) for match, end in zip(found, ends)]


def check_page(tests):
    """The rows of dgx-threats(7)."""
    page = (SOURCE / "man/dgx-threats.7.scd").read_text()
    rows = re.findall(r"(?m)^\*(\d+)\. [^\n]*\*\n((?:\t[^\n]*\n)+)", page)
    problems = [] if [int(row) for row, _ in rows] == list(range(1, len(rows) + 1)) and rows else ["rows are not numbered from 1"]
    for row, text in rows:
        text = re.sub(r"\s+", " ", re.sub(r"\\(.)", r"\1", text))
        start = re.search(r"\bTests?: ", text)
        citations = cited(text[start.end():], r"(?<!\w)_([a-z]+/[\w/-]+)_(?!\w)") if start else []
        problems += [f"row {row}: {problem}" for problem in tests.problems(citations)]
        if "*Answered" in text and not citations:
            problems.append(f"row {row}: is answered, and cites no test")
    return problems, len(rows)


def check_tables(tests):
    """The column "test" of each table of tests/attacks/README.md, where a name without a folder is of tests/attacks."""
    problems, count, header = [], 0, ""
    for line in (TESTS / "attacks/README.md").read_text().splitlines():
        cells = line.strip("| ").split(" | ")
        header = "" if not line.startswith("|") else header or cells[-1]
        if header != "test":
            continue
        citations = [(name if "/" in name else f"attacks/{name.removesuffix('.py')}", titles) for name, titles in cited(cells[-1], r"`([a-z][\w./-]*)`")]
        problems += [f"tests/attacks/README.md: {problem}" for problem in tests.problems(citations)]
        count += bool(citations)
    return problems, count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    tests = Tests(parser.parse_args().build)
    in_page, rows = check_page(tests)
    in_table, lines = check_tables(tests)
    print("\n".join(in_page + in_table) or f"{rows} rows of dgx-threats(7) and {lines} of the tables cite tests that are there")
    return 1 if in_page or in_table else 0


if __name__ == "__main__":
    sys.exit(main())
