"""Steps on two ranks of one thread, and in parts, beside one process of one thread, in turns: distributed.py BIN WORK [TURNS [PART...]]

And predictions of plans beside what was measured, or rehearsed. Parts: steps, one, parts, experts, predictions, pipelines, rehearsals; all unless given. Prints lines "name threads unit value", and what it is
beside with its name: run.sh makes rows of them. WORK has Fashion-MNIST as data.h5, and key.pem. Milliseconds of a step are the seconds that dgx-train says less those that it waited for checkpoints, by the steps;
the median of the turns (5 unless given).
"""

import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

BIN, WORK = os.path.abspath(sys.argv[1]), sys.argv[2]
TURNS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
PARTS = sys.argv[4:] or ["steps", "one", "parts", "experts", "predictions", "pipelines", "rehearsals"]
VECTORS = pathlib.Path(__file__).resolve().parents[1] / "vectors"
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# By name: the model, its data, optimiser, batch, steps enough for a second or two, and other options.
SGD = "sgd:lr=0.1,momentum=0.9"
CASES = {
    "gpt-6x384-batch-8": ("gpt:layers=6,width=384,heads=6,vocab=128,context=256", "text.h5", "adamw:lr=1e-3", 8, 6, []),
    "gpt-6x384-batch-8-workers-2": ("gpt:layers=6,width=384,heads=6,vocab=128,context=256", "text.h5", "adamw:lr=1e-3", 8, 6, ["--workers", "2"]),
    "resnet20-batch-128": ("resnet20", "data.h5", SGD, 128, 6, []),
    "mlp-batch-128": ("mlp:784-256-128-10", "data.h5", SGD, 128, 2000, []),
    "mlp-batch-1024": ("mlp:784-256-128-10", "data.h5", SGD, 1024, 400, []),
    "mlp-batch-1024-workers-2": ("mlp:784-256-128-10", "data.h5", SGD, 1024, 400, ["--workers", "2"]),
}
os.chdir(WORK)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}: {done.stderr[-800:]}"
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}


def train_words(name, data, out, *more):
    return [os.path.join(BIN, "dgx-train"), f"{name}.json", "--data", data, "-o", out, "--threads", "1", "--json", "-q", *more]


def step_milliseconds(told):
    return (told["seconds"] - told["checkpoint_seconds"]) / told["steps"] * 1e3


def milliseconds(name, data, ranks, number):
    train = train_words(name, data, f"{name}.{ranks}.{number}")
    told = run(*train) if ranks == 1 else run("mpirun", "-n", str(ranks), *train, "--mpi")
    return told, step_milliseconds(told)


# Networks of plans, as dgx-train --emulate lets them be: bits a second, and microseconds.
NETWORKS = {"10g-50us": (10**10, 50), "1g-1ms": (10**9, 1000), "300m-200us": (3 * 10**8, 200), "1g-20ms": (10**9, 20_000), "100m-5ms": (10**8, 5000)}


def emulated_step(task, out, machines, plan):
    """Seconds of a step of two ranks over an emulated network: of a whole run less one that ends early, since each gives the state to the ranks and brings it together."""
    train = ["mpirun", "-n", "2", os.path.join(BIN, "dgx-train"), f"{task}.json", "--data", "text.h5", "--threads", "1", "--mpi", "--placement", plan, "--emulate", machines, "--json", "-q"]
    early, whole = run(*train, "-o", f"{out}.early", "--until", "3"), run(*train, "-o", out)
    return (whole["seconds"] - whole["checkpoint_seconds"] - early["seconds"] + early["checkpoint_seconds"]) / (whole["steps"] - early["steps"])


