"""The records of the benchmarks: results.py [--accept] writes RESULTS.md next to this file, and README's sentence, from results/*.jsonl

Each file is a whole run of one machine: `sh tests/bench/run.sh --json`, whose first line names the machine, how the peers were weaker ("peer") and which
parts were measured at another time ("parts"). The newest run of each machine stays, whatever it says. results/distributed has, likewise, runs of the parts distributed and plans. results/gpu has runs of the part gpu. builds.json has the last whole test runs with sanitizers and with clang++. Without --accept nothing is written, and the exit status is 1 if something would change.
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


AIMS = {"two-ranks-gpt-6x384-batch-8": 1.7, "two-ranks-resnet20-batch-128": 1.7}
PARTS_AIMS = {"2": (1.05, None, 0.55), "8": (1.15, 0.5, None)}  # of time, of the peak, and of what that has beside state and gradients: at most
NETWORKS = {"10g-50us": "10 Gb/s, 50 µs", "1g-1ms": "1 Gb/s, 1 ms", "300m-200us": "300 Mb/s, 200 µs", "1g-20ms": "1 Gb/s, 20 ms", "100m-5ms": "100 Mb/s, 5 ms", "1g-10ms": "1 Gb/s, 10 ms"}


def table(*columns):
    return ["", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]


def at_most(ratio, aim):
    return f"{ratio:.2f}" + ("" if aim is None else f", {'met' if ratio <= aim else 'missed'} ({aim})")


class Distributed:
    """Steps on ranks and in parts, of one machine."""

    def __init__(self, run):
        self.machine, self.rows = run.machine, run.rows
        self.by_name = {}
        for row in self.rows:
            self.by_name.setdefault(row["name"], row)

    def begins(self, start):
        """Rows by what follows `start` in their names."""
        return {name.removeprefix(start): row for name, row in self.by_name.items() if name.startswith(start)}

    def two_ranks(self):
        yield from table("step", "one process, ms", "two ranks, ms", "times as fast", "of which waiting")
        for name, row in self.begins("two-ranks-").items():
            if not name.endswith("-waits"):
                waits = self.by_name[f"two-ranks-{name}-waits"]["dgx"]
                yield f"| {name} | {number(row['peer'])} | {number(row['dgx'])} | {row['ratio']:.2f}{met(row['ratio'], AIMS.get('two-ranks-' + name))} | {waits:.0f} % |"

    def one_rank(self):
        yield from table("step", "without ranks, ms", "one rank, ms", "median of the ratio of 30 pairs", "95 % interval of that median")
        for name, row in self.begins("one-rank-").items():
            if f"one-rank-{name}-median" in self.by_name:
                median, low, high = (self.by_name[f"one-rank-{name}-{kind}"]["dgx"] for kind in ("median", "from", "to"))
                yield f"| {name} | {number(row['peer'])} | {number(row['dgx'])} | {median:.3f} | {low:.3f} to {high:.3f}, {'met (not shown to be over 1 % slower)' if low < 1.01 else 'missed (over 1 % slower)'} |"

    def in_parts(self):
        yield from table("parts", "step", "ms", "of the time without", "MB at peak", "of the peak without", "of what that has beside state and gradients")
        for name, row in self.by_name.items():
            count, _, case = name.partition("-parts-")
            if not case or case.endswith(("-peak", "-beside-state")):
                continue
            rows = [row, self.by_name[f"{name}-peak"], self.by_name[f"{name}-beside-state"]]
            time, peak, beside = (at_most(each["dgx"] / each["peer"], aim) for each, aim in zip(rows, PARTS_AIMS.get(count, (None,) * 3)))
            yield f"| {count} | {case} | {number(row['dgx'])} | {time} | {number(rows[1]['dgx'])} | {peak} | {beside} |"

    def experts(self):
        yield from table("ranks", "each expert on all, ms", "at home on one, ms", "each on all, MB a step", "at home, MB a step")
        for name, row in self.begins("experts-at-home-").items():
            if not name.endswith("-moved"):
                moved = self.by_name[f"experts-at-home-{name}-moved"]
                yield f"| {row['threads']} | {number(row['peer'])} | {number(row['dgx'])} | {number(moved['peer'])} | {number(moved['dgx'])} |"

    def foretold(self):
        yield from table("plan", "foretold, ms", "made, ms", "ratio")
        for kind in ("trained", "rehearsed"):
            for name, row in self.begins(f"{kind}-").items():
                network = next((words for key, words in NETWORKS.items() if name.endswith(key)), "200 Mb/s, 5 ms")
                ratio = row["dgx"] / row["peer"]
                words = f"{ratio:.2f}, {'met' if 1 / 1.15 <= ratio <= 1.15 else 'missed'} (within 15 %)"
                yield f"| {name}, {network}, {kind} | {number(row['peer'])} | {number(row['dgx'])} | {words} |"

    def many(self):
        if not self.begins("foretold-"):
            return
        of = [2**n for n in range(1, 13)]
        yield from table("efficiency on ranks", *(f"{ranks:,}" for ranks in of))
        for kind, words in (("samples", ""), ("workers", ", with workers")):
            for network in ("10g-50us", "1g-10ms"):
                rows = [self.by_name[f"foretold-{kind}-{network}-ranks-{ranks}"] for ranks in of]
                yield f"| {NETWORKS[network]}{words} | " + " | ".join(f"{row['peer'] / row['dgx']:.2f}" for row in rows) + " |"
        yield from table("64 ranks in eight cities", "as planned, s", "beside", "s", "times as long", "planned in")
        for row in self.rows:
            if row["name"].endswith("-64-in-eight-cities"):
                kind = row["name"].removeprefix("foretold-").removesuffix("-64-in-eight-cities")
                aim = 1.8 if row["peer_name"].startswith("random") else None
                yield f"| {kind} | {number(row['dgx'])} | {row['peer_name']} | {number(row['peer'])} | {row['ratio']:.2f}{met(row['ratio'], aim)} | {number(self.by_name[f'planning-{kind}-64']['dgx'])} s |"

    def lines(self):
        yield from (f"### {self.machine['machine']}", "", f"Commit {self.machine['commit']}, {self.machine['date']}.{' ' + self.machine['parts'] + '.' if 'parts' in self.machine else ''}")
        for part in (self.two_ranks, self.one_rank, self.in_parts, self.experts, self.foretold, self.many):
            lines = list(part())
            yield from lines if len(lines) > len(table()) else []


DISTRIBUTED = """## On ranks, and in parts

