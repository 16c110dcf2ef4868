"""Pipelines of several stages and copies by mpirun: stages.py --bin FOLDER --plugins FOLDER [--sanitized]

side by side  several pipelines, each for some workers or samples: the same state, saved, resumed and proved, and what is sent is what was planned
codes         what crosses a cut of the model goes coded between stages, and between pipelines
refusals      plans that cannot be, and ranks that have different ones, are refused by name, and no run is left
diverged      a training that is not finite at some stages or ranks alone ends in the state before, and is verified
rehearsals    a plan's steps are slept, in about the time that is foretold (not with --sanitized)
Exits 77 without mpirun, NumPy, h5py and Debian's python3-torch.
"""

import json
import os
import pathlib
import subprocess
import sys

import support

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

needs.modules("numpy", "torch")
import numpy  # noqa: E402
import placement  # noqa: E402
import ranks  # noqa: E402


# Tasks for pipelines side by side, besides those above.
SIDE_BY_SIDE = {
    "two-mlp": ("mlp:64-12-5", "pairs", "mse", "sgd:lr=0.1,momentum=0.9", ["--workers", "2"], 8),
    "two-gpt": ("gpt:layers=2,width=16,heads=2,vocab=128,dropout=0.1", "text", "cross-entropy", "adamw:lr=1e-2", ["--workers", "2", "--clip-norm", "1"], 6),
    "two-cut": ("gpt:layers=2,width=16,heads=2,vocab=128,dropout=0.1", "text", "cross-entropy", "adamw:lr=1e-2", ["--workers", "2", "--cut", "1:forward=4,first=0"], 6),
    "four-gpt": ("gpt:layers=2,width=16,heads=2,vocab=128", "text", "cross-entropy", "sgd:lr=0.1", ["--workers", "4"], 8),
}


def side_by_side(bench):
    """Several pipelines, each for some workers or samples: the state of one process, and the bytes that the plan foretells; a plan may end what another began."""
    ranks.write_machines(bench, "six.json", 100, ranks.SIX)
    cases = {**placement.BUILT_IN, **placement.SCRIPTED, **ranks.WORKERS, **SIDE_BY_SIDE}
    trainings = (("two-mlp", 2, 2, 1), ("two-gpt", 2, 2, 1), ("two-gpt", 3, 2, 1), ("two-cut", 2, 2, 1), ("worker-cut", 3, 1, 3), ("worker-cut", 2, 3, 1), ("four-gpt", 2, 2, 2), ("four-gpt", 3, 2, None), ("worker-mlp", 2, 3, 2), ("worker-gpt", 2, 3, 1),
                 ("worker-sparse", 2, 2, 3), ("clipped", 2, 2, 2), ("gpt", 2, 3, 2), ("convolutions", 1, 4, 1))
    for name in {training[0] for training in trainings}:
        placement.submit(bench, name, cases[name])
    for name, stages, pipelines, parts in trainings:
        words = [f"{name}.json", "--data", f"{cases[name][1]}.h5"]
        whole = bench.run("dgx-train", *words, "-o", f"{name}.beside.whole", "--force")
        plan, run = f"{name}.{stages}x{pipelines}.json", f"{name}.beside{stages}x{pipelines}"
        planned = bench.run("dgx-plan", f"{name}.json", "--machines", "six.json", "--stages", str(stages), "--pipelines", str(pipelines), *(["--parts", str(parts)] if parts else []), "-o", plan)
        bench.check(planned["pipelines"] == pipelines and parts in (None, planned["parts"]), f"{name}: {planned}")
        emulated = ["--emulate", "six.json"] if stages == 2 else []
        half, count = whole["steps"] // 2, stages * pipelines
        ranks.train(bench, count, *words, "-o", run, "--placement", plan, *emulated, "--until", str(half))
        other = f"{name}.other.json"
        bench.run("dgx-plan", f"{name}.json", "--machines", "six.json", "--stages", "2", "--pipelines", "1", "-o", other, "--force")
        found, _ = ranks.train(bench, 2, *words, "-o", run, "--placement", other)
        bench.check(found and found["state"] == whole["state"] and found["resumed_from"] == half, f"{name} by {pipelines} pipelines of {stages} stages, then by one: {found}, expected {whole}")
        found, _ = ranks.train(bench, count, *words, "-o", f"{run}.all", "--placement", plan)
        bench.check(found and found["state"] == whole["state"], f"{name} by {pipelines} pipelines of {stages} stages: {found}, expected {whole}")
        # Besides the steps' messages, a stage gives rank 0 its entries when it saves, and rank 0 those of all at the beginning.
        for planned_row, row in zip(planned["ranks"][stages:], found["ranks"][stages:] if found else ()):
            bench.check(planned_row["sent"] * found["steps"] == row["sent"], f"{name}: rank {row['rank']} sends {row['sent']} bytes, {planned_row['sent']} a step are planned")
        ranks.verified(bench, name, run, cases[name][1])
        ranks.verified(bench, name, f"{run}.all", cases[name][1])


