"""Worlds in which disputes are played: a task with its data, a proof or verdict made from somebody's story, and games to their end."""

import base64
import hashlib
import json

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from . import answers, cost, digests, dispute, evidence, inputs, players, statements, trees, written

def key_of(name):
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a key of the interop tests: " + name.encode()).digest())


SUBMITTER, SOLVER, VERIFIER, CHALLENGER, STRANGER, OPERATOR = (
    key_of(name) for name in ("submitter", "solver", "verifier", "challenger", "stranger", "operator"))


def key_id(key):
    return statements.key_id(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex())


class World:
    """A program, its data and the task that binds them. Without an `initial` state the run begins at the seed's."""

    def __init__(self, lines, evaluation, data, initial, options, recipe=None):
        self.lines, self.data = lines, data
        self.initial = initial or inputs.initial_state(lines, int(options["seed"]))
        self.texts = [statements.canonical(line) for line in lines]
        self.recipe = recipe or statements.canonical({"ranges": {}, "scale": "0x1p0", "shift": "0x0p0"})
        self.task = written.task_of(lines, evaluation, data, self.recipe, options, initial)
        self.task_text, self.task_id = self.sign("task", self.task, SUBMITTER, [
            *((name, self.task[name]["root"]) for name in ("program", "evaluation")), *((name, self.task[name]["digest"]) for name in ("initial", "dataset"))])
        self.steps = cost.committed_steps(self.task)

    @staticmethod
    def sign(kind, predicate, key, subjects):
        text = written.signed(kind, predicate, subjects, key)
        return text, statements.Statement(text).id

    def state_line(self, name):
        number = next(n for n, line in enumerate(self.lines) if line.get("src") == f"state {name}")
        return evidence.open_line(self.texts, number)

    def story(self, lie=None):
        return players.Story(self, 0, self.initial, lie)


def float_text(number):
    """dgx-program(5), "NUMBERS": hexadecimal, without trailing zeros."""
    digits, exponent = float(number).hex().split("p")
    return f"{digits.rstrip('0').rstrip('.')}p{int(exponent)}"


def opened_loss(entries, number):
    """The entry `loss` of a state, opened, with its number."""
    index = next(n for n, (name, _) in enumerate(entries) if name == "loss")
    return {"entry": evidence.open_entry(entries, index), "value": float_text(number)}


def ending(word):
    """The fields of a proof that ends in another state, which has a loss, too."""
    entries = [("loss", digests.tensor(np.zeros([], "<f4"))), ("model/" + word, digests.sha(word.encode()))]
    digest = evidence.state_digest(2, digests.root([evidence.entry_leaf(*entry) for entry in entries]))
    return {"final": digest.hex(), "loss": opened_loss(entries, 0)}


class Proof:
    """A solver's, of their story until it ends or, at step `diverged`, is said to diverge; `claims` are fields that differ from it."""

    def __init__(self, world, story, diverged=None, **claims):
        self.world, self.story, self.diverged = world, story, diverged is not None
        self.steps = cost.committed_steps(world.task, diverged)
        self.digests = [story.digest(step) for step in self.steps]
        self.leaves = [digests.leaf(b"\x04" + digest) for digest in self.digests]
        self.fields = {"task": world.task_id, "states": {"count": len(self.leaves), "root": digests.root(self.leaves).hex()},
                       "initial": self.digests[0].hex(), "final": self.digests[-1].hex(), "steps": self.steps[-1], "diverged": self.diverged,
                       **self.end_of(story, self.steps[-1]), **claims}
        self.text, self.id = world.sign("proof", self.fields, SOLVER, [
            ("states", self.fields["states"]["root"]), ("initial", self.fields["initial"]), ("final", self.fields["final"])])

    @staticmethod
    def end_of(story, step):
        """Who has no loss at the end cannot say so, and says another end."""
        loss = story.array(step, "loss")
        return {"loss": opened_loss(story.entries(step), loss)} if loss.shape == () and np.isfinite(loss) else ending("another")

    def opened(self, index):
        return {"digest": self.digests[index].hex(), "path": evidence.listed(trees.path(index, self.leaves))}

    def segments(self):
        """How many can be replayed, the diverging step included."""
        return len(self.steps) - 1 + self.diverged

    def is_diverging(self, segment):
        return segment == len(self.steps) - 1

    def end(self, segment):
        """What a row expects."""
        return digests.DIVERGED if self.is_diverging(segment) else self.digests[segment + 1]