`sh tests/bench/run.sh distributed` and `plans`, medians. Two ranks of one thread each beside one process of one thread; one rank beside a process without ranks; a step in parts beside a whole one; a mixture of eight experts over an emulated
1 Gb/s and 200 µs; steps as `dgx-plan` foretells them beside those that were then trained over an emulated network, or rehearsed, as `distributed.py` says; and the efficiency of many
ranks, which is a forecast alone: the GPT with 8 samples a rank, each rank of 8 × 10¹⁰ weighted operations a second. What compressed workers and cuts send and learn is in `../slow/RESULTS.md`; earlier runs are in `HISTORY.md`.

**Out of reach at scale.** With *dgc*, a worker keeps u and v, 8 bytes a parameter. A rank has those of its own workers alone, but they are the task's state: each checkpoint has all of them, and rank 0 needs as much
memory while it brings them together. The GPT of 10.9 million parameters with 64 workers: 5.6 GB; GPT-2 small (124 million) with 64: 64 GB a checkpoint, with 1,024: 1 TB. A sum of gradients passes from rank to
rank, line by line, so each further rank makes a step longer by the time of the largest line's message: GPT-2 small's embedding is 154 MB, or 1.2 s a rank on 1 Gb/s. With more than 256 workers a running sum can have
a second word, and twice the bytes. Sums of parts of a line, or by owners of rows, would help; neither is built. A stage of a pipeline keeps the activations of as many parts as there are stages from it to the last;
with several pipelines, those of all its samples, or in a task with workers each worker's gradient, until its column adds them up.
"""


def distributed():
    runs = sorted((Run(path) for path in (BENCH / "results" / "distributed").glob("*.jsonl")), key=lambda run: (run.machine["date"], run.name), reverse=True)
    return DISTRIBUTED + "".join("\n" + "\n".join(Distributed(run).lines()) + "\n" for run in runs)


GPU_PRODUCT_AIM = {"square-4096-4096-4096": 0.85}
GPU_STEP_AIMS = {"gpt": 1.0, "resnet20": 0.8}  # times as fast as eager libtorch without TF32
GPU = """## On a GPU

