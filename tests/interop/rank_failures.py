"""Ranks of which one is not as the others, by mpirun: rank_failures.py --bin FOLDER --plugins FOLDER [--all]

differ    ranks with different tasks, programs, data, plans, networks or drills: who names the rank, its machine and what differs, and how all end
memory    a rank whose machine has too little memory says so, with both numbers
folders   rank 0 alone writes
killed    a rank that is killed: mpirun's exit code and words, and a run that goes on
damaged   a bit of one rank's state flips in its memory: the rank and the entry are named (skipped where a process may not write another's memory)
And with --all, since it depends on how MPI is built and on what else the machine does:
machines   what is for ranks of one machine is refused where mpirun has two nodes, both of which are here
slow       a rank that computes without vectors is named, and all go on (skipped where there are none)
no_memory  a rank that gets no memory says so, and ends all
Exits 77 without mpirun, NumPy, h5py and Debian's python3-torch.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import support

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

needs.modules("numpy", "torch")
import numpy  # noqa: E402
import placement  # noqa: E402
import ranks  # noqa: E402

HOST = socket.gethostname()
BRIEF = "[0-9a-f]{12}"


def called(bench, program, *words, output="never"):
    """A rank's command."""
    return [os.path.join(bench.bin, program), *words, *(["--mpi"] if program == "dgx-train" else []), "--threads", "1", "-q", *(["-o", output] if output else [])]


def together(bench, *commands, mpirun=()):
    """Ranks that are started by commands of their own."""
    words = [word for command in commands for word in (":", "-n", "1", *command)][1:]
    return subprocess.run([ranks.MPIRUN, "--oversubscribe", *mpirun, *words], cwd=bench.folder, capture_output=True, text=True, env=os.environ | ranks.ENVIRONMENT | ranks.REFUSED,
                          timeout=100)


def refused(bench, done, code, expected):
    """All have ended with this code, one of them has said the one reason, a pattern, and nothing is left."""
    errors = re.findall(r"^dgx-\w+: error: (.*)$", done.stderr, re.M)
    bench.check(done.returncode == code and len(errors) == 1 and re.fullmatch(expected, errors[0]), f"exit {done.returncode}, expected {code} and {expected}: {done.stderr}")
    bench.check(not os.path.exists(bench.path("never")), f"{expected}: a refused call left a run")


def differ(bench):
    data = ["--data", "images.h5"]
    usual = ["convolutions.json", *data]
    of_rank = lambda words: rf"rank 1 \({HOST}\): {words}"
    another_task = of_rank(f"has another task than rank 0, {BRIEF} instead of {BRIEF}")
    another_plan = of_rank("has another plan, network, drill or choice of experts than rank 0")
    for other, expected in ((["counting.json", "--data", "text.h5"], another_task),
                            (["convolutions.json", "--data", "pictures.h5"], of_rank(rf"pictures\.h5: dataset {BRIEF}…, the task binds {BRIEF}…")),
                            ([*usual, "--program", "counting.program.jsonl"], of_rank(r"counting\.program\.jsonl: is not the step program that the task binds")),
                            ([*usual, "--emulate", "machines.json"], another_plan),
                            ([*usual, "--drill", "step=1,op=3,element=0,bit=1"], another_plan)):
        refused(bench, together(bench, called(bench, "dgx-train", *usual), called(bench, "dgx-train", *other)), 65, expected)
    # Rank 0 says what is wrong with its own files, and nothing of rank 1's.
    refused(bench, together(bench, called(bench, "dgx-train", "convolutions.json", "--data", "pictures.h5"), called(bench, "dgx-train", "counting.json", "--data", "text.h5")), 65,
            of_rank(rf"pictures\.h5: dataset {BRIEF}…, the task binds {BRIEF}…").replace("rank 1", "rank 0"))
    measure = lambda *words: called(bench, "dgx-plan", "measure", *words, "--seconds", "0.1")
    refused(bench, together(bench, measure(*usual), measure("counting.json", "--data", "text.h5")), 65, another_task)
    for task in ("convolutions", "counting"):
        bench.run("dgx-plan", f"{task}.json", "--machines", "machines.json", "--ranks", "2", "-o", f"{task}.plan.json")
    rehearse = lambda plan, *words: called(bench, "dgx-plan", "rehearse", *words, "--placement", f"{plan}.plan.json", "--machines", "machines.json", "--seconds", "0.1", output=None)
    others = ["counting.json", "--data", "text.h5"]
    refused(bench, together(bench, rehearse("convolutions", *usual), rehearse("counting", *others)), 65, another_plan)
    refused(bench, together(bench, rehearse("convolutions", *usual), rehearse("convolutions", *others)), 2, of_rank(f"the plan is for the task {BRIEF}, this is {BRIEF}"))


