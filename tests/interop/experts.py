"""Trainings whose experts are each on one of the ranks that mpirun starts: experts.py --bin FOLDER --plugins FOLDER [--kills N] [--seed S]

digests   the state of one process, for 1 to 7 ranks, 2 to 5 experts, optimisers, workers, cuts, clipping, averages and unequal slices; proved and verified by one process
bytes     only tokens cross: how many bytes with and without experts at home
kills     a rank is killed at a random moment, N times (default 3), and the run goes on with another number of ranks, with experts at home or not
drill     a run with a fault, or in which a rank lies, is the one that a single process makes
refusals  what cannot begin says why, with the rank that it is about, and leaves no run
Exits 77 without mpirun, NumPy, h5py and Debian's python3-torch.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import support

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

needs.modules("numpy", "torch")
import placement  # noqa: E402
import ranks  # noqa: E402

DATA = ["--data", "text.h5"]


def model(experts, layers=2, every=1, width=16, more=""):
    return f"switch:layers={layers},width={width},heads=2,vocab=128,experts={experts},every={every}{more}"


# By name: the model, loss and optimiser, more options, and the batch.
TASKS = {
    "two": (model(2), "sgd:lr=0.1,momentum=0.9", [], 7),
    "three": (model(3, every=2, more=",capacity=0.8,dropout=0.1"), "adamw:lr=1e-2", ["--clip-norm", "1"], 7),
    "five": (model(5, layers=1, more=",capacity=2"), "adamw:lr=1e-2", [], 7),
    "full": (model(3, layers=1, more=",capacity=9"), "adam:lr=1e-2", ["--ema", "0.9"], 8),
    "few": (model(3, layers=1, more=",capacity=0.1,balance=0"), "sgd:lr=0.1", [], 7),
    "workers": (model(3), "adamw:lr=1e-2", ["--workers", "4"], 8),
    "accumulated": (model(2), "sgd:lr=0.1,momentum=0.9", ["--workers", "2", "--accumulate", "2", "--clip-norm", "1"], 8),
    "compressed": (model(2, layers=1), "dgc:lr=0.1,density=0.1,warmup=3,bits=8", ["--workers", "3"], 6),
    "cut": (model(3), "adamw:lr=1e-2", ["--cut", "1:first=2"], 6),
}


def submit(bench, name):
    spec, optimizer, more, batch = TASKS[name]
    placement.submit(bench, name, (spec, "text", "cross-entropy", optimizer, more, batch), steps=8)


def most_ranks(name):
    _, _, more, batch = TASKS[name]
    return int(more[more.index("--workers") + 1]) if "--workers" in more else batch


def digests(bench):
    for name in TASKS:
        words = [f"{name}.json", *DATA]
        whole = bench.run("dgx-train", *words, "-o", f"{name}.whole")["state"]
        for count in [n for n in ranks.RANKS if n <= most_ranks(name)]:
            found, _ = ranks.train(bench, count, *words, "-o", f"{name}.run{count}", "--experts")
            bench.check(found and found["state"] == whole, f"{name}: {count} ranks give {found}, one process {whole}")
            bench.check(found and len(found["ranks"]) == count, f"{name}: {count} rows are expected in {found}")
        bench.run("dgx-prove", words[0], f"{name}.run2", "--key", "solver.pem", "-o", f"{name}.proof.json")
        verdict = bench.run("dgx-verify", words[0], f"{name}.proof.json", "--from", f"{name}.run2", *DATA, "--all", "--key", "verifier.pem", "-o", f"{name}.verdict.json")
        bench.check(verdict["verdict"] == "accepted", f"{name}: {verdict}")
    # Slices as a plan gives them, over a network that is slower.
    ranks.write_machines(bench, "machines.json", 300)
    words = ["two.json", *DATA]
    planned = bench.run("dgx-plan", "two.json", "--machines", "machines.json", "--ranks", "3", "-o", "two.plan.json")
    bench.check(len({row["slices"] for row in planned["ranks"]}) > 1, f"unequal machines: {planned}")
    placed = ["--placement", "two.plan.json", "--emulate", "machines.json"]
    found, _ = ranks.train(bench, 3, *words, "-o", "two.placed", "--experts", *placed)
    bench.check(found and found["state"] == bench.run("dgx-train", *words, "-o", "two.whole")["state"], f"by a plan: {found}")


def sent(found):
    """Bytes that the ranks have received of each other."""
    return sum(row["sent"] + (row["broadcast"] + row["gathered"]) * (len(found["ranks"]) - 1) for row in found["ranks"])


def crossing(bench):
    """Experts with more weights than tokens: fewer bytes cross, and the state is the same."""
    for experts, optimizer in ((4, "adamw:lr=1e-2"), (8, "sgd:lr=0.1,momentum=0.9")):
        name = f"wide{experts}"
        case = (model(experts, width=64), "text", "cross-entropy", optimizer, [], 8)
        placement.submit(bench, name, case, steps=12)
        words = [f"{name}.json", *DATA]
        for count in (2, 4):
            without, _ = ranks.train(bench, count, *words, "-o", f"{name}.without{count}")
            home, _ = ranks.train(bench, count, *words, "-o", f"{name}.home{count}", "--experts")
            bench.check(home["state"] == without["state"], f"{name}: {home}, {without}")
            print(f"{experts} experts of width 64 on {count} ranks, 12 steps: {sent(home)} bytes with experts at home, {sent(without)} without")
            bench.check(sent(home) < 0.6 * sent(without), f"{name}: {sent(home)} bytes, {sent(without)} without")


def kills(bench, count, seed):
    """A training whose ranks are killed again and again ends as one that is not."""
    numbers = random.Random(seed)
    spec, optimizer, more, batch = TASKS["five"]
    bench.run("dgx-submit", *DATA, "--model", spec, "--loss", "cross-entropy", "--optimizer", optimizer, *more, "--batch", str(batch), "--steps", str(100 * (count + 2)), "--checkpoint-every", "20",
              "--seed", "1", "--key", "submitter.pem", "-o", "long.json")
    words = ["long.json", *DATA]
    whole = bench.run("dgx-train", *words, "-o", "long.run")["state"]
    killed = 0
    for _ in range(count):
        how_many, more = numbers.choice(ranks.RANKS[1:]), numbers.choice((0, 1, 30))
        before = ranks.rows_of(bench, "killed")
        running = ranks.start(bench, how_many, *words, "-o", "killed", *(["--experts"] if numbers.random() < 0.8 else []))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and running.poll() is None and (not ranks.ranks_of(running.pid) or ranks.rows_of(bench, "killed") < before + more):
            time.sleep(0.002)
        time.sleep(numbers.uniform(0, 0.03))
        processes = ranks.ranks_of(running.pid)
        if processes and running.poll() is None:
            os.kill(numbers.choice(processes), signal.SIGKILL)
            killed += 1
        running.communicate(timeout=100)
        bench.check(running.returncode != 0, f"a killed rank of {how_many} goes unnoticed")
    bench.check(killed == count, f"killed {killed} times of {count}")
    found, _ = ranks.train(bench, 3, *words, "-o", "killed", "--experts", "--until", str(100 * (count + 1)))
    found = bench.run("dgx-train", *words, "-o", "killed")
    bench.check(found["state"] == whole and found["resumed_from"] > 0, f"killed {killed} times: {found}, expected {whole}")
    print(f"killed {killed} times, seed {seed}")


def drill(bench):
    words = ["two.json", *DATA, "--drill", "step=3,op=145,element=0,bit=22"]
    one = bench.run("dgx-train", *words, "-o", "faulty")
    found, _ = ranks.train(bench, 3, *words, "-o", "faulty3", "--experts")
    bench.check(found and found["state"] == one["state"], f"a drill: {found}, expected {one}")
    # A rank's lie in what is still carried is the fault that the run notes.
    step = ranks.lines_of(bench, "two", None)
    carried = [v for v, c in enumerate(step.of) if c == "C" and step.lines[v]["s"] == [48, 16]][-1]
    words = words[:3]
    lied, _ = ranks.train(bench, 3, *words, "-o", "lied", "--experts", "--drill", f"step=2,rank=1,carry={carried},element=3,bit=22")
    one = bench.run("dgx-train", *words, "-o", "lied.one", "--drill", bench.run("dgx-inspect", "lied")["drill"])
    bench.check(lied and lied["state"] == one["state"], f"a lie: {lied}, by one process {one}")


def refusals(bench):
    case = placement.BUILT_IN["gpt"]
    placement.submit(bench, "gpt", case)
    refuse = lambda *arguments: ranks.refused(bench, *arguments)
    refuse(2, ["gpt.json", *DATA, "--experts"], 2, "rank 0 (", "the task's model has no experts (dgx-placement(7), EXPERTS)", "leave --experts out")
    bench.run("dgx-plan", "two.json", "--machines", "machines.json", "--stages", "2", "-o", "stages.json")
    refuse(2, ["two.json", *DATA, "--experts", "--placement", "stages.json"], 2, "rank 0 (", "--experts: the plan has stages")
    vectors = json.loads((placement.VECTORS / "experts.json").read_text())["programs"]
    two = next(vector for vector in vectors if vector["program"] == "experts/two-blocks.program.jsonl")
    expert = two["ranks"][0]["moves"][0][1]
    lines = pathlib.Path(bench.path("two.program.jsonl")).read_text().splitlines()
    bench.check("gather" in lines[expert], f"line {expert} sends tokens to an expert: {lines[expert]}")
    refuse(3, ["two.json", *DATA, "--experts", "--drill", f"step=1,rank=0,gather={expert},element=0,bit=1"], 2, "rank 0 (", f"value {expert} is none that the ranks gather")
    program = os.path.join(bench.bin, "dgx-train")
    tail = ["--mpi", "--threads", "1", "-q", "-o", "never"]
    done = subprocess.run([ranks.MPIRUN, "--oversubscribe", "-n", "1", program, "two.json", *DATA, *tail, ":", "-n", "1", program, "two.json", *DATA, "--experts", *tail], cwd=bench.folder,
                          capture_output=True, text=True, env=os.environ | ranks.ENVIRONMENT, timeout=100)
    bench.check(done.returncode == 65 and "has another plan, network or drill than rank 0" in done.stderr, f"ranks that differ: exit {done.returncode}: {done.stderr}")
    for more, expected in ((["--experts"], "--experts"), (["--experts", "--parts", "2"], "--experts"), (["--experts", "--mpi", "--device", "cuda"], "--mpi is for the CPU")):
        done = subprocess.run([program, "two.json", *DATA, "-o", "never", *more], cwd=bench.folder, capture_output=True, text=True, env=os.environ | ranks.ENVIRONMENT, timeout=100)
        bench.check(done.returncode == 2 and expected in done.stderr, f"{more}: exit {done.returncode}: {done.stderr}")
    bench.check(not os.path.exists(bench.path("never")), "a refused call left a run")


def main():
    parser = support.parser()
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        for name in ("submitter", "solver", "verifier"):
            bench.run("dgx-key", "new", name)
        placement.pack(bench)
        for name in TASKS:
            submit(bench, name)
        digests(bench)
        crossing(bench)
        drill(bench)
        refusals(bench)
        kills(bench, options.kills, options.seed)


if __name__ == "__main__":
    main()
