#!/usr/bin/python3
"""Mutants: one small change of the rules at a time, which some test has to notice.

usage: mutants.py --build FOLDER [--count N] [--seed N] [--jobs N] [--table FILE] [--only FILE:LINE …]

Draws N places (default 60) from the comparisons, constants, sums, minima, truth values, early returns and calls of the files below, changes one at a
time in a copy of the tree under FOLDER/mutants, and builds and runs the tests of that file's rules, the likeliest to notice first, until one fails.
Prints a row a mutant: killed by which test, survived, or known to be equivalent; one that does not compile is drawn again. With --only it runs those
of the places that begin with one of the given texts, and no others. Ends with 1 if one survived that is not in EQUIVALENT.
"""

import argparse
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import time

# The tests of each kind of rule, the likeliest to fail first. One that is slow comes last: only what survived the others pays for it.
MARKET = ["protocol_test", "jobs_settle_test", "statements_attack_test", "history_attack_test", "ledger_test", "moves_attack_test", "jobs_test", "disputes_test"]
GAMES = ["moves_attack_test", "disputes_attack_test", "evidence_attack_test", "verdicts_attack_test", "protocol_test", "statements_attack_test",
         "jobs_settle_test", "disputes_test"]
LOG = ["ledger_test", "jobs_settle_test", "history_attack_test", "statements_attack_test", "protocol_test"]
DISK = ["core_test", "ledger_test", "jobs_settle_test", "jobs_test"]
RULES = {
    "protocol": {
        "admission draw estimate market market_clock payouts reserve rules rules_proof rules_task segments shards standing verify": MARKET,
        "claims fold_levels game game_ends game_state game_terms opened_values party_view referee row_faults rules_games turn turn_show": GAMES,
    },
    "ledger": {"ledger": LOG},
    "core": {"files": DISK},
}
SOURCE = pathlib.Path(__file__).resolve().parents[2]
# "FILE: mutated line" of mutants that no input tells from the original, with the reason.
EQUIVALENT = {
    "lib/core/files.cc: constexpr int kAttempts = 101;": "how often a name is tried that a dead process of this id left is nobody's contract",
    "lib/core/files.cc: if (count < 1) return errno_error(path, \"write\");": "write() of some bytes does not return 0",
    "lib/protocol/verify.cc: std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.index <= b.index; });":
        "two rows of one index are refused, whichever comes first",
    "lib/protocol/claims.cc: std::uint64_t bits = 1;": "each type's bytes replace the lowest one",
}

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+"}
WORDS = {"std::min": "std::max", "std::max": "std::min", "true": "false", "false": "true"}
MEMORY = 8 << 30


def tests_of():
    """(file, module's library, tests in their order), for each file of RULES."""
    return {f"lib/{module}/{name}.cc": (f"dgx_{module}", tests) for module, kinds in RULES.items() for names, tests in kinds.items() for name in names.split()}


