"""A task of dgx-submit and its training, recomputed from the task's files alone by the second implementation (spec/): the dataset's digest,
the program's root, the statement's id, signature and estimate, the initial state, and then whole training steps, every element of every value.
They must lead to the state digests that dgx-train prints, and to the value digests of dgx-bisect.
"""

import os
import dataclasses
import subprocess

import h5py
import numpy as np

from spec import cost, digests, inputs, program, statements


@dataclasses.dataclass
class Case:
    model: str
    loss: str
    optimizer: str
    more: list = dataclasses.field(default_factory=list)
    compared: int = 3  # steps, of which three are a segment
    batch: int = 8
    steps: int = 12


def read_dataset(bench, name):
    with h5py.File(bench.path(name), "r") as file:
        data = {field: np.asarray(file[field][()]) for field in file if field not in ("classes", "channels") and not field.endswith(".nodes")}
        for field, array in data.items():
            stored = file[f"{field}.nodes"][()]
            bench.check(stored.dtype == "u1" and [bytes(row) for row in stored] == digests.nodes(array), f"{name}: nodes of {field}")
        digest = digests.dataset(data, file.attrs["recipe"])
        bench.check(file.attrs["digest"].decode() == digest, f"{name}: digest of the dataset")
    return data, digest


def read_state(path):
    """A state's numbers, with the constant entries that lie beside it (dgx-bundle(5), "CONSTANT ENTRIES")."""
    found = {}
    with h5py.File(path, "r") as file:
        file["state"].visititems(lambda name, item: found.update({name: np.asarray(item[()])}) if isinstance(item, h5py.Dataset) else None)
        constant = file.attrs.get("constant")
    if constant is not None:
        found.update(read_state(os.path.join(os.path.dirname(path), f"constant-{bytes(constant).decode()[:12]}.h5")))
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
    return bench.run("dgx-submit", "--data", data, "--model", case.model, "--loss", case.loss, "--optimizer", case.optimizer, *case.more,
                     "--batch", str(case.batch), "--steps", str(case.steps), "--seed", "987654321987654321", "--checkpoint-every", "3", "--key",
                     "submitter.pem", "-o", f"{name}.json")


def check_task(bench, name, printed, dataset):
    statement = statements.read(bench.path(f"{name}.json"))
    task = statement.predicate
    bench.check(statement.id == printed["task"], f"{name}: id")
    bench.check(statement.kind == "urn:x-dgx:task:v2", f"{name}: kind")
    bench.check(openssl_accepts(bench, statement), f"{name}: openssl refuses the signature")
    bench.check(task["dataset"]["digest"] == dataset, f"{name}: dataset")
    for field, suffix in (("program", "program"), ("evaluation", "eval")):
        with open(bench.path(f"{name}.{suffix}.jsonl"), "rb") as file:
            text = file.read()
        bench.check(digests.lines(text) == task[field]["root"] == statement.subjects[field], f"{name}: root of the {field}")
        bench.check(text.count(b"\n") == task[field]["lines"], f"{name}: lines of the {field}")
    with open(bench.path(f"{name}.program.jsonl")) as file:
        lines = program.parse(file.read())
    stated = {key: size for key, size in task["caps"].items() if key.endswith("bytes")}
    bench.check(stated == cost.state_sizes(lines), f"{name}: sizes of a state")
    operations = cost.step_operations(lines)
    bench.check(task["estimate"] == cost.estimate(task, operations), f"{name}: estimate")
    parts = min(3, len(cost.committed_steps(task)) - 1)
    if parts > 1:
        split = bench.run("dgx-submit", "estimate", f"{name}.json", "--split", str(parts))
        bench.check((split["parts"], split["sum"], split["more"]) == cost.split(task, operations, parts), f"{name}: estimate of {parts} parts")
    return task, lines


def trained(bench, name, data, step):
    """State digest of dgx-train after so many steps of a run of its own."""
    done = bench.run("dgx-train", f"{name}.json", "--data", data, "-o", f"{name}.run", "--until", str(step), "--threads", "1")
    bench.check(done["steps"] == step, f"{name}: trained {done['steps']} steps, not {step}")
    return done["state"]


def check_trace(bench, name, data, step, table):
    """Every value's digest as dgx-bisect gives it."""
    bench.run("dgx-train", f"{name}.json", "--data", data, "-o", f"{name}.whole", "--threads", "1")
    bench.run("dgx-bisect", "trace", f"{name}.json", "--from", f"{name}.whole", "--segment", str(step // 3), "--step", str(step), "--data", data,
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


def check_run(bench, name, states, state):
    """The states committed so far, and the last one's numbers."""
    with h5py.File(bench.path(f"{name}.run/index.h5"), "r") as file:
        committed = dict(zip(file["steps"][()].tolist(), [bytes(row).hex() for row in file["digests"][()]]))
    bench.check(list(committed) == list(range(0, len(states), 3)), f"{name}: steps committed, {list(committed)}")
    bench.check(all(states[step] == digest for step, digest in committed.items()), f"{name}: committed states")
    last = max(committed)
    file = f"checkpoint-{last:010}-{committed[last][:12]}.h5" if last == len(states) - 1 else "resume.h5"
    stored = read_state(bench.path(f"{name}.run/{file}"))
    bench.check(sorted(stored) == sorted(state), f"{name}: entries of the state")
    bench.check(all(stored[entry].tobytes() == state[entry].tobytes() for entry in state), f"{name}: numbers of the state")


def check_training(bench, name, data_file, case):
    data, dataset = read_dataset(bench, data_file)
    task, lines = check_task(bench, name, submit(bench, name, data_file, case), dataset)
    state = initial_state(bench, name, task, lines)
    states = [digests.state(state)]
    bench.check(states[0] == task["initial"]["digest"], f"{name}: initial state")
    for step in range(case.compared):
        table, state = program.run_step(lines, task, state, data, step)
        states.append(digests.state(state))
        bench.check(states[-1] == trained(bench, name, data_file, step + 1), f"{name}: state after step {step}")
        if step == case.compared - 1:
            check_trace(bench, name, data_file, step, table)
    check_run(bench, name, states, state)
