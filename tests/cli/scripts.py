"""What scripts rely on, of the built programs: scripts.py --bin FOLDER

With --json numbers are numbers, their bits are beside them where bits count, and what has no value is null or absent; messages are objects, one a line. What is not
allowed now and what another process has locked have exit codes of their own, and --wait waits. With -q there is nothing but errors. Escape sequences go only to who
asked for them.
"""

import base64
import concurrent.futures
import fcntl
import json
import os
import pathlib
import pty
import signal
import struct
import subprocess
import threading
import time

from refusals import (BIN, DONE, FINAL, INTERRUPTED, LOCKED, MISSING, NOT_ALLOWED, USAGE, call, caught, check, run_tests, tasks, train)


def no_constant(word):
    raise ValueError(f"{word} is no JSON")


def said(*words, codes=(0,)):
    """The last object of what a program prints with --json."""
    done = call(*words, "--json")
    check(done.returncode in codes, f"{words}: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1], parse_constant=no_constant)


def is_binary32(value, in_hex):
    """Whether the number is what its hex says, and a binary32."""
    return isinstance(value, float) and value == float.fromhex(in_hex) and struct.unpack("<f", struct.pack("<f", value))[0] == value


def numbers():
    trained = said(*train("run"))
    check(is_binary32(trained["loss"], trained["loss_hex"]), f"dgx-train: loss {trained['loss']}, {trained['loss_hex']}")
    check(isinstance(trained["seconds"], float), f"dgx-train: seconds {trained['seconds']!r}")
    proved = said("dgx-prove", "small.json", "run", "--key", "stranger.pem", "-o", "proof.json")
    signed = json.loads(base64.b64decode(json.loads(pathlib.Path("proof.json").read_text())["payload"]))["predicate"]["loss"]["value"]
    check((proved["loss"], proved["loss_hex"]) == (trained["loss"], signed), f"dgx-prove: loss {proved['loss']}, {proved['loss_hex']}; signed {signed}")
    quoted = said("dgx-inspect", "proof.json")["predicate"]["loss"]["value"]
    check(quoted == signed, f"dgx-inspect: the proof's loss is quoted as {quoted!r}")
    rows = said("dgx-inspect", "run")["checkpoints"]
    check(rows[0]["loss"] is None and rows[-1]["loss"] == trained["loss"], f"dgx-inspect run: losses {rows[0]['loss']!r}, {rows[-1]['loss']!r}")
    verified = said("dgx-verify", "small.json", "proof.json", "--from", "run", "--data", "small.h5", "--segments", "3", "--key", "stranger.pem", "-o",
                    "verdict.json")
    check(abs(verified["miss_probability"]["one_segment"] - (1 - 1 / len(rows[1:]))) < 1e-6, f"dgx-verify: {verified['miss_probability']}")
    check(said("dgx-key", "--version")["json"] == 2, "--version: which version of JSON")


def messages(done):
    """Its standard error, an object a line."""
    return [json.loads(line, parse_constant=no_constant) for line in done.stderr.splitlines()]


def errors():
    done = call("dgx-inspect", "nothing.json", "--json")
    told = messages(done)
    check(done.returncode == MISSING and done.stdout == "" and len(told) == 1, f"a missing file: {done}")
    check(told[0]["program"] == "dgx-inspect" and told[0]["code"] == MISSING and "nothing.json" in told[0]["error"], f"a missing file: {told}")
    for words in (["dgx-train", "--json"], ["dgx-key", "frobnicate", "--json"], ["dgx-key", "--json", "new", "name", "--passphrase-file"], ["dgx-key", "--json", "--jason"]):
        done = call(*words)
        told = messages(done)
        check(done.returncode == USAGE and [set(each) for each in told] == [{"code", "error", "hint", "program"}], f"{words}: {done}")
    os.chmod("stranger.pem", 0o644)
    done = call("dgx-key", "id", "stranger.pem", "--json", "-vv")
    told = messages(done)
    check(done.returncode == DONE and {"note", "warning"} <= {name for each in told for name in each}, f"a key that all may read: {done}")
    os.chmod("stranger.pem", 0o600)


def settle(*words):
    return call("dgx-settle", *words, "--key", "stranger.pem")


def deposits(count):
    """A ledger, and so many statements that it has not."""
    pathlib.Path("policy.json").write_text("{}")
    for name in ("L.jsonl", "L.receipts.jsonl"):
        pathlib.Path(name).unlink(missing_ok=True)
    done = settle("init", "L.jsonl", "--policy", "policy.json")
    check(done.returncode == DONE, f"init: {done}")
    for n in range(count):
        settle("make", "deposit", "--ledger", "L.jsonl", "--set", "account=stranger.pub.pem", "amount=1", f"reference={n}", "-o", f"d{n}.json", "--force")
    settle("make", "withdrawal", "--ledger", "L.jsonl", "--set", "amount=7", "-o", "w.json", "--force")


def codes():
    deposits(1)
    for words in (["append", "L.jsonl", "w.json"], ["append", "L.jsonl", "d0.json", "w.json", "--keep-going"]):
        done = settle(*words)
        check(done.returncode == NOT_ALLOWED and "the withdrawal needs 7" in done.stderr, f"{words}: {done}")
    done = call(*train("short", "--until", "20"))
    done = call("dgx-prove", "small.json", "short", "--key", "stranger.pem", "-o", "short.json")
    check(done.returncode == NOT_ALLOWED, f"a run that is not finished: {done}")
    check(settle("append", "L.jsonl", "d0.json", "--waite").returncode == USAGE, "a typing error")
    with open("L.jsonl", "r+b") as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)
        done = settle("append", "L.jsonl", "d0.json")
        check(done.returncode == LOCKED and "--wait" in done.stderr, f"a locked ledger: {done}")
        begun = time.monotonic()
        done = settle("append", "L.jsonl", "d0.json", "--wait=1s")
        check(done.returncode == LOCKED and time.monotonic() - begun >= 1, f"a ledger that stays locked: {done}")
        threading.Timer(0.3, fcntl.flock, (ledger, fcntl.LOCK_UN)).start()
        done = settle("append", "L.jsonl", "d0.json", "--wait")
        check(done.returncode == DONE, f"a ledger that was locked: {done}")
    for words in ("--wait=", "--wait=soon", "--wait=0s"):
        done = settle("append", "L.jsonl", "d0.json", words)
        check(done.returncode == (DONE if words == "--wait=" else USAGE), f"{words}: {done}")


