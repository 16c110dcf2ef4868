"""Steps on two ranks of one thread beside one process of one thread, in turns: distributed.py BIN WORK [TURNS [PART...]]

And predictions of plans beside what was measured, or rehearsed. Parts: steps, predictions, pipelines, rehearsals; all unless given. Prints lines "name unit value peer": run.sh makes rows of them. WORK has Fashion-MNIST as data.h5, and key.pem. Milliseconds of a step are the seconds
that dgx-train says less those that it waited for checkpoints, by the steps; the median of the turns (5 unless given).
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

BIN, WORK = os.path.abspath(sys.argv[1]), sys.argv[2]
TURNS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
PARTS = sys.argv[4:] or ["steps", "predictions", "pipelines", "rehearsals"]
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


def milliseconds(name, data, ranks, number):
    train = [os.path.join(BIN, "dgx-train"), f"{name}.json", "--data", data, "-o", f"{name}.{ranks}.{number}", "--threads", "1", "--json", "-q"]
    told = run(*train) if ranks == 1 else run("mpirun", "-n", str(ranks), *train, "--mpi")
    return told, (told["seconds"] - told["checkpoint_seconds"]) / told["steps"] * 1e3


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
        print(f"predicted-gpt-{name} ms/step {planned['step_seconds'] * 1e3:.5g} {measured * 1e3:.5g}", flush=True)


def forward_lines(program):
    """The lines at which a pipeline may be cut."""
    sys.path.insert(0, str(VECTORS))
    import pipelines
    import placement

    return pipelines.Pipeline.forward(placement.Step([json.loads(line) for line in pathlib.Path(program).read_text().splitlines()]))


def submit(name, model, optimizer, batch, steps, *more):
    run(os.path.join(BIN, "dgx-submit"), "--data", "text.h5", "--model", model, "--loss", "cross-entropy", "--optimizer", optimizer, "--batch", str(batch), "--steps", str(steps),
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
        print(f"predicted-two-stages-{name} ms/step {slept['predicted'] * 1e3:.5g} {measured * 1e3:.5g}", flush=True)
        print(f"rehearsed-two-stages-{name} ms/step {slept['predicted'] * 1e3:.5g} {slept['measured'] * 1e3:.5g}", flush=True)


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
            print(f"rehearsed-gpt-{ranks}-{kind} ms/step {told['predicted'] * 1e3:.5g} {told['measured'] * 1e3:.5g}", flush=True)


def main():
    pathlib.Path("text").write_bytes(bytes(32 + (i * i // 7 + i) % 90 for i in range(200_000)))
    run(os.path.join(BIN, "dgx-pack"), "text", "text", "--context", "256", "-o", "text.h5", "--json")
    if "steps" in PARTS:
        steps()
    for part, measure in (("predictions", predictions), ("pipelines", pipelines_of_two), ("rehearsals", rehearsals)):
        if part in PARTS:
            measure()


def steps():
    for name, (model, data, optimizer, batch, steps, more) in CASES.items():
        run(os.path.join(BIN, "dgx-submit"), "--data", data, "--model", model, "--loss", "cross-entropy", "--optimizer", optimizer, "--batch", str(batch), "--steps", str(steps),
            "--checkpoint-every", str(steps), "--seed", "1", "--key", "key.pem", "-o", f"{name}.json", "--json", *more)
        times, states, waited = {1: [], 2: []}, set(), []
        for number in range(TURNS):
            for ranks in (1, 2) if number % 2 == 0 else (2, 1):
                told, time = milliseconds(name, data, ranks, number)
                times[ranks].append(time)
                states.add(told["state"])
                if ranks == 2:
                    waited += [row["waited"] / row["seconds"] for row in told["ranks"]]
        assert len(states) == 1, f"{name}: {states}"
        print(f"two-ranks-{name} ms/step {statistics.median(times[2]):.5g} {statistics.median(times[1]):.5g}", flush=True)
        print(f"two-ranks-{name}-waits % {statistics.mean(waited) * 100:.3g}", flush=True)


main()
