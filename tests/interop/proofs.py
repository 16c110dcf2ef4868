"""Proofs and samples by a second implementation: proofs.py --bin FOLDER --plugins FOLDER

From the files alone: the root over PROOF.states, their count from the task, the statement's id and signature; a run's checkpoints; the
beacon from its secret; the drawn segments; and the paths of a sample. Exits 77 without NumPy, h5py and cryptography.
"""

import json
import struct
import sys

try:
    import cryptography  # noqa: F401
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support
from spec import cost, digests, evidence, statements

STEPS, EVERY = 61, 3


def boundaries():
    """Every EVERY steps; a one-step remainder joins the segment before it."""
    found = list(range(0, STEPS, EVERY))
    if STEPS - found[-1] == 1:
        found.pop()
    return found + [STEPS]


def draw(beacon, proof, verifier, segments, count):
    chosen, j = set(), 0
    while len(chosen) < count:
        digest = digests.sha(b"dgx-draw" + beacon + proof + verifier + struct.pack(">Q", j))
        chosen.add(int.from_bytes(digest[:8], "big") % segments)
        j += 1
    return sorted(chosen)


def tensors_in(group):
    found = {}
    group.visititems(lambda name, item: found.update({name: np.asarray(item[()])}) if isinstance(item, h5py.Dataset) else None)
    return found


def check_proof(bench):
    task, proof = statements.read(bench.path("t.json")), statements.read(bench.path("proof.json"))
    with open(bench.path("proof.states"), "rb") as file:
        raw = file.read()
    states = [raw[i:i + 32] for i in range(0, len(raw), 32)]
    fields = proof.predicate
    bench.check(proof.kind == "urn:x-dgx:proof:v2", "kind of the proof")
    bench.check(fields["task"] == task.id, "the proof's task")
    bench.check(fields["states"] == {"count": len(boundaries()), "root": digests.committed_states(states)}, "root of the states")
    bench.check(fields["initial"] == states[0].hex() == task.predicate["initial"]["digest"], "initial state of the proof")
    bench.check(fields["final"] == states[-1].hex() and fields["steps"] == STEPS, "end of the proof")
    with h5py.File(bench.path("run/index.h5"), "r") as file:
        bench.check([bytes(row) for row in file["digests"][()]] == states, "digests of the run's index")
        bench.check(list(file["steps"][()]) == boundaries(), "steps of the run's index")
    for step, digest in zip(boundaries(), states):
        with h5py.File(bench.path(f"run/checkpoint-{step:010}-{digest.hex()[:12]}.h5"), "r") as file:
            state = tensors_in(file["state"])
            bench.check(digests.state(state) == digest.hex() and state["step"] == step, f"checkpoint of step {step}")
    bench.check(float.fromhex(fields["loss"]["value"]) == state["loss"], "loss of the proof")
    names = sorted(state, key=str.encode)
    opened = evidence.open_entry([(name, digests.tensor(state[name])) for name in names], names.index("loss"))
    bench.check(fields["loss"]["entry"] == opened, "opening of the loss")
    return task, proof, states


def check_draw(bench, task, proof, states):
    commitment, beacon = statements.read(bench.path("commit.json")), statements.read(bench.path("beacon.json"))
    fields = beacon.predicate
    secret = bytes.fromhex(fields["secret"])
    bench.check(commitment.predicate["commitment"] == digests.sha(b"dgx-beacon-commit" + secret).hex(), "commitment to the secret")
    bench.check(fields["value"] == digests.sha(b"dgx-beacon" + secret + bytes.fromhex(proof.id)).hex(), "value of the beacon")
    bench.check(fields["commitment"] == commitment.id and fields["proof"] == proof.id, "what the beacon links")
    segments = len(states) - 1
    count = cost.drawn_count(task.predicate, segments)
    drawn = draw(bytes.fromhex(fields["value"]), bytes.fromhex(proof.id), bytes.fromhex(beacon.key_id), segments, count)
    bench.check(count > -(-segments * task.predicate["policy"]["sample_ppm"] // 10**6), "more are drawn than sample_ppm asks for")
    with h5py.File(bench.path("sample.h5"), "r") as file:
        bench.check(file.attrs["task"].decode() == task.id and file.attrs["proof"].decode() == proof.id, "what the sample is of")
        bench.check([int(name) for name in file["segments"]] == drawn, f"segments drawn: {list(file['segments'])}, not {drawn}")
        for name, group in file["segments"].items():
            path = [bytes(row) for row in group["path"][()]]
            start = digests.leaf(b"\x04" + states[int(name)])
            found = digests.root_from_path(int(name), len(states), start, path)
            bench.check(found is not None and found.hex() == proof.predicate["states"]["root"], f"path of segment {name}")
            bench.check(digests.state(tensors_in(group["state"])) == states[int(name)].hex(), f"start of segment {name}")


def make_files(bench):
    numbers = np.random.default_rng(11)
    np.save(bench.path("x.npy"), numbers.normal(size=(64, 6)).astype(np.float32))
    np.save(bench.path("y.npy"), numbers.integers(0, 3, 64).astype(np.uint8))
    for key in ("submitter", "solver", "verifier"):
        bench.run("dgx-key", "new", key)
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
    with open(bench.path("policy.json"), "w") as file:
        json.dump({"sample_ppm": 300000, "miss_ppm": 20000, "miss_share_ppm": 250000}, file)
    bench.run("dgx-submit", "--data", "data.h5", "--model", "mlp:6-8-3", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", "8",
              "--steps", str(STEPS), "--checkpoint-every", str(EVERY), "--seed", "3", "--policy", "policy.json", "--key", "submitter.pem",
              "-o", "t.json")
    bench.run("dgx-train", "t.json", "--data", "data.h5", "-o", "run", "--threads", "1")


def main():
    options = support.arguments()
    with support.Bench(options.bin) as bench:
        make_files(bench)
        bench.run("dgx-verify", "beacon", "t.json", "--key", "verifier.pem", "-o", "commit.json")
        bench.run("dgx-prove", "t.json", "run", "--key", "solver.pem", "-o", "proof.json")
        task, proof, states = check_proof(bench)
        bench.run("dgx-verify", "beacon", "commit.json", "--reveal", "proof.json", "--task", "t.json", "--unlogged", "--key", "verifier.pem", "-o", "beacon.json")
        bench.run("dgx-prove", "open", "t.json", "proof.json", "--beacon", "beacon.json", "--run", "run", "-o", "sample.h5")
        check_draw(bench, task, proof, states)


main()
