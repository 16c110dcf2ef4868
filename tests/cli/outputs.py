"""Outputs are claimed before the work that they are for: outputs.py --bin FOLDER (refusals.py).

Inputs that are not there show it: a program that read one, or computed anything, before it had its output, would name the input.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time

from refusals import BIN, CANNOT_CREATE, DONE, MISSING, USAGE, call, check, read, refused, run_tests, train, write

# Calls none of whose inputs exist, the option of an output, the output's name, and the files that are written next to it.
CALLS = (
    (["dgx-bisect", "open", "t", "p", "--segment", "1", "--key", "k"], "-o", "d.jsonl", ()),
    (["dgx-bisect", "trace", "t", "--from", "r", "--segment", "1", "--data", "d"], "-o", "t.h5", ()),
    (["dgx-inspect", "export", "r"], "-o", "m.safetensors", ()),
    (["dgx-inspect", "export", "r"], "-o", "m.h5", ()),
    (["dgx-inspect", "plot", "r"], "-o", "p.svg", ()),
    (["dgx-inspect", "report", "l"], "-o", "r.html", ()),
    (["dgx-key", "open", "e", "--pub", "k"], "-o", "p.json", ()),
    (["dgx-key", "sign", "f", "--key", "k"], "-o", "e.json", ()),
    (["dgx-pack", "csv", "f", "--label", "1"], "-o", "c.h5", ()),
    (["dgx-pack", "npy", "--x", "x", "--y", "y", "--split", "0.5", "-o", "first.h5"], "--rest", "n.h5", ()),
    (["dgx-plan", "t", "--machines", "m"], "-o", "p.json", ()),
    (["dgx-profile", "t", "--data", "d", "--key", "k"], "-o", "p.json", ()),
    (["dgx-prove", "t", "r", "--key", "k"], "-o", "p.json", ("p.states",)),
    (["dgx-prove", "deliver", "t", "p", "--run", "r", "--store", "s", "--key", "k"], "-o", "d.json", ()),
    (["dgx-prove", "open", "t", "p", "--beacon", "b", "--run", "r"], "-o", "s.h5", ()),
    (["dgx-prove", "open", "t", "p", "--beacon", "b", "--run", "r", "--store", "s", "--key", "k"], "-o", "o.json", ()),
    (["dgx-referee", "d", "--key", "k"], "-o", "r.json", ()),
    (["dgx-settle", "append", "l", "s", "--key", "k"], "-o", "r.jsonl", ()),
    (["dgx-settle", "bounds", "t"], "--svg", "b.svg", ()),
    (["dgx-settle", "extract", "l", "--game", "12345678"], "-o", "d.jsonl", ()),
    (["dgx-settle", "extract", "l", "--statement", "s"], "-o", "d.jsonl", ()),
    (["dgx-settle", "extract", "l", "--round", "12345678"], "-o", "r.json", ()),
    (["dgx-settle", "head", "l", "--key", "k"], "-o", "h.json", ()),
    (["dgx-settle", "head", "l", "--key", "k", "--note"], "-o", "note", ()),
    (["dgx-settle", "cosign", "n", "--operator", "o", "--seen", "s", "--key", "k"], "-o", "line", ()),
    (["dgx-settle", "cosign", "--saw", "s", "--ledger", "l", "--key", "k"], "-o", "saw", ()),
    (["dgx-settle", "make", "deposit", "--key", "k"], "-o", "s.json", ()),
    (["dgx-settle", "round", "l", "--key", "k"], "-o", "r.json", ()),
    (["dgx-settle", "simulate", "--policy", "p", "--tasks", "1", "--seed", "1"], "--svg", "s.svg", ()),
    (["dgx-submit", "--data", "d", "--model", "mlp:4-2", "--loss", "mse", "--optimizer", "sgd:lr=1", "--batch", "1", "--steps", "2", "--key", "k"], "-o",
     "t.json", ("t.program.jsonl", "t.eval.jsonl", "t.init.h5")),
    (["dgx-train", "t", "--data", "d", "--evaluate", "r"], "--predictions", "p.npz", ()),
    (["dgx-verify", "t", "p", "--from", "r", "--data", "d", "--all", "--key", "k"], "-o", "v.json", ("v.rows.jsonl",)),
    (["dgx-verify", "t", "p", "--from", "r", "--data", "d", "--all", "--key", "k", "--shard", "0/1"], "-o", "s.json", ()),
    (["dgx-verify", "beacon", "t", "--key", "k"], "-o", "c.json", ("c.secret",)),
    (["dgx-verify", "beacon", "c", "--reveal", "p", "--task", "t", "--unlogged", "--key", "k"], "-o", "b.json", ()),
    (["dgx-verify", "merge", "t", "p", "s", "--key", "k"], "-o", "v.json", ("v.rows.jsonl",)),
)


def test_bad_places():
    """A missing folder, a file that is there, a folder in its place: said before any input is."""
    for words, option, name, beside in CALLS:
        refused(CANNOT_CREATE, "nowhere/" + name.split(".")[0], *words, option, "nowhere/" + name)
        write(name, b"theirs")
        refused(CANNOT_CREATE, f"{name}: already exists", *words, option, name)
        os.remove(name)
        for place in (name, *beside):
            os.mkdir(place)
            refused(CANNOT_CREATE, f"{place}: ", *words, option, name, "--force")
            os.rmdir(place)


def test_good_places():
    """With a place for its output each names an input, and leaves no trace of the place that it had taken."""
    for words, option, name, _ in CALLS:
        refused(MISSING, "", *words, option, name)


def test_streams():
    """What has no name to be taken is opened when it is written."""
    sign = ["dgx-key", "sign", "x.json", "--key", "stranger.pem", "-o"]
    write("x.json", b"{}")
    for place in ("/dev/null", "/dev/stdout", "-"):
        done = call(*sign, place)
        check(done.returncode == DONE, f"-o {place}: exit {done.returncode}: {done.stderr}")
    done = call(*sign, "/dev/full")
    check(done.returncode == 74, f"-o /dev/full: exit {done.returncode}: {done.stderr}")
    refused(CANNOT_CREATE, "/dev/null: ", "dgx-pack", "idx", "--images", "x.idx", "--labels", "y.idx", "--force", "-o", "/dev/null")
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    done = call(*sign, "pipe")
    check(done.returncode == DONE and b"payload" in reader.communicate(timeout=60)[0], f"-o a pipe: exit {done.returncode}: {done.stderr}")
    os.remove("pipe")
    # A link is replaced, not followed.
    write("far", b"far")
    os.symlink("far", "link")
    refused(CANNOT_CREATE, "link: already exists", *sign, "link")
    done = call(*sign, "link", "--force")
    check(done.returncode == DONE and not os.path.islink("link") and read("far") == b"far", f"-o a link: exit {done.returncode}: {done.stderr}")
    for name in ("x.json", "far", "link"):
        os.remove(name)


def test_inputs_are_kept():
    """--force replaces outputs, never an input, whatever it is called."""
    os.link("small.json", "hard.json")
    os.symlink("small.json", "soft.json")
    for name in ("small.json", "./small.json", "hard.json", "soft.json"):
        refused(USAGE, "is TASK.json, which the command reads", "dgx-profile", "small.json", "--data", "small.h5", "--key", "stranger.pem", "--force", "-o", name)
    os.environ["DGX_KEY"] = "stranger.pem"
    refused(USAGE, "is --key, which the command reads", "dgx-verify", "small.json", "p.json", "--from", "run", "--data", "small.h5", "--all", "--force", "-o", "stranger.pem")
    del os.environ["DGX_KEY"]
    write("words", b"a passphrase\n")
    for words, what in (
            (["dgx-pack", "idx", "--images", "x.idx", "--labels", "y.idx", "--force", "-o", "y.idx"], "--labels"),
            (["dgx-pack", "npy", "--x", "x.idx", "--field", "mask=y.idx", "--force", "-o", "y.idx"], "--field"),
            (["dgx-key", "passphrase", "stranger.pem", "--new-passphrase-file", "words", "--force", "-o", "words"], "--new-passphrase-file"),
            (["dgx-pack", "idx", "--images", "x.idx", "--labels", "y.idx", "--force", "-o", "new.h5", "--split", "0.5", "--rest", "x.idx"], "--images"),
            (["dgx-verify", "small.json", "p.json", "--from", "run", "--data", "small.h5", "--all", "--key", "stranger.pem", "--force", "-o", "stranger.pem"], "--key"),
            (["dgx-settle", "append", "small.json", "none.json", "--key", "stranger.pem", "--force", "-o", "small.json"], "LEDGER.jsonl"),
            (["dgx-key", "sign", "small.json", "--key", "stranger.pem", "--force", "-o", "small.json"], "FILE"),
            (["dgx-key", "sign", "small.json", "--key", "stranger.pem", "-o", "small.json"], "FILE")):
        refused(USAGE, f"is {what}, which the command reads", *words)
    os.remove("hard.json")
    os.remove("soft.json")


def test_found_inputs_are_kept():
    """Nor a file that the program found for itself: in a folder, or beside another file. An old output there is replaced."""
    os.mkdir("all")
    check(call("dgx-key", "new", "challenger").returncode == DONE, "no second key")
    for name in ("small.json", "small.program.jsonl", "small.eval.jsonl", "small.h5"):
        shutil.copy(name, "all")
    for words in (["dgx-train", "all", "--quiet"], ["dgx-prove", "all", "--key", "stranger.pem"],
                  ["dgx-verify", "all", "--all", "--key", "stranger.pem"]):
        done = call(*words)
        check(done.returncode == DONE, f"{' '.join(words)}: exit {done.returncode}: {done.stderr}")
    task, proof, kept = "all/small.json", "all/proof.json", "is a file that the command reads"
    for output in (task, "all/run/index.h5"):
        refused(USAGE, kept, "dgx-prove", "all", "--key", "stranger.pem", "--force", "-o", output)
    for output in (task, proof, "all/small.h5", "all/run/index.h5", "all/small.program.jsonl", "all/proof.states"):
        refused(USAGE, kept, "dgx-verify", "all", "--all", "--key", "stranger.pem", "--force", "-o", output)
    refused(USAGE, kept, "dgx-profile", task, "--data", "all/small.h5", "--key", "stranger.pem", "--force", "-o", "all/small.program.jsonl")
    refused(USAGE, kept, "dgx-bisect", "open", task, proof, "--against", "all/verdict.json", "--from", "all/run", "--data", "all/small.h5", "--key",
            "challenger.pem", "--force", "-o", "all/verdict.rows.jsonl")
    refused(USAGE, kept, "dgx-bisect", "trace", task, "--from", "all/run", "--segment", "1", "--data", "all/small.h5", "--force", "-o", "all/run/index.h5")
    refused(USAGE, kept, "dgx-inspect", "export", "all/run", "--force", "-o", "all/run/index.h5")
    refused(USAGE, kept, "dgx-inspect", "plot", "all/run", "--force", "-o", "all/run/log.csv")
    for words in (["dgx-prove", "all", "--key", "stranger.pem"], ["dgx-verify", "all", "--all", "--key", "stranger.pem"]):
        refused(CANNOT_CREATE, "already exists", *words)
        done = call(*words, "--force")
        check(done.returncode == DONE, f"{' '.join(words)} --force: exit {done.returncode}: {done.stderr}")
    # What a file beside the output is made of, what comes by standard input, and what the run itself would write.
    submit = ["dgx-submit", "--data", "small.h5", "--model", "mlp:144-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=1", "--batch", "8", "--steps", "4", "--force"]
    write("policy.json", b"{}")
    done = call("dgx-settle", "init", "n.eval.jsonl", "--policy", "policy.json", "--key", "stranger.pem")
    check(done.returncode == DONE, f"init: {done.stderr}")
    shutil.copy("stranger.pem", "n.program.jsonl")
    for words in (["--ledger", "n.eval.jsonl", "--key", "stranger.pem"], ["--key", "n.program.jsonl"]):
        refused(USAGE, kept, *submit, *words, "-o", "n.json")
    refused(USAGE, kept, "dgx-settle", "append", "n.eval.jsonl", "none.json", "--key", "stranger.pem", "--force", "-o", "n.eval.receipts.jsonl")
    with open("policy.json", "rb") as file:
        refused(USAGE, kept, "dgx-key", "sign", "-", "--key", "stranger.pem", "--force", "-o", "policy.json", stdin=file)
    os.mkdir("own")
    shutil.copy("small.h5", "own/best.h5")
    refused(USAGE, kept, *train("own", "--validate", "small.h5", data="own/best.h5"))
    shutil.rmtree("own")
    for name in ("policy.json", "n.eval.jsonl", "n.eval.receipts.jsonl", "n.program.jsonl"):
        os.remove(name)
    shutil.rmtree("all")
    os.remove("challenger.pem")
    os.remove("challenger.pub.pem")


@contextlib.contextmanager
def waiting(output, pipe):
    """A program that has claimed its output and waits for its input."""
    os.mkfifo(pipe)
    process = subprocess.Popen([os.path.join(BIN, "dgx-key"), "sign", pipe, "--key", "stranger.pem", "-o", output], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 60
    while not any(name.startswith(f".{output}.{process.pid}.") for name in os.listdir(".")):
        assert process.poll() is None and time.monotonic() < give_up, "the output is not claimed before the input is read"
        time.sleep(0.001)
    yield process
    os.remove(pipe)


def test_signals():
    """A signal that ends a program at work takes its claim away."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
        before = sorted(os.listdir("."))
        with waiting("new.json", "pipe") as process:
            process.send_signal(number)
            error = process.communicate(timeout=60)[1]
            check(process.returncode == -number, f"signal {number}: exit {process.returncode}: {error}")
        check(sorted(os.listdir(".")) == before, f"signal {number}: left behind: {set(os.listdir('.')) - set(before)}")


def fed(process, pipe):
    with open(pipe, "w", encoding="utf-8") as file:
        file.write(f'{{"from":"{pipe}"}}')
    error = process.communicate(timeout=60)[1]
    return process.returncode, error


def test_two_writers():
    """Of two programs with one output the first to end has it. The other is refused, and changes nothing."""
    with waiting("new.json", "pipe") as first, waiting("new.json", "other") as second:
        check(fed(second, "other")[0] == DONE, "the one that ends first is refused")
        made = read("new.json")
        code, error = fed(first, "pipe")
        check(code == CANNOT_CREATE and "new.json: already exists" in error, f"the one that ends last: exit {code}: {error}")
        check(read("new.json") == made, "the one that ends last changed the output")
    os.remove("new.json")


run_tests(test_bad_places, test_good_places, test_streams, test_inputs_are_kept, test_found_inputs_are_kept, test_signals, test_two_writers)
