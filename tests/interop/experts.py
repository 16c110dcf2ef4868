"""Trainings whose experts are each on one of the ranks that mpirun starts: experts.py --bin FOLDER --plugins FOLDER [--kills N] [--seed S]

digests   the state of one process, for 1 to 7 ranks, 2 to 5 experts, optimisers, workers, cuts, clipping, averages and unequal slices; proved and verified by one process
plans     what a plan with experts foretells of bytes is what is sent, and more rows are never; the state is the same, and a rank takes less memory
bytes     only tokens cross: how many bytes with and without experts at home
kills     a rank is killed at a random moment, N times (default 3), and the run goes on with another number of ranks, with experts at home or not
drill     a run with a fault, or in which a rank lies, is the one that a single process makes
rehearsal a plan's steps are slept, in about the time that is foretold
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
import stages  # noqa: E402

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


# From the page: the home of each line, and what is moved behind each phase.
MOVES = """import json, sys, experts, placement
step = placement.Step([json.loads(line) for line in open(sys.argv[1])], int(sys.argv[2]))
placed = experts.Placed(step, experts.Experts(step), int(sys.argv[3]))
print(json.dumps([placed.home, placed.moves()]))"""


def messages_to_homes(bench, name, slices, count):
    """How many messages of rows each rank sends in a step."""
    done = subprocess.run([sys.executable, "-c", MOVES, bench.path(f"{name}.program.jsonl"), str(slices), str(count)], cwd=placement.VECTORS, capture_output=True, text=True, check=True)
    home, moves = json.loads(done.stdout)
    return [sum(len(set(homes) - {rank}) if homes else (count - 1) * (home[value] == rank) for _, value, homes in moves) for rank in range(count)]


def plans(bench):
    ranks.write_machines(bench, "unequal.json", 300, ranks.SIX)
    for name in ("two", "three", "full", "workers", "accumulated", "compressed", "cut"):
        spec, optimizer, more, batch = TASKS[name]
        task = f"{name}-planned"
        # Without checkpoints before the end, runs bring the state together as often, wherever they stop.
        bench.run("dgx-submit", *DATA, "--model", spec, "--loss", "cross-entropy", "--optimizer", optimizer, *more, "--batch", str(batch), "--steps", "8", "--checkpoint-every", "8",
                  "--seed", "1", "--key", "submitter.pem", "-o", f"{task}.json")
        words = [f"{task}.json", *DATA]
        one = bench.run("dgx-train", *words, "-o", f"{task}.one", "--until", "7")["state"]
        for count in [n for n in (2, 3, 5) if n <= most_ranks(name)]:
            plan = f"{task}.{count}.json"
            planned = bench.run("dgx-plan", f"{task}.json", "--machines", "unequal.json", "--ranks", str(count), "--experts", "-o", plan)
            bench.check(planned["experts"] is True and bench.run("dgx-plan", "show", plan)["experts"] is True, f"{name}: {planned}")
            early, found = (ranks.train(bench, count, *words, "-o", f"{task}.{count}.until{steps}", "--placement", plan, "--until", steps)[0] for steps in ("3", "7"))
            bench.check(found["state"] == one, f"{name} by a plan of {count}: {found}, expected {one}")
            if name == "compressed":
                continue  # how many numbers dgc sends is estimated
            for row, before, after, messages in zip(planned["ranks"], early["ranks"], found["ranks"], messages_to_homes(bench, task, most_ranks(name), count)):
                step = {key: (after[key] - before[key]) / 4 for key in ("sent", "broadcast", "gathered", "saved")}
                told = {key: row[key] for key in ("sent", "broadcast", "gathered")}
                # A message goes with its length of 8 bytes, which is taken off what coding saves.
                expected = dict(told, sent=step["sent"] + step["saved"] + 8 * messages, broadcast=step["broadcast"], gathered=step["gathered"])
                bench.check(told == expected and step["sent"] <= told["sent"], f"{name} on {count} ranks: {told} are foretold, {step} a step, {messages} messages")
    # Experts are at home by a plan that has them there, with the option or without, and by any other plan with the option.
    bench.run("dgx-plan", "two-planned.json", "--machines", "unequal.json", "--ranks", "2", "-o", "without.json")
    state = bench.run("dgx-train", "two-planned.json", *DATA, "-o", "two-planned.one")["state"]
    found = [ranks.train(bench, 2, "two-planned.json", *DATA, "-o", f"two-planned.{n}", "--placement", *more)[0] for n, more in enumerate((["two-planned.2.json"], ["two-planned.2.json", "--experts"], ["without.json", "--experts"]))]
    bench.check(all(each["state"] == state for each in found) and all(any(row["saved"] for row in each["ranks"]) for each in found), f"by plans, and with --experts: {found}")


def rehearsal(bench):
    """Steps of a plan are slept on slow machines, in about the time that is foretold."""
    def planned(rate, *words):
        machines = [{"name": f"m{n}", "region": "here", "operations_per_second": rate, "memory_bytes": 4 << 30} for n in range(4)]
        links = [{"between": ["here", "here"], "bits_per_second": 10**9, "microseconds": 5000}]
        pathlib.Path(bench.path("slow.json")).write_text(json.dumps({"machines": machines, "links": links}))
        return bench.run("dgx-plan", "wide4.json", "--machines", "slow.json", *words, "-o", "slept.json", "--force")
    told = planned(round(10**6 * planned(10**6, "--ranks", "1")["alone"] / 2), "--ranks", "4", "--experts")  # two seconds a step alone
    # Other processes of a shared machine add to a measurement and never take from it: the first of up to five that is within the bound counts.
    for _ in range(5):
        found = stages.rehearse(bench, 4, "wide4", "text.h5", "slept.json", "slow.json")
        if found["ratio"] < 2:
            break
    bench.check(found["predicted"] == told["step_seconds"] and 0.7 < found["ratio"] < 2, f"{found}, planned {told}")
    print(f"rehearsed with experts at home on 4 ranks: {found['predicted']} s foretold, {found['measured']} s measured")


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
            planned = [bench.run("dgx-plan", words[0], "--machines", "machines.json", "--ranks", "2", "-o", f"{name}.plan.json", "--force", *more)["ranks"] for more in ([], ["--experts"])]
            bench.check(all(row["memory_bytes"] < other["memory_bytes"] for other, row in zip(planned[0][1:], planned[1][1:])), f"{name}: memory of ranks: {planned}")


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
        ranks.ends_killed(bench, running, how_many)
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
    bench.check(done.returncode == 65 and "has another plan, network, drill or choice of experts than rank 0" in done.stderr, f"ranks that differ: exit {done.returncode}: {done.stderr}")
    # A stranger's plan: experts where there are none, and both ranks by one plan of which one gives the option, too.
    bench.run("dgx-plan", "gpt.json", "--machines", "machines.json", "--ranks", "2", "-o", "strange.json")
    pathlib.Path(bench.path("strange.json")).write_text(json.dumps(json.loads(pathlib.Path(bench.path("strange.json")).read_text()) | {"experts": True}))
    refuse(2, ["gpt.json", *DATA, "--placement", "strange.json"], 2, "rank 0 (", "the task's model has no experts (dgx-placement(7), EXPERTS)", "take a plan made without")
    refuse(3, ["two-planned.json", *DATA, "--placement", "two-planned.2.json"], 2, "rank 0 (", "the plan is for 2 ranks, these are 3")
    by_plan = ["two-planned.json", *DATA, "--placement", "two-planned.2.json", "--mpi", "--threads", "1", "-q", "-o"]
    done = subprocess.run([ranks.MPIRUN, "--oversubscribe", "-n", "1", program, *by_plan, "one-option", ":", "-n", "1", program, *by_plan, "one-option", "--experts"], cwd=bench.folder,
                          capture_output=True, text=True, env=os.environ | ranks.ENVIRONMENT, timeout=100)
    bench.check(done.returncode == 0, f"one plan, and one option: exit {done.returncode}: {done.stderr}")
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
        plans(bench)
        crossing(bench)
        rehearsal(bench)
        drill(bench)
        refusals(bench)
        kills(bench, options.kills, options.seed)


if __name__ == "__main__":
    main()
