"""Runs that diverge, by a second implementation: diverging_runs.py --bin FOLDER --plugins FOLDER

A sample is poisoned that the second implementation (spec/) says is drawn by a step; from the task's files alone it trains until a state is not finite, and
says what proof, rows of the verdict and settlement have to be. The programs run, prove, verify and settle the same. Exits 77 without NumPy, h5py and
cryptography.
"""

import decimal
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    import cryptography  # noqa: F401
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support
from spec import answers, cost, digests, games, inputs, program, statements

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "attacks"))
import divergence  # noqa: E402  its market, and how it is used
import openings  # noqa: E402
from openings import body, check  # noqa: E402

STEPS, EVERY, SEED = divergence.STEPS, divergence.EVERY, 7
# The first step, after one step, within a segment, at its end, after a segment of one step, the last but one and the last.
PLACES = [0, 1, 3, 4, 5, 10, 11]
ZERO = "0" * 64


def pack(market, x, path):
    np.save("x.npy", x)
    market.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", path)


def poisoned(market, step):
    """Data of which step `step` draws the one sample that is too large."""
    i, j = np.arange(STEPS)[:, None], np.arange(4)[None, :]
    x = (((i * 37 + j * 101 + i * j * 13) % 97) / 97).astype("<f4")
    y = x[:, :1] * np.float32(2)
    np.save("y.npy", y)
    x[inputs.batch_indices(SEED, STEPS, 1, step)[0]] = 1e25
    pack(market, x, f"diverges{step}.h5")
    return {"x": x, "y": y}


def finite(state):
    return all(np.isfinite(array).all() for array in state.values() if array.dtype == np.float32)