def code_of(line):
    """The line without its comment and with strings blanked, as long as it was."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + "_" * (len(m[0]) - 2) + '"', line)
    at = line.find("//")
    return line if at < 0 else line[:at] + " " * (len(line) - at)


def places(path, text):
    """All mutants of a file: (file, line number, mutated line, what was done)."""
    out = []
    for number, line in enumerate(text.splitlines()):
        code = code_of(line)
        # Assertions are about our own bugs, and room is reserved for speed alone.
        if not code.strip() or code.lstrip().startswith(("#", "template", "using", "namespace")) or re.search(r"\bassert\(|\.reserve\(", code):
            continue

        def put(match, new):
            out.append((path, number, line[:match.start()] + new + line[match.end():], f"{match[0]} to {new}"))

        for match in re.finditer(r"(?<= )(<=|>=|==|!=|<|>|&&|\|\||\+|-)(?= )", code):
            put(match, COMPARISONS[match[0]])
        for match in re.finditer(r"(?<![\w.'\"])(\d[\d']*)(?![\w.'])", code):
            put(match, str(int(match[0].replace("'", "")) + 1))
        for match in re.finditer(r"(?<![\w:])(std::min|std::max|true|false)(?![\w:])", code):
            put(match, WORDS[match[0]])
        if re.search(r"^\s*if \(.*\) return .*;\s*$", code):
            out.append((path, number, re.sub(r"if \(", "if (false && ", line, count=1), "early return never taken"))
        if re.match(r"^\s*(DGX_CHECK\(.*\)|[\w.>-]+\(.*\));\s*$", code) and "return" not in code:
            out.append((path, number, re.match(r"^\s*", line)[0] + ";  // " + line.strip(), "call left out"))
    return out


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class Tree:
    """A copy of the source tree, built as the release is (so that ccache knows it), in which one line at a time is another."""

    def __init__(self, folder, jobs):
        self.source, self.build, self.jobs = folder / "source", folder / "source" / "build" / "release", jobs
        self.seconds = {}  # of each test, without a mutant
        files = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCE, capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, files):
            target = self.source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != (SOURCE / name).read_bytes():
                shutil.copy(SOURCE / name, target)
        run(["cmake", "--preset", "release", "-DDGX_TORCH=off", "-DDGX_CUDA=off"], cwd=self.source, check=True)

    def compile(self, target):
        return run(["cmake", "--build", self.build, "-j", str(self.jobs), "--target", target]).returncode == 0

    def fails(self, test):
        """Whether a test fails, and how. One that takes much longer than without a mutant has noticed it, too."""
        if not self.compile(test):
            return f"{test}, not built"
        program = next(path for path in self.build.glob(f"tests/**/{test}") if path.is_file())
        started, limit = time.monotonic(), 20 + 3 * self.seconds[test] if test in self.seconds else 600
        try:
            end = run([program, "--abort"], timeout=limit, preexec_fn=limit_memory).returncode
        except subprocess.TimeoutExpired:
            return f"{test}, by its time"
        self.seconds.setdefault(test, time.monotonic() - started)
        return test if end else None

    def killer(self, name):
        """What noticed the mutant in the file `name`, or None; "" if it does not compile."""
        library, tests = tests_of()[name]
        if not self.compile(library):
            return ""
        return next(filter(None, map(self.fails, tests)), None)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE:LINE")
    arguments = parser.parse_args()
    drawn = [place for name in tests_of() for place in places(name, (SOURCE / name).read_text())]
    random.Random(arguments.seed).shuffle(drawn)
    if arguments.only:
        drawn = [place for place in drawn if f"{place[0]}:{place[1] + 1}: {place[3]}".startswith(tuple(arguments.only))]
    tree = Tree((arguments.build / "mutants").resolve(), arguments.jobs)
    for test in sorted({test for _, tests in tests_of().values() for test in tests}):
        if (failed := tree.fails(test)):
            sys.exit(f"mutants: {failed} fails without a mutant")
    rows, survived = [], 0
    for name, number, changed, what in drawn:
        if len(rows) == arguments.count:
            break
        target, started = tree.source / name, time.monotonic()
        lines = (SOURCE / name).read_text().splitlines(keepends=True)
        original = "".join(lines)
        lines[number] = changed + "\n"
        target.write_text("".join(lines))
        test = tree.killer(name)
        target.write_text(original)
        if test == "":
            continue
        known = EQUIVALENT.get(f"{name}: {changed.strip()}")
        end = test or (f"equivalent: {known}" if known else "SURVIVED")
        survived += end == "SURVIVED"
        shown = changed.strip().replace("|", "\\|")
        rows.append(f"| {name.removeprefix('lib/')}:{number + 1} | {what} | `{shown}` | {end} |".replace("|| to &&", "or to and").replace("&& to ||", "and to or"))
        print(rows[-1], f"{time.monotonic() - started:.0f} s", flush=True)
        if arguments.table:
            arguments.table.write_text("| place | change | line | noticed by |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n")
    print(f"{len(rows)} mutants of {len(drawn)} possible, seed {arguments.seed}: {len(rows) - survived} noticed or equivalent, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
