"""The writes that cuts.py cuts: what a folder holds before, a command, and how its readers, the command again, and the end are judged."""

import json
import os
import shutil
import subprocess

import crashes

TINY_TASK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cli", "tiny_task.sh")
PYTHON = "/usr/bin/python3"
QUIET = ("-q", "--threads", "1")


def path(machine, *names):
    return os.path.join(machine.folder, *names)


def has(machine, name):
    return os.path.exists(path(machine, name))


def slurp(machine, name):
    with open(path(machine, name), "rb") as file:
        return file.read()


def ok(done, codes=(0,)):
    assert done.returncode in codes, f"{' '.join(done.args)}: exit {done.returncode}: {done.stdout.strip()[-200:]} {done.stderr.strip()[-400:]}"
    return done


def told(machine, *command, codes=(0,)):
    return json.loads(ok(machine.run(*command, "--json"), codes).stdout.splitlines()[-1])


class Story:
    """A command that writes `files`. By default: each file is absent or whole for dgx-inspect --check, and the bytes are the same each time."""

    exits = (0,)
    files = ()
    env = {}

    def __init__(self, name, base, command):
        self.name, self.base, self.command, self.wanted = name, base, command, None

    def end(self, machine):
        return {name: slurp(machine, name) for name in self.files}

    def learn(self, machine):
        self.wanted = self.end(machine)

    def readers(self, machine):
        if has(machine, self.files[0]):
            told(machine, "dgx-inspect", self.files[0], "--check")

    def again(self, machine):
        """Done again, or refused because it is done: the first of the files is written last."""
        done = machine.run(*self.command)
        there = all(has(machine, name) for name in self.files)
        assert done.returncode in self.exits or (done.returncode == 73 and there), f"again: {ok(done, self.exits)}"

    def ended(self, machine):
        found = self.end(machine)
        assert found == self.wanted, f"the end is another: {[k for k in self.wanted if found.get(k) != self.wanted[k]]}"


class Key(Story):
    files = ("k.pub.pem", "k.pem")

    def readers(self, machine):
        ids = {told(machine, "dgx-key", "id", name)["key_id"] for name in self.files if has(machine, name)}
        assert len(ids) < 2, "the two halves are of different keys"
        assert not has(machine, "k.pem") or os.stat(path(machine, "k.pem")).st_mode & 0o077 == 0

    def end(self, machine):
        return all(has(machine, name) for name in self.files) and self.readers(machine) is None


class Passphrase(Story):
    """The old key or the new one is there, whole: both have one id."""

    files = ("k.pem",)

    def readers(self, machine):
        assert told(machine, "dgx-key", "id", "k.pem", "--passphrase-file", "words")["key_id"] == self.wanted
        assert os.stat(path(machine, "k.pem")).st_mode & 0o077 == 0

    def end(self, machine):
        assert slurp(machine, "k.pem").startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
        return told(machine, "dgx-key", "id", "k.pem", "--passphrase-file", "words")["key_id"]

    def ended(self, machine):
        assert self.end(machine) == self.wanted, "another key"


class File(Story):
    def __init__(self, name, base, command, files):
        super().__init__(name, base, command)
        self.files = files


class Verdict(File):
    """Its nonce is drawn, its rows are not."""

    def end(self, machine):
        predicate = told(machine, "dgx-inspect", "verdict.json", "--check")["predicate"]
        return {"outcome": predicate["outcome"], "rows": slurp(machine, "verdict.rows.jsonl")}


class Verdicts(Story):
    """One for each proof of a list; each is whole or absent, with its rows."""

    exits = (1,)

    def verdicts(self, machine):
        there = sorted(os.listdir(path(machine, "verdicts"))) if has(machine, "verdicts") else []
        return [f"verdicts/{name}" for name in there if name.endswith(".json") and not name.startswith(".")]

    def end(self, machine):
        told_of = {name: told(machine, "dgx-inspect", name, "--check")["predicate"]["outcome"] for name in self.verdicts(machine)}
        return {name: (outcome, slurp(machine, name.replace(".json", ".rows.jsonl"))) for name, outcome in told_of.items()}

    def readers(self, machine):
        for name in self.verdicts(machine):
            told(machine, "dgx-inspect", name, "--check")

    def again(self, machine):
        ok(machine.run(*self.command), self.exits)


