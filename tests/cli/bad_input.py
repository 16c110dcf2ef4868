"""What the programs do with bad files, bad places and bad moments: bad_input.py --bin FOLDER [--part NAME] (refusals.py).

A part needs more than the programs: manifests (cryptography), bundles (h5py) or submissions (libtorch), and is skipped without it (exit 77).
"""

import base64
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

from refusals import (BIN, CANNOT_CREATE, DONE, INTERNAL, INTERRUPTED, IO, LOCKED, MALFORMED, MISSING, NOBODY, NOT_ALLOWED, OPTIONS, UNAUTHORISED, USAGE, call, caught, check, disk_of, finishes,
                      flipped, read, refused, run_tests, snapshot, train, write, tasks)


def test_datasets():
    good = read("small.h5")
    for length in (0, 1, 100, len(good) // 2, len(good) - 1):
        write("bad.h5", good[:length])
        refused(MALFORMED, "bad.h5", *train("new", data="bad.h5"))
    numbers = random.Random(1)
    for _ in range(8):
        # Of the numbers themselves: the compressed ones take most of the file.
        write("bad.h5", flipped(good, numbers.randrange(len(good) * 2, len(good) * 6)))
        refused(MALFORMED, "bad.h5", *train("new", data="bad.h5"))
    os.remove("bad.h5")
    images = read("x.idx")
    write("other.idx", flipped(images, len(images) * 4))
    tasks.run(BIN, "dgx-pack", "idx", "--images", "other.idx", "--labels", "y.idx", "--scale", "0.00390625", "-o", "other.h5")
    refused(MALFORMED, "other.h5", *train("new", data="other.h5"))
    refused(MALFORMED, "run/", *train("new", data="run/index.h5"))
    refused(MISSING, "none.h5", *train("new", data="none.h5"))


def test_tasks():
    good = read("small.json")
    numbers = random.Random(2)
    for length in (0, 1, len(good) // 2, len(good) - 2):
        write("bad.json", good[:length])
        refused(MALFORMED, "bad.json", *train("new", "--program", "small.program.jsonl", task="bad.json"))
    for _ in range(20):
        write("bad.json", flipped(good, numbers.randrange(len(good) * 8 - 8)))
        refused((MALFORMED, UNAUTHORISED), "bad.json", *train("new", "--program", "small.program.jsonl", task="bad.json"))
    os.remove("bad.json")
    program = read("small.program.jsonl")
    for _ in range(5):
        write("bad.jsonl", flipped(program, numbers.randrange(len(program) * 8)))
        refused(MALFORMED, "bad.jsonl", *train("new", "--program", "bad.jsonl"))
    os.remove("bad.jsonl")
    refused(MALFORMED, "quickstart.program.jsonl", *train("new", "--program", "quickstart.program.jsonl"))
    refused(MALFORMED, "small.h5", *train("new", task="quickstart.json"))
    refused(UNAUTHORISED, "small.json", *train("new", "--trust", "stranger.pub.pem"))


def resealed(envelope, change):
    """An envelope around another payload; whoever reads the payload before the signature sees what was changed."""
    content = json.loads(envelope)
    payload = change(base64.b64decode(content["payload"]))
    content["payload"] = base64.b64encode(payload).decode()
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def signed(payload, key_path):
    """An envelope of whatever the payload is: dgx-key signs no statement that a reader would refuse."""
    from cryptography.hazmat.primitives import serialization
    key = serialization.load_pem_private_key(read(key_path), None)
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    key_id = hashlib.sha256(f'{{"keytype":"ed25519","keyval":{{"public":"{public}"}},"scheme":"ed25519"}}'.encode()).hexdigest()
    kind = b"application/vnd.in-toto+json"
    signature = key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    content = {"payload": base64.b64encode(payload).decode(), "payloadType": kind.decode(),
               "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}]}
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def test_hostile_manifests():
    """Each is signed again by a key of ours, so that nothing but its form is wrong."""
    body = json.loads(base64.b64decode(json.loads(read("small.json"))["payload"]))
    public_key = base64.b64decode(b"".join(read("stranger.pub.pem").splitlines()[1:-1]))[-32:]
    body["predicate"]["signer"] = public_key.hex()
    changes = {
        "": lambda p: None,
        "colour: unknown field": lambda p: p["predicate"].update(colour="blue"),
        "batch: is missing": lambda p: p["predicate"].pop("batch"),
        "batch: ": lambda p: p["predicate"].update(batch="32"),
        "steps": lambda p: p["predicate"].update(steps=-1),
        "task: is missing": lambda p: p.update(predicateType="urn:x-dgx:verdict:v2"),
        "_type": lambda p: p.update(_type="https://in-toto.io/Statement/v0.1"),
        "dataset": lambda p: p["predicate"]["dataset"].update(digest="0" * 63),
        "seed": lambda p: p["predicate"].update(seed=1),
    }
    for says, change in changes.items():
        changed = json.loads(json.dumps(body))
        change(changed)
        write("bad.json", signed(json.dumps(changed, separators=(",", ":"), sort_keys=True).encode(), "stranger.pem"))
        if not says:
            done = call("dgx-inspect", "bad.json")
            check(done.returncode == DONE, f"a task that was signed again: {done.stderr}")
            continue
        refused(MALFORMED, says, *train("new", "--program", "small.program.jsonl", task="bad.json"))
        refused(MALFORMED, says, "dgx-inspect", "bad.json")
    envelope = read("small.json")
    for change in (lambda p: p + b" ", lambda p: p[:-1], lambda p: p.replace(b'"batch":32', b'"batch":32,"batch":32'), lambda p: b"", lambda p: b"[" * 100000):
        write("bad.json", resealed(envelope, change))
        refused((MALFORMED, UNAUTHORISED), "bad.json", *train("new", "--program", "small.program.jsonl", task="bad.json"))
    for content in (b"{" * 100000, b'{"payload":' + b"1" * 1000000 + b"}", b"\x00" * 4096, b"\xff\xfe{}", envelope + envelope, envelope + b"\n\n"):
        write("bad.json", content)
        refused(MALFORMED, "bad.json", *train("new", "--program", "small.program.jsonl", task="bad.json"))
    os.remove("bad.json")


def hostile_bundles():
    """Changes of a good dataset bundle that HDF5 itself finds nothing wrong with."""
    import h5py

    def external(file):
        del file["x"]
        file["x"] = h5py.ExternalLink("small.h5", "/x")

    def soft(file):
        file.move("x", "z")
        file["x"] = h5py.SoftLink("/z")

    def bomb(file):
        del file["x"]
        file.create_dataset("x", shape=(1 << 40, 144), dtype="u1", chunks=(1 << 10, 144), compression="gzip")

    def wider(file):
        shape = file["x"].shape
        del file["x"]
        file.create_dataset("x", shape, "f8")[...] = 0

    def fewer(file):
        samples = len(file["y"])
        del file["y"]
        file.create_dataset("y", (samples - 1,), "u1")[...] = 0

    def more(file):
        file["more"] = [1]

    def forged(file):
        file.attrs.modify("digest", "0" * len(file.attrs["digest"]))

    return (external, soft, bomb, wider, fewer, more, forged)


def test_hostile_bundles():
    import h5py
    for change in hostile_bundles():
        shutil.copy("small.h5", "bad.h5")
        with h5py.File("bad.h5", "r+", locking=False) as file:
            change(file)
        refused(MALFORMED, "bad.h5", *train("new", data="bad.h5"))
        refused(MALFORMED, "bad.h5", "dgx-inspect", "bad.h5", "--check")
    os.remove("bad.h5")


def test_runs():
    index = read("run/index.h5")
    last = sorted(name for name in os.listdir("run") if name.startswith("checkpoint-"))[-1]
    checkpoint = read(f"run/{last}")
    for bad in (index[:-1], index[:len(index) // 2], b""):
        write("run/index.h5", bad)
        refused(MALFORMED, "index.h5", *train("run"))
    write("run/index.h5", index)
    # A damaged checkpoint is told, and training goes on without it (repro/torn.py).
    for bad in (checkpoint[:-1], checkpoint[:len(checkpoint) // 2], b"", *(flipped(checkpoint, len(checkpoint) * bit // 2) for bit in (5, 9))):
        write(f"run/{last}", bad)
        for words in (["dgx-prove", "small.json", "run", "--key", "stranger.pem", "-o", "proof.json"], ["dgx-inspect", "run", "--check"]):
            refused((MALFORMED, NOT_ALLOWED), "run", *words)
        shutil.copytree("run", "copy")
        told = call(*train("copy"))
        check(told.returncode == DONE and f"warning: copy/{last}: " in told.stderr, f"a damaged checkpoint: exit {told.returncode}: {told.stderr}")
        finishes("copy", "after a damaged checkpoint")
        shutil.rmtree("copy")
    os.remove(f"run/{last}")
    refused((MALFORMED, MISSING), last, *train("run"))
    write(f"run/{last}", checkpoint)
    refused(MALFORMED, "run", *train("run", "--drill", "segment=2,lazy"))
    refused(MALFORMED, "run", "dgx-prove", "quickstart.json", "run", "--key", "stranger.pem", "-o", "proof.json")
    refused(NOT_ALLOWED, "run", "dgx-prove", "small.json", "run", "--key", "stranger.pem", "-o", "proof.json")
    shutil.copytree("run", "copy")
    finishes("copy", "after the damage was undone")
    shutil.rmtree("copy")


def test_sources():
    nan = b"\x00\x00\xc0\x7f"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }"
    header = b"\x93NUMPY\x01\x00" + bytes([118, 0]) + header.ljust(117) + b"\n"
    write("nan.npy", header + b"\x00" * 20 + nan + b"\x00" * 8)
    write("y.npy", header.replace(b"(4, 2)", b"(4,)  ") + b"\x00" * 16)
    refused(MALFORMED, "sample 2", "dgx-pack", "npy", "--x", "nan.npy", "--y", "y.npy", "-o", "nan.h5")
    refused(MALFORMED, "sample 2", "dgx-pack", "npy", "--x", "nan.npy", "--y", "nan.npy", "-o", "nan.h5")
    pack = ["dgx-pack", "idx", "--images", "x.idx", "--labels", "y.idx", "-o"]
    refused(CANNOT_CREATE, "small.h5", *pack, "small.h5")
    refused(CANNOT_CREATE, "nowhere", *pack, "nowhere/new.h5")
    refused(USAGE, "2001", *pack, "new.h5", "--first", "2001")
    write("short.idx", read("x.idx")[:-1])
    refused(MALFORMED, "short.idx", "dgx-pack", "idx", "--images", "short.idx", "--labels", "y.idx", "-o", "new.h5")


def test_submissions():
    submit = ["dgx-submit", "--data", "small.h5", "--model", "mlp:144-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--steps", "4", "-o", "new.json"]
    refused(USAGE, "2001", *submit, "--batch", "2001", "--key", "stranger.pem")
    refused(MISSING, "none.pem", *submit, "--batch", "10", "--key", "none.pem")
    refused(MALFORMED, "stranger.pub.pem", *submit, "--batch", "10", "--key", "stranger.pub.pem")
    tasks.run(BIN, *submit, "--batch", "10", "--key", "stranger.pem")
    refused(MALFORMED, "run", *train("run", task="new.json"))
    refused(MALFORMED, "run", "dgx-train", "--evaluate", "run", "--data", "small.h5", "new.json")


def test_full_disk():
    for keep_signal in (False, True):
        for size in (0, 4096, 100000):
            refused(IO, "new.h5", "dgx-pack", "idx", "--images", "x.idx", "--labels", "y.idx", "-o", "new.h5", **disk_of(size, keep_signal))
        # The first bundle has room, the second has not.
        refused(IO, "rest.h5", "dgx-pack", "idx", "--images", "x.idx", "--labels", "y.idx", "--split", "0.01", "--rest", "rest.h5", "-o", "new.h5",
                **disk_of(50000, keep_signal))
        # The log may have grown: by steps whose checkpoint did not fit, and by half a row.
        refused(IO, "", *train("run"), may_make=("./run/log.csv",), **disk_of(20000, keep_signal))
        refused(IO, "log.csv", *train("run"), may_make=("./run/log.csv",), **disk_of(600, keep_signal))
    shutil.copytree("run", "copy")
    finishes("copy", "after the disk was full")
    logged = [row.split(b",")[0] for row in read("copy/log.csv").splitlines()[1:]]
    check(logged == [b"%d" % step for step in range(1, 301)], "after the disk was full: the log does not have every step once")
    shutil.rmtree("copy")


@contextlib.contextmanager
def unwritable_folder(*programs):
    """Options of a call that may not write here: as somebody else where the tests are run by root."""
    with tempfile.TemporaryDirectory() as reachable:
        if os.getuid() == 0:
            # Root may write anywhere; another user may not be allowed to enter the folder that the programs were built in.
            os.chmod(".", 0o755)
            os.chmod(reachable, 0o755)
            for name in programs:
                shutil.copy(os.path.join(BIN, name), reachable)
            os.chown("stranger.pem", NOBODY, NOBODY)
            yield {"user": NOBODY, "extra_groups": [], "bin_folder": reachable}
            os.chown("stranger.pem", 0, 0)
        else:
            os.chmod(".", 0o555)
            yield {}
        os.chmod(".", 0o755)


def test_read_only_folder():
    with unwritable_folder("dgx-key", "dgx-pack", "dgx-train") as user:
        refused(CANNOT_CREATE, "new.h5", "dgx-pack", "idx", "--images", "x.idx", "--labels", "y.idx", "-o", "new.h5", **user)
        refused(CANNOT_CREATE, "new", *train("new"), **user)
        refused(CANNOT_CREATE, "new", "dgx-key", "new", "new", **user)


def test_read_only_folder_of_provers():
    with unwritable_folder("dgx-prove", "dgx-verify", "dgx-bisect", "dgx-inspect") as user:
        refused(CANNOT_CREATE, "p.", "dgx-prove", "small.json", "whole", "--key", "stranger.pem", "-o", "p.json", **user)
        refused(CANNOT_CREATE, "v.", "dgx-verify", "small.json", "proof.json", "--from", "whole", "--data", "small.h5", "--segments", "3", "--key", "stranger.pem",
                "-o", "v.json", **user)
        refused(CANNOT_CREATE, "t.h5", "dgx-bisect", "trace", "small.json", "--from", "whole", "--segment", "3", "--data", "small.h5", "-o", "t.h5", **user)
        refused(CANNOT_CREATE, "m.npz", "dgx-inspect", "export", "whole", "-o", "m.npz", **user)


def begun(run, checkpoints):
    """A training process that has made so many checkpoints, stopped. It may have been done before, and is made again."""
    give_up = time.monotonic() + 100
    while True:
        process = subprocess.Popen([os.path.join(BIN, "dgx-train"), *train(run)[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(f"{run}/index.h5") or sum(name.startswith("checkpoint-") for name in os.listdir(run)) < checkpoints:
            assert process.poll() is None and time.monotonic() < give_up, "the program does not make checkpoints"
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        # Till its last thread has stopped: one may be within a rename.
        if process.returncode is None and os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code == os.CLD_STOPPED:
            return process
        process.communicate()
        shutil.rmtree(run)


def test_two_writers():
    first = begun("both", 2)
    before = sorted(os.listdir("both"))
    second = call(*train("both"))
    check(second.returncode == LOCKED, f"a second writer: exit {second.returncode}: {second.stderr}")
    check(sorted(os.listdir("both")) == before, "a second writer changed the run")
    first.send_signal(signal.SIGCONT)
    error = first.communicate(timeout=200)[1]
    check(first.returncode == DONE, f"the first writer: exit {first.returncode}: {error}")
    finishes("both", "two writers")


def test_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        run = f"signal{int(number)}"
        process = begun(run, 1)
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        error = process.communicate(timeout=200)[1]
        check(process.returncode == INTERRUPTED, f"{run}: exit {process.returncode}: {error}")
        strays = [name for name in os.listdir(run) if not name.startswith(("checkpoint-", "index.h5", "resume.", ".lock", "log.csv"))]
        check(not strays, f"{run}: left behind: {strays}")
        finishes(run, run)


def ended(process, number):
    process.send_signal(number)
    error = process.communicate(timeout=200)[1]
    return process.returncode, error


def test_no_progress():
    """A scheduler that requeues on 75 must not do so for ever: a resumed call that was stopped before its first step says 70."""
    for _ in range(20):  # on a busy machine the signal may come behind a step
        shutil.rmtree("idle", ignore_errors=True)
        shutil.copytree("run", "idle")
        before = snapshot()
        code, error = ended(caught(*train("idle")), signal.SIGTERM)
        if code not in (INTERRUPTED, DONE):
            break
    check(code == INTERNAL and "without having finished one" in error, f"stopped before its first step: exit {code}: {error}")
    check(before == snapshot(), "a call that made no step changed the run")
    finishes("idle", "after a call without a step")


def proved():
    """A finished run, its proof and a verification of all segments: what the tests below interrupt."""
    finishes("whole", "alone")
    tasks.run(BIN, "dgx-prove", "small.json", "whole", "--key", "stranger.pem", "-o", "proof.json", "--force")
    return ["dgx-verify", "small.json", "proof.json", "--from", "whole", "--data", "small.h5", "--all", "--key", "stranger.pem", "--threads", "1", "--isa",
            "scalar"]


def verifier_interrupted(verify, output, number, result=None, expected=None):
    """Exit code and error of a verifier that got the signal at work, when it had kept some of its segments, as it does once a second: it is held for as long.
    It may have been done before, and is made again."""
    for attempt in range(20):
        process = caught(*verify, "-o", output)
        time.sleep(0.002 * attempt)  # till it has opened what it reads
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.1)
        process.send_signal(signal.SIGCONT)
        while process.poll() is None and not os.path.exists(f"{output}.part"):
            time.sleep(0.0005)
        process.send_signal(signal.SIGSTOP)
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        error = process.communicate(timeout=200)[1]
        if process.returncode != DONE and not (number == signal.SIGKILL and os.path.exists(output)):
            break
        check(result is None or read(result) == expected, f"{output} of a verifier that the signal {number} found at its end is another")  # it had only to exit
        for made in (output, output.replace(".json", ".rows.jsonl")):
            if os.path.exists(made):
                os.remove(made)
    return process.returncode, error


def check_resumes(verify, output, result):
    """After each signal the same command continues what was finished, and ends as if nothing had happened: with the same `result`, its output or a file
    next to it."""
    expected = read("expected." + result.split(".", 1)[1])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGKILL):
        code, error = verifier_interrupted(verify, output, number, result, expected)
        check(code == (-number if number == signal.SIGKILL else INTERRUPTED), f"{output} at signal {number}: exit {code}: {error}")
        check(number == signal.SIGKILL or "run the same command again" in error, f"{output} at signal {number}: does not say how to go on: {error}")
        check(not os.path.exists(output), f"{output} at signal {number}: is there in part")
        done = tasks.run(BIN, *verify, "-o", output)[1]
        check(done.get("resumed", 0) > 0, f"{output} after signal {number} began anew")
        check(read(result) == expected, f"{output} after signal {number} is another")
        check(not os.path.exists(f"{output}.part"), f"{output} after signal {number} left its beginning")
        for name in {output, result}:
            os.remove(name)


def test_interrupted_verifiers():
    verify = proved()
    shard = [*verify, "--shard", "0/1"]
    tasks.run(BIN, *shard, "-o", "expected.json")
    check_resumes(shard, "shard.json", "shard.json")
    os.remove("expected.json")
    tasks.run(BIN, *verify, "-o", "expected.json")
    check_resumes(verify, "verdict.json", "verdict.rows.jsonl")
    for name in [name for name in os.listdir(".") if name.startswith(".") and name.endswith(".tmp")]:
        os.remove(name)  # of those that were killed
    before = snapshot()
    at_random = [*verify[:verify.index("--all")], "--fraction", "1", *verify[verify.index("--all") + 1:], "-o", "random.json"]
    for words in (at_random, ["dgx-profile", "small.json", "--data", "small.h5", "--key", "stranger.pem", "-o", "profile.json"]):
        code, error = ended(caught(*words), signal.SIGTERM)
        check(code == INTERRUPTED and "nothing is saved" in error, f"{words[0]} at SIGTERM: exit {code}: {error}")
    check(before == snapshot(), "an interrupted verifier left something behind")


def test_rows_of_others():
    """The beginning of another verification is refused, and so is one that somebody else made."""
    verify = proved()
    part = "v.json.part"
    for number in (signal.SIGKILL,):
        verifier_interrupted(verify, "v.json", number)
    good = read(part)
    for says, words in (("is not the beginning of this verification", [*verify[:verify.index("--all")], "--segments", "1,2", *verify[verify.index("--all") + 1:]]),
                        ("was made elsewhere", [word.replace("stranger.pem", "other.pem") for word in verify])):
        if not os.path.exists("other.pem"):
            tasks.run(BIN, "dgx-key", "new", "other")
        refused((MALFORMED, UNAUTHORISED), says, *words, "-o", "v.json")
        check("remove it to start again" in call(*words, "-o", "v.json").stderr, "the way on is not told")
    write(part, flipped(good, 1000))
    refused(UNAUTHORISED, part, *verify, "-o", "v.json")
    write(part, good[:-1])
    refused(MALFORMED, part, *verify, "-o", "v.json")
    write(part, good)
    check(tasks.run(BIN, *verify, "-o", "v.json")[1]["resumed"] > 0, "what was kept is lost")
    check(not os.path.exists(part), "the kept rows are still there")
    for name in ("v.json", "v.rows.jsonl", "other.pem", "other.pub.pem"):
        os.remove(name)


def test_proofs():
    """Damaged, cut off, somebody else's: of what dgx-prove wrote, everything is refused that is not whole."""
    verify = ["dgx-verify", "small.json", "bad.json", "--from", "whole", "--data", "small.h5", "--all", "--key", "stranger.pem", "-o", "v.json"]
    proof, states = read("proof.json"), read("proof.states")
    numbers = random.Random(3)
    for bad in (proof[:-3], proof[:100], b""):
        write("bad.json", bad)
        write("bad.states", states)
        refused(MALFORMED, "bad.json", *verify)
    for _ in range(10):
        write("bad.json", flipped(proof, numbers.randrange(len(proof) * 8 - 8)))
        refused((MALFORMED, UNAUTHORISED), "bad.json", *verify)
    write("bad.json", proof)
    for bad in (states[:-1], states[:-32], states + states[:32], flipped(states, 5), flipped(states, len(states) * 8 - 1)):
        write("bad.states", bad)
        refused(MALFORMED, "bad.states", *verify)
    os.remove("bad.states")
    os.mkdir("away")  # beside the proof it would be known by its root
    os.rename("proof.states", "away/proof.states")
    refused(MISSING, "bad.states", *verify)
    os.rename("away/proof.states", "proof.states")
    os.rmdir("away")
    os.remove("bad.json")
    trace = ["dgx-bisect", "trace", "small.json", "--from", "whole", "--segment", "3", "--data", "small.h5", "-o"]
    tasks.run(BIN, *trace, "trace.h5")
    good = read("trace.h5")
    diff = ["dgx-bisect", "diff", "small.json", "whole", "bad.h5", "--data", "small.h5"]
    for bad in (b"", good[:100], good[:-1], good + b"x", flipped(good, 800)):  # other flips, by their places: flips.py
        write("bad.h5", bad)
        refused(MALFORMED, "bad.h5", *diff)
    os.remove("bad.h5")


def test_full_disk_of_provers():
    small = disk_of(100, False)
    refused(IO, "", "dgx-prove", "small.json", "whole", "--key", "stranger.pem", "-o", "p.json", **small)
    refused(IO, "", "dgx-verify", "small.json", "proof.json", "--from", "whole", "--data", "small.h5", "--segments", "3", "--key", "stranger.pem", "-o",
            "v.json", **small)
    refused(IO, "", "dgx-bisect", "trace", "small.json", "--from", "whole", "--segment", "3", "--data", "small.h5", "-o", "t.h5", **small)
    refused(IO, "", "dgx-inspect", "export", "whole", "-o", "m.npz", **small)
    refused(IO, "", "dgx-key", "new", "k", **disk_of(10, False))


PARTS = {"manifests": ("cryptography", test_hostile_manifests), "bundles": ("h5py", test_hostile_bundles), "submissions": (None, test_submissions)}
if OPTIONS.part:
    module, part = PARTS[OPTIONS.part]
    if module:
        tasks.needs.modules(module)
    run_tests(part)
run_tests(test_datasets, test_tasks, test_runs, test_sources, test_full_disk, test_read_only_folder, test_two_writers, test_signals, test_no_progress,
          test_interrupted_verifiers, test_rows_of_others, test_proofs, test_full_disk_of_provers,
          test_read_only_folder_of_provers)
