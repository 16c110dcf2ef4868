"""The records of the benchmarks: results.py [--accept] writes RESULTS.md next to this file, and README's sentence, from results/*.jsonl

Each file is a whole run of one machine: `sh tests/bench/run.sh --json`, whose first line names the machine, how the peers were weaker ("peer") and which
parts were measured at another time ("parts"). The newest run of each machine stays, whatever it says. builds.json has the last whole test runs with sanitizers and with clang++. Without --accept nothing is written, and the exit status is 1 if something would change.
"""

import argparse
import json
import pathlib
import re
import sys

BENCH = pathlib.Path(__file__).resolve().parent
README = BENCH.parents[1] / "README.md"
NAMES = {"mlp-sgd": "MLP, SGD with momentum", "mlp-adam": "MLP, Adam", "resnet20-batch-32": "ResNet-20, batch 32", "resnet20-batch-128": "ResNet-20, batch 128",
         "gpt-6x384": "GPT", "script-llama": "Llama", "script-vision-transformer": "vision transformer", "script-recurrence-2000": "recurrence of 2,000 operations"}
# What was aimed at: the share of the roof, and times as fast as torch.compile, without and with both sides held to AVX2.
ROOF = {"mlp": 0.75, "resnet20": 0.70, "gpt": 0.85, "script-llama": 0.85}
COMPILED = {False: 1.2, True: 1.1}
HEAD = """# Recorded results

Made by `results.py` from the runs in `results/`, each of a machine of two shared cores with Debian 12 and g++ 12: `sh tests/bench/run.sh --json > results/NAME.jsonl`.
A row is the median of a training step in milliseconds, with half the distance between the quartiles, against a peer in the same run, in turns. The *roof* is the
share of the machine's own limit that dgx reaches: what the multiply-adds of all dot lines take at the peak, or the bytes that no plan can save at the memory's
bandwidth, whichever is more, both measured in turns with the steps (`roof.h`). README's words and this page say what the runs say; a run is replaced by a newer
one of the same machine alone, whether it is better or worse. No processor without AVX-512 has been at hand: rows in which both sides are held to AVX2 stand for it.
"""