def predictions():
    """Steps of two ranks as dgx-plan foretells them, beside those that are then made."""
    dgx_plan, task = os.path.join(BIN, "dgx-plan"), "gpt-foretold"
    submit(task, "gpt:layers=6,width=384,heads=6,vocab=128,context=256", "adamw:lr=1e-3", 8, 9)
    run("mpirun", "-n", "2", dgx_plan, "measure", f"{task}.json", "--data", "text.h5", "--threads", "1", "--seconds", "5", "-o", "machines.json", "--json", "-q")
    machines = json.loads(pathlib.Path("machines.json").read_text())
    for name, (bits, microseconds) in NETWORKS.items():
        machines["links"][0].update(bits_per_second=bits, microseconds=microseconds)
        pathlib.Path(f"{name}.json").write_text(json.dumps(machines))
        planned = run(dgx_plan, f"{task}.json", "--machines", f"{name}.json", "--ranks", "2", "-o", f"{name}.plan.json", "--json", "-q")
        measured = emulated_step(task, name, f"{name}.json", f"{name}.plan.json")
        print(f"trained-gpt-{name} 2 ms/step {measured * 1e3:.5g} {planned['step_seconds'] * 1e3:.5g} foretold", flush=True)


def step_of(program, slices=None):
    """The lines of a step, classed without dgx."""
    sys.path.insert(0, str(VECTORS))
    import placement

    return placement.Step([json.loads(line) for line in pathlib.Path(program).read_text().splitlines()], slices)


def forward_lines(program):
    """The lines at which a pipeline may be cut."""
    step = step_of(program)
    import pipelines

    return pipelines.Pipeline.forward(step)


def state_and_gradients(program):
    """Bytes of the entries, and of what is carried from part to part: every way to make the step has both."""
    step = step_of(program)
    size = lambda line: math.prod(line["s"]) * {"f32": 4, "i64": 8, "u8": 1}[line["t"]]
    entries = sum(size(line) for line in step.lines if line.get("src", "").startswith("state "))
    return entries + sum(size(line) for line, of in zip(step.lines, step.of) if of == "C")


def run_with_peak(*words):
    """What a program says, and the most bytes that it had."""
    with open("peak.out", "w+") as out:
        child = subprocess.Popen(words, stdout=out, env=ENVIRONMENT)
        status, usage = os.wait4(child.pid, 0)[1:]
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, f"{' '.join(words)}: exit {child.returncode}"
        out.seek(0)
        return json.loads(out.read().splitlines()[-1]), usage.ru_maxrss * 1024


def submit(name, model, optimizer, batch, steps, *more, data="text.h5"):
    run(os.path.join(BIN, "dgx-submit"), "--data", data, "--model", model, "--loss", "cross-entropy", "--optimizer", optimizer, "--batch", str(batch), "--steps", str(steps),
        "--checkpoint-every", str(steps), "--seed", "1", "--key", "key.pem", "-o", f"{name}.json", "--json", *more)


def rehearsed(task, ranks, plan, machines, seconds):
    return run("mpirun", "--oversubscribe", "-n", str(ranks), os.path.join(BIN, "dgx-plan"), "rehearse", f"{task}.json", "--placement", plan, "--machines", machines, "--data", "text.h5",
               "--threads", "1", "--seconds", str(seconds), "--json", "-q")


def pipelines_of_two():
    """Five pipelines of two stages, with other cuts and networks: foretold, trained, and rehearsed."""
    dgx_plan, task = os.path.join(BIN, "dgx-plan"), "gpt-two-stages"
    submit(task, "gpt:layers=6,width=256,heads=4,vocab=128,context=256", "adamw:lr=1e-3", 8, 15)
    run("mpirun", "-n", "2", dgx_plan, "measure", f"{task}.json", "--data", "text.h5", "--threads", "1", "--seconds", "5", "-o", "two.json", "--json", "-q")
    machines = json.loads(pathlib.Path("two.json").read_text())
    forward = forward_lines(f"{task}.program.jsonl")
    for share, (name, (bits, microseconds)) in zip((0.5, 0.35, 0.6, 0.45, 0.3), NETWORKS.items()):
        machines["links"][0].update(bits_per_second=bits, microseconds=microseconds)
        pathlib.Path(f"two.{name}.json").write_text(json.dumps(machines))
        plan = f"two.{name}.plan.json"
        run(dgx_plan, f"{task}.json", "--machines", f"two.{name}.json", "--stages", "2", "--parts", "8", "-o", plan, "--json", "-q")
        changed = json.loads(pathlib.Path(plan).read_text())
        changed["pipeline"]["cuts"] = [forward[int(share * len(forward))]]
        pathlib.Path(plan).write_text(json.dumps(changed))
        slept = rehearsed(task, 2, plan, f"two.{name}.json", 8)
        measured = emulated_step(task, f"two.{name}", f"two.{name}.json", plan)
        print(f"trained-two-stages-{name} 2 ms/step {measured * 1e3:.5g} {slept['predicted'] * 1e3:.5g} foretold", flush=True)
        print(f"rehearsed-two-stages-{name} 2 ms/step {slept['measured'] * 1e3:.5g} {slept['predicted'] * 1e3:.5g} foretold", flush=True)


