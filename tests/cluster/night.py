#!/usr/bin/python3
"""A night on a cluster, by the job scripts of examples/slurm: night.py --bin FOLDER --slurm FOLDER --work FOLDER (run.sh)

list      200 proofs, one of them a cheat's, over an array; a node dies in the middle, with its jobs; what is finished has the rows that a single
          process gives
proof     one proof by eight shards; one is corrupted: merge names it with a command, which is run, and the verdict is the single process's
training  preempted by an urgent job, killed with its node, told to stop at its limit: it resumes each time, and ends where an uninterrupted one ends
failure   a training whose data is not there fails, and is not put back into the queue
ledger    the merged verdict settles
"""

import argparse
import glob
import json
import os
import shlex
import signal
import subprocess
import sys
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SLURM = os.path.join(SOURCE, "examples", "slurm")
PROOFS, JOBS = 200, 8
PATIENCE_S = 120


def run(*command, codes=(0,), **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **more)
    assert done.returncode in codes, f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stdout[-300:]} {done.stderr[-1500:]}"
    return done


def told(*command, codes=(0,)):
    return json.loads(run(*command, "--json", codes=codes).stdout.splitlines()[-1])


def slurp(path):
    with open(path, "rb") as file:
        return file.read()


def until(what, holds):
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        if time.monotonic() > end:
            outputs = "".join(f"{name}: {slurp(name).decode()[-300:]}" for name in glob.glob("*.out"))
            raise AssertionError(f"{what}: has not come in {PATIENCE_S} s\n{run('squeue').stdout}{outputs}")
        time.sleep(0.05)
    return found


def job(number):
    """A job's fields, or those of every job of an array."""
    lines = run("scontrol", "-o", "show", "job", number).stdout.splitlines()
    return [dict(word.split("=", 1) for word in shlex.split(line.replace("'", "")) if "=" in word) for line in lines if line.strip()]


