"""Many proofs in one call, and rows of a large dataset: batch.py BIN WORK [GIB]

Prints lines "name unit value": run.sh makes rows of them. WORK has Fashion-MNIST as data.h5, and key.pem. Where nothing else is said, one thread, and
CPU is user and system time of the process. A replay's own time is what dgx-verify calls seconds: on one thread of an idle machine that is its CPU.
"""

import ctypes
import ctypes.util
import glob
import json
import os
import resource
import subprocess
import sys
import time

BIN, WORK = os.path.abspath(sys.argv[1]), sys.argv[2]
GIB = float(sys.argv[3]) if len(sys.argv) > 3 else 10
PROOFS, LINES = 200, 10_000
os.chdir(WORK)
os.environ["DGX_CACHE"] = os.path.abspath("cache")
SGD = ["--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", "128"]


def row(name, unit, value):
    print(f"{name} {unit} {value:.5g}", flush=True)


def run(program, *words, codes=(0,)):
    """Returns (the last object printed, CPU seconds, bytes read by system calls)."""
    process = subprocess.Popen([os.path.join(BIN, program), *map(str, words), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out, err = process.stdout.read(), process.stderr.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        with open(f"/proc/{process.pid}/io") as io:
            read = int(io.readline().split()[1])
    except OSError:
        read = 0
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.returncode in codes, f"{program} {words}: exit {process.returncode}: {err.decode()[-500:]}"
    lines = out.decode().splitlines()
    return json.loads(lines[-1]) if lines else {}, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, read


def make_proofs():
    """Tasks of one model and other seeds, of ten segments each; all runs and proofs."""
    with open("list.tsv", "w") as file:
        for n in range(PROOFS):
            name = f"n{n}"
            run("dgx-submit", "--data", "data.h5", "--model", "mlp:784-128-10", "--loss", "cross-entropy", *SGD, "--steps", 100, "--checkpoint-every", 10,
                "--seed", n + 1, "--key", "key.pem", "-o", f"{name}.json")
            run("dgx-train", f"{name}.json", "--data", "data.h5", "-o", f"{name}.run", "-q")
            run("dgx-prove", f"{name}.json", f"{name}.run", "--key", "key.pem", "-o", f"{name}.proof.json")
            file.write(f"{name}.json\t{name}.proof.json\t{name}.run\n")


def batch():
    make_proofs()
    common = ["--data", "data.h5", "--key", "key.pem", "--threads", 1]
    run("dgx-verify", "n0.json", "n0.proof.json", "--from", "n0.run", "--fraction", 0.1, *common, "-o", "first.json")  # fills the cache
    each = [run("dgx-verify", f"n{n}.json", f"n{n}.proof.json", "--from", f"n{n}.run", "--fraction", 0.1, *common, "-o", f"n{n}.verdict.json")
            for n in range(PROOFS)]
    told, cpu, _ = run("dgx-verify", "batch", "list.tsv", "--fraction", 0.1, *common, "-o", "verdicts")
    assert told["accepted"] == PROOFS, told
    row(f"batch-{PROOFS}-proofs-cpu", "s", cpu)
    row(f"batch-{PROOFS}-proofs-replay", "s", told["seconds"])
    row("batch-cpu-by-replay", "x", cpu / told["seconds"])
    row(f"batch-{PROOFS}-calls-cpu", "s", sum(cpu for _, cpu, _ in each))


def signature_seconds():
    """Seconds of one Ed25519 check of a message of a task's size by libsodium."""
    sodium = ctypes.CDLL(ctypes.util.find_library("sodium"))
    public, secret, signature = (ctypes.create_string_buffer(size) for size in (32, 64, 64))
    message = b"x" * os.path.getsize("n0.json")
    sodium.crypto_sign_keypair(public, secret)
    sodium.crypto_sign_detached(signature, None, message, ctypes.c_ulonglong(len(message)), secret)
    begin = time.process_time()
    for _ in range(2000):
        assert sodium.crypto_sign_verify_detached(signature, message, ctypes.c_ulonglong(len(message)), public) == 0
    return (time.process_time() - begin) / 2000


def long_list():
    """A list of many lines. After the first ones the proofs are named again, which only their statements say."""
    with open("list.tsv") as file:
        lines = file.read().splitlines()
    with open("long.tsv", "w") as file:
        file.writelines(lines[n % PROOFS] + "\n" for n in range(LINES))
    command = [os.path.join(BIN, "dgx-verify"), "batch", "long.tsv", "--fraction", "0.1", "--data", "data.h5", "--key", "key.pem", "-o", "long", "--threads", "2"]
    begin = time.monotonic()
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL)
    while not glob.glob("long/.*.tmp") and process.poll() is None:
        time.sleep(0.005)
    row("batch-long-list-first-replay", "s", time.monotonic() - begin)
    process.wait()
    # Done again, all verdicts are there: nothing is left but the statements, a proof's a line and the tasks', which are opened once each.
    _, cpu, _ = run("dgx-verify", "batch", "long.tsv", "--fraction", 0.1, "--data", "data.h5", "--key", "key.pem", "-o", "long", "--threads", 1, codes=(2,))
    signatures = (LINES + PROOFS) * signature_seconds()
    row("batch-long-list-statements-cpu", "s", cpu)
    row("batch-long-list-signatures", "s", signatures)
    row("batch-statements-by-signatures", "x", cpu / signatures)


def large():
    """100 steps of 128 rows of 3 KiB from a plain dataset, in the page cache."""
    import numpy as np
    samples = int(GIB * 2**30) // 3072
    chance = np.random.default_rng(1)
    x = np.lib.format.open_memmap("x.npy", "w+", "u1", (samples, 3072))
    block = chance.integers(0, 256, (4096, 3072), dtype="u1")
    for at in range(0, samples, 4096):
        x[at:at + 4096] = block[:samples - at] ^ np.uint8(at // 4096 % 251)
    x.flush()
    np.save("y.npy", chance.integers(0, 10, samples))
    run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "--scale", 0.00392156863, "--plain", "-o", "large.h5")
    np.save("tiny-x.npy", x[:256])
    np.save("tiny-y.npy", np.load("y.npy")[:256])
    os.remove("x.npy")
    run("dgx-submit", "--data", "large.h5", "--model", "mlp:3072-64-10", "--loss", "cross-entropy", *SGD, "--steps", 100, "--checkpoint-every", 100,
        "--key", "key.pem", "-o", "large.json")
    run("dgx-train", "large.json", "--data", "large.h5", "-o", "large.run", "-q")
    run("dgx-prove", "large.json", "large.run", "--key", "key.pem", "-o", "large.proof.json")
    best = None
    for n in range(3):
        told, cpu, read = run("dgx-verify", "large.json", "large.proof.json", "--from", "large.run", "--data", "large.h5", "--all", "--key", "key.pem", "-o",
                              f"large.{n}.json", "--threads", 1)
        best = min(best, (cpu, told["seconds"], read)) if best else (cpu, told["seconds"], read)
    # The replay without its data: the same program on a dataset of one batch's size that is in memory, step by step.
    run("dgx-pack", "npy", "--x", "tiny-x.npy", "--y", "tiny-y.npy", "--scale", 0.00392156863, "-o", "tiny.h5")
    run("dgx-submit", "--data", "tiny.h5", "--model", "mlp:3072-64-10", "--loss", "cross-entropy", *SGD, "--steps", 100, "--checkpoint-every", 100, "--key",
        "key.pem", "-o", "tiny.json")
    run("dgx-train", "tiny.json", "--data", "tiny.h5", "-o", "tiny.run", "-q")
    run("dgx-prove", "tiny.json", "tiny.run", "--key", "key.pem", "-o", "tiny.proof.json")
    tiny = min(run("dgx-verify", "tiny.json", "tiny.proof.json", "--from", "tiny.run", "--data", "tiny.h5", "--all", "--key", "key.pem", "-o", f"tiny.{n}.json",
                   "--threads", 1)[1] for n in range(3))
    cpu, _, read = best
    groups = 12_800 * (1 + 2 / 16) * 16384  # two rows of sixteen lie in two groups
    nodes = GIB * 2**30 / 512
    row(f"opened-{GIB:g}-gib-cpu", "s", cpu)
    row("opened-cpu-beside-replay", "s", cpu - tiny)
    row("opened-read", "MB", read / 1e6)
    row("opened-read-beside-rows-and-nodes", "MB", (read - groups - nodes) / 1e6)
    os.remove("large.h5")


def shards():
    """A proof whose replay takes a minute: by one process, and by 64 shards, each a process of its own."""
    steps = 64 * 700
    run("dgx-submit", "--data", "data.h5", "--model", "mlp:784-256-128-10", "--loss", "cross-entropy", *SGD, "--steps", steps, "--checkpoint-every", steps // 64,
        "--key", "key.pem", "-o", "minute.json")
    run("dgx-train", "minute.json", "--data", "data.h5", "-o", "minute.run", "-q")
    run("dgx-prove", "minute.json", "minute.run", "--key", "key.pem", "-o", "minute.proof.json")
    verify = ["dgx-verify", "minute.json", "minute.proof.json", "--from", "minute.run", "--data", "data.h5", "--all", "--key", "key.pem", "--threads", 1]
    one = cut = 0.0
    for part in range(2):  # half of the shards before, half after: a machine's speed changes with its load
        cut += sum(run(*verify, "--shard", f"{n}/64", "-o", f"minute.{n}.json")[1] for n in range(part, 64, 2))
        one = one or run(*verify, "-o", "minute.verdict.json")[1]
    row("one-process-cpu", "s", one)
    row("64-shards-cpu", "s", cut)
    row("64-shards-by-one-process", "x", cut / one)


def merge():
    """A thousand shards, each of one short segment."""
    run("dgx-submit", "--data", "tiny.h5", "--model", "mlp:3072-2-10", "--loss", "cross-entropy", *SGD, "--steps", 2000, "--checkpoint-every", 2, "--key", "key.pem",
        "-o", "many.json")
    run("dgx-train", "many.json", "--data", "tiny.h5", "-o", "many.run", "-q")
    run("dgx-prove", "many.json", "many.run", "--key", "key.pem", "-o", "many.proof.json")
    names = [f"many.{n}.json" for n in range(1000)]
    for n, name in enumerate(names):
        run("dgx-verify", "many.json", "many.proof.json", "--from", "many.run", "--data", "tiny.h5", "--all", "--key", "key.pem", "--threads", 1, "--shard",
            f"{n}/1000", "-o", name)
    best = min(run("dgx-verify", "merge", "many.json", "many.proof.json", *names, "--key", "key.pem", "-o", "many.verdict.json", "--force")[1] for _ in range(5))
    row("merge-1000-shards-cpu", "s", best)


batch()
long_list()
shards()
large()
merge()