class Verdict:
    """A verifier's, of all segments, of `only` one, or of those `drawn`; `changes` maps a segment to fields of its row, `interior` one to the story that its
    witness shows. With a `secret` it is of a market with rounds that forces errors, and states its witnesses: that of the forced segment is false by rule
    unless `changes` say otherwise."""

    def __init__(self, world, proof, honest, changes=None, policy=False, interior=None, only=None, drawn=False, secret=None):
        self.world, self.proof, self.interior, self.sources, self.beacon, self.forced = world, proof, interior or {}, [], None, None
        policy = policy or secret is not None
        if secret is not None:
            self.take_round(secret)
        elif policy:
            self.reveal()
        self.segments = self.draw() if drawn else [segment for segment in range(proof.segments()) if only in (None, segment)]
        rows = [self.row(segment, honest, (changes or {}).get(segment, {})) for segment in self.segments]
        self.rows = rows
        self.leaves = [digests.leaf(statements.canonical(row)) for row in rows]
        wrong = [row for row in rows if not row["agrees"]]
        fields = {"task": world.task_id, "proof": proof.id, "draw": "policy" if policy else "chosen", "outcome": "refuted" if wrong else "accepted",
                  "segments": proof.segments(), "replayed": len(rows), "rows": {"count": len(rows), "root": digests.root(self.leaves).hex()}, "work": 1,
                  "miss_probability": {"one_percent": "0", "one_segment": "0", "ten_percent": "0"}, "nonce": "5a" * 32}
        if policy:
            fields["beacon"] = self.beacon["id"]
        if secret is not None and not wrong:
            fields["witnesses"] = evidence.listed(bytes.fromhex(row["witness"]) for row in rows)
        if wrong:
            fields["first_disagreement"] = wrong[0]
        self.text, self.id = world.sign("verdict", fields, VERIFIER, [("proof", proof.id), ("rows", fields["rows"]["root"])])

    def reveal(self):
        secret, proof = hashlib.sha256(b"a secret").digest(), bytes.fromhex(self.proof.id)
        value, commitment = digests.sha(b"dgx-beacon" + secret + proof), digests.sha(b"a commitment").hex()
        fields = {"task": self.world.task_id, "commitment": commitment, "proof": self.proof.id, "secret": secret.hex(), "value": value.hex()}
        text, made = self.world.sign("beacon", fields, VERIFIER, [("proof", self.proof.id), ("commitment", commitment)])
        self.sources, self.beacon = [text], {"id": made, "value": value}

    def take_round(self, secret):
        """A round, the verifier's offer and their secret; the segment that is forced."""
        checkpoint, root, task = digests.sha(b"the end of a delay"), digests.sha(b"a head").hex(), self.world.task
        round_value, proof = digests.sha(b"dgx-round" + checkpoint), bytes.fromhex(self.proof.id)
        fields = {"ledger": task["ledger"], "slot": 7, "head": {"count": 3, "root": root}, "source": "delay", "steps": 1 << 16,
                  "checkpoints": base64.b64encode(checkpoint).decode(), "value": round_value.hex()}
        text, made = self.world.sign("round", fields, OPERATOR, [("head", root), ("value", round_value.hex())])
        self.beacon = {"id": made, "value": digests.sha(b"dgx-beacon" + round_value + proof)}
        self.sources = [text, *self.secret_of(VERIFIER, secret)]
        self.forced = answers.forced_segment(task, self.proof.steps, self.draw(key=bytes(32)), round_value, secret, proof)

    def secret_of(self, key, secret):
        """An offer, and the secret that it committed to."""
        commitment, proof, task = digests.sha(b"dgx-beacon-commit" + secret).hex(), self.proof.id, self.world.task
        offer, made = self.world.sign("beacon-commitment", {"task": self.world.task_id, "commitment": commitment, "dataset": task["dataset"]["digest"],
                                                            "initial": task["initial"]["digest"], "bond": 501}, key,
                                      [("task", self.world.task_id), ("commitment", commitment)])
        value = digests.sha(b"dgx-beacon" + secret + bytes.fromhex(proof)).hex()
        fields = {"task": self.world.task_id, "commitment": made, "proof": proof, "secret": secret.hex(), "value": value}
        return offer, self.world.sign("beacon", fields, key, [("proof", proof), ("commitment", made)])[0]

    def draw(self, key=None):
        """The policy's, and the diverging step."""
        count = len(self.proof.steps) - 1
        key = bytes.fromhex(key_id(VERIFIER)) if key is None else key
        found = answers.draw(self.beacon["value"], bytes.fromhex(self.proof.id), key, count, cost.drawn_count(self.world.task, count))
        return found + [count] * self.proof.diverged

    def witness(self, segment, story):
        """Zero of a segment of one step."""
        first, last = (*self.proof.steps[segment:segment + 2], None)[:2]
        if last in (None, first + 1):
            return "0" * 64
        shown = story.digest(last - 1)
        witness = digests.sha(b"dgx-witness" + bytes.fromhex(key_id(VERIFIER)) + shown)
        return (digests.sha(b"dgx-false-witness" + witness) if segment == self.forced else witness).hex()

    def row(self, segment, honest, changes):
        expected = self.proof.end(segment).hex()
        row = {"expected": expected, "index": segment, "recomputed": expected, "witness": self.witness(segment, self.interior.get(segment, honest)), **changes}
        row["agrees"] = row["expected"] == row["recomputed"]
        return {"reason": "equal" if row["agrees"] else "digest", **row}

    def opened(self, segment):
        place = self.segments.index(segment)
        return {"index": place, "path": evidence.listed(trees.path(place, self.leaves)), "row": self.rows[place]}