class Run:
    def __init__(self, path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.machine, self.rows, self.name = lines[0], lines[1:], path.name
        if "machine" not in self.machine:
            sys.exit(f"{path.name}: the first line names no machine")

    def steps(self):
        return [row for row in self.rows if row["name"].startswith("step-")]

    def peaks(self):
        return [row for row in self.rows if row["name"].startswith("peak-")]


def parts_of(row):
    """The case, and whether both sides were held to AVX2."""
    name = row["name"].removeprefix("step-")
    return name.removesuffix("-avx2"), name.endswith("-avx2")


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def met(value, goal):
    return "" if goal is None else f", {'met' if value >= goal else 'missed'} ({goal})"


def step_row(row):
    case, avx2 = parts_of(row)
    goal = next((share for start, share in ROOF.items() if case.startswith(start)), None)
    roof = f"{row['roof']:.2f}{met(row['roof'], goal)}" if "roof" in row else ""
    goal = COMPILED[avx2] if "torch.compile" in (row["peer_name"] or "") else None
    spreads = [f" (±{50 * row[key]:.0f} %)" if key in row else "" for key in ("dgx_spread", "peer_spread")]
    peer = f"{number(row['peer'])}{spreads[1]}" if row["ratio"] is not None else ""
    ratio = f"{row['ratio']:.2f}{met(row['ratio'], goal)}" if row["ratio"] is not None else ""
    memory = " / ".join(f"{row[key] / 1e6:.0f}" for key in ("dgx_bytes", "peer_bytes") if key in row)
    zeros = f", {100 * row['zeros']:.0f} % of terms zero" if "zeros" in row else ""
    return f"| {NAMES.get(case, case)}{', AVX2' if avx2 else ''}{zeros} | {row['threads']} | {number(row['dgx'])}{spreads[0]} | {roof} | {row['peer_name'] or ''} | {peer} | {ratio} | {memory} |"


def section(run):
    machine = run.machine
    lines = [f"## {machine['machine']}", "", f"Commit {machine['commit']}, {machine['date']}; instruction sets: {', '.join(machine['instruction_sets'])}."]
    if "peer" in machine:
        lines.append(f"The peers of this run were weaker than today's: {machine['peer']}.")
    if "parts" in machine:
        lines.append(f"{machine['parts']}.")
    if run.peaks():
        lines += ["", "| limit | one thread | two threads |", "| --- | --- | --- |"]
        for name in dict.fromkeys(row["name"] for row in run.peaks()):
            by_threads = {row["threads"]: f"{number(row['dgx'])} {row['unit']}" for row in run.peaks() if row["name"] == name}
            lines.append(f"| {name.removeprefix('peak-')} | {by_threads.get(1, '')} | {by_threads.get(2, '')} |")
    lines += ["", "| step | threads | dgx, ms | roof | peer | peer, ms | times as fast | MB, dgx / peer |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    return "\n".join(lines + [step_row(row) for row in run.steps()]) + "\n"


def builds():
    """The whole test runs of other builds, which .ci/run has no time for: builds.json next to the runs."""
    lines = ["## Whole test runs of other builds", "", "| build | commit | date | tests | skipped | failed | minutes |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for each in json.loads((BENCH / "results" / "builds.json").read_text()):
        lines.append("| " + " | ".join(str(each[key]) for key in ("build", "commit", "date", "tests", "skipped", "failed", "minutes")) + " |")
    return "\n".join(lines) + "\n"


def batches():
    """Many proofs in one call, run.sh batch: batches.json next to the runs."""
    lines = ["## Many proofs in one call"]
    for each in json.loads((BENCH / "results" / "batches.json").read_text()):
        lines += ["", f"{each['machine']}, commit {each['commit']}, {each['date']}. {each['about']}", "",
                  "| what | measured | aimed at |", "| --- | --- | --- |"]
        lines += [f"| {row['what']} | {row['measured']} | {row['aim']} |" for row in each["rows"]]
    return "\n".join(lines) + "\n"


def sentence(runs):
    """README's: the slowest and the fastest row of the newest run of each machine."""
    every = [(row["ratio"], run.machine["machine"].split(",", 2), row) for run in runs for row in run.steps() if row["ratio"] is not None]
    (low, slow, slow_row), (high, fast, fast_row) = min(every, key=lambda each: each[0]), max(every, key=lambda each: each[0])

    def words(ratio, machine, row):
        case, avx2 = parts_of(row)
        threads = "one thread" if row["threads"] == 1 else "two threads"
        return f"{ratio:.2f} times ({NAMES.get(case, case)}, {threads}{', AVX2' if avx2 else ''}, against {row['peer_name']}, on {','.join(machine[:2])})"

    weaker = sum("peer" in run.machine for run in runs)
    return f"Over {len(runs)} machines, {weaker} of them measured beside weaker peers, a step is from {words(low, slow, slow_row)} to {words(high, fast, fast_row)} as fast as its peer in the same run."


def readme_with(text, runs):
    return re.sub(r"(<!-- results\.py -->\n).*?(\n<!-- end -->)", lambda match: match[1] + sentence(runs) + match[2], text, flags=re.S)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accept", action="store_true")
    accept = parser.parse_args().accept
    runs = sorted((Run(path) for path in (BENCH / "results").glob("*.jsonl")), key=lambda run: (run.machine["date"], run.name), reverse=True)
    wanted = {BENCH / "RESULTS.md": HEAD + "\n" + "\n".join(section(run) for run in runs) + "\n" + batches() + "\n" + builds(), README: readme_with(README.read_text(), runs)}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if accept:
            path.write_text(wanted[path])
        else:
            print(f"{path.name} is not what the runs say: results.py --accept")
    sys.exit(1 if stale and not accept else 0)


if __name__ == "__main__":
    main()
