"""Tasks and training by a second implementation: training.py --bin FOLDER --plugins FOLDER

For each task below, from its files alone: the dataset's digest, the program's root, the statement's id and signature, the initial state
from the seed, and then whole training steps, every element of every value, in binary32 arithmetic of NumPy and exact arithmetic of
`decimal`. They must lead to the state digests that dgx-train prints. Exits 77 without NumPy, h5py and cryptography.
"""

import os
import subprocess
import sys

try:
    import cryptography  # noqa: F401
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support
from spec import digests, inputs, program, statements

# Model, loss, optimiser, further options, steps to compare. Together they use every lowering of the built-in models.
SMALL = [
    ("mlp:16-12-5", "cross-entropy", "sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-4", ["--schedule", "step:every=2,gamma=0.5"], 3),
    ("mlp:16-12-5,activation=gelu", "cross-entropy", "adam:lr=1e-2,weight-decay=0.1", ["--schedule", "cosine:warmup=2,min=1e-4"], 4),
    ("mlp:16-9-5,activation=gelu-tanh", "cross-entropy", "adamw:lr=3e-3", ["--clip-norm", "0.5"], 2),
    ("mlp:16-300-5,activation=tanh", "cross-entropy", "sgd:lr=0.05", ["--schedule", "linear:warmup=1"], 2),
    ("mlp:16-7-6-5,activation=sigmoid", "cross-entropy", "adam:lr=1e-3,betas=0.8/0.99,eps=1e-6", ["--clip-norm", "2"], 2),
]
DECODERS = [
    ("gpt:layers=1,width=8,heads=2,vocab=64", "cross-entropy", "adamw:lr=1e-2", ["--clip-norm", "1"], 3),
    ("gpt:layers=1,width=8,heads=2,vocab=64,tied,dropout=0.25", "cross-entropy:label-smoothing=0.1,ignore=40",
     "sgd:lr=0.5,momentum=0.9", [], 2),
]
QUICKSTART = ("mlp:784-256-128-10", "cross-entropy", "sgd:lr=0.1,momentum=0.9", ["--schedule", "cosine:warmup=100,min=0"], 1)
# TorchScript files of tests/support/make_torchscript.cc, where they have been built; they bring their own initial weights.
SCRIPTED = ["gelu.pt", "gelu_tanh.pt", "tanh.pt", "sigmoid.pt", "scaled.pt"]


def read_dataset(bench, name):
    with h5py.File(bench.path(name), "r") as file:
        data = {field: np.asarray(file[field][()]) for field in ("x", "y")}
        digest = digests.dataset(data, file.attrs["recipe"])
        bench.check(file.attrs["digest"].decode() == digest, f"{name}: digest of the dataset")
    return data, digest


def read_state(path):
    found = {}
    with h5py.File(path, "r") as file:
        file["state"].visititems(lambda name, item: found.update({name: np.asarray(item[()])}) if isinstance(item, h5py.Dataset) else None)
    return found


def openssl_accepts(bench, statement):
    """The same signature by another program again, from a public key made of the statement's hex."""
    spki = bytes.fromhex("302a300506032b6570032100" + statement.predicate["signer"])
    for name, data in (("signer.der", spki), ("signed", statement.signed), ("signature", statement.signature)):
        with open(bench.path(name), "wb") as file:
            file.write(data)
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-keyform", "DER", "-inkey", "signer.der", "-in", "signed",
               "-sigfile", "signature"]
    return subprocess.run(command, cwd=bench.folder, capture_output=True).returncode == 0


def submit(bench, name, data, case):
    model, loss, optimizer, more, _ = case
    return bench.run("dgx-submit", "--data", data, "--model", model, "--loss", loss, "--optimizer", optimizer, *more, "--batch",
                     "128" if case is QUICKSTART else "8", "--steps", "102" if case is QUICKSTART else "12", "--seed", "987654321987654321", "--checkpoint-every", "6",
                     "--key", "submitter.pem", "-o", f"{name}.json")


