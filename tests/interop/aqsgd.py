"""Trainings with a cut: aqsgd.py --bin FOLDER --plugins FOLDER [--kills N] [--seed S]

lines       programs of every kind of model have the lines of dgx-lowerings(7), AQ-SGD, as tests/vectors/cut.py writes them, and evaluation has none
kept        what a run leaves in the entry is what these lines, by NumPy, give for the last time that a batch had each sample, also where it had one twice
parts       a batch in parts of any size has one state, which is proved and verified
kills       a training that is killed at random moments, N times (default 3), ends as one that is not
divergence  an activation that is not finite ends the run in the state before, which is verified
Exits 77 without NumPy, h5py and cryptography. numpy_training.py runs whole steps of such programs; ranks.py and stages.py have them on several processes.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

try:
    import cryptography  # noqa: F401
    import h5py  # noqa: F401
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support
import tasks
from spec import inputs, program

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "vectors"))
import cut  # noqa: E402

F32 = np.float32
# By name: the data, the model, and the cut: block, bits forward and backward, first steps.
CASES = {
    "mlp": ("vectors", "mlp:20-33-9-5", "sgd:lr=0.1,momentum=0.9", (2, 2, 8, 4), []),
    "tanh": ("vectors", "mlp:20-7-5,activation=tanh", "adam:lr=1e-2", (1, 5, 2, 0), ["--clip-norm", "1", "--ema", "0.5"]),
    "gpt": ("tokens", "gpt:layers=3,width=16,heads=2,vocab=64,dropout=0.1", "adamw:lr=1e-2", (2, 3, 4, 1), ["--workers", "3"]),
    "switch": ("tokens", "switch:layers=2,width=8,heads=2,vocab=64,experts=2,every=1", "dgc:lr=0.1,density=0.1", (1, 8, 8, 2), ["--workers", "2"]),
}
BATCH, STEPS, EVERY, SAMPLES = 12, 9, 3, 30


def pack(bench):
    chance = np.random.default_rng(4)
    tokens = chance.integers(0, 64, (SAMPLES, 9)).astype(np.uint8)
    wild = chance.normal(size=(SAMPLES, 20)).astype(F32)
    wild[17] = 1e30
    for name, x, y in (("vectors", chance.normal(size=(SAMPLES, 20)).astype(F32), chance.integers(0, 5, SAMPLES)), ("tokens", tokens[:, :8], tokens[:, 1:]),
                       ("wild", wild, chance.integers(0, 5, SAMPLES))):
        np.save(bench.path("x.npy"), x)
        np.save(bench.path("y.npy"), y)
        bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", f"{name}.h5")


def submit(bench, name, data, model, optimizer, at, more, steps=STEPS):
    block, forward, backward, first = at
    bench.run("dgx-submit", "--data", f"{data}.h5", "--model", model, "--loss", "cross-entropy", "--optimizer", optimizer, "--cut",
              f"{block}:forward={forward},backward={backward},first={first}", *more, "--batch", str(BATCH), "--steps", str(steps), "--checkpoint-every", str(EVERY), "--seed", "3",
              "--key", "key.pem", "-o", f"{name}.json")


def lines(bench):
    for name, (data, model, optimizer, at, more) in CASES.items():
        submit(bench, name, data, model, optimizer, at, more)
        block, forward, backward, first = at
        step = program.parse(pathlib.Path(bench.path(f"{name}.program.jsonl")).read_text())
        bench.check(cut.is_as_written(step, SAMPLES, block, (forward, backward), first), f"{name}: the lines of the cut")
        entry = [line for line in step if line.get("src") == f"state optimizer/message/{block}"]
        bench.check(len(entry) == 1 and entry[0]["s"][0] == SAMPLES, f"{name}: {entry}")
        evaluation = pathlib.Path(bench.path(f"{name}.eval.jsonl")).read_text()
        bench.check("batch i" not in evaluation and "message" not in evaluation, f"{name}: the evaluation has a cut")


def quantised(d, bits):
    half = F32(2 ** (bits - 1))
    a = np.abs(d).max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        code = np.where(a == 0, half, np.clip(np.rint(d / a * half), -half, half - 1) + half)
    return code.astype(F32) - half, a / half


def kept(bench):
    """Rows of the entry step after step, from the activation that the program's own line gives, as the spec evaluates it."""
    data, _, _, (block, forward, _, first), _ = CASES["mlp"]
    step = program.parse(pathlib.Path(bench.path("mlp.program.jsonl")).read_text())
    task = tasks.statements.read(bench.path("mlp.json")).predicate
    rows, _ = tasks.read_dataset(bench, f"{data}.h5")
    state = inputs.initial_state(step, int(task["seed"]), task["model"])
    name = f"optimizer/message/{block}"
    difference = next(line for line in step if line.get("g") == f"cut {block}" and line.get("do") == ["sub x0 x1"])
    y = int(difference["x"][0].partition("[")[0])
    twice = 0
    for number in range(STEPS):
        table, after = program.run_step(step, task, state, rows, number)
        samples = inputs.batch_indices(int(task["seed"]), SAMPLES, BATCH, number)
        twice += len(set(samples)) < BATCH
        expected = state[name].copy()
        level, unit = quantised(table[y] - state[name][samples], forward)
        new = table[y] if number < first else np.stack([program.numbers.apply("fma", list(np.broadcast_arrays(*each))) for each in zip(level, unit, state[name][samples])])
        for k, sample in enumerate(samples):
            expected[sample] = new[k]
        bench.check(after[name].tobytes() == expected.tobytes(), f"rows that step {number} keeps")
        state = after
    bench.check(twice > 0, "no batch had a sample twice")
    done = bench.run("dgx-train", "mlp.json", "--data", f"{data}.h5", "-o", "mlp.run")
    bench.check(done["state"] == tasks.digests.state(state), "the state of the last step")


