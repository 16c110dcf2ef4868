#!/usr/bin/python3
"""Mutants: one small change of the rules at a time, which some test has to notice.

usage: mutants.py --build FOLDER [--count N] [--seed N] [--jobs N] [--table FILE]

Draws N places (default 60) from the comparisons, constants, early returns and calls of the files below, changes one at a time in a copy of the tree
under FOLDER/mutants, builds the unit tests of the rules there and runs them until one fails. Prints a row a mutant: killed by which test, survived,
or not built (which is drawn again). Ends with 1 if one survived that is not in EQUIVALENT.
"""

import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys

FILES = ["lib/protocol/settlement.cc", "lib/protocol/standing.cc", "lib/protocol/payouts.cc", "lib/protocol/game_ends.cc", "lib/protocol/game_terms.cc",
         "lib/protocol/market.cc", "lib/protocol/market_clock.cc", "lib/protocol/game.cc", "lib/protocol/turn.cc", "lib/protocol/turn_show.cc",
         "lib/protocol/claims.cc", "lib/protocol/draw.cc", "lib/core/files.cc"]
TESTS = ["protocol_test", "core_test", "ledger_test", "jobs_settle_test", "disputes_test"]
SOURCE = pathlib.Path(__file__).resolve().parents[2]
# "FILE: mutated line" of mutants that no input tells from the original, with the reason.
EQUIVALENT = {}

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}


def code_of(line):
    """The line without its comment and with strings blanked, as long as it was."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + "_" * (len(m[0]) - 2) + '"', line)
    at = line.find("//")
    return line if at < 0 else line[:at] + " " * (len(line) - at)


def places(path, text):
    """All mutants of a file: (line number, mutated line, what was done)."""
    out = []
    for number, line in enumerate(text.splitlines()):
        code = code_of(line)
        if not code.strip() or code.lstrip().startswith(("#", "template", "using", "namespace", "///")):
            continue
        for match in re.finditer(r"(?<= )(<=|>=|==|!=|<|>|&&|\|\|)(?= )", code):
            changed = line[:match.start()] + COMPARISONS[match[0]] + line[match.end():]
            out.append((number, changed, f"{match[0]} to {COMPARISONS[match[0]]}"))
        for match in re.finditer(r"(?<![\w.'\"])(\d[\d']*)(?![\w.'])", code):
            value = int(match[0].replace("'", ""))
            out.append((number, line[:match.start()] + str(value + 1) + line[match.end():], f"{value} to {value + 1}"))
        if re.search(r"^\s*if \(.*\) return .*;\s*$", code):
            out.append((number, re.sub(r"if \(", "if (false && ", line, count=1), "early return never taken"))
        if re.match(r"^\s*(DGX_CHECK\(.*\)|[\w.>-]+\(.*\));\s*$", code) and "return" not in code and "assert" not in code:
            out.append((number, re.match(r"^\s*", line)[0] + ";", "call left out"))
    return [(path, *place) for place in out]


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


class Tree:
    """A copy of the source tree with a build folder of its own, in which one line at a time is another."""

    def __init__(self, folder, jobs):
        self.source, self.build, self.jobs = folder / "source", folder / "build", jobs
        if self.source.exists():
            shutil.rmtree(self.source)
        files = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCE, capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, files):
            target = self.source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, target)
        run(["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DDGX_TORCH=off", "-DDGX_CUDA=off", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
             "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1"], check=True)

    def compile(self):
        return run(["cmake", "--build", self.build, "-j", str(self.jobs), "--target", *TESTS]).returncode == 0

    def failing_test(self):
        """The name of the first test that fails, or None. What neither fails nor ends within ten minutes counts as noticed."""
        for test in TESTS:
            program = next(self.build.glob(f"tests/unit/*/{test}"))
            try:
                if run([program, "--abort"], timeout=600).returncode != 0:
                    return test
            except subprocess.TimeoutExpired:
                return f"{test} (time)"
        return None


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=pathlib.Path)
    arguments = parser.parse_args()
    tree = Tree((arguments.build / "mutants").resolve(), arguments.jobs)
    if not tree.compile() or (failed := tree.failing_test()):
        sys.exit("mutants: the tests do not pass without a mutant")
    drawn = [place for name in FILES for place in places(name, (SOURCE / name).read_text())]
    random.Random(arguments.seed).shuffle(drawn)
    rows, survived = [], 0
    for name, number, changed, what in drawn:
        if len(rows) == arguments.count:
            break
        target, lines = tree.source / name, (SOURCE / name).read_text().splitlines(keepends=True)
        original = "".join(lines)
        lines[number] = changed + "\n"
        target.write_text("".join(lines))
        if tree.compile():
            test = tree.failing_test()
            known = EQUIVALENT.get(f"{name}: {changed.strip()}")
            end = f"killed by {test}" if test else f"equivalent: {known}" if known else "SURVIVED"
            survived += end == "SURVIVED"
            rows.append(f"| {name}:{number + 1} | {what} | `{changed.strip()}` | {end} |")
            print(rows[-1], flush=True)
        target.write_text(original)
    print(f"{len(rows)} mutants of {len(drawn)} possible, seed {arguments.seed}: {len(rows) - survived} noticed or equivalent, {survived} survived")
    if arguments.table:
        arguments.table.write_text("\n".join(rows) + "\n")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
