"""Trainings of several processes that mpirun starts: ranks.py --bin FOLDER --plugins FOLDER [--kills N] [--seed S]

digests   models of every kind have the state of one process, for 1 to 7 ranks of unequal parts and for --parts, and each run is proved and verified by one
kills     a rank is killed at a random moment, N times (default 3), and the run goes on with another number of ranks, or without any
drill     a run with a fault, made by ranks, is the one that a single process makes, and is refuted by one
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

RANKS = (1, 2, 3, 4, 7)
# In containers, as root, with more ranks than CPUs.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_orte_tmpdir_base": "/tmp"}
MPIRUN = needs.program("mpirun")


def command(bench, ranks, *words):
    return [MPIRUN, "--oversubscribe", "-n", str(ranks), os.path.join(bench.bin, "dgx-train"), *words, "--threads", "1", "--json", "-q"]


def start(bench, ranks, *words):
    return subprocess.Popen(command(bench, ranks, *words, "--mpi"), cwd=bench.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | ENVIRONMENT,
                            start_new_session=True)


def train(bench, ranks, *words, code=0):
    """The result of a training on so many ranks, and what it said on standard error."""
    running = start(bench, ranks, *words)
    out, err = running.communicate(timeout=200)
    bench.check(running.returncode == code, f"{ranks} ranks, {' '.join(words)}: exit {running.returncode}, expected {code}: {err}")
    return (json.loads(out) if out.strip() else None), err


def digests(bench, cases):
    """Every number of ranks and of parts gives one state, and one process proves and verifies the run."""
    for name, case in cases.items():
        words = [f"{name}.json", "--data", f"{case[1]}.h5"]
        whole = bench.run("dgx-train", *words, "-o", f"{name}.run")["state"]
        for ranks in [n for n in RANKS if n <= case[-1]]:
            found, _ = train(bench, ranks, *words, "-o", f"{name}.run{ranks}")
            bench.check(found and found["state"] == whole, f"{name}: {ranks} ranks give {found}, one process {whole}")
            bench.check(found and len(found["ranks"]) == ranks, f"{name}: {ranks} rows are expected in {found}")
        for parts in (2, 3, 5) if name not in ("resnet20", "normed") else ():
            found = bench.run("dgx-train", *words, "-o", f"{name}.parts{parts}", "--parts", str(parts))
            bench.check(found["state"] == whole, f"{name}: {parts} parts give {found['state']}, not {whole}")
        bench.run("dgx-prove", words[0], f"{name}.run3", "--key", "solver.pem", "-o", f"{name}.proof.json")
        verdict = bench.run("dgx-verify", words[0], f"{name}.proof.json", "--from", f"{name}.run3", "--data", f"{case[1]}.h5", "--all", "--key", "verifier.pem", "-o",
                            f"{name}.verdict.json")
        bench.check(verdict["verdict"] == "accepted", f"{name}: {verdict}")


def ranks_of(parent):
    """The processes of dgx-train below mpirun."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split(" (", 1)[1].rsplit(") ", 1)
        except OSError:  # it has just ended
            continue
        if name.startswith("dgx-") and int(rest.split()[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def kills(bench, count, seed):
    """A training whose ranks are killed again and again, and stopped by a signal, ends as one that is not."""
    numbers = random.Random(seed)
    bench.run("dgx-submit", "--data", "images.h5", "--model", "mlp:64-512-5", "--loss", "cross-entropy", "--optimizer", "adam:lr=1e-3", "--batch", "12", "--steps", "600",
              "--checkpoint-every", "40", "--seed", "1", "--key", "submitter.pem", "-o", "long.json")
    words = ["long.json", "--data", "images.h5"]
    whole = bench.run("dgx-train", *words, "-o", "long.run")["state"]
    killed = 0
    for _ in range(count * 20):
        if killed == count:
            break
        ranks = numbers.choice(RANKS[1:])
        running = start(bench, ranks, *words, "-o", "killed")
        time.sleep(numbers.uniform(0.3, 1.5))
        processes = ranks_of(running.pid)
        if processes and running.poll() is None:
            os.kill(numbers.choice(processes), signal.SIGKILL)
            killed += 1
        running.communicate(timeout=100)
        if running.returncode == 0:  # it had ended before
            break
        bench.check(running.returncode != 0, "a killed rank goes unnoticed")
    found, _ = train(bench, 3, *words, "-o", "killed")
    bench.check(found and found["state"] == whole, f"killed {killed} times: {found}, expected {whole}")
    print(f"killed {killed} times, seed {seed}")
    # Asked to stop, as a scheduler asks every rank of a job or one: the state is saved, and one process goes on.
    for which in (0, 1):
        running = start(bench, 2, *words, "-o", f"stopped{which}")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not os.path.exists(bench.path(f"stopped{which}/log.csv")):
            time.sleep(0.05)
        processes = sorted(ranks_of(running.pid))
        if len(processes) == 2:
            os.kill(processes[which], signal.SIGUSR1)
        _, err = running.communicate(timeout=100)
        bench.check(running.returncode == 75 and "the state is saved" in err, f"stopped by rank {which}: exit {running.returncode}: {err}")
        found = bench.run("dgx-train", *words, "-o", f"stopped{which}")
        bench.check(found["state"] == whole and found["resumed_from"] > 0, f"after a stop of rank {which}: {found}")


def drill(bench):
    fault = "step=3,op=40,element=0,bit=20"
    words = ["clipped.json", "--data", "images.h5", "--drill", fault]
    one = bench.run("dgx-train", *words, "-o", "faulty")
    found, _ = train(bench, 3, *words, "-o", "faulty3")
    bench.check(found and found["state"] == one["state"], f"a drill: {found}, expected {one}")
    bench.run("dgx-prove", "clipped.json", "faulty3", "--key", "solver.pem", "-o", "faulty.proof.json")
    verdict = bench.run("dgx-verify", "clipped.json", "faulty.proof.json", "--from", "faulty3", "--data", "images.h5", "--all", "--key", "verifier.pem", "-o", "faulty.verdict.json",
                        codes=(1,))
    bench.check(verdict["verdict"] == "refuted", f"a drill is not refuted: {verdict}")


def refused(bench, ranks, words, code, *expected):
    _, err = train(bench, ranks, *words, "-o", "never", code=code)
    for text in expected:
        bench.check(text in err, f"{ranks} ranks, {' '.join(words)}: {text!r} is not in {err!r}")
    bench.check(err.count('"error":') == 1, f"one rank says why: {err}")
    bench.check(not os.path.exists(bench.path("never")), "a refused call left a run")


def refusals(bench):
    data = ["--data", "images.h5"]
    refused(bench, 8, ["convolutions.json", *data], 2, "rank 0 (", "a batch of 7 samples cannot be cut into 8 parts")
    refused(bench, 2, ["convolutions.json", "--data", "absent.h5"], 66, "absent.h5: does not exist")
    # Ranks that differ: each side of a colon is a program of its own.
    program = os.path.join(bench.bin, "dgx-train")
    tail = ["--mpi", "--threads", "1", "-q", "-o", "never"]
    for other, code, expected in ((["counting.json", "--data", "text.h5"], 65, "has another task than rank 0"),
                                  (["convolutions.json", "--data", "pictures.h5"], 65, "rank 1 (")):
        done = subprocess.run([MPIRUN, "--oversubscribe", "-n", "1", program, "convolutions.json", *data, *tail, ":", "-n", "1", program, *other, *tail], cwd=bench.folder,
                              capture_output=True, text=True, env=os.environ | ENVIRONMENT, timeout=100)
        bench.check(done.returncode == code and expected in done.stderr, f"{other}: exit {done.returncode}: {done.stderr}")
        bench.check(not os.path.exists(bench.path("never")), f"{other}: a refused call left a run")
    # Without mpirun's help, and without MPI.
    alone = "started as one of 3 processes, of which MPI knows this one alone"
    for words, more, code, expected in ((["env", "PMI_SIZE=3", "PMI_RANK=0"], ["--mpi"], 2, alone), (["env", "SLURM_STEP_NUM_TASKS=3"], ["--mpi"], 2, alone), ([MPIRUN, "--oversubscribe", "-n", "2"], [], 2, "add --mpi"), ([], ["--mpi", "--device", "cuda"], 2, "--mpi is for the CPU"),
                                        ([], ["--mpi", "--parts", "2"], 2, "--parts"), (["env", "DGX_MPI_MODULE=/nonexistent"], ["--mpi"], 70, "--mpi: cannot open its module")):
        done = subprocess.run([*words, program, "convolutions.json", *data, "-o", "never", *more], cwd=bench.folder, capture_output=True, text=True,
                              env=os.environ | ENVIRONMENT, timeout=100)
        bench.check(done.returncode == code and expected in done.stderr, f"{words} {more}: exit {done.returncode}: {done.stderr}")
        bench.check(not os.path.exists(bench.path("never")), f"{words} {more}: a refused call left a run")


def no_memory(bench):
    """A rank that gets no memory, where the others wait for it, says so and ends all."""
    bench.run("dgx-submit", "--data", "images.h5", "--model", "mlp:64-3000-3000-5", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", "8", "--steps", "4", "--seed", "1",
              "--key", "submitter.pem", "-o", "big.json")
    words = [os.path.join(bench.bin, "dgx-train"), "big.json", "--data", "images.h5", "-o", "big", "--mpi", "--threads", "1", "-q"]
    for limit in (250_000, 300_000, 340_000, 360_000):
        limited = ["sh", "-c", f'ulimit -v {limit}; exec "$@"', "sh", *words]
        for first, second in ((words, limited), (limited, words)):
            done = subprocess.run([MPIRUN, "--oversubscribe", "-n", "1", *first, ":", "-n", "1", *second], cwd=bench.folder, capture_output=True, text=True, env=os.environ | ENVIRONMENT,
                                  timeout=100)
            bench.check(done.returncode == 0 or "memory" in done.stderr, f"ulimit -v {limit}: exit {done.returncode}: {done.stderr}")


def main():
    parser = support.parser()
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        for name in ("submitter", "solver", "verifier"):
            bench.run("dgx-key", "new", name)
        placement.pack(bench)
        cases = {**placement.BUILT_IN, **placement.SCRIPTED}
        for name, case in cases.items():
            placement.submit(bench, name, case)
        digests(bench, cases)
        drill(bench)
        refusals(bench)
        no_memory(bench)
        kills(bench, options.kills, options.seed)


main()