def codes(bench):
    """Stages that begin at a cut of the model send codes of 4 bits, which save half of their bytes: from the first to the second, and in both to the other pipeline."""
    lines = [json.loads(line) for line in pathlib.Path(bench.path("two-cut.program.jsonl")).read_text().splitlines()]
    numbers = next(line["s"][1] for line in lines if line.get("src", "").startswith("state optimizer/message/"))
    received = next(n for n, line in enumerate(lines) if line.get("g") == "cut 1" and any(step.startswith("fma") for step in line.get("do", [])))
    plan = json.loads(pathlib.Path(bench.path("two-cut.2x2.json")).read_text())
    plan["pipeline"]["cuts"] = [next(n for n, line in enumerate(lines) if n > received and line.get("g") != "cut 1")]
    pathlib.Path(bench.path("two-cut.codes.json")).write_text(json.dumps(plan))
    words = ["two-cut.json", "--data", "text.h5"]
    whole = bench.run("dgx-train", *words, "-o", "two-cut.codes.whole")
    found, _ = ranks.train(bench, 4, *words, "-o", "two-cut.codes", "--placement", "two-cut.codes.json")
    bench.check(found and found["state"] == whole["state"], f"stages that begin at a cut: {found}, expected {whole}")
    half = found["steps"] * SIDE_BY_SIDE["two-cut"][-1] // 2 * numbers // 2
    saved = [row["saved"] for row in found["ranks"]]
    bench.check(saved == [2 * half, half, 2 * half, half], f"ranks save {saved} bytes of codes, {half} each time one is sent are expected")


def refusals(bench):
    """Plans of several pipelines that cannot be, and ranks with different ones."""
    placement.submit(bench, "worker-normed", ranks.WORKERS["worker-normed"])
    text = json.loads(pathlib.Path(bench.path("four-gpt.2x2.json")).read_text())
    for edit, code, expected in ((lambda plan: plan["ranks"][3].update(slices=1), 65, "plan.ranks[3].slices: is 1, stage 0 of its pipeline has 2"),
                                 (lambda plan: [rank.update(slices=4) for rank in plan["ranks"]], 65, "do not have the 4 slices"),
                                 (lambda plan: plan["pipeline"].update(parts=3), 65, "plan.ranks[0].slices: is 2, fewer than the 3 parts"),
                                 (lambda plan: plan["pipeline"].update(cuts=[]), 65, "fewer than the 2 parts|do not have the 4 slices"),
                                 (lambda plan: plan["pipeline"].update(cuts=[1]), 2, "a pipeline cannot be cut at line 1 of the program")):
        edited = json.loads(json.dumps(text))
        edit(edited)
        pathlib.Path(bench.path("edited.json")).write_text(json.dumps(edited))
        _, err = ranks.train(bench, 4, "four-gpt.json", "--data", "text.h5", "--placement", "edited.json", "-o", "never", code=code)
        bench.check(any(text in err for text in expected.split("|")) and not os.path.exists(bench.path("never")), f"an edited plan: {err}")
    ranks.refused(bench, 3, ["four-gpt.json", "--data", "text.h5", "--placement", "four-gpt.2x2.json"], 2, "rank 0 (", "the plan is for 4 ranks, these are 3")
    bench.run("dgx-plan", "worker-normed.json", "--machines", "six.json", "--stages", "2", "--pipelines", "2", "-o", "never.json", codes=(2,))
    bench.run("dgx-plan", "worker-gpt.json", "--machines", "six.json", "--stages", "1", "--pipelines", "4", "-o", "never.json", codes=(2,))
    # The same task, and plans that differ in one number.
    program = os.path.join(bench.bin, "dgx-train")
    tail = ["--mpi", "--threads", "1", "-q", "-o", "never"]
    edited = json.loads(json.dumps(text))
    edited["predicted"]["plan"] += 1
    pathlib.Path(bench.path("edited.json")).write_text(json.dumps(edited))
    by = lambda plan: [program, "four-gpt.json", "--data", "text.h5", "--placement", plan, *tail]
    done = subprocess.run([ranks.MPIRUN, "--oversubscribe", "-n", "3", *by("four-gpt.2x2.json"), ":", "-n", "1", *by("edited.json")], cwd=bench.folder, capture_output=True, text=True,
                          env=os.environ | ranks.ENVIRONMENT, timeout=100)
    bench.check(done.returncode == 65 and "rank 3 (" in done.stderr and "has another plan, network, drill or choice of experts than rank 0" in done.stderr, f"plans that differ: exit {done.returncode}: {done.stderr}")


