"""Steps on two ranks of one thread beside one process of one thread, in turns: distributed.py BIN WORK [TURNS]

Prints lines "name unit value peer": run.sh makes rows of them. WORK has Fashion-MNIST as data.h5, and key.pem. Milliseconds of a step are the seconds
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
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# By name: the model, its data, loss, optimiser, batch, and steps enough for a second or two.
SGD = "sgd:lr=0.1,momentum=0.9"
CASES = {
    "gpt-6x384-batch-8": ("gpt:layers=6,width=384,heads=6,vocab=128,context=256", "text.h5", "adamw:lr=1e-3", 8, 6),
    "resnet20-batch-128": ("resnet20", "data.h5", SGD, 128, 6),
    "mlp-batch-128": ("mlp:784-256-128-10", "data.h5", SGD, 128, 2000),
    "mlp-batch-1024": ("mlp:784-256-128-10", "data.h5", SGD, 1024, 400),
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


def main():
    pathlib.Path("text").write_bytes(bytes(32 + (i * i // 7 + i) % 90 for i in range(200_000)))
    run(os.path.join(BIN, "dgx-pack"), "text", "text", "--context", "256", "-o", "text.h5", "--json")
    for name, (model, data, optimizer, batch, steps) in CASES.items():
        run(os.path.join(BIN, "dgx-submit"), "--data", data, "--model", model, "--loss", "cross-entropy", "--optimizer", optimizer, "--batch", str(batch), "--steps", str(steps),
            "--checkpoint-every", str(steps), "--seed", "1", "--key", "key.pem", "-o", f"{name}.json", "--json")
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