def check_task(bench, name, printed, dataset):
    statement = statements.read(bench.path(f"{name}.json"))
    task = statement.predicate
    bench.check(statement.id == printed["task"], f"{name}: id")
    bench.check(statement.kind == "urn:x-dgx:task:v1", f"{name}: kind")
    bench.check(openssl_accepts(bench, statement), f"{name}: openssl refuses the signature")
    bench.check(task["dataset"]["digest"] == dataset, f"{name}: dataset")
    for field, suffix in (("program", "program"), ("evaluation", "eval")):
        with open(bench.path(f"{name}.{suffix}.jsonl"), "rb") as file:
            text = file.read()
        bench.check(digests.lines(text) == task[field]["root"] == statement.subjects[field], f"{name}: root of the {field}")
        bench.check(text.count(b"\n") == task[field]["lines"], f"{name}: lines of the {field}")
    with open(bench.path(f"{name}.program.jsonl")) as file:
        return task, program.parse(file.read())


def trained(bench, name, data, step):
    """State digest of dgx-train after so many steps of a run of its own."""
    done = bench.run("dgx-train", f"{name}.json", "--data", data, "-o", f"{name}.run", "--until", str(step), "--threads", "1")
    bench.check(done["steps"] == step, f"{name}: trained {done['steps']} steps, not {step}")
    return done["state"]


def check_trace(bench, name, data, step, table):
    """Every value's digest as dgx-bisect gives it."""
    if not bench.has("dgx-bisect"):
        return
    bench.run("dgx-train", f"{name}.json", "--data", data, "-o", f"{name}.whole", "--threads", "1")
    bench.run("dgx-bisect", "trace", f"{name}.json", "--from", f"{name}.whole", "--segment", "0", "--step", str(step), "--data", data,
              "-o", f"{name}.trace.h5")
    with h5py.File(bench.path(f"{name}.trace.h5"), "r") as file:
        values = [bytes(row) for row in file["values"][()]]
    ours = [digests.tensor(value) for value in table]
    bench.check(len(values) == len(ours), f"{name}: values of the trace")
    for number, (theirs, mine) in enumerate(zip(values, ours)):
        bench.check(theirs == mine, f"{name}: value {number} of step {step}")


def initial_state(bench, name, task, lines):
    if task["initial"]["source"] == "seed":
        return inputs.initial_state(lines, int(task["seed"]), task["model"])
    return read_state(bench.path(f"{name}.init.h5"))


def check_training(bench, name, data_file, case):
    data, dataset = read_dataset(bench, data_file)
    task, lines = check_task(bench, name, submit(bench, name, data_file, case), dataset)
    state = initial_state(bench, name, task, lines)
    bench.check(digests.state(state) == task["initial"]["digest"], f"{name}: initial state")
    for step in range(case[-1]):
        table, state = program.run_step(lines, task, state, data, step)
        bench.check(digests.state(state) == trained(bench, name, data_file, step + 1), f"{name}: state after step {step}")
        if step == case[-1] - 1:
            check_trace(bench, name, data_file, step, table)
    stored = read_state(bench.path(f"{name}.run/resume.h5"))
    bench.check(all(stored[entry].tobytes() == state[entry].tobytes() for entry in state), f"{name}: numbers of the state")


def small_data(bench):
    numbers = np.random.default_rng(7)
    np.save(bench.path("x.npy"), numbers.normal(size=(50, 16)).astype(np.float32))
    np.save(bench.path("y.npy"), numbers.integers(0, 5, 50).astype(np.uint8))
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "small.h5")


def small_text(bench):
    with open(bench.path("text.txt"), "w") as file:
        file.write("".join(chr(32 + (7 * n * n + n) % 31) for n in range(260)))
    bench.run("dgx-pack", "text", "text.txt", "--context", "5", "-o", "text.h5")


def main():
    options = support.arguments()
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "submitter")
        small_data(bench)
        for number, case in enumerate(SMALL):
            check_training(bench, f"task{number}", "small.h5", case)
        small_text(bench)
        for number, case in enumerate(DECODERS):
            check_training(bench, f"decoder{number}", "text.h5", case)
        images = support.fashion_mnist("train-images")
        if images:
            bench.run("dgx-pack", "idx", "--images", images, "--labels", support.fashion_mnist("train-labels"), "--scale", "0.00392156862745098",
                      "--first", "1000", "-o", "images.h5")
            check_training(bench, "quickstart", "images.h5", QUICKSTART)
            for file in SCRIPTED:
                path = os.path.join(options.models or "", file)
                if os.path.exists(path):
                    check_training(bench, file[:-3], "images.h5", (path, "cross-entropy", "adamw:lr=1e-3", [], 1))


main()