def ended(number):
    states = job(number)
    return states if all(one["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "CONFIGURING", "SUSPENDED") for one in states) else None


def wait(number, want="COMPLETED"):
    states = until(f"the end of job {number}", lambda: ended(number))
    assert all(one["JobState"] == want for one in states), [(one["JobId"], one["JobState"], one["ExitCode"]) for one in states]
    return states


def night(*words, rate, **environment):
    return run("sh", os.path.join(SLURM, "night.sh"), *words, env={**os.environ, "DGX_RATE": f"{rate:.0f}", **environment}).stdout.split()


def read(path):
    try:
        return slurp(path)
    except OSError:  # it has ended
        return b""


class Cluster:
    def __init__(self, folder):
        self.folder = folder

    def kill_node(self, number):
        """The node's daemon and all its jobs die at once: first who would tell that the jobs died. Returns how many processes of jobs that were."""
        with open(f"{self.folder}/run/slurmd.n{number}.pid") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        marks = {f"SLURMD_NODENAME=n{number}".encode(), f"SLURM_CONF={self.folder}/slurm.conf".encode()}
        jobs = [int(name) for name in os.listdir("/proc") if name.isdigit() and marks <= set(read(f"/proc/{name}/environ").split(b"\0"))]
        parents = {int(read(f"/proc/{one}/stat").rsplit(b")", 1)[1].split()[1]) for one in jobs if read(f"/proc/{one}/stat")}
        steps = [one for one in parents if b"slurmstepd" in read(f"/proc/{one}/cmdline")]
        for one in [*steps, *jobs]:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.remove(f"{self.folder}/run/slurmd.n{number}.pid")
        return len(jobs)

    def start_node(self, number):
        run("sh", os.path.join(SOURCE, "tests", "cluster", "slurm.sh"), "node", self.folder, number)


def prepare():
    """Keys, data, a task of ten segments, a run and a cheat's, proofs by many solvers; all in the working folder."""
    make = "import numpy as n; g = n.random.default_rng(1); n.save('x.npy', g.random((2000, 64), 'f4')); n.save('y.npy', g.integers(0, 10, 2000))"
    run("/usr/bin/python3", "-c", make)
    run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
    for name in ("submitter", "verifier", "operator"):
        run("dgx-key", "new", name)
    with open("rules.json", "w") as file:
        json.dump({"sample_ppm": 1000000, "solver_bond": 1000000, "window_challenge_ms": 1000}, file)
    run("dgx-settle", "init", "ledger.jsonl", "--key", "operator.pem", "--policy", "rules.json")
    submit = ["dgx-submit", "--data", "data.h5", "--model", "mlp:64-128-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.05,momentum=0.9", "--batch",
              "64", "--key", "submitter.pem"]
    run(*submit, "--steps", 400, "--checkpoint-every", 40, "--seed", 1, "-o", "task.json")
    run(*submit, "--steps", 200000, "--checkpoint-every", 50000, "--seed", 2, "-o", "long.json")
    run("dgx-train", "task.json", "--data", "data.h5", "-o", "run", "-q")
    run("dgx-train", "task.json", "--data", "data.h5", "-o", "lie", "-q", "--drill", "segment=3,lazy")
    with open("list.tsv", "w") as file:
        for n in range(PROOFS):
            folder = "lie" if n == 77 else "run"
            run("dgx-key", "new", f"solver{n}")
            run("dgx-prove", "task.json", folder, "--key", f"solver{n}.pem", "-o", f"p{n}.json")
            file.write(f"task.json\tp{n}.json\t{folder}\n")
    profile = told("dgx-profile", "task.json", "--data", "data.h5", "--quick", "--threads", 1, "--key", "verifier.pem", "-o", "profile.json")
    return profile["operations_per_second"]


def rows(folder):
    return {os.path.basename(name): slurp(name) for name in glob.glob(f"{folder}/*.rows.jsonl")}


def verify_list(cluster, rate):
    begin = time.monotonic()
    single = told("dgx-verify", "batch", "list.tsv", "--data", "data.h5", "--all", "--key", "verifier.pem", "-o", "single", "--threads", 1, codes=(1,))
    assert (single["accepted"], single["refuted"]) == (PROOFS - 1, 1), single
    alone = time.monotonic() - begin
    begin = time.monotonic()
    array, last = night("list", JOBS, "list.tsv", "data.h5", "verifier.pem", "verdicts", "--all", rate=rate)
    until("the first verdicts", lambda: len(glob.glob("verdicts/*.rows.jsonl")) >= 20)
    killed = cluster.kill_node(1)
    wait(last)
    took = time.monotonic() - begin
    cluster.start_node(1)
    states = [(one["JobState"], one.get("Restarts")) for one in job(array)]
    assert all(state == "COMPLETED" for state, _ in states), states
    assert any(restarts != "0" for _, restarts in states), f"no job was on the node that died ({killed} processes): {states}"
    assert rows("verdicts") == rows("single") and len(rows("single")) == PROOFS
    print(f"list: {PROOFS} proofs by {JOBS} jobs on 4 nodes, one of which died with {killed} processes: {took:.1f} s; by one process {alone:.1f} s", flush=True)


def verify_proof(_, rate):
    common = ["task.json", "p0.json", "run", "data.h5", "verifier.pem"]
    run("dgx-verify", "task.json", "p0.json", "--from", "run", "--data", "data.h5", "--all", "--key", "verifier.pem", "-o", "whole.json")
    # A shard of another run of the cluster lies there, damaged: its job leaves it, and merge says so.
    run("dgx-verify", "task.json", "p0.json", "--from", "run", "--data", "data.h5", "--all", "--key", "verifier.pem", "--shard", "3/8", "-o", "v.json.shard-3.json")
    damaged = bytearray(slurp("v.json.shard-3.json"))
    damaged[len(damaged) // 2] ^= 1
    with open("v.json.shard-3.json", "wb") as file:
        file.write(damaged)
    _, last = night("proof", 8, *common, "v.json", "--all", rate=rate, SBATCH="--output=proof-%j.out")
    wait(last, "FAILED")
    said = slurp(f"proof-{last}.out").decode()
    assert "v.json.shard-3.json" in said and "make it again: " in said, said
    command = next(line for line in said.splitlines() if "make it again: " in line).split("make it again: ")[1]
    run(*shlex.split(command.replace("RUN", "run").replace("DATA.h5", "data.h5")))
    run("sh", os.path.join(SLURM, "merge.sh"), "task.json", "p0.json", "v.json.shard", "verifier.pem", "v.json")
    assert slurp("v.rows.jsonl") == slurp("whole.rows.jsonl")
    print("proof: 8 shards, one corrupt: named with the command that mended it; the merged rows are the single process's", flush=True)


def resumed(name):
    """Steps at which calls of a training began, from its job's output."""
    return [line for line in slurp(name).decode().splitlines() if line.startswith("resumed from:")]


def train(cluster, rate):
    alone = told("dgx-train", "long.json", "--data", "data.h5", "-o", "alone", "--threads", 1)
    environment = {**os.environ, "DGX_SLURM": SLURM}
    ask = run("dgx-train", "long.json", "--plan=slurm", "--rate", f"{rate:.0f}", "--threads", 1).stdout
    words = [word for word in ask.replace("#SBATCH", "").split() if not word.startswith("--signal")]
    submit = ["sbatch", "--parsable", *words, "--nodelist=n2", "--signal=B:USR1@60", "--output=train.out", os.path.join(SLURM, "train.sh")]
    number = run(*submit, "long.json", "data.h5", "trained", env={**environment, "DGX_SAVE_EVERY": "1s"}).stdout.strip()
    at = lambda: len(slurp("trained/log.csv").splitlines()) if os.path.exists("trained/log.csv") else 0  # noqa: E731
    until("some steps", lambda: at() > 1000)
    urgent = run("sbatch", "--parsable", "--partition=urgent", "--nodelist=n2", "--cpus-per-task=2", "--output=/dev/null", "--wrap=sleep 1").stdout.strip()
    wait(urgent)
    until("the training after its preemption", lambda: job(number)[0]["JobState"] == "RUNNING" and job(number)[0]["Restarts"] != "0")
    until("a saved state", lambda: os.path.exists("trained/resume.h5"))
    cluster.kill_node(2)
    until("the death of the node", lambda: job(number)[0]["JobState"] in ("PENDING", "NODE_FAIL", "REQUEUED"))
    cluster.start_node(2)
    states = wait(number)
    done = told("dgx-inspect", "trained", "--check")
    assert done["checkpoints"][-1]["digest"] == alone["state"], "another state than without interruptions"
    assert int(states[0]["Restarts"]) >= 2, states
    assert not os.path.exists("trained/resume.h5")
    print(f"training: preempted, and killed with its node: {states[0]['Restarts']} restarts, and the state of an uninterrupted run", flush=True)
    lost = run("sbatch", "--parsable", "--output=lost.out", os.path.join(SLURM, "train.sh"), "long.json", "nowhere.h5", "lost", env=environment).stdout.strip()
    states = wait(lost, "FAILED")
    assert states[0]["ExitCode"] == "66:0" and states[0]["Restarts"] == "0", states
    print("failure: stays one, exit 66, and is not put back into the queue", flush=True)


def settle(_, rate):
    post = ["dgx-settle", "append", "ledger.jsonl", "--key", "operator.pem"]
    run("dgx-settle", "deposit", "ledger.jsonl", "--to", "submitter.pub.pem", "solver0.pub.pem", "verifier.pub.pem", "900000000000", "--key", "operator.pem")
    run("dgx-submit", "--data", "data.h5", "--model", "mlp:64-128-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.05", "--batch", "64", "--steps", 80,
        "--checkpoint-every", 8, "--price", 100000, "--ledger", "ledger.jsonl", "--key", "submitter.pem", "-o", "sold.json")
    run("dgx-verify", "beacon", "sold.json", "--segment-milliseconds", 100, "--key", "verifier.pem", "-o", "offer.json")
    run("dgx-settle", "make", "assign", "sold.json", "--about", "offer.json", "--set", "segment_milliseconds=100", "--key", "solver0.pem", "-o", "assign.json")
    run(*post, "sold.json", "offer.json", "assign.json")
    run("dgx-train", "sold.json", "--data", "data.h5", "-o", "sold", "-q")
    run("dgx-prove", "sold.json", "sold", "--key", "solver0.pem", "-o", "sold.proof.json")
    run(*post, "sold.proof.json")
    run("dgx-verify", "beacon", "offer.json", "--reveal", "sold.proof.json", "--task", "sold.json", "--ledger", "ledger.jsonl", "--key", "verifier.pem", "-o",
        "beacon.json")
    os.mkdir("store")
    run("dgx-prove", "open", "sold.json", "sold.proof.json", "--beacon", "beacon.json", "--run", "sold", "--store", "store", "--key", "solver0.pem", "-o",
        "opening.json")
    run(*post, "--store", "store", "beacon.json", "opening.json")
    run("dgx-settle", "fetch", "ledger.jsonl", "sold.json", "-o", "opened")
    _, last = night("proof", 4, "sold.json", "sold.proof.json", "opened", "data.h5", "verifier.pem", "sold.verdict.json", "--beacon", "beacon.json", rate=rate,
                    DGX_POST=" ".join(post))
    wait(last)
    run("dgx-inspect", "export", "sold", "-o", "sold.safetensors")
    run("dgx-settle", "make", "delivery", "sold.json", "--about", "sold.proof.json", "--model", "sold.safetensors", "--key", "submitter.pem", "-o", "delivery.json")
    run(*post, "delivery.json")
    run("dgx-settle", "run", "ledger.jsonl", "--until-settled", "--wait", "--key", "operator.pem")
    settled = run("dgx-settle", "status", "ledger.jsonl").stdout
    assert "settled" in settled, settled
    print("ledger: the merged verdict is logged by the job, and the task is settled", flush=True)


def main():
    parser = argparse.ArgumentParser()
    for name in ("--bin", "--slurm", "--work"):
        parser.add_argument(name, required=True)
    parser.add_argument("--only", choices=("list", "proof", "training", "ledger"))
    options = parser.parse_args()
    os.environ["PATH"] = options.bin + os.pathsep + os.environ["PATH"]
    os.environ["DGX_CACHE"] = os.path.join(options.work, "cache")
    os.environ["DGX_SCRATCH"] = options.work
    os.environ["HOME"] = options.work
    os.environ["SBATCH_OUTPUT"] = "job-%j.out"
    os.makedirs(os.path.join(options.work, "night"))
    os.chdir(os.path.join(options.work, "night"))
    cluster = Cluster(options.slurm)
    rate = prepare()
    parts = {"list": verify_list, "proof": verify_proof, "training": train, "ledger": settle}
    for name in [options.only] if options.only else parts:
        parts[name](cluster, rate)
    return 0


if __name__ == "__main__":
    sys.exit(main())