def parts(bench):
    for name, (data, *_, more) in CASES.items():
        words = [f"{name}.json", "--data", f"{data}.h5"]
        whole = bench.run("dgx-train", *words, "-o", f"{name}.whole")["state"]
        most = int(more[more.index("--workers") + 1]) if "--workers" in more else BATCH
        for count in {2, 3, 5, BATCH} & set(range(most + 1)):
            found = bench.run("dgx-train", *words, "-o", f"{name}.parts{count}", "--parts", str(count))["state"]
            bench.check(found == whole, f"{name} in {count} parts: {found}, not {whole}")
        bench.run("dgx-prove", words[0], f"{name}.parts2", "--key", "key.pem", "-o", f"{name}.proof.json")
        verdict = bench.run("dgx-verify", words[0], f"{name}.proof.json", "--from", f"{name}.parts2", "--data", words[2], "--all", "--key", "key.pem", "-o", f"{name}.verdict.json")
        bench.check(verdict["verdict"] == "accepted", f"{name}: {verdict}")


def kills(bench, count, seed):
    chance = random.Random(seed)
    submit(bench, "long", "vectors", "mlp:20-512-64-5", "adam:lr=1e-3", (1, 2, 8, 100), [], 3000)
    words = ["long.json", "--data", "vectors.h5"]
    start = time.time()
    whole = bench.run("dgx-train", *words, "-o", "long.whole")["state"]
    seconds = time.time() - start
    killed = 0
    for _ in range(50 * count):
        running = subprocess.Popen([os.path.join(bench.bin, "dgx-train"), *words, "-o", "long.run", "-q"], cwd=bench.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            running.wait(timeout=chance.random() * seconds / (1 + killed / 2))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.wait()
            killed += 1
        if killed == count or running.returncode == 0:
            break
    found = bench.run("dgx-train", *words, "-o", "long.run")["state"]
    bench.check(killed > 0 and found == whole, f"killed {killed} times: {found}, not {whole}")


def divergence(bench):
    submit(bench, "wild", "wild", "mlp:20-33-5", "sgd:lr=1e-3", (1, 2, 8, 1), [])
    words = ["wild.json", "--data", "wild.h5"]
    runs = [bench.run("dgx-train", *words, "-o", f"wild{n}", *more, codes=(1,)) for n, more in enumerate(([], ["--parts", "3"], ["--threads", "1"]))]
    bench.check(runs[0]["diverged"] and runs[0]["steps"] < STEPS, f"{runs[0]}")
    bench.check(all([run[key] for key in ("state", "steps", "diverged")] == [runs[0][key] for key in ("state", "steps", "diverged")] for run in runs), f"{runs}")
    bench.run("dgx-prove", words[0], "wild0", "--key", "key.pem", "-o", "wild.proof.json")
    verdict = bench.run("dgx-verify", words[0], "wild.proof.json", "--from", "wild0", "--data", "wild.h5", "--all", "--key", "key.pem", "-o", "wild.verdict.json")
    bench.check(verdict["verdict"] == "accepted", f"{verdict}")


def main():
    parser = support.parser()
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "key")
        pack(bench)
        lines(bench)
        kept(bench)
        parts(bench)
        kills(bench, options.kills, options.seed)
        divergence(bench)


if __name__ == "__main__":
    main()