def divergences(bench):
    """A step that is not finite at one stage, or on one rank, is taken on none: the run ends in the state before it, as one process's, and is verified."""
    numbers = numpy.random.default_rng(1)
    targets = numbers.normal(size=(40, 5)).astype("f4")
    targets[17] = 1e25
    numpy.save(bench.path("poison.x.npy"), numbers.normal(size=(40, 1, 8, 8)).astype("f4"))
    numpy.save(bench.path("poison.y.npy"), targets)
    bench.run("dgx-pack", "npy", "--x", "poison.x.npy", "--y", "poison.y.npy", "-o", "poison.h5")
    for name, optimizer, more in (("poisoned", "sgd:lr=0.01", []), ("poisoned-sparse", "dgc:lr=0.01,density=0.1,bits=8", ["--workers", "4"])):
        words = [f"{name}.json", "--data", "poison.h5"]
        bench.run("dgx-submit", *words[1:], "--model", "mlp:64-12-5", "--loss", "mse", "--optimizer", optimizer, *more, "--batch", "4", "--steps", "20", "--checkpoint-every", "5",
                  "--seed", "3", "--key", "submitter.pem", "-o", words[0])
        one = bench.run("dgx-train", *words, "-o", f"{name}.one", codes=(1,))
        bench.check(one["diverged"] and 0 < one["steps"] < 20, f"{name}: {one}")
        ways = {"ranks": (3, [])}
        for stages in () if more else (2, 3):
            bench.run("dgx-plan", words[0], "--machines", "machines.json", "--stages", str(stages), "-o", f"{name}.{stages}.json")
            ways[f"stages{stages}"] = (stages, ["--placement", f"{name}.{stages}.json"])
        for way, (count, plan) in ways.items():
            run = f"{name}.{way}"
            out = ranks.start(bench, count, *words, "-o", run, *plan).communicate(timeout=200)[0]
            found = json.loads(out.splitlines()[0]) if out.strip() else {}
            bench.check([found.get(key) for key in ("state", "steps", "diverged")] == [one["state"], one["steps"], True], f"{run}: {found}, expected {one}")
            ranks.verified(bench, name, run, "poison")


def rehearse(bench, count, task, data, plan, machines, *more, code=0):
    done = subprocess.run([ranks.MPIRUN, "--oversubscribe", "-n", str(count), os.path.join(bench.bin, "dgx-plan"), "rehearse", f"{task}.json", "--placement", plan, "--machines", machines,
                           "--data", data, *(more or ("--threads", "1", "--seconds", "2")), "--json", "-q"], cwd=bench.folder, capture_output=True, text=True, env=os.environ | ranks.ENVIRONMENT, timeout=200)
    bench.check(done.returncode == code, f"a rehearsal of {plan} on {count} ranks: exit {done.returncode}, expected {code}: {done.stderr}")
    return json.loads(done.stdout) if code == 0 and done.stdout else done.stderr