def rehearsals():
    """Plans of 4, 8 and 16 ranks, foretold and rehearsed: each is a slow machine, so that two cores carry the messages of all."""
    task = "gpt-of-many"
    submit(task, "gpt:layers=4,width=128,heads=4,vocab=128,context=256", "sgd:lr=0.1,momentum=0.9", 16, 40, "--workers", "16")
    for ranks in (4, 8, 16):
        machines = [{"name": f"m{n}", "region": "here", "operations_per_second": 4 * 10**8, "memory_bytes": 2**33} for n in range(ranks)]
        links = [{"between": ["here", "here"], "bits_per_second": 2 * 10**8, "microseconds": 5000}]
        pathlib.Path(f"many.{ranks}.json").write_text(json.dumps({"machines": machines, "links": links}))
        for kind, words in (("ranks", ["--ranks", str(ranks)]), (f"4-stages-{ranks // 4}-pipelines", ["--stages", "4", "--pipelines", str(ranks // 4)])):
            plan = f"many.{ranks}.{kind}.json"
            run(os.path.join(BIN, "dgx-plan"), f"{task}.json", "--machines", f"many.{ranks}.json", *words, "-o", plan, "--json", "-q")
            told = rehearsed(task, ranks, plan, f"many.{ranks}.json", 15)
            print(f"rehearsed-gpt-{ranks}-{kind} {ranks} ms/step {told['measured'] * 1e3:.5g} {told['predicted'] * 1e3:.5g} foretold", flush=True)


def one_rank():
    """A training by one rank beside one without ranks: the median of the ratio of 30 pairs, and its 95 % interval."""
    for name, (model, data, optimizer, batch, steps, more) in CASES.items():
        if name not in ("resnet20-batch-128", "mlp-batch-1024"):
            continue
        submit(f"one-{name}", model, optimizer, batch, steps, *more, data=data)
        pairs = []
        for number in range(30):
            train = train_words(f"one-{name}", data, f"one.{name}")
            both = {}
            for kind in ("alone", "rank") if number % 2 == 0 else ("rank", "alone"):
                shutil.rmtree(f"one.{name}", ignore_errors=True)
                both[kind] = step_milliseconds(run(*train) if kind == "alone" else run("mpirun", "-n", "1", *train, "--mpi"))
            pairs.append((both["rank"], both["alone"]))
        ratios = sorted(rank / alone for rank, alone in pairs)
        print(f"one-rank-{name} 1 ms/step {statistics.median(rank for rank, _ in pairs):.5g} {statistics.median(alone for _, alone in pairs):.5g} no ranks")
        # The interval goes from the 10th to the 21st of 30 numbers, which enclose the median in 95.7 % of all cases.
        for kind, ratio in (("median", statistics.median(ratios)), ("from", ratios[9]), ("to", ratios[20])):
            print(f"one-rank-{name}-{kind} 1 ratio {ratio:.5g}", flush=True)


def in_parts():
    """Steps in parts beside whole ones: time, peak, and what the peak has beside state and gradients."""
    name = "parts-gpt-6x384-batch-8"
    submit(name, "gpt:layers=6,width=384,heads=6,vocab=128,context=256", "adamw:lr=1e-3", 8, 6)
    held = state_and_gradients(f"{name}.program.jsonl")
    counts = (1, 2, 4, 8)
    times, peaks, states = {parts: [] for parts in counts}, {parts: [] for parts in counts}, set()
    for number in range(TURNS):
        for parts in counts if number % 2 == 0 else reversed(counts):
            told, peak = run_with_peak(*train_words(name, "text.h5", f"{name}.{parts}.{number}", "--parts", str(parts)))
            times[parts].append(step_milliseconds(told))
            peaks[parts].append(peak)
            states.add(told["state"])
    assert len(states) == 1, f"{name}: {states}"
    whole, whole_peak = statistics.median(times[1]), statistics.median(peaks[1])
    for parts in counts[1:]:
        time, peak = statistics.median(times[parts]), statistics.median(peaks[parts])
        print(f"{parts}-{name} 1 ms/step {time:.5g} {whole:.5g} no parts")
        print(f"{parts}-{name}-peak 1 MB {peak / 1e6:.5g} {whole_peak / 1e6:.5g} no parts")
        print(f"{parts}-{name}-beside-state 1 MB {(peak - held) / 1e6:.5g} {(whole_peak - held) / 1e6:.5g} no parts", flush=True)


def experts():
    """A mixture on two and four ranks over an emulated network, each expert on all ranks or at home on one."""
    task = "switch-8-experts"
    submit(task, "switch:layers=2,width=128,heads=4,experts=8,every=1,vocab=128,context=32", "adamw:lr=1e-3", 8, 10, data="short.h5")
    for ranks in (2, 4):
        machines = [{"name": f"m{n}", "region": "here", "operations_per_second": 10**9, "memory_bytes": 2**33} for n in range(ranks)]
        pathlib.Path("experts.machines.json").write_text(json.dumps({"machines": machines, "links": [{"between": ["here", "here"], "bits_per_second": 10**9, "microseconds": 200}]}))
        times, moved, states = {}, {}, set()
        for number in range(TURNS):
            for kind, more in (("everywhere", []), ("at-home", ["--experts"])):
                words = train_words(task, "short.h5", f"{task}.{ranks}.{kind}.{number}", "--mpi", "--emulate", "experts.machines.json", *more)
                told = run("mpirun", "--oversubscribe", "-n", str(ranks), *words)
                times.setdefault(kind, []).append(step_milliseconds(told))
                moved[kind] = sum(row[key] for row in told["ranks"] for key in ("sent", "broadcast", "gathered")) / told["steps"]
                states.add(told["state"])
        assert len(states) == 1, f"{task}: {states}"
        print(f"experts-at-home-{ranks}-ranks {ranks} ms/step {statistics.median(times['at-home']):.5g} {statistics.median(times['everywhere']):.5g} on all ranks")
        print(f"experts-at-home-{ranks}-ranks-moved {ranks} MB/step {moved['at-home'] / 1e6:.4g} {moved['everywhere'] / 1e6:.4g} on all ranks", flush=True)


def main():
    pathlib.Path("text").write_bytes(bytes(32 + (i * i // 7 + i) % 90 for i in range(200_000)))
    for context, data in ((256, "text.h5"), (32, "short.h5")):
        run(os.path.join(BIN, "dgx-pack"), "text", "text", "--context", str(context), "-o", data, "--json")
    for part, measure in (("steps", steps), ("one", one_rank), ("parts", in_parts), ("experts", experts), ("predictions", predictions), ("pipelines", pipelines_of_two), ("rehearsals", rehearsals)):
        if part in PARTS:
            measure()


def steps():
    for name, (model, data, optimizer, batch, steps, more) in CASES.items():
        submit(name, model, optimizer, batch, steps, *more, data=data)
        times, states, waited = {1: [], 2: []}, set(), []
        for number in range(TURNS):
            for ranks in (1, 2) if number % 2 == 0 else (2, 1):
                told, time = milliseconds(name, data, ranks, number)
                times[ranks].append(time)
                states.add(told["state"])
                if ranks == 2:
                    waited += [row["waited"] / row["seconds"] for row in told["ranks"]]
        assert len(states) == 1, f"{name}: {states}"
        print(f"two-ranks-{name} 2 ms/step {statistics.median(times[2]):.5g} {statistics.median(times[1]):.5g} one process", flush=True)
        print(f"two-ranks-{name}-waits 2 % {statistics.mean(waited) * 100:.3g}", flush=True)


main()
