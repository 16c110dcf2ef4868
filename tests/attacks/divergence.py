"""Runs that diverge, truly and falsely, through the programs and the market: divergence.py --bin FOLDER

One sample of twelve has numbers that overflow, so that a network trained on it for twelve steps diverges at the step that draws this sample: each
step once, if each sample in turn is that one. On the same data without it nothing diverges but by a drill, a flipped exponent.
Exits 77 without what openings.py needs.
"""

import argparse
import base64
import contextlib
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import openings
import statements
from openings import Market, body, check
from cryptography.hazmat.primitives import serialization

STEPS, EVERY = 12, 4
FINITE, DIVERGED, REFUTED, LOST = 0, 1, 1, 3


class Task(Market):
    """A market whose every task is twelve steps of a line through four numbers."""

    price = 10**9

    def submit(self, task, data="clean.h5", seed=7):
        self.data = data
        self.run("dgx-submit", "--data", data, "--model", "mlp:4-1", "--loss", "mse", "--optimizer", "sgd:lr=0.01", "--batch", 1, "--steps", STEPS,
                 "--checkpoint-every", EVERY, "--seed", seed, "--price", self.price, "--ledger", self.ledger, "--key", "submitter.pem", "-o", f"{task}.json")
        self.run("dgx-verify", "beacon", f"{task}.json", "--segment-milliseconds", "1", "--key", "verifier.pem", "-o", f"{task}.commit.json")
        self.run("dgx-settle", "make", "assign", f"{task}.json", "--about", f"{task}.commit.json", "--set", "segment_milliseconds=1", "--key",
                 "solver.pem", "-o", f"{task}.assign.json")
        self.append(f"{task}.json", f"{task}.commit.json", f"{task}.assign.json")

    def train(self, task, *options, exit_code=DIVERGED):
        done = self.run("dgx-train", f"{task}.json", "--data", self.data, "-o", f"{task}.run", "--json", *options, exit_code=exit_code)
        return json.loads(done.stdout)

    def prove(self, task, reveals=True):
        self.run("dgx-prove", f"{task}.json", f"{task}.run", "--key", "solver.pem", "-o", f"{task}.proof.json")
        self.append(f"{task}.proof.json", "-o", f"{task}.receipt.json")
        if reveals:
            self.run("dgx-verify", "beacon", f"{task}.commit.json", "--reveal", f"{task}.proof.json", "--task", f"{task}.json", "--ledger", self.ledger,
                     "--key", "verifier.pem", "-o", f"{task}.beacon.json")
            self.append(f"{task}.beacon.json")
            self.open(task)
            self.append(f"{task}.opening.json")
            self.run("dgx-settle", "fetch", self.ledger, f"{task}.json", "-o", f"{task}.opened")

    def verify(self, task, *draw, exit_code=FINITE, out="verdict"):
        done = self.run("dgx-verify", f"{task}.json", f"{task}.proof.json", "--from", f"{task}.run" if draw == ("--all",) else f"{task}.opened", "--data",
                        self.data, *(draw or ("--beacon", f"{task}.beacon.json")), "--key", "verifier.pem", "-o", f"{task}.{out}.json", "--json",
                        exit_code=exit_code)
        return json.loads(done.stdout)

    def challenge(self, task, who, transcript, *about, source=None, exit_code=0):
        replays = () if {"--verdict", "--initial", "--final"} & set(about) else ("--data", self.data)
        return self.run("dgx-bisect", "open", f"{task}.json", f"{task}.proof.json", *about, "--from", source or f"{task}.run", *replays, "--key",
                        f"{who}.pem", "-o", transcript, exit_code=exit_code)

    def play(self, task, transcript, defender, challenger, liar=None, **options):
        """Both move until it is over: what the referee rules, or None if `liar` has nothing left to say, and loses by silence."""
        turn = 0
        while not json.loads(self.run("dgx-bisect", "show", transcript, "--json").stdout)["over"]:
            who = (defender, challenger)[turn % 2]
            done = subprocess.run([os.path.join(self.programs, "dgx-bisect"), "move", f"{task}.json", transcript, "--from", f"{task}.run", "--data",
                                   self.data, "--key", f"{who}.pem", "--notes", f"{transcript}.{who}", *options.get(who, [])], capture_output=True, text=True)
            if who == liar and done.returncode in (2, 3):
                return None
            check(f"turn {turn + 1} of {transcript}", done.returncode in (0, 1), done.stderr)
            turn += 1
        done = subprocess.run([os.path.join(self.programs, "dgx-referee"), transcript, "--key", "mallory.pem", "-o", f"{transcript}.ruling.json", "--json"],
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    def balances(self):
        return {who: self.balance(who) for who in ("submitter", "solver", "verifier", "mallory")}


def forge(path, out, key, change):
    """A statement with another predicate, signed again without the programs' code."""
    old = json.loads(base64.b64decode(json.loads(pathlib.Path(path).read_text())["payload"]))
    subject = [(item["name"], item["digest"]["sha256"]) for item in old["subject"]]
    predicate, subject = change(old["predicate"], subject)
    text = io.StringIO()
    secret = serialization.load_pem_private_key(pathlib.Path(f"{key}.pem").read_bytes(), None)
    with contextlib.redirect_stdout(text):
        statements.seal(old["predicateType"].split(":")[2], predicate, subject, secret)
    pathlib.Path(out).write_text(text.getvalue())


def root_of(lines):
    return statements.root_of([hashlib.sha256(b"\0" + line).digest() for line in lines]).hex()


def segments_of(step):
    return -(-step // EVERY)


def true_divergence(market, step, name):
    """A run that diverges at `step`: proved, verified, challenged in vain, and paid for what was done."""
    task = f"{name}{step}"
    before = market.balances()
    market.submit(task, f"diverges{step}.h5")
    if step == EVERY - 1:  # a call that went on from between two checkpoints comes to the same end
        market.train(task, "--until", 2, exit_code=FINITE)
    trained = market.train(task)
    check(f"{task}: ends before the step", trained["steps"] == step and trained["diverged"] and trained["segments"] == segments_of(step), trained)
    check(f"{task}: a further call says it again", market.train(task)["steps"] == step)
    market.prove(task)
    proof = body(f"{task}.proof.json")
    check(f"{task}: the proof says it", proof["diverged"] and proof["steps"] == step and proof["states"]["count"] == segments_of(step) + 1, proof)
    verdict = market.verify(task)
    check(f"{task}: accepted", verdict["verdict"] == "accepted" and verdict["settles"], verdict)
    rows = [json.loads(line) for line in pathlib.Path(f"{task}.verdict.rows.jsonl").read_text().splitlines()]
    check(f"{task}: the diverging step is replayed", rows[-1]["index"] == segments_of(step) and rows[-1]["witness"] == "0" * 64, rows)
    market.append(f"{task}.verdict.json")
    told = market.challenge(task, "mallory", f"{task}.vain.jsonl", "--segment", segments_of(step), source=f"{task}.opened", exit_code=LOST)
    check(f"{task}: a challenge would be lost", "would be lost" in told.stderr, told.stderr)
    market.run("dgx-prove", "deliver", f"{task}.json", f"{task}.proof.json", "--run", f"{task}.run", "--store", market.store, "--key", "solver.pem", "-o",
               f"{task}.delivery.json")
    market.append(f"{task}.delivery.json")
    time.sleep(1.1)
    market.run("dgx-settle", "run", market.ledger, "--key", "operator.pem")
    check(f"{task}: settled", market.state(task) == ("settled", "accepted"), market.state(task))
    after, estimate = market.balances(), body(f"{task}.json")["estimate"]
    gained = {who: after[who] - before[who] for who in after}
    state_bytes = body(f"{task}.json")["caps"]["bytes"]
    reward = (step + 1) * estimate["step_operations"] + 8 * state_bytes * (segments_of(step) + 1)
    check(f"{task}: the solver is paid for {step + 1} steps", gained["solver"] == reward, (gained, reward))
    check(f"{task}: the verifier, too", 0 < gained["verifier"] <= estimate["fee"], (gained, estimate))
    check(f"{task}: the submitter has the rest", 0 < -gained["submitter"] < estimate["escrow"] and -gained["submitter"] <= sum(
        estimate[part] for part in ("reward", "fee", "tax", "treasury")), (gained, estimate))
    return reward


def false_divergence(market, step):
    """A solver who stops at `step` and says that it diverges, against a replay of the step: refuted, and convicted by whoever challenges."""
    task = f"false{step}"
    market.submit(task, seed=100 + step)
    trained = market.train(task, "--drill", f"step={step},op={market.output},element=0,bit=30")
    check(f"{task}: the drill diverges", trained["steps"] == step, trained)
    market.run("dgx-prove", f"{task}.json", f"{task}.run", "--key", "solver.pem", "-o", f"{task}.proof.json")
    verdict = market.verify(task, "--all", exit_code=REFUTED)
    check(f"{task}: refuted at the diverging step", verdict["verdict"] == "refuted", verdict)
    row = body(f"{task}.verdict.json")["first_disagreement"]
    check(f"{task}: by the state after it", row["index"] == segments_of(step) and row["reason"] == "digest", row)
    market.challenge(task, "mallory", f"{task}.jsonl", "--segment", segments_of(step))
    told = market.run("dgx-bisect", "move", f"{task}.json", f"{task}.jsonl", "--from", f"{task}.run", "--data", market.data, "--key", "solver.pem", "--notes",
                      f"{task}.n", exit_code=LOST)
    check(f"{task}: an honest replay would lose", "finite" in told.stderr, told.stderr)
    ruling = market.play(task, f"{task}.jsonl", "solver", "mallory", solver=["--drill"])
    check(f"{task}: convicted", ruling["falls"] and ruling["reason"] in ("claim", "post") and ruling["at"]["step"] == step, ruling)
    market.challenge(task, "verifier", f"{task}.mine.jsonl", "--verdict", f"{task}.verdict.json")
    check(f"{task}: or by the verifier", market.play(task, f"{task}.mine.jsonl", "solver", "verifier", solver=["--drill"])["falls"])
    return task


def lying_verifiers(market, step):
    """A verifier who denies a true divergence, in whatever way, or who affirms a false one."""
    index = segments_of(step)
    task = f"denied{step}"
    market.price = 10**9 + 1  # another task than the one that was settled
    market.submit(task, f"diverges{step}.h5")
    market.train(task)
    market.prove(task)
    market.verify(task, "--all", out="all")
    good = [json.loads(line) for line in pathlib.Path(f"{task}.all.rows.jsonl").read_text().splitlines()]
    check("the honest row agrees", good[index]["agrees"] and good[index]["expected"] == good[index]["recomputed"])
    digest, zero = "ab" * 32, "0" * 64
    lies = {"another state": {"agrees": False, "reason": "digest", "recomputed": digest}, "that it diverges": {"agrees": False, "reason": "non-finite", "recomputed": zero},
            "a bad start": {"agrees": False, "reason": "state", "recomputed": zero}, "another step": {"agrees": False, "reason": "step", "recomputed": zero},
            "another end": {"agrees": False, "expected": digest, "reason": "digest", "recomputed": zero}}
    for number, (what, lie) in enumerate(lies.items()):
        name = f"{task}.lie{number}"

        def deny(predicate, subject, lie=lie, name=name):
            rows = good[:index] + [good[index] | lie]
            lines = [statements.canonical(row) for row in rows]
            pathlib.Path(f"{name}.rows.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
            root = root_of(lines)
            predicate |= {"outcome": "refuted", "first_disagreement": rows[-1], "rows": {"count": len(rows), "root": root}, "nonce": digest}
            return predicate, [(n, root if n == "rows" else d) for n, d in subject]

        forge(f"{task}.all.json", f"{name}.json", "verifier", deny)
        market.challenge(task, "solver", f"{name}.jsonl", "--against", f"{name}.json", "--force")
        ruling = market.play(task, f"{name}.jsonl", "verifier", "solver", liar="verifier", verifier=["--force"])
        check(f"{what}: the refutation falls", ruling is None or ruling["falls"], ruling)
        check(f"{what}: at once, where the row is false on its face", ruling is not None or "non-finite" not in lie.values())

    liar = false_divergence(market, step)

    def affirm(predicate, subject):
        rows = [json.loads(line) for line in pathlib.Path(f"{liar}.verdict.rows.jsonl").read_text().splitlines()]
        rows[-1] |= {"agrees": True, "reason": "equal", "recomputed": rows[-1]["expected"]}
        lines = [statements.canonical(row) for row in rows]
        pathlib.Path(f"{liar}.affirmed.rows.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        root = root_of(lines)
        predicate.pop("first_disagreement")
        predicate |= {"outcome": "accepted", "rows": {"count": len(rows), "root": root}}
        return predicate, [(n, root if n == "rows" else d) for n, d in subject]

    forge(f"{liar}.verdict.json", f"{liar}.affirmed.json", "verifier", affirm)
    market.challenge(liar, "mallory", f"{liar}.affirmed.jsonl", "--against", f"{liar}.affirmed.json")
    told = market.run("dgx-bisect", "move", f"{liar}.json", f"{liar}.affirmed.jsonl", "--from", f"{liar}.run", "--data", market.data, "--key", "verifier.pem",
                      "--notes", "affirmed.n", exit_code=LOST)
    check("who affirmed it has no state to show", "finite" in told.stderr, told.stderr)


def later_state(market):
    """A solver who trains to the end, says that the last step but one diverged, and commits to the last state there: a challenge of the diverging step
    would be lost, since the state is at another step; the program says which segment is wrong."""
    task = "later"
    market.submit(task, seed=200)
    market.train(task, exit_code=FINITE)
    market.run("dgx-prove", f"{task}.json", f"{task}.run", "--key", "solver.pem", "-o", f"{task}.true.json")
    forge(f"{task}.true.json", f"{task}.proof.json", "solver", lambda predicate, subject: (predicate | {"diverged": True, "steps": STEPS - 1}, subject))
    shutil.copyfile(f"{task}.true.states", f"{task}.proof.states")
    told = market.challenge(task, "mallory", f"{task}.jsonl", "--segment", 3, exit_code=LOST).stderr
    check("the start is what is wrong", f"at step {STEPS}, not {STEPS - 1}: segment 2 is wrong" in told, told)


def other_run(market):
    """Of an honest run and one that stopped and says that it diverged nothing differs but the end."""
    market.run("dgx-train", "false5.json", "--data", market.data, "-o", "whole.run")
    told = market.run("dgx-bisect", "diff", "false5.json", "whole.run", "false5.run", "--data", market.data, exit_code=LOST).stderr
    check("that one says so is told", "false5.run: says that step 5 diverges, but whole.run continues" in told, told)


def parted_runs(market):
    """Two runs that diverge at one step, and part inside the segment that ends there, are led to the scalar operation, by runs or by traces."""
    task, data = f"true{EVERY - 1}", f"diverges{EVERY - 1}.h5"
    market.run("dgx-train", f"{task}.json", "--data", data, "-o", "parted.run", "--drill", f"step=1,op={market.output},element=0,bit=20", exit_code=DIVERGED)
    market.run("dgx-bisect", "trace", f"{task}.json", "--from", "parted.run", "--data", data, "--drill", "--segment", 0, "--step", 1, "--value", market.output,
               "-o", "parted.h5")
    for other in ("parted.run", "parted.h5"):
        found = json.loads(market.run("dgx-bisect", "diff", f"{task}.json", f"{task}.run", other, "--data", data, "--json", exit_code=REFUTED).stdout)
        at = found["step"], found["value"]["number"], found["confirmed"]
        check(f"{other} parts at the drill", at == (1, market.output, "ours"), found)
    told = market.run("dgx-bisect", "trace", f"{task}.json", "--from", f"{task}.run", "--data", data, "--segment", 0, "--step", EVERY - 1, "-o", "none.h5",
                      exit_code=2).stderr
    check("the diverging step has no state", f"diverged at step {EVERY - 1}" in told, told)
    status = json.loads(market.run("dgx-settle", "status", market.ledger, "--task", f"{task}.json", "--json").stdout)
    check("status says so", status["tasks"][0]["diverged"] == EVERY - 1, status)


def output_value():
    """The program's value that is the network's output: the first dot."""
    for line in pathlib.Path("probe.program.jsonl").read_text().splitlines():
        if (value := json.loads(line))["k"] == "dot":
            return value["v"]
    sys.exit("the program has no dot")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    programs = parser.parse_args().bin
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        import numpy as np
        for who in ("operator", "submitter", "solver", "verifier", "mallory"):
            subprocess.run([os.path.join(programs, "dgx-key"), "new", who], check=True, stdout=subprocess.DEVNULL)
        i, j = np.arange(STEPS)[:, None], np.arange(4)[None, :]
        x = (((i * 37 + j * 101 + i * j * 13) % 97) / 97).astype("<f4")
        np.save("y.npy", x[:, :1] * 2)

        def pack(numbers, path):
            np.save("x.npy", numbers)
            subprocess.run([os.path.join(programs, "dgx-pack"), "npy", "--x", "x.npy", "--y", "y.npy", "-o", path], check=True, stdout=subprocess.DEVNULL)

        pack(x, "clean.h5")
        market = Task(programs, "diverging", sample_ppm=500000, window_challenge_ms=1000, verifier_fee=0)
        probe = ("dgx-submit", "--model", "mlp:4-1", "--loss", "mse", "--optimizer", "sgd:lr=0.01", "--batch", 1, "--steps", STEPS, "--checkpoint-every", EVERY,
                 "--seed", 7, "--key", "submitter.pem", "-o", "probe.json", "--force")
        places = set()
        for sample in range(STEPS):
            poisoned = x.copy()
            poisoned[sample] = 1e25
            pack(poisoned, "poisoned.h5")
            market.run(*probe, "--data", "poisoned.h5")
            shutil.rmtree("probe.run", ignore_errors=True)
            trained = json.loads(market.run("dgx-train", "probe.json", "--data", "poisoned.h5", "-o", "probe.run", "--json", exit_code=DIVERGED).stdout)
            places.add(trained["steps"])
            os.rename("poisoned.h5", f"diverges{trained['steps']}.h5")
        check("every step diverges once", places == set(range(STEPS)), places)
        market.output = output_value()
        rewards = [true_divergence(market, step, "true") for step in (0, 1, EVERY - 1, EVERY, EVERY + 1, STEPS - 1)]
        check("who did more has more", rewards == sorted(rewards) and len(set(rewards)) == len(rewards), rewards)
        for step in range(STEPS):
            if step not in (0, 5):
                false_divergence(market, step)
        for step in (0, 5):
            lying_verifiers(market, step)
        later_state(market)
        other_run(market)
        parted_runs(market)
    print(f"{openings.checks} checks")


if __name__ == "__main__":
    main()