def rehearsals(bench):
    """A plan's steps slept on slow machines take about as long as they are foretold, and nothing is written."""
    def machines(name, rate, count=4):
        all_ = [{"name": f"m{n}", "region": "here", "operations_per_second": rate, "memory_bytes": 4 << 30} for n in range(count)]
        links = [{"between": ["here", "here"], "bits_per_second": 10**9, "microseconds": 5000}]
        pathlib.Path(bench.path(name)).write_text(json.dumps({"machines": all_, "links": links}))
    plan = lambda task, of, name, *words: bench.run("dgx-plan", f"{task}.json", "--machines", of, *words, "-o", name, "--force")
    machines("speed.json", 10**6, 1)
    seconds = plan("four-gpt", "speed.json", "speed.plan.json", "--ranks", "1")["alone"]
    machines("slow.json", round(10**6 * seconds / 2))  # two seconds a step alone
    for name, words in (("slept.ranks", ["--ranks", "4"]), ("slept.2x2", ["--stages", "2", "--pipelines", "2", "--parts", "2"]), ("slept.4x1", ["--stages", "4", "--parts", "4"])):
        told = plan("four-gpt", "slow.json", f"{name}.json", *words)
        before = sorted(os.listdir(bench.folder))
        # Other processes of a shared machine add to a measurement and never take from it: the first of up to five that is within the bound counts.
        for _ in range(5):
            found = rehearse(bench, 4, "four-gpt", "text.h5", f"{name}.json", "slow.json")
            if found["ratio"] < 2:
                break
        bench.check(sorted(os.listdir(bench.folder)) == before, f"a rehearsal leaves {set(os.listdir(bench.folder)) - set(before)}")
        bench.check(found["predicted"] == told["step_seconds"] and found["steps"] >= 3 and len(found["ranks"]) == 4, f"{name}: {found}, planned {told}")
        # A machine's speed differs from line to line, and other programs run here, too.
        bench.check(0.7 < found["ratio"] < 2 and abs(found["measured"] / found["predicted"] - found["ratio"]) < 0.01, f"{name}: {found}")
        slept, computes = (sum(row[key] for row in found["ranks"]) for key in ("sleeps", "computes"))
        bench.check(abs(slept / computes - 1) < 0.02, f"{name}: ranks sleep {slept} s, {computes} s are foretold")
    error = rehearse(bench, 3, "four-gpt", "text.h5", "slept.2x2.json", "slow.json", code=2)
    bench.check("rank 0 (" in error and "the plan is for 4 ranks, these are 3" in error, error)
    error = rehearse(bench, 4, "two-gpt", "text.h5", "slept.2x2.json", "slow.json", code=2)
    bench.check("the plan is for the task" in error, error)
    error = rehearse(bench, 4, "four-gpt", "text.h5", "slept.2x2.json", "machines.json", code=2)
    bench.check("machines.json: has no machine 'm0'" in error, error)
    error = rehearse(bench, 4, "four-gpt", "text.h5", "slept.2x2.json", "slow.json", "--threads", "2", code=2)
    bench.check("a rehearsal has one thread a rank" in error, error)
    error = rehearse(bench, 4, "four-gpt", "absent.h5", "slept.2x2.json", "slow.json", code=66)
    bench.check("absent.h5" in error, error)


def main():
    parser = support.parser()
    parser.add_argument("--sanitized", action="store_true", help="the programs are a sanitizer's, which take their time")
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        for name in ("submitter", "solver", "verifier"):
            bench.run("dgx-key", "new", name)
        placement.pack(bench)
        ranks.write_machines(bench, "machines.json", 300)
        side_by_side(bench)
        codes(bench)
        refusals(bench)
        divergences(bench)
        if not options.sanitized:
            rehearsals(bench)
        needs.counted(3 if options.sanitized else 4, 1 if options.sanitized else 0)


if __name__ == "__main__":
    main()
