"""Openings, deliveries and chunks that an operator fetches: openings.py --bin FOLDER

A market of real tasks through the built programs. The store holds what its writers like: links, pipes, devices, other people's files, files without end,
states and samples of something else. Every refused opening leaves the ledger, and the operator's copies, as they were, and holds up nobody else.
Exits 77 without NumPy, h5py and cryptography.
"""

import argparse
import base64
import contextlib
import fcntl
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("cli/dgx-settle", "support")]
import needs  # noqa: E402

needs.modules("cryptography", "h5py", "numpy")
import statements  # noqa: E402  signs without the programs' code
from cryptography.hazmat.primitives import serialization  # noqa: E402

REFUSED, MISSING = 65, 66
checks = 0


def check(what, holds, told=""):
    global checks
    checks += 1
    if not holds:
        sys.exit(f"FAILED: {what}: {told}")


class Market:
    """A ledger, its store, and one network that is trained for many tasks."""

    def __init__(self, programs, name, **windows):
        self.programs, self.ledger, self.number = programs, f"{name}.jsonl", 0
        self.copies, self.store = pathlib.Path(f"{name}.openings"), pathlib.Path(f"{name}.store")
        self.store.mkdir()
        policy = {"sample_ppm": 300000, "unsafe_bonds": 1} | windows
        pathlib.Path(f"{name}.policy.json").write_text(json.dumps(policy))
        self.run("dgx-settle", "init", self.ledger, "--key", "operator.pem", "--policy", f"{name}.policy.json")
        for who in ("submitter", "solver", "verifier", "mallory"):
            self.deposit(who, 10_000_000)

    def run(self, *words, exit_code=0):
        done = subprocess.run([os.path.join(self.programs, words[0]), *map(str, words[1:])], capture_output=True, text=True, timeout=120)
        check(" ".join(map(str, words)), done.returncode == exit_code, f"exit {done.returncode}, not {exit_code}: {done.stdout}{done.stderr}")
        return done

    def deposit(self, who, amount):
        self.number += 1
        file = f"deposit{self.number}.{self.ledger}.json"
        self.run("dgx-settle", "make", "deposit", "--ledger", self.ledger, "--set", f"account={who}.pub.pem", f"amount={amount}",
                 f"reference={self.number}", "--key", "operator.pem", "-o", file)
        self.append(file)

    def append(self, *files, exit_code=0, store=True):
        return self.run("dgx-settle", "append", self.ledger, *files, *(["--store", self.store] if store else []), "--key", "operator.pem",
                        exit_code=exit_code)

    def prove(self, task, reveals=True, drill=None):
        """A task with its proof in the ledger; the verifier reveals, or not."""
        self.run("dgx-submit", "--data", "data.h5", "--model", "mlp:4-8-3", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", 8,
                 "--steps", 40, "--checkpoint-every", 4, "--seed", len(task), "--ledger", self.ledger, "--key", "submitter.pem", "-o", f"{task}.json")
        self.run("dgx-verify", "beacon", f"{task}.json", "--segment-milliseconds", "1", "--key", "verifier.pem", "-o", f"{task}.commit.json")
        self.run("dgx-settle", "make", "assign", f"{task}.json", "--about", f"{task}.commit.json", "--set", "segment_milliseconds=1", "--key", "solver.pem", "-o", f"{task}.assign.json")
        self.append(f"{task}.json", f"{task}.commit.json", f"{task}.assign.json")
        self.run("dgx-train", f"{task}.json", "--data", "data.h5", "-o", f"{task}.run", *(["--drill", drill] if drill else []))
        self.run("dgx-prove", f"{task}.json", f"{task}.run", "--key", "solver.pem", "-o", f"{task}.proof.json")
        self.append(f"{task}.proof.json", "-o", f"{task}.receipt.json")
        if reveals:
            self.run("dgx-verify", "beacon", f"{task}.commit.json", "--reveal", f"{task}.proof.json", "--task", f"{task}.json", "--ledger", self.ledger,
                     "--key", "verifier.pem", "-o", f"{task}.beacon.json")
            self.append(f"{task}.beacon.json")

    def open(self, task, *options):
        draw = ["--beacon", f"{task}.beacon.json"] if pathlib.Path(f"{task}.beacon.json").exists() else ["--receipt", f"{task}.receipt.json"]
        self.run("dgx-prove", "open", f"{task}.json", f"{task}.proof.json", *draw, "--run", f"{task}.run", "--store", self.store, "--key", "solver.pem",
                 "-o", f"{task}.opening.json", *options)
        return self.store / key_id("solver") / body(f"{task}.opening.json")["location"]

    def count(self):
        return sum(1 for _ in open(self.ledger, encoding="ascii"))

    def state(self, task):
        status = json.loads(self.run("dgx-settle", "status", self.ledger, "--task", f"{task}.json", "--json").stdout)
        return status["tasks"][0]["state"], status["tasks"][0]["reason"]

    def balance(self, who):
        return json.loads(self.run("dgx-settle", "balances", self.ledger, "--json").stdout)["accounts"][key_id(who)]