class Table:
    """A game and its transcript so far."""

    def __init__(self, world, proof, about, segment, verdict=None, chunk=None, key=CHALLENGER, **changes):
        self.world, self.key, self.defender_key = world, key, VERIFIER if verdict else SOLVER
        chunk = chunk and {"line": world.state_line(chunk[0]), "part": chunk[1]}
        fields = {"task": world.task_id, "proof": proof.id, "about": about, "segment": segment, "start": proof.opened(segment)}
        if chunk:
            fields["chunk"] = chunk
        elif not proof.is_diverging(segment):
            fields["end"] = proof.opened(segment + 1)
        if verdict:
            fields.update(verdict=verdict.id, **({} if about == "row" else {"row": verdict.opened(segment)}))
        fields.update(changes)
        text, self.id = world.sign("challenge", fields, key, [("statement", verdict.id if verdict else proof.id), ("start", fields["start"]["digest"])])
        self.texts = [world.task_text, proof.text, *([verdict.text] if verdict else []),
                      *(verdict.sources if verdict and about in ("row", "witness") else []), text]
        self.judge = dispute.Judge(dispute.Transcript(self.text()))
        self.ids = [self.id]

    def text(self):
        return b"".join(text + b"\n" for text in self.texts)

    def move(self, say, key=None, turn=None, previous=None, game=None):
        """Adds a move, by default of the side whose turn it is, after the last one."""
        turn = len(self.ids) if turn is None else turn
        key = key or (self.defender_key if turn % 2 else self.key)
        previous = self.ids[-1] if previous is None else previous
        fields = {"task": self.world.task_id, "game": game or self.id, "turn": turn, "previous": previous, "say": say}
        text, made = self.world.sign("move", fields, key, [("game", fields["game"]), ("previous", previous)])
        self.texts.append(text)
        self.ids.append(made)
        if self.judge.ruling is None:
            self.judge.move(statements.Statement(text))
        return self

    def play(self, defender, challenger, change=None, limit=64):
        """Both say what they have to say until the game is over; `change` may replace what is said, and None ends the play."""
        while self.judge.ruling is None and len(self.ids) <= limit:
            game = self.judge.game
            say = (defender if game.side == "defender" else challenger).say(game)
            say = change(game, say) if change else say
            if say is None:
                break
            self.move(say)
        return self.judge.ruling


def replace(**fields):
    """What `change` may be: the first time a side is to say this kind, fields of it are others. A callable gets the old one."""
    kind, done = fields.pop("kind"), []

    def change(_, say):
        if say["kind"] != kind or done:
            return say
        done.append(True)
        return {**say, **{name: new(say.get(name)) if callable(new) else new for name, new in fields.items()}}

    return change


def envelope_bytes(text):
    return len(base64.b64decode(json.loads(text)["payload"]))