class Shard(File):
    """Nothing but dgx-verify reads one."""

    def readers(self, machine):
        pass


class Train(Story):
    """`first`: checkpoints that were there before, with an end of this command at a step between two."""

    def __init__(self, name, base, command, whole, first=0):
        super().__init__(name, base, command)
        self.whole, self.first = whole, first

    def checkpoints(self, machine):
        return [one["digest"] for one in told(machine, "dgx-inspect", "run", "--check")["checkpoints"]]

    def learn(self, machine):
        ok(machine.run(*self.whole))
        self.wanted = self.checkpoints(machine)

    def readers(self, machine):
        if not has(machine, "run/index.h5"):
            assert self.first == 0, "the run is gone"
            return
        found = self.checkpoints(machine)
        wanted = self.wanted[:len(found)]
        assert found == wanted and len(found) >= self.first, f"{len(found)} checkpoints, {self.first} were there"

    def again(self, machine):
        ok(machine.run(*self.command))

    def ended(self, machine):
        ok(machine.run(*self.whole))
        assert self.checkpoints(machine) == self.wanted
        strays = [name for name in os.listdir(path(machine, "run")) if name not in (".lock", "index.h5", "log.csv") and not name.startswith("checkpoint-")]
        assert not [name for name in strays if not name.startswith(".resume.")], f"left behind: {strays}"


class Resumed(Train):
    """A state between two checkpoints is saved again: the older one is there until the newer one is."""

    def again(self, machine):
        assert told(machine, *self.command)["resumed_from"] >= 13, "the resume point is gone"


class SavedOften(Train):
    """A state is saved after every step: each look at the clock takes it on. What is saved is whole, and the next call begins there."""

    env = {"DGX_CUTS_TICK": "1100"}

    def saved(self, machine):
        return told(machine, "dgx-inspect", "run/resume.h5", "--check")["step"] if has(machine, "run/resume.h5") else 0

    def readers(self, machine):
        super().readers(machine)
        self.saved(machine)

    def again(self, machine):
        saved = self.saved(machine)
        found = told(machine, *self.command)
        assert found.get("resumed_from", 0) >= saved, f"the state after step {saved} is gone"


class Open(Story):
    files = ("dispute.jsonl",)

    def readers(self, machine):
        if has(machine, "dispute.jsonl"):
            told(machine, "dgx-bisect", "show", "dispute.jsonl")


class Move(Story):
    files = ("dispute.jsonl",)

    def readers(self, machine):
        told(machine, "dgx-bisect", "show", "dispute.jsonl")
        assert slurp(machine, "dispute.jsonl").startswith(self.base["dispute.jsonl"]), "moves that were there are gone"

    def again(self, machine):
        ok(machine.run(*self.command), (0, 76))  # 76: it is made, and it is the other's turn


class Play(Move):
    """The last move of a game, which play makes."""

    def again(self, machine):
        assert told(machine, *self.command)["decision"]["falls"]


class Settle(Story):
    """Whatever is written, entries that were there stay, and the ledger is sound."""

    def entries(self, machine):
        return told(machine, "dgx-settle", "head", "L.jsonl")["entries"]

    def readers(self, machine):
        if "L.jsonl" not in self.base and not has(machine, "L.jsonl"):
            return
        told(machine, "dgx-settle", "check", "L.jsonl")
        for name in ("L.jsonl", "L.receipts.jsonl"):
            assert slurp(machine, name).startswith(self.base.get(name, b"")), f"{name}: lines that were there are gone"
        if "d1.json" in self.base:  # whatever the index beside it is
            ok(machine.run("dgx-settle", "extract", "L.jsonl", "--statement", "d1.json"))

    def end(self, machine):
        return {"entries": self.entries(machine), "balances": told(machine, "dgx-settle", "balances", "L.jsonl")}

    def ended(self, machine):
        found = self.end(machine)
        assert found["balances"] == self.wanted["balances"], "the balances are others"
        assert found["entries"] >= self.wanted["entries"], f"{found['entries']} entries, not {self.wanted['entries']}"
        # An index that could not be written is made again by whoever writes next; no look-up depends on it, as readers() shows.


