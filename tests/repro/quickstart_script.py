"""examples/quickstart.sh ends as README says: quickstart_script.py --bin FOLDER

Its last table is the README's but for times and sizes, the final state is the stored one, the accuracy at least 0.88, the cheat is convicted where the drill was,
and the balances add up to what was paid in. Exits 77 without Fashion-MNIST.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def table_of(text):
    """Its lines between the two rules, as they are on every machine."""
    head, rule = text.split("  Fashion-MNIST, MLP", 1)[1], "-" * 76
    lines = head.split(rule)[1].strip("\n").splitlines()
    lines = [re.sub(r"\b\d+\.\d s\b", "T s", re.sub(r"\b\d+ bytes", "N bytes", line)).rstrip() for line in lines]
    left = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return [line[left:] for line in lines if line.strip()]


def problems_of(table, folder):
    problems = []
    expected = table_of((SOURCE / "README.md").read_text())
    if table != expected:
        problems += ["README's table is another one:", *(f"  {'=' if line in expected else '>'} {line}" for line in table)]
    fields = dict(re.split(r"  +", line, maxsplit=1) for line in table if "  " in line)
    stored = json.loads((SOURCE / "tests/vectors/quickstart.json").read_text())["quickstart"]["states"]
    if fields["final state"] != stored[max(stored, key=int)]:
        problems.append(f"final state: {fields['final state']}")
    if float(fields["test accuracy"]) < 0.88:
        problems.append(f"accuracy: {fields['test accuracy']}")
    ruled = json.loads((folder / "ruled.json").read_text().splitlines()[-1])
    drill = dict(part.split("=") for part in fields["the cheat"].removeprefix("one bit, ").split(","))
    at = ruled["at"]
    if not ruled["falls"] or [at["step"], at["value"], at["element"]] != [int(drill[name]) for name in ("step", "op", "element")]:
        problems.append(f"convicted at {at}, the drill was {drill}")
    accounts = json.loads((folder / "balances.json").read_text().splitlines()[-1])["accounts"]
    paid_in = sum(int(line.split()[-2 if line.split()[-1].isdigit() else -3]) for line in table[1 + table.index("balances                 before       after"):])
    if sum(accounts.values()) != paid_in:
        problems.append(f"accounts: {accounts}, paid in {paid_in}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    programs = parser.parse_args().bin
    needs.fashion_mnist("train-images")
    with tempfile.TemporaryDirectory(prefix="dgx-quickstart-") as scratch:
        folder = pathlib.Path(scratch) / "work"
        done = subprocess.run(["sh", "examples/quickstart.sh"], cwd=SOURCE, capture_output=True, text=True, timeout=1800,
                              env=os.environ | {"DGX_BIN": programs, "DGX_WORK": str(folder)})
        problems = [f"exit {done.returncode}: {done.stderr}"] if done.returncode else problems_of(table_of(done.stdout), folder)
    print("\n".join(problems) or "the quickstart ends as README says")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