def body(path):
    return json.loads(base64.b64decode(json.loads(pathlib.Path(path).read_text())["payload"]))["predicate"]


def key_id(who):
    key = serialization.load_pem_public_key(pathlib.Path(f"{who}.pub.pem").read_bytes())
    public = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    return statements.sha(statements.canonical({"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}))


def sign_opening(task, location, who="solver"):
    """An opening by hand: the program would not sign just any place."""
    old = body(f"{task}.opening.json")
    key = serialization.load_pem_private_key(pathlib.Path(f"{who}.pem").read_bytes(), None)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        statements.seal("opening", {k: old[k] for k in ("task", "proof", "after")} | {"location": location},
                        [("proof", old["proof"]), ("after", old["after"])], key)
    path = f"{task}.forged.json"
    pathlib.Path(path).write_text(text.getvalue())
    return path


def refused(market, task, location, exit_code, what, who="solver"):
    before = market.count()
    told = market.append(sign_opening(task, location, who), exit_code=exit_code).stderr
    check(f"{what}: nothing is logged", market.count() == before, told)
    left = [str(p) for p in market.copies.rglob("*") if p.is_file()]
    check(f"{what}: no copy is left", not left, left)
    return told


def grow(path, stop):
    with open(path, "ab") as file:
        while not stop.is_set():
            file.write(b"\0" * 4096)
            file.flush()
            if file.tell() > 1 << 24:
                file.truncate(1 << 20)


def hostile_places(market):
    """Whatever lies in the store, the operator refuses it with a reason; the honest opening is logged afterwards."""
    market.prove("tampered")
    market.prove("other--task")
    good, other = market.open("tampered"), market.open("other--task")
    mine = good.parent
    market.append("tampered.opening.json", exit_code=2, store=False)
    for location, what in (("../secret", "a parent"), ("/etc", "an absolute place"), ("a//b", "an empty part"), ("a/../b", "a parent inside"), ("", "no place")):
        told = market.append(sign_opening("tampered", location), exit_code=REFUSED).stderr
        check(f"{what} is no location", "location" in told, told)
    refused(market, "tampered", "nowhere", MISSING, "nothing there")

    def place(name):
        folder = mine / name
        shutil.copytree(good, folder)
        return folder

    (mine / "linked").symlink_to(good.absolute())
    refused(market, "tampered", "linked", REFUSED, "a linked folder")
    folder = place("link")
    (folder / "sample.h5").unlink()
    (folder / "sample.h5").symlink_to((good / "sample.h5").absolute())
    refused(market, "tampered", "link", REFUSED, "a linked file")
    (folder / "sample.h5").unlink()
    os.link(good / "sample.h5", folder / "sample.h5")
    refused(market, "tampered", "link", REFUSED, "a second name of a file")
    (folder / "sample.h5").unlink()
    for name in ("sample.h5", "states"):
        folder = place(f"pipe-{name}")
        (folder / name).unlink()
        os.mkfifo(folder / name)
        refused(market, "tampered", folder.name, REFUSED, "a pipe")
        (folder / name).unlink()
        (folder / name).mkdir()
        refused(market, "tampered", folder.name, REFUSED, "a folder")
        (folder / name).rmdir()
        with contextlib.suppress(PermissionError):
            os.mknod(folder / name, 0o020666, os.makedev(1, 5))
            refused(market, "tampered", folder.name, REFUSED, "/dev/zero")
    folder = place("large")
    os.truncate(folder / "sample.h5", 1 << 40)
    check("the cap is told", "at most" in refused(market, "tampered", "large", REFUSED, "a file of a tebibyte"))
    folder, stop = place("growing"), threading.Event()
    writer = threading.Thread(target=grow, args=(folder / "sample.h5", stop))
    writer.start()
    refused(market, "tampered", "growing", REFUSED, "a file that grows")
    stop.set()
    writer.join()

    folder = place("states")
    flipped = bytearray((folder / "states").read_bytes())
    flipped[40] ^= 1
    (folder / "states").write_bytes(flipped)
    check("the root is told", "root" in refused(market, "tampered", "states", REFUSED, "a flipped state"))
    folder = place("holes")
    os.truncate(folder / "sample.h5", 1 << 24)
    before = market.count()
    told = market.append(sign_opening("tampered", "holes"), sign_opening("other--task", "states"), exit_code=REFUSED).stderr
    check("what is small goes first", 0 <= told.find("other--task.forged") < told.find("tampered.forged"), told)
    check("and neither is logged", market.count() == before, told)
    os.truncate(mine / "states" / "sample.h5", 1 << 40)
    check("states are checked before the sample is looked at", "root" in refused(market, "tampered", "states", REFUSED, "a flipped state"))
    folder = place("sample")
    shutil.copyfile(other / "sample.h5", folder / "sample.h5")
    refused(market, "tampered", "sample", REFUSED, "another task's sample")
    damaged = bytearray((good / "sample.h5").read_bytes())
    for at in range(len(damaged) // 2, len(damaged) // 2 + 64):
        damaged[at] ^= 0x55
    (folder / "sample.h5").write_bytes(damaged)
    refused(market, "tampered", "sample", REFUSED, "a damaged sample")
    theirs = market.store / key_id("mallory")
    theirs.mkdir()
    shutil.copytree(good, theirs / "theirs")
    refused(market, "tampered", "theirs", MISSING, "another's folder")
    refused(market, "tampered", "theirs", 77, "an opening by another key", "mallory")

    def opened_at(location, exit_code):
        return market.run("dgx-prove", "open", "tampered.json", "tampered.proof.json", "--beacon", "tampered.beacon.json", "--run", "tampered.run", "--store",
                          market.store, "--location", location, "--key", "solver.pem", "-o", "elsewhere.json", exit_code=exit_code).stderr

    check("a location has room for its files", "246" in opened_at("a" * 247, 2))
    elsewhere = pathlib.Path("elsewhere")
    elsewhere.mkdir()
    (mine / "parent").symlink_to(elsewhere.absolute())
    os.rename(mine, "mine")
    mine.symlink_to(elsewhere.absolute())
    check("no linked folder of the key", "is a link" in opened_at("own", 73))
    mine.unlink()
    os.rename("mine", mine)
    check("no linked folder", "is a link" in opened_at("parent", 73) + opened_at("parent/own", 73))
    check("nothing is written behind a link", not list(elsewhere.iterdir()), list(elsewhere.iterdir()))

    # One that cannot be fetched holds up nobody; the solver may log another until the window ends.
    bad = sign_opening("tampered", "nowhere")
    market.run("dgx-settle", "make", "deposit", "--ledger", market.ledger, "--set", "account=solver.pub.pem", "amount=1", "reference=beside", "--key",
               "operator.pem", "-o", "beside.json")
    before = market.count()
    told = market.append(bad, "other--task.opening.json", "beside.json", exit_code=MISSING)
    check("the others of the append are logged", market.count() == before + 2, told.stderr)
    check("and told", "deposit" in told.stdout and "opening" in told.stdout, told.stdout)
    market.append("tampered.opening.json")
    check("it is opened", market.state("tampered")[0] == "opened")
    again = place("again")
    check("once", "already" in market.append(sign_opening("tampered", again.name), exit_code=76).stderr)


def killed_between(market):
    """A kill while copying leaves a piece, one before logging the whole copy: the same command goes on from either."""
    market.prove("killed")
    folder = market.open("killed")
    statement = json.loads(market.run("dgx-inspect", "killed.opening.json", "--json").stdout)["id"]
    task = body("killed.opening.json")["task"]
    dead, alive = (market.copies / f".part-{word * 16}" for word in "ab")
    for part in (dead, alive):
        (part / "files").mkdir(parents=True)
        (part / "files" / "states").write_bytes(b"torn")
    (alive / ".lock").touch()
    shutil.move(folder, "away")
    with open(alive / ".lock", "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        market.append("killed.opening.json", exit_code=MISSING)
        check("the piece of a process that is gone is gone", parts(market) == [alive.name], parts(market))
    market.append("killed.opening.json", exit_code=MISSING)
    check("each goes with its process", not parts(market), parts(market))
    (market.copies / task).mkdir(exist_ok=True)
    shutil.copytree("away", market.copies / task / statement)
    market.append("killed.opening.json")
    check("the copy counts", market.state("killed")[0] == "opened")


def parts(market):
    return sorted(path.name for path in market.copies.iterdir() if path.name.startswith(".part"))


def raced(market):
    """One opening in two appends at once: the second is stopped at every moment in turn while the first runs. Its copy is whole, whoever logs it."""
    market.prove("raced")
    good = market.open("raced")
    wanted = {path.name: path.read_bytes() for path in good.iterdir()}
    copy = market.copies / body("raced.opening.json")["task"] / statement_of("raced.opening.json", market)
    before = {path: pathlib.Path(path).read_bytes() for path in (market.ledger, market.ledger.replace(".jsonl", ".receipts.jsonl"))}
    command = [os.path.join(market.programs, "dgx-settle"), "append", market.ledger, "raced.opening.json", "--store", market.store, "--key", "operator.pem"]

    # The leak sanitizer stops a process that ends to look at it, and waits for ever if it is continued meanwhile.
    sanitized = os.environ | {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

    def start():
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=sanitized)

    ends = set()
    for moment in range(600):
        if moment >= 60 and len(ends) > 1:  # a slow machine comes to it later
            break
        for path, content in before.items():
            pathlib.Path(path).write_bytes(content)
        shutil.rmtree(copy.parent, ignore_errors=True)
        second = start()
        time.sleep(moment * 0.001)
        if moment % 3 != 0:
            second.send_signal(signal.SIGSTOP)
        first = start()
        told = first.communicate(timeout=60)
        second.send_signal(signal.SIGCONT)
        told += second.communicate(timeout=60)
        exits = (first.returncode, second.returncode)
        check(f"at {moment} ms one of two logs it, and the other has nothing to do or has to wait", exits in ((0, 0), (0, 69), (69, 0)), (exits, told))
        check(f"at {moment} ms it is opened", market.state("raced")[0] == "opened", told)
        found = {path.name: path.read_bytes() for path in copy.iterdir()} if copy.is_dir() else None
        check(f"at {moment} ms the copy is whole", found == wanted, found and {name: len(content) for name, content in found.items()})
        check(f"at {moment} ms no piece is left", not parts(market), parts(market))
        ends.add((exits, "skipped" in "".join(told)))
    check("both were at it at once", len(ends) > 1, ends)


def strangers(market):
    """Whoever has only ledger, task files and data verifies and challenges; the solver delivers by the store."""
    market.prove("honest")
    market.open("honest")
    market.append("honest.opening.json")
    for file in ("honest.proof.states", "honest.states"):
        pathlib.Path(file).unlink(missing_ok=True)
    os.rename("honest.proof.json", "honest.away.json")
    task = body("honest.opening.json")["task"]
    market.run("dgx-settle", "fetch", market.ledger, task[:12], "-o", "honest.fetched")
    check("the folder is whole", sorted(os.listdir("honest.fetched")) == ["beacon.json", "proof.json", "sample.h5", "states"])
    market.run("dgx-verify", "honest.json", "honest.fetched/proof.json", "--from", "honest.fetched", "--data", "data.h5", "--beacon",
               "honest.fetched/beacon.json", "--key", "verifier.pem", "-o", "honest.verdict.json")
    market.append("honest.verdict.json")
    check("a challenge that a replay does not bear out", "would be lost" in market.run(
        "dgx-bisect", "open", "honest.json", "honest.fetched/proof.json", "--segment", drawn("honest.fetched/sample.h5"), "--from", "honest.fetched",
        "--data", "data.h5", "--key", "mallory.pem", "-o", "unfounded.jsonl", exit_code=3).stderr)
    shutil.copyfile("honest.fetched/states", "honest.away.states")
    market.run("dgx-prove", "deliver", "honest.json", "honest.away.json", "--run", "honest.run", "--store", market.store, "--key", "solver.pem", "-o",
               "honest.delivery.json")
    place = market.store / key_id("solver") / body("honest.delivery.json")["location"]
    final = place.read_bytes()
    shutil.copyfile(sorted(pathlib.Path("honest.run").glob("checkpoint-0000000004-*"))[0], place)
    market.append("honest.delivery.json", exit_code=REFUSED)
    place.write_bytes(final)
    market.append("honest.delivery.json")
    fetched = json.loads(market.run("dgx-settle", "fetch", market.ledger, statement_of("honest.delivery.json", market), "-o", "honest.final", "--json").stdout)
    check("the submitter has the weights", fetched["files"] == ["state.h5"] and pathlib.Path("honest.final/state.h5").read_bytes() == final)
    time.sleep(2.2)
    market.run("dgx-settle", "run", market.ledger, "--key", "operator.pem")
    check("the solver is paid", market.state("honest") == ("settled", "accepted"), market.state("honest"))
    check("the copies are gone", not (market.copies / task).exists())
    market.run("dgx-settle", "fetch", market.ledger, task, "-o", "late", exit_code=MISSING)


def drawn(sample):
    import h5py
    with h5py.File(sample, "r") as file:
        return int(sorted(name for name in file["segments"])[0]) if "segments" in file else int(next(iter(file)))


def statement_of(path, market):
    return json.loads(market.run("dgx-inspect", path, "--json").stdout)["id"]


def chunks(market):
    """The verifier is silent: the proof is opened after its receipt, and a stranger may demand any piece of any state."""
    market.prove("unseen", reveals=False)
    market.run("dgx-prove", "open", "unseen.json", "unseen.proof.json", "--receipt", "unseen.receipt.json", "--run", "unseen.run", "--store", market.store,
               "--key", "solver.pem", "-o", "early.json")
    check("before the beacon is missed", "beacon" in market.append("early.json", exit_code=76).stderr)
    time.sleep(4.2)
    market.open("unseen")
    market.append("unseen.opening.json")
    check("the window of objections begins", market.state("unseen")[0] == "challenge-window", market.state("unseen"))
    market.run("dgx-settle", "fetch", market.ledger, "unseen.json", "-o", "unseen.fetched")
    market.run("dgx-bisect", "open", "unseen.json", "unseen.fetched/proof.json", "--chunk", "model/0.weight", "--segment", 7, "--key", "mallory.pem", "-o",
               "chunk.jsonl")
    market.append("chunk.jsonl")
    shutil.copyfile("chunk.jsonl", "nowhere.jsonl")
    move = ("dgx-bisect", "move", "unseen.json")
    market.run(*move, "nowhere.jsonl", "--from", "unseen.run", "--data", "data.h5", "--location", "nowhere", "--key", "solver.pem", "--notes", "n1")
    told = market.append("nowhere.jsonl", exit_code=MISSING)
    check("an answer that lies nowhere is none", "nowhere" in told.stderr, told.stderr)
    market.run(*move, "chunk.jsonl", "--from", "unseen.run", "--data", "data.h5", "--store", market.store, "--key", "solver.pem", "--notes", "n2")
    market.append("chunk.jsonl")
    said = json.loads(pathlib.Path("chunk.jsonl").read_text().splitlines()[-1])
    pathlib.Path("said.json").write_text(json.dumps(said, sort_keys=True, separators=(",", ":")) + "\n")
    market.run("dgx-settle", "fetch", market.ledger, statement_of("said.json", market), "-o", "piece")
    check("the piece is handed out", len(pathlib.Path("piece/chunk").read_bytes()) == 4 * 8 * 4)


def silent_solver(market):
    """A solver who opens nothing has no proof; the verifier who revealed keeps the bond and is paid."""
    before = market.balance("verifier"), market.balance("solver")
    market.prove("closed")
    time.sleep(2.2)
    market.run("dgx-settle", "run", market.ledger, "--key", "operator.pem")
    check("no proof", market.state("closed") == ("settled", "no-proof"), market.state("closed"))
    after = market.balance("verifier"), market.balance("solver")
    check("the verifier has lost nothing", after[0] > before[0], (before, after))
    check("the solver has", after[1] < before[1], (before, after))


def caught_by_a_stranger(market):
    """A cheat whose verifier says nothing: a stranger challenges, and moves, out of the operator's copy alone."""
    before = market.balance("mallory")
    market.prove("cheat", drill="step=9,op=3,element=0,bit=20")
    market.open("cheat")
    market.append("cheat.opening.json")
    market.run("dgx-settle", "fetch", market.ledger, "cheat.json", "-o", "cheat.fetched")
    challenge = ("dgx-bisect", "open", "cheat.json", "cheat.fetched/proof.json", "--from", "cheat.fetched", "--data", "data.h5", "--key", "mallory.pem")
    market.run(*challenge, "--segment", 1, "-o", "unfounded.cheat.jsonl", exit_code=3)
    market.run(*challenge, "--segment", 2, "-o", "cheat.jsonl")
    time.sleep(2.2)
    market.append("cheat.jsonl")
    for who, place in (("solver", "cheat.run"), ("mallory", "cheat.fetched")):
        market.run("dgx-bisect", "move", "cheat.json", "cheat.jsonl", "--from", place, "--data", "data.h5", "--key", f"{who}.pem", "--notes", f"{who}.notes",
                   *(["--drill"] if who == "solver" else []))
    market.append("cheat.jsonl")
    time.sleep(4.5)
    market.run("dgx-settle", "run", market.ledger, "--key", "operator.pem")
    check("the cheat is convicted", market.state("cheat") == ("settled", "convicted"), market.state("cheat"))
    check("who caught them has more", market.balance("mallory") > before)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    programs = parser.parse_args().bin
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        import numpy as np
        i, j = np.arange(40)[:, None], np.arange(4)[None, :]
        np.save("x.npy", (((i * 37 + j * 101 + i * j * 13) % 97) / 97).astype("<f4"))
        np.save("y.npy", (np.arange(40) % 3).astype("<i8"))
        for who in ("operator", "submitter", "solver", "verifier", "mallory"):
            subprocess.run([os.path.join(programs, "dgx-key"), "new", who], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([os.path.join(programs, "dgx-pack"), "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5"], check=True, stdout=subprocess.DEVNULL)
        slow = Market(programs, "slow")
        hostile_places(slow)
        killed_between(slow)
        raced(slow)
        strangers(Market(programs, "honest-market", window_challenge_ms=2000))
        chunks(Market(programs, "unseen-market", window_reveal_ms=4000))
        caught_by_a_stranger(Market(programs, "cheated", sample_ppm=1000000, window_reveal_ms=2000, window_challenge_ms=4000, window_move_ms=4000))
        silent_solver(Market(programs, "silent", window_reveal_ms=2000))
    print(f"{checks} checks")


if __name__ == "__main__":
    main()