class Init(Settle):
    """Two files are made, and the ledger is there when both are: else the same command makes them."""

    def again(self, machine):
        ok(machine.run(*self.command), (0, 73) if has(machine, "L.jsonl") else (0,))


class Append(Settle):
    """A kill may leave a beginning of what is appended."""

    def again(self, machine):
        done = machine.run(*self.command)
        if done.returncode != 76:
            ok(done)
            return
        assert "already" in done.stderr, done.stderr
        for word in self.command:
            if word.startswith("d") and word.endswith(".json"):
                ok(machine.run("dgx-settle", "append", "L.jsonl", word, "--key", "operator.pem"), (0, 76))


class Deposit(Settle):
    """With a reference the same deposits count once."""

    def again(self, machine):
        ok(machine.run(*self.command))


class Run(Settle):
    def again(self, machine):
        ok(machine.run(*self.command))


class Cosign(Story):
    """The note cosigned last is the old one or the new one, whole, and a witness who was killed answers when asked again."""

    files = ("state", "line")

    def readers(self, machine):
        note = slurp(machine, "state")
        assert note == self.base["state"] or (note.split(b"\n\n")[0] == self.base["request"].split(b"\n\n")[1] and note.count(b"\n") == 6), "the state is torn"
        if has(machine, "line"):
            assert slurp(machine, "line") in note, "the answer is not in the state"

    def again(self, machine):
        ok(machine.run(*self.command, "--force"))

    def end(self, machine):
        return slurp(machine, "state").split(b"\n\n")[0]


def part(tree, *names):
    """The files and folders of these names."""
    return {name: content for name, content in tree.items() if name.split("/")[0] in names}