def waiting():
    deposits(12)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda n: settle("append", "L.jsonl", f"d{n}.json", "--wait"), range(12)))
    check([each.returncode for each in done] == [DONE] * 12, f"12 appends by 6 at once: {done}")
    check(said("dgx-settle", "status", "L.jsonl")["entries"] == 13, "12 appends: entries")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda n: call(*train("together", "--json", "--wait")), range(3)))
    states = [json.loads(each.stdout)["state"] if each.stdout else each for each in runs]
    check(states == [FINAL] * 3, f"three trainings of one run: {states}")
    with open("together/.lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = caught(*train("together", "--wait"))
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=100)[1]
        check(process.returncode == LOCKED, f"a signal to one who waits: exit {process.returncode}: {told}")


def silence():
    os.chmod("stranger.pem", 0o644)
    for words in (["dgx-inspect", "run"], ["dgx-key", "id", "stranger.pem"], ["dgx-settle", "status", "L.jsonl"], ["dgx-inspect", "diff", "run", "run"]):
        done = call(*words, "-q")
        check((done.returncode, done.stdout, done.stderr) == (DONE, "", ""), f"{words} -q: {done}")
        done = call(*words, "-q", "--json")
        check(done.returncode == DONE and len(done.stdout.splitlines()) == 1 and done.stderr == "", f"{words} -q --json: {done}")
    os.chmod("stranger.pem", 0o600)
    done = call("dgx-inspect", "nothing.json", "-q")
    check(done.returncode == MISSING and done.stderr.startswith("dgx-inspect: error: "), f"an error with -q: {done}")
    done = settle("make", "deposit", "--ledger", "L.jsonl", "--set", "account=stranger.pub.pem", "amount=1", "-q")
    check(done.returncode == DONE and "payload" in json.loads(done.stdout), f"a statement to standard output: {done}")
    for word in ("--help", "--version", "--completion=bash"):
        check(call("dgx-key", word, "-q").stdout == call("dgx-key", word).stdout, f"{word} -q")


def on_terminal(*words, **environment):
    """Standard error of a program that has a terminal there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([os.path.join(BIN, words[0]), *words[1:]], stdout=subprocess.DEVNULL, stderr=theirs,
                               env={**{name: value for name, value in os.environ.items() if name not in ("TERM", "NO_COLOR", "DGX_COLOR")}, **environment})
    os.close(theirs)
    told = b""
    try:
        while more := os.read(ours, 4096):
            told += more
    except OSError:  # the other end is closed
        pass
    process.wait(timeout=100)
    os.close(ours)
    return told


def colours():
    bad = ("dgx-inspect", "nothing.json")
    check(b"\x1b[" in on_terminal(*bad, TERM="xterm"), "a terminal has colours")
    check(b"\x1b" not in on_terminal(*bad, TERM="dumb"), "a dumb terminal has none")
    check(b"\x1b" not in on_terminal(*bad, TERM="xterm", DGX_COLOR="never"), "DGX_COLOR=never")
    check(b"\x1b[" in on_terminal(*bad, "--color", "always", TERM="dumb", DGX_COLOR="never"), "--color always")
    check(b"\x1b" not in on_terminal(*train("dumb", "--until", "40"), TERM="dumb"), "a dumb terminal has no bar")
    check("\x1b[" in call(*bad, env={**os.environ, "DGX_COLOR": "always"}).stderr, "DGX_COLOR=always")
    done = call(*bad, env={**os.environ, "DGX_COLOR": "pink"})
    check(done.returncode == USAGE and "DGX_COLOR: 'pink'" in done.stderr, f"DGX_COLOR=pink: {done}")
    check(call("dgx-key", "--help", env={**os.environ, "DGX_COLOR": "pink"}).returncode == DONE, "--help with DGX_COLOR=pink")


if __name__ == "__main__":
    run_tests(numbers, errors, codes, waiting, silence, colours)