`sh tests/bench/run.sh gpu`, medians; all sides in binary32, but where TF32 is named. Products in TFLOP/s beside cuBLAS; training steps beside eager libtorch, and PyTorch's Python, eager and by `torch.compile`, each in a
process of its own, in turns. A product of some 10 microseconds is bound by the host, which starts one after another, on both sides. What else was run on a GPU, and what was not, is in `../gpu/README.md`.
"""


def gpu_lines(run):
    yield from (f"### {run.machine['machine']}", "", f"Commit {run.machine['commit']}, {run.machine['date']}. {run.machine['parts']}.")
    yield from table("product, rows × columns × depth", "dgx", "cuBLAS", "times as fast", "cuBLAS with TF32")
    products = [row for row in run.rows if row["name"].startswith("gpu-product-")]
    with_tf32 = {row["name"]: row for row in products if row["peer_name"].endswith("TF32")}
    for row in products:
        if row["name"] in with_tf32 and row is not with_tf32[row["name"]]:
            name = row["name"].removeprefix("gpu-product-")
            ratio = f"{row['ratio']:.2f}{met(row['ratio'], GPU_PRODUCT_AIM.get(name))}"
            yield f"| {name} | {row['dgx'] / 1e3:.3g} | {row['peer'] / 1e3:.3g} | {ratio} | {with_tf32[row['name']]['peer'] / 1e3:.3g} |"
    steps = [row for row in run.rows if row["name"].startswith("gpu-step-")]
    if steps:
        yield from table("step", "dgx, ms", "peer", "peer, ms", "times as fast")
    for row in steps:
        name = row["name"].removeprefix("gpu-step-")
        is_judged = row["peer_name"].startswith("libtorch") and row["peer_name"].endswith("eager")
        goal = next((aim for start, aim in GPU_STEP_AIMS.items() if name.startswith(start)), None) if is_judged else None
        yield f"| {name} | {number(row['dgx'])} | {row['peer_name']} | {number(row['peer'])} | {row['ratio']:.2f}{met(row['ratio'], goal)} |"
    for row in run.rows:
        if row["name"].startswith("gpu-checkpoint-"):
            share = row["peer"] / row["dgx"]
            words = f"{100 * share:.1f} %, {'met' if share <= 0.02 else 'missed'} (2 %)"
            yield f"\n{row['name'].removeprefix('gpu-checkpoint-')}: training of {row['dgx']} s, {row['peer_name']}: {row['peer']} s, {words}."


def gpu():
    runs = sorted((Run(path) for path in (BENCH / "results" / "gpu").glob("*.jsonl")), key=lambda run: (run.machine["date"], run.name), reverse=True)
    return GPU + "".join("\n" + "\n".join(gpu_lines(run)) + "\n" for run in runs)


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
    wanted = {BENCH / "RESULTS.md": HEAD + "\n" + "\n".join(section(run) for run in runs) + "\n" + distributed() + "\n" + gpu() + "\n" + batches() + "\n" + builds(), README: readme_with(README.read_text(), runs)}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if accept:
            path.write_text(wanted[path])
        else:
            print(f"{path.name} is not what the runs say: results.py --accept")
    sys.exit(1 if stale and not accept else 0)


if __name__ == "__main__":
    main()