def memory(bench):
    """A rank with too little memory for its share refuses, before any is taken, and all end."""
    bench.run("dgx-plan", "big.json", "--machines", "machines.json", "--stages", "3", "-o", "big.plan.json")
    for placed in ([], ["--placement", "big.plan.json"]):
        for small in range(3):
            share = called(bench, "dgx-train", "big.json", "--data", "images.h5", *placed)
            done = together(bench, *(["env", "SLURM_MEM_PER_NODE=3", *share] if rank == small else share for rank in range(3)))
            # Three ranks share what the machine has.
            refused(bench, done, 2, rf"rank {small} \({HOST}\): a step needs \d+ bytes of memory, this process may have {1 << 20}")
            needed = re.search(r"needs (\d+) bytes", done.stderr)
            bench.check(needed and int(needed[1]) > 1 << 20, done.stderr)


def state_of(process):
    """A letter: T, if it is stopped; Z, if it has ended and its parent does not know yet, or if it is gone."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0]
    except FileNotFoundError:
        return "Z"


def no_memory(bench):
    """A rank that gets no memory, where the others wait for it, says so and ends all. With the least, MPI begins, but not a step; with more, it depends on the libraries."""
    for limit in (250_000, 300_000, 350_000):
        for rank in range(2):
            words = called(bench, "dgx-train", "big.json", "--data", "images.h5", "--until", "2", output=f"big.{limit}.{rank}")
            limited = ["sh", "-c", f'ulimit -v {limit}; exec "$@"', "sh", *words]
            each = ["-n", "1", *(limited if rank == 0 else words), ":", "-n", "1", *(limited if rank == 1 else words)]
            running = subprocess.Popen([ranks.MPIRUN, "--oversubscribe", *each], cwd=bench.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | ranks.ENVIRONMENT)
            try:
                err, has_ended = running.communicate(timeout=30)[1], True
            except subprocess.TimeoutExpired:  # a message of Open MPI's, from the rank to mpirun, needed memory, too
                has_ended = not [process for process in ranks.ranks_of(running.pid) if state_of(process) != "Z"]
                running.kill()
                err = running.communicate()[1]
            said = re.findall(r"^dgx-train: error: (.*)$", err, re.M)
            is_told = said in ([f"rank {rank} ({HOST}): {why}"] for why in ("not enough memory", "Resource temporarily unavailable"))
            good = (is_told and running.returncode in (70, -signal.SIGKILL)) or (running.returncode == 0 and limit > 250_000)
            bench.check(good and has_ended, f"rank {rank} with {limit} KiB: exit {running.returncode}, the ranks {'have' if has_ended else 'have not'} ended: {err}")


def listed(folder):
    """All files below, and when they were last written."""
    return {str(path): path.stat().st_mtime_ns for path in pathlib.Path(folder).rglob("*")}


def folders(bench):
    """Ranks in folders of their own: only rank 0's has something new."""
    bench.run("dgx-plan", "gpt.json", "--machines", "machines.json", "--stages", "3", "-o", "gpt.plan.json")
    whole = bench.run("dgx-train", "gpt.json", "--data", "text.h5", "-o", "gpt.whole")["state"]
    for way in ([], ["--placement", bench.path("gpt.plan.json")]):
        places = [bench.path(f"{name}{len(way)}") for name in ("leads", "follows", "follows-too")]
        for place in places:
            os.mkdir(place)
        before = listed(bench.folder)
        call = called(bench, "dgx-train", bench.path("gpt.json"), "--data", bench.path("text.h5"), *way, "--save-every", "1s", "--json")
        done = together(bench, *(["-wdir", place, *call] for place in places))
        bench.check(done.returncode == 0 and json.loads(done.stdout)["state"] == whole, f"ranks in folders of their own: exit {done.returncode}: {done.stdout} {done.stderr}")
        changed = {path for path, written in listed(bench.folder).items() if before.get(path) != written}
        elsewhere = {path for path in changed if pathlib.Path(path) != pathlib.Path(places[0]) and places[0] not in map(str, pathlib.Path(path).parents)}
        bench.check(os.path.exists(os.path.join(places[0], "never", "index.h5")) and not elsewhere, f"{way}: written outside rank 0's folder: {elsewhere}")