def prepare(machine):
    """A task, its data, a run, its proof; a cheat's run, proof and refutation; a ledger."""
    os.mkdir(machine.folder)
    environment = {**os.environ, "PATH": machine.bin + os.pathsep + os.environ["PATH"]}
    subprocess.run(["sh", os.path.abspath(TINY_TASK), "1000000"], cwd=machine.folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    for role in ("cheat", "operator"):
        ok(machine.run("dgx-key", "new", role))
    ok(machine.run("dgx-prove", "task.json", "run", "--key", "solver.pem", "-o", "proof.json"))
    ok(machine.run("dgx-train", "task.json", "--data", "data.h5", "-o", "lie", "--drill", "step=17,op=14,element=9,bit=20", *QUIET))
    ok(machine.run("dgx-prove", "task.json", "lie", "--key", "cheat.pem", "-o", "lie.json"))
    ok(machine.run("dgx-verify", "task.json", "lie.json", "--from", "lie", "--data", "data.h5", "--all", "--key", "verifier.pem", "-o", "refuted.json", *QUIET), (1,))
    with open(path(machine, "rules.json"), "w") as file:
        file.write("{}")
    ok(machine.run("dgx-settle", "init", "L.jsonl", "--key", "operator.pem", "--policy", "rules.json"))
    ledger = told(machine, "dgx-settle", "head", "L.jsonl")["ledger"]
    for number in range(1, 6):
        make = ["dgx-settle", "make", "deposit", "--key", "operator.pem", "-o", f"d{number}.json", "--set", "account=solver.pub.pem", f"amount={number}",
                f"reference={number}"]
        if machine.run(*make).returncode != 0:
            ok(machine.run(*make, f"ledger={ledger}"))  # where a deposit names its ledger
    ok(machine.run("dgx-settle", "append", "L.jsonl", "d1.json", "d2.json", "--key", "operator.pem"))
    return crashes.read_tree(machine.folder)


def assigned(machine):
    """A ledger with a task, its verifier's offer, and the solver's proof: the files, and what the verifier does next."""
    crashes.write_tree({}, machine.folder)
    for role in ("submitter", "solver", "verifier", "operator"):
        ok(machine.run("dgx-key", "new", role))
    subprocess.run([PYTHON, "-c", "import numpy as n; n.save('x.npy', n.arange(160).reshape(40, 4).astype('<f4') / 160); n.save('y.npy', n.arange(40) % 3)"],
                   cwd=machine.folder, check=True)
    with open(path(machine, "rules.json"), "w") as file:
        file.write('{"sample_ppm": 1000000}')
    append = ("dgx-settle", "append", "L.jsonl", "--key", "operator.pem")
    for command in (("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5"),
                    ("dgx-settle", "init", "L.jsonl", "--key", "operator.pem", "--policy", "rules.json"),
                    ("dgx-settle", "deposit", "L.jsonl", "--to", "submitter.pem", "solver.pem", "verifier.pem", "90000000", "--key", "operator.pem"),
                    ("dgx-submit", "--data", "data.h5", "--model", "mlp:4-8-3", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", "8",
                     "--steps", "8", "--checkpoint-every", "4", "--ledger", "L.jsonl", "--key", "submitter.pem", "-o", "task.json"),
                    ("dgx-verify", "beacon", "task.json", "--segment-milliseconds", "9", "--key", "verifier.pem", "-o", "offer.json"),
                    ("dgx-settle", "make", "assign", "task.json", "--about", "offer.json", "--set", "segment_milliseconds=9", "--key", "solver.pem",
                     "-o", "assign.json"),
                    (*append, "task.json", "offer.json", "assign.json"),
                    ("dgx-train", "task.json", "--data", "data.h5", "-o", "run", *QUIET),
                    ("dgx-prove", "task.json", "run", "--key", "solver.pem", "-o", "proof.json"),
                    (*append, "proof.json")):
        ok(machine.run(*command))
    tree = part(crashes.read_tree(machine.folder), "task.json", "task.program.jsonl", "offer.json", "offer.secret", "verifier.pem", "L.jsonl",
                "L.receipts.jsonl")
    return tree, ("dgx-verify", "respond", "L.jsonl", "task.json", "--commit", "offer.json", "--data", "data.h5", "--key", "verifier.pem",
                  "-o", "verdict.json", "--expect", "waiting")


def last_move(machine, sides):
    """Plays the game that dispute.jsonl begins by turns, and takes back the last move. Returns the command that makes it."""
    turn, command = 0, None
    while not told(machine, "dgx-bisect", "show", "dispute.jsonl")["over"]:
        command = sides[turn % 2]
        ok(machine.run("dgx-bisect", "move", *command), (0, 1))
        turn += 1
    text = slurp(machine, "dispute.jsonl")
    with open(path(machine, "dispute.jsonl"), "wb") as file:
        file.write(text[:text.rindex(b"\n", 0, -1) + 1])
    shutil.rmtree(path(machine, "dispute.jsonl.notes"))
    return ("dgx-bisect", "play", *command)


def drill_of(machine):
    """A cheat's client defends a drill only where it is told to."""
    return ("--drill",) if "\n  --drill " in machine.run("dgx-bisect", "move", "--help").stdout else ()


def all_stories(machine, tree):
    """The stories of what prepare() has left."""
    task = part(tree, "task.json", "task.program.jsonl", "task.eval.jsonl", "data.h5")
    train = ("dgx-train", "task.json", "--data", "data.h5", "-o", "run", *QUIET)
    verify = ("dgx-verify", "task.json", "proof.json", "--from", "run", "--data", "data.h5", "--all", "--key", "verifier.pem", *QUIET)
    opening = ("dgx-bisect", "open", "task.json", "lie.json", "--verdict", "refuted.json", "--key", "verifier.pem", "-o", "dispute.jsonl", "-q")
    proved = {**task, **part(tree, "run", "proof.json", "proof.states", "verifier.pem")}
    lied = {**task, **part(tree, "lie", "lie.json", "lie.states", "refuted.json", "refuted.rows.jsonl", "verifier.pem", "cheat.pem")}
    market = part(tree, "L.jsonl", "L.receipts.jsonl", "L.index", "operator.pem", "d1.json", "d3.json", "d4.json", "d5.json")

    yield Key("key", {}, ("dgx-key", "new", "k"))
    changed = {"k.pem": tree["solver.pem"], "words": b"correct horse\n"}
    yield Passphrase("key, passphrase", changed, ("dgx-key", "passphrase", "k.pem", "--passphrase-file", "words", "--new-passphrase-file", "words"))
    yield File("pack", part(tree, "x.npy", "y.npy"), ("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "made.h5", "-q"), ("made.h5",))
    yield File("pack, split", part(tree, "x.npy", "y.npy"),
               ("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "--split", "0.5", "--rest", "rest.h5", "-o", "made.h5", "--force", "-q"), ("made.h5", "rest.h5"))
    short = (*train, "--until", "12")  # three segments
    yield Train("train", task, short, short)
    yield Train("train, last kept", task, (*short, "--keep", "last"), (*short, "--keep", "last"))
    crashes.write_tree(task, machine.folder)
    ok(machine.run(*train, "--until", "14"))
    begun = crashes.read_tree(machine.folder)
    yield Train("train, stopped", begun, (*train, "--until", "19"), (*train, "--until", "20"), first=4)
    crashes.write_tree(task, machine.folder)
    ok(machine.run(*train, "--until", "13"))
    yield Resumed("train, saved again", crashes.read_tree(machine.folder), (*train, "--until", "14"), (*train, "--until", "20"), first=4)
    yield SavedOften("train, saved often", task, (*train, "--until", "7", "--save-every", "1s"), (*train, "--until", "8"))
    yield File("prove", {**task, **part(tree, "run", "solver.pem")}, ("dgx-prove", "task.json", "run", "--key", "solver.pem", "-o", "proof.json"),
               ("proof.json", "proof.states"))
    yield Verdict("verify", proved, (*verify, "-o", "verdict.json"), ("verdict.json", "verdict.rows.jsonl"))
    yield Shard("verify, shard", proved, (*verify, "--shard", "0/2", "-o", "shard.json"), ("shard.json",))
    both = {**proved, **lied, "list": b"task.json\tproof.json\trun\ntask.json\tlie.json\tlie\n"}
    yield Verdicts("verify, batch", both, ("dgx-verify", "batch", "list", "--data", "data.h5", "--all", "--key", "verifier.pem", "-o", "verdicts", *QUIET))
    yield Open("bisect, open", lied, opening)
    crashes.write_tree(lied, machine.folder)
    ok(machine.run(*opening))
    side = ("task.json", "dispute.jsonl", "--from", "lie", "--data", "data.h5", *QUIET, "--key")
    move = ("dgx-bisect", "move", *side, "cheat.pem", *drill_of(machine))
    yield Move("bisect, move", crashes.read_tree(machine.folder), move)
    crashes.write_tree(lied, machine.folder)
    ok(machine.run(*opening))
    play = last_move(machine, (move[2:], (*side, "verifier.pem")))
    yield Play("bisect, play", crashes.read_tree(machine.folder), play)
    yield Init("settle, init", part(tree, "operator.pem", "rules.json"), ("dgx-settle", "init", "L.jsonl", "--key", "operator.pem", "--policy", "rules.json"))
    yield Append("settle, append", market, ("dgx-settle", "append", "L.jsonl", "d3.json", "d4.json", "d5.json", "--key", "operator.pem", "-o", "receipts",
                                               "--force"))
    yield Run("settle, run", market, ("dgx-settle", "run", "L.jsonl", "--key", "operator.pem"))
    yield Deposit("settle, deposit", {**market, **part(tree, "solver.pub.pem", "verifier.pub.pem")},
                  ("dgx-settle", "deposit", "L.jsonl", "--to", "solver.pub.pem", "verifier.pub.pem", "5", "--reference", "r", "--key", "operator.pem"))
    crashes.write_tree(tree, machine.folder)
    cosign = ("dgx-settle", "cosign", "request", "--operator", "operator.pub.pem", "--seen", "state", "--key", "verifier.pem", "-o", "line")
    ok(machine.run("dgx-settle", "head", "L.jsonl", "--note", "--old", "0", "--key", "operator.pem", "-o", "request"))
    ok(machine.run(*cosign, "--first"))
    ok(machine.run("dgx-settle", "append", "L.jsonl", "d3.json", "--key", "operator.pem"))
    ok(machine.run("dgx-settle", "head", "L.jsonl", "--note", "--old", "3", "--key", "operator.pem", "-o", "request", "--force"))
    os.remove(path(machine, "line"))
    yield Cosign("settle, cosign", part(crashes.read_tree(machine.folder), "request", "state", "operator.pub.pem", "verifier.pem"), cosign)
    yield File("verify, respond", *assigned(machine), ("offer.beacon.json", "offer.proof.json", "offer.revealed"))