class Run:
    """A task's training from its files: the states before the one that is not finite."""

    def __init__(self, name, data):
        self.task = statements.read(f"{name}.json")
        fields = self.task.predicate
        with open(f"{name}.program.jsonl") as file:
            lines = program.parse(file.read())
        self.states = [inputs.initial_state(lines, SEED, fields["model"])]
        with np.errstate(all="ignore"):
            while len(self.states) <= fields["steps"]:
                _, after = program.run_step(lines, fields, self.states[-1], data, len(self.states) - 1)
                if not finite(after):
                    break
                self.states.append(after)
        self.end = len(self.states) - 1
        self.committed = cost.committed_steps(fields, self.end)

    def digest(self, step):
        return digests.state(self.states[step])

    def proof(self):
        """The fields but the signer."""
        committed = [bytes.fromhex(self.digest(step)) for step in self.committed]
        final = self.states[self.end]
        entries = [(name, digests.tensor(final[name])) for name in sorted(final, key=str.encode)]
        return {"task": self.task.id, "states": {"count": len(committed), "root": digests.committed_states(committed)}, "initial": committed[0].hex(),
                "final": committed[-1].hex(), "steps": self.end, "diverged": True, "loss": games.opened_loss(entries, final["loss"])}

    def drawn(self, value, proof, verifier):
        count = len(self.committed) - 1
        return [*answers.draw(value, proof, verifier, count, cost.drawn_count(self.task.predicate, count)), count]

    def row(self, segment, value, proof, verifier):
        """Of an honest verifier."""
        first, last = (*self.committed[segment:segment + 2], None)[:2]
        digest = digests.DIVERGED.hex() if last is None else self.digest(last)
        witness = ZERO
        if last is not None and last - first > 1:
            witness = digests.sha(b"dgx-witness" + verifier + bytes.fromhex(self.digest(last - 1))).hex()
        return {"agrees": True, "expected": digest, "index": segment, "reason": "equal", "recomputed": digest, "witness": witness}

    def chances(self):
        count = len(self.committed) - 1
        drawn = cost.drawn_count(self.task.predicate, count)
        bad = {"one_segment": 1, "one_percent": max(1, count // 100), "ten_percent": max(1, count // 10)}
        return {name: chance(count, drawn, m) for name, m in bad.items()}


def chance(count, drawn, bad):
    """dgx-protocol(7), "Chances"; none of these is below 10^-6."""
    exact = decimal.Decimal(math.comb(count - bad, drawn)) / math.comb(count, drawn) if bad <= count else decimal.Decimal(0)
    with decimal.localcontext() as context:
        context.prec, context.rounding = 6, decimal.ROUND_HALF_UP
        return format((+exact).normalize(), "f") if exact else "0"


def check_run(run, task, step, trained):
    check(f"{task}: it diverges there", run.end == step == trained["steps"] and trained["diverged"], (run.end, trained))
    with h5py.File(f"{task}.run/index.h5", "r") as file:
        check(f"{task}: its index says so", file.attrs["diverged"] == 1, file.attrs["diverged"])
        check(f"{task}: steps committed", file["steps"][()].tolist() == run.committed, file["steps"][()].tolist())
        theirs = [bytes(row).hex() for row in file["digests"][()]]
        check(f"{task}: states committed", theirs == [run.digest(each) for each in run.committed], theirs)
        losses = [run.states[n + 1]["loss"] for n in range(run.end)]
        check(f"{task}: losses", file["losses"][()].tolist() == losses, file["losses"][()].tolist())


def check_verdict(run, task):
    proof, beacon = (statements.read(f"{task}.{what}.json") for what in ("proof", "beacon"))
    whom = bytes.fromhex(openings.key_id("verifier")), bytes.fromhex(proof.id), bytes.fromhex(beacon.predicate["value"])
    segments = run.drawn(whom[2], whom[1], whom[0])
    rows = [run.row(segment, whom[2], whom[1], whom[0]) for segment in segments]
    theirs = pathlib.Path(f"{task}.verdict.rows.jsonl").read_bytes().splitlines()
    check(f"{task}: rows", theirs == [statements.canonical(row) for row in rows], theirs)
    verdict = body(f"{task}.verdict.json")
    replayed = sum(end - start for segment in segments for start, end in [(*run.committed, run.end + 1)[segment:segment + 2]])
    ours = {"outcome": "accepted", "draw": "policy", "segments": len(run.committed), "replayed": len(rows), "miss_probability": run.chances(),
            "rows": {"count": len(rows), "root": digests.root(digests.leaf(line) for line in theirs).hex()},
            "work": replayed * run.task.predicate["estimate"]["step_operations"]}
    check(f"{task}: verdict", {key: verdict[key] for key in ours} == ours, (verdict, ours))


def check_diverging(market, step):
    task, data = f"task{step}", poisoned(market, step)
    before = balances(market)
    market.submit(task, f"diverges{step}.h5", seed=SEED)
    trained = market.train(task)
    run = Run(task, data)
    check_run(run, task, step, trained)
    market.prove(task)
    ours, theirs = run.proof(), body(f"{task}.proof.json")
    check(f"{task}: proof", {**ours, "signer": theirs["signer"]} == theirs, (ours, theirs))
    states = pathlib.Path(f"{task}.proof.states").read_bytes()
    check(f"{task}: states beside the proof", states.hex() == "".join(run.digest(each) for each in run.committed))
    market.verify(task)
    check_verdict(run, task)
    settle(market, task)
    after, worth = balances(market), cost.worth(run.task.predicate, ours)
    gained = {who: after[who] - before[who] for who in after}
    expected = {"submitter": -sum(worth.values()), "solver": worth["reward"], "verifier": worth["fee"], "jackpot_burned": worth["tax"],
                "treasury": worth["treasury"]}
    check(f"{task}: settlement", gained == expected and all(worth.values()), (gained, expected))
    return worth


def settle(market, task):
    market.append(f"{task}.verdict.json")
    market.run("dgx-prove", "deliver", f"{task}.json", f"{task}.proof.json", "--run", f"{task}.run", "--store", market.store, "--key", "solver.pem", "-o",
               f"{task}.delivery.json")
    market.append(f"{task}.delivery.json")
    time.sleep(1.1)
    market.run("dgx-settle", "run", market.ledger, "--key", "operator.pem")
    check(f"{task}: settled", market.state(task) == ("settled", "accepted"), market.state(task))


def balances(market):
    found = json.loads(market.run("dgx-settle", "balances", market.ledger, "--json").stdout)
    return {**{who: found["accounts"][openings.key_id(who)] for who in ("submitter", "solver", "verifier")},
            **{what: found["accounts"][what] for what in ("jackpot_burned", "treasury")}}


def main():
    options = support.arguments()
    programs = os.path.abspath(options.bin)
    with tempfile.TemporaryDirectory(prefix="dgx-interop-") as folder:
        os.chdir(folder)
        for who in ("operator", "submitter", "solver", "verifier", "mallory"):
            subprocess.run([os.path.join(programs, "dgx-key"), "new", who], check=True, capture_output=True)
        market = divergence.Task(programs, "diverging", sample_ppm=500000, window_challenge_ms=1000, verifier_fee=10, treasury_ppm=30000)
        worth = [check_diverging(market, step) for step in PLACES]
        check("who did more has more", [each["reward"] for each in worth] == sorted({each["reward"] for each in worth}), worth)
        print(f"{len(PLACES)} runs that diverge, {openings.checks} checks")


if __name__ == "__main__":
    main()