def machines(bench):
    """Two nodes, both here: mpirun reaches the second by a command that runs what it is given, as a remote shell would."""
    agent = bench.path("agent")
    pathlib.Path(agent).write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    os.chmod(agent, 0o755)
    nodes = ["--host", "localhost:1,there:1", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"]
    on_nodes = lambda *words: together(bench, *(2 * [[*words]]), mpirun=nodes)
    train = ["dgx-train", "gpt.json", "--data", "text.h5"]
    refused(bench, on_nodes(*called(bench, *train, "--emulate", "machines.json")), 2, rf"rank 0 \({HOST}\): --emulate: the ranks are on several machines")
    bench.run("dgx-plan", "gpt.json", "--machines", "machines.json", "--ranks", "2", "-o", "nodes.plan.json")
    rehearse = called(bench, "dgx-plan", "rehearse", "gpt.json", "--data", "text.h5", "--placement", "nodes.plan.json", "--machines", "machines.json", output=None)
    refused(bench, on_nodes(*rehearse), 2, rf"rank 0 \({HOST}\): the ranks of a rehearsal are on several machines")
    done = on_nodes(*called(bench, *train, "--json", output="nodes"))
    whole = bench.run("dgx-train", "gpt.json", "--data", "text.h5", "-o", "nodes.whole")["state"]
    bench.check(done.returncode == 0 and json.loads(done.stdout)["state"] == whole, f"ranks on two nodes: exit {done.returncode}: {done.stdout} {done.stderr}")


def rank_processes(running):
    """The processes of dgx-train by rank."""
    found = {}
    for process in ranks.ranks_of(running.pid):
        variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        found.update({int(each.split(b"=")[1]): process for each in variables if each.startswith(b"OMPI_COMM_WORLD_RANK=")})
    return found


def begun(bench, run, checkpoints, *words):
    """Three ranks of a training that have written so many checkpoints, all but the last of which are sure to be committed: mpirun, and their processes."""
    command = [ranks.MPIRUN, "--oversubscribe", "-n", "3", os.path.join(bench.bin, "dgx-train"), *words, "-o", run, "--mpi", "--threads", "1"]
    running = subprocess.Popen(command, cwd=bench.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | ranks.ENVIRONMENT, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.poll() is None and len(list(pathlib.Path(bench.path(run)).glob("checkpoint-*.h5"))) < checkpoints:
        time.sleep(0.01)
    return running, rank_processes(running)


def ended(running):
    """mpirun's exit code, and what was said on standard error; after 100 seconds all are ended."""
    try:
        said = running.communicate(timeout=100)[1]
    except subprocess.TimeoutExpired:
        running.terminate()
        said = running.communicate()[1]
    return running.returncode, said


def goes_on(bench, name, data, run):
    """One process goes on with a run that ranks have left, to the state of a run that only one has made."""
    words = [f"{name}.json", "--data", f"{data}.h5"]
    until = ["--until", str(bench.run("dgx-inspect", run)["checkpoints"][-1]["step"] + 10)]
    whole, found = (bench.run("dgx-train", *words, "-o", of, *until) for of in (f"{run}.whole", run))
    bench.check(found["state"] == whole["state"] and found.get("resumed_from", 0) > 0, f"{run} goes on: {found}, expected {whole}")


def killed(bench):
    for rank in range(3):
        running, processes = begun(bench, f"killed{rank}", 3, "dark.json", "--data", "dark.h5")
        os.kill(processes[rank], signal.SIGKILL)
        code, err = ended(running)
        words = rf"mpirun noticed that process rank {rank} with PID \d+ on node \S+ exited on signal 9 \(Killed\)\."
        bench.check(code == 128 + signal.SIGKILL and re.search(words, err), f"rank {rank} was killed: exit {code}: {err}")
        goes_on(bench, "dark", "dark", f"killed{rank}")


def weights_of(bench, run):
    """The weights of the first layer at the run's beginning."""
    bench.run("dgx-inspect", "export", run, "--step", "0", "-o", "weights.npz")
    with numpy.load(bench.path("weights.npz")) as file:
        return file["0.weight"]


def flip(process, old, new):
    """Replaces bytes wherever the process has them in memory of its own. Returns how often it has them."""
    found = 0
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "r+b", buffering=0) as memory_of:
        for line in maps:
            bounds, access, _, _, file = line.split()[:5]
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if not access.startswith("rw") or file != "0" or end - begin > 1 << 30:
                continue
            memory_of.seek(begin)
            held, at = memory_of.read(end - begin), -1
            while (at := held.find(old, at + 1)) >= 0:
                memory_of.seek(begin + at)
                memory_of.write(new)
                found += 1
    return found


def damaged(bench):
    """A weight that no step changes, since its pixel is always 0, changes in the memory of rank 1 alone."""
    running, processes = begun(bench, "damaged", 3, "dark.json", "--data", "dark.h5")
    old = weights_of(bench, "damaged")[3, :32].tobytes()
    os.kill(processes[1], signal.SIGSTOP)
    while state_of(processes[1]) != "T":
        time.sleep(0.001)
    try:
        found = flip(processes[1], old, bytes([old[0] ^ 1]) + old[1:])
    except PermissionError:
        running.terminate()
        return "a process may not write another's memory here"
    os.kill(processes[1], signal.SIGCONT)
    bench.check(found > 0, "rank 1 does not have its weights")
    code, err = ended(running)
    words = rf"dgx-train: error: rank 1 \({HOST}\): holds another state after step \d+ than rank 0, first in model/0\.weight"
    bench.check(code == 70 and re.search(words, err) and "hint: its memory or processor may have failed" in err, f"a damaged state: exit {code}: {err}")
    goes_on(bench, "dark", "dark", "damaged")
    return None


def slow(bench):
    """Rank 1 computes without vectors, which takes it many times as long, on a busy machine, too."""
    words = ["wide.json", "--data", "images.h5"]
    if not any(bench.run("dgx-train", *words, "-o", f"slow.{isa}", "--until", "1", "--isa", isa, codes=(0, 2)) for isa in ("avx2", "neon")):
        return "this processor has no vectors"
    call = [os.path.join(bench.bin, "dgx-train"), *words, "-o", "slow", "--mpi", "--threads", "1"]
    each = ["-n", "1", *call, ":", "-n", "1", *call, "--isa", "scalar", ":", "-n", "1", *call]
    running = subprocess.Popen([ranks.MPIRUN, "--oversubscribe", *each], cwd=bench.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | ranks.ENVIRONMENT)
    named = rf"dgx-train: warning: rank 1 \({HOST}\): takes \d+\.\d times as long as most for a step, and all wait for it\n"
    said = []
    for line in running.stderr:
        said.append(line)
        if re.fullmatch(named, line):
            running.send_signal(signal.SIGUSR1)  # that is enough
    code = running.wait(100)
    bench.check(code == 75 and sum("times as long as most" in line for line in said) == 1, f"a slow rank: exit {code}: {said}")
    return None


def main():
    parser = support.parser()
    parser.add_argument("--all", action="store_true", help="also machines, slow and no_memory, as --slow ranks does")
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        for name in ("submitter", "solver", "verifier"):
            bench.run("dgx-key", "new", name)
        placement.pack(bench)
        for name in ("convolutions", "counting", "gpt"):
            placement.submit(bench, name, ranks.WIDE[name])
        placement.submit(bench, "big", ("mlp:64-3000-3000-5", "images", "cross-entropy", "sgd:lr=0.01", [], 12), steps=4)
        placement.submit(bench, "wide", ("mlp:64-1000-1000-5", "images", "cross-entropy", "sgd:lr=0.01", [], 12), steps=400)
        # The upper half of each picture is black.
        pixels = numpy.random.default_rng(5).normal(size=(40, 1, 8, 8)).astype("f4")
        pixels[:, :, :4] = 0
        numpy.save(bench.path("dark.x.npy"), pixels)
        bench.run("dgx-pack", "npy", "--x", "dark.x.npy", "--y", "y.npy", "-o", "dark.h5")
        bench.run("dgx-submit", "--data", "dark.h5", "--model", "mlp:64-16-5", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.01", "--batch", "12", "--steps", "1000000", "--checkpoint-every", "500",
                  "--seed", "1", "--key", "submitter.pem", "-o", "dark.json")
        ranks.write_machines(bench, "machines.json", 300)
        parts = [differ, memory, folders, killed, damaged, *([machines, slow, no_memory] if options.all else [])]
        left_out = [reason for reason in (part(bench) for part in parts) if reason]
        for reason in left_out:
            print(f"skipped: {reason}")
        needs.counted(len(parts) - len(left_out), len(left_out))


if __name__ == "__main__":
    main()
