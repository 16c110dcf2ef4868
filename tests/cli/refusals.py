"""What tests of refusals share (--bin FOLDER [--part NAME]).

A refusal is checked for its exit code (core/include/dgx/core/result.h), for an error message that says the word expected, and for leaving the
folder, file by file and byte by byte, as it was: nothing lost, no partial and no temporary file.
"""

import argparse
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "repro"))
import tasks  # noqa: E402

NOBODY = 65534
DONE, USAGE, MALFORMED, MISSING, LOCKED, INTERNAL, CANNOT_CREATE, IO, INTERRUPTED, NOT_ALLOWED, UNAUTHORISED = 0, 2, 65, 66, 69, 70, 73, 74, 75, 76, 77
OPTIONS = argparse.ArgumentParser()
OPTIONS.add_argument("--bin", required=True)
OPTIONS.add_argument("--part")
OPTIONS = OPTIONS.parse_args()
BIN = os.path.abspath(OPTIONS.bin)
FINAL = tasks.expected()["small"]["states"]["300"]
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what)


def call(*words, bin_folder=BIN, **options):
    command = [os.path.join(bin_folder, words[0]), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def caught(*words):
    """A process that has just got the signal handlers of its job, and has not begun to work. SIGUSR2 is the last of them, and the job's alone."""
    process = subprocess.Popen([os.path.join(BIN, words[0]), *words[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    mask = 1 << signal.SIGUSR2 - 1
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as file:
            handled = next(line for line in file if line.startswith("SigCgt"))
        if int(handled.split()[1], 16) & mask:
            break
    return process


def snapshot():
    """Every file below the folder with its content's digest; locks are no content."""
    found = {}
    for folder, _, names in os.walk("."):
        found[folder] = ""
        for name in names:
            if name != ".lock":
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def refused(codes, says, *words, may_make=(), **options):
    """The call ends with one of the codes, says the word, and leaves everything else as it was."""
    codes = codes if isinstance(codes, tuple) else (codes,)
    before = snapshot()
    done = call(*words, **options)
    what = " ".join(words)
    check(done.returncode in codes, f"{what}: exit {done.returncode}, expected {codes}: {done.stderr}")
    told = [line for line in done.stderr.splitlines() if not line.startswith(f"{words[0]}: warning: ")]
    check(told and told[0].startswith(f"{words[0]}: error: ") and says in done.stderr, f"{what}: does not say '{says}': {done.stderr}")
    after = snapshot()
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path) and path not in may_make]
    check(not changed, f"{what}: changed or left behind: {changed}")


def train(run, *words, task="small.json", data="small.h5"):
    return ["dgx-train", task, "--data", data, "-o", run, "--threads", "1", *words]


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def finishes(run, what):
    """The run goes on to the stored end."""
    done = tasks.run(BIN, *train(run))[1]
    check(done["state"] == FINAL, f"{what}: the run ends with {done['state']}")


def disk_of(size_bytes, keep_signal):
    """A call whose files may not grow beyond so many bytes. By default the signal ends a program; ours must say what is wrong."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))

    return {"preexec_fn": limit, "restore_signals": keep_signal}


def run_tests(*tests):
    """One after the other in a folder with the small task, its data, a stranger's key and a run of 40 steps; exits."""
    with tempfile.TemporaryDirectory(prefix="dgx-bad-") as folder:
        os.chdir(folder)
        tasks.pack_small(BIN, folder)
        for name in os.listdir(tasks.TASKS):
            shutil.copy(os.path.join(tasks.TASKS, name), name)
        tasks.run(BIN, "dgx-key", "new", "stranger")
        tasks.run(BIN, *train("run", "--until", "40"))
        for test in tests:
            start = time.monotonic()
            test()
            print(f"{test.__name__}: {time.monotonic() - start:.1f} s", flush=True)
        tasks.needs.counted(len(tests), 0)
        os.chdir("/")
    sys.exit(1 if failures else 0)
