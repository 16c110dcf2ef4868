"""Judges a transcript: dgx-dispute(7); the ruling's fields are those of dgx-manifest(5). Refused is what is no transcript."""

import numpy as np

from . import answers, cost, digests, evidence, statements
from .game import CHALLENGER, DEFENDER, Answered, Game, Judged, Lost

MOVE_FIELDS = {"game", "previous", "say", "signer", "task", "turn"}


class Refused(Exception):
    pass


def require(condition, what):
    if not condition:
        raise Refused(what)


def parse(text):
    require(len(text) <= 8 << 20, "more than 8 MiB")
    lines = text.split(b"\n")
    require(lines.pop() == b"", "the last line has no end")
    require(len(lines) <= 1024 and len(set(lines)) == len(lines), "too many lines, or a line twice")
    found = []
    for number, line in enumerate(lines):
        try:
            found.append(statements.Statement(line))
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"line {number}: {error}") from error
    require(len({each.id for each in found}) == len(found), "a statement twice")
    return found


class Transcript:
    """Its statements by kind, and the links between them."""

    def __init__(self, text):
        plain = [each for each in parse(text) if each.kind != "urn:x-dgx:receipt:v2"]
        self.queue = plain[::-1]
        self.task, self.proof = self.take("task"), self.take("proof")
        self.verdict, self.beacon = self.perhaps("verdict"), self.perhaps("beacon")
        self.round = self.offer = self.secret = None
        if self.beacon is None:
            self.round = self.perhaps("round")
        if self.round:
            self.offer, self.secret = self.perhaps("beacon-commitment"), self.perhaps("beacon")
        self.source = self.beacon or self.round
        self.challenge = self.take("challenge")
        self.moves = []
        while self.queue:
            self.moves.append(self.take("move"))
        self.defender = (self.verdict or self.proof).key_id
        self.check_links()

    @staticmethod
    def is_loss(loss, final):
        """dgx-manifest(5), "proof": the number is the entry's, and the entry the state's."""
        entry = loss["entry"]
        number = np.array(float.fromhex(loss["value"]), "<f4")
        leaf = evidence.entry_leaf("loss", bytes.fromhex(entry["digest"]))
        root = digests.root_from_path(entry["index"], entry["count"], leaf, evidence.digest_list(entry["path"]))
        return entry["name"] == "loss" and digests.tensor(number).hex() == entry["digest"] and root is not None and \
            evidence.state_digest(entry["count"], root).hex() == final

    def take(self, kind):
        require(self.queue and self.queue[-1].kind == f"urn:x-dgx:{kind}:v2", f"no {kind} where it has to be")
        return self.queue.pop()

    def perhaps(self, kind):
        return self.take(kind) if self.queue and self.queue[-1].kind == f"urn:x-dgx:{kind}:v2" else None

    def check_links(self):
        says, proof = self.challenge.predicate, self.proof.predicate
        for statement in filter(None, (self.proof, self.verdict, self.beacon, self.offer, self.secret, self.challenge)):
            require(statement.predicate["task"] == self.task.id, "another task")
        for statement in filter(None, (self.verdict, self.beacon, self.secret, self.challenge)):
            require(statement.predicate["proof"] == self.proof.id, "another proof")
        require(says.get("verdict") == (self.verdict.id if self.verdict else None), "another verdict")
        right = proof["steps"] < self.task.predicate["steps"] if proof["diverged"] else proof["steps"] == self.task.predicate["steps"]
        require(right, "the proof has other steps")
        self.steps = cost.steps_of_proof(self.task.predicate, proof)
        count = len(self.steps)
        require(proof["states"]["count"] == count, "the proof has other states")
        require(self.is_loss(proof["loss"], proof["final"]), "a loss that is not the final state's")
        self.about, self.segment = says["about"], says["segment"]
        require(self.segment < (count if self.about == "chunk" or proof["diverged"] else count - 1), "no such segment")
        self.diverging = self.about != "chunk" and self.segment == count - 1
        require(("end" in says) == (self.about != "chunk" and not self.diverging), "an end that is not its own")
        require((self.about == "witness") <= (self.verdict is not None), "a witness without a verdict")
        require(self.about in ("segment", "witness", "row") or self.verdict is None, "only of a proof")
        needed = self.about in ("witness", "row") and self.verdict is not None and "beacon" in self.verdict.predicate
        require((self.source is not None) == needed, "a beacon that is not needed, or none that is")
        self.check_source()
        self.check_secret()
        require(self.challenge.key_id != self.defender, "a challenge by the defender")
        require(self.about != "row" or self.verdict is not None and self.verdict.predicate["draw"] == "policy", "no verdict of the policy's draw")
        require(self.about != "initial" or self.segment == 0, "initial is segment 0")
        require(self.about != "final" or self.segment == count - 2, "final is the last segment")
        self.start = self.committed(says["start"], self.segment)
        self.end = self.committed(says["end"], self.segment + 1) if "end" in says else digests.DIVERGED
        require(self.about != "witness" or not self.is_one_step(), "a witness of one step")
        self.row = self.opened_row(says["row"]) if self.verdict and self.about != "row" else None
        self.place = self.place_among_drawn() if self.about == "row" else None
        try:
            self.demanded = answers.demanded(says["chunk"]["line"], says["chunk"]["part"], self.task.predicate["program"]) if "chunk" in says else None
        except evidence.Unproven as error:
            raise Refused("a chunk that is not there") from error

    def check_source(self):
        """The value by which the verdict draws: of its beacon, or of the round and the proof."""
        if self.source is None:
            return
        require((self.round is not None) == (self.task.predicate["policy"]["beacon_source"] != 0), "a round where beacons draw, or a beacon where rounds do")
        require(self.source.id == self.verdict.predicate["beacon"], "the beacon is missing")
        if self.round is None:
            self.value = bytes.fromhex(self.beacon.predicate["value"])
            return
        require(self.round.predicate["ledger"] == self.task.predicate.get("ledger"), "a round of another ledger")
        self.value = digests.sha(b"dgx-beacon" + bytes.fromhex(self.round.predicate["value"] + self.proof.id))

    def check_secret(self):
        """Offer and secret are there exactly if an error may be forced; then whether it is in this segment."""
        self.forced, verdict = False, self.verdict.predicate if self.verdict else {}
        needed = self.about in ("witness", "row") and self.task.predicate["policy"]["forced_error_ppm"] > 0 and \
            (verdict.get("draw"), verdict.get("outcome")) == ("policy", "accepted")
        require((self.secret is not None) == needed and (self.offer is not None) == needed, "a secret that is not needed, or none that is")
        if not needed:
            return
        secret = bytes.fromhex(self.secret.predicate["secret"])
        require(self.offer.key_id == self.verdict.key_id and self.secret.predicate["commitment"] == self.offer.id, "another's offer")
        require(digests.sha(b"dgx-beacon-commit" + secret).hex() == self.offer.predicate["commitment"], "not the secret of the offer")
        self.forced = self.segment == answers.forced_segment(self.task.predicate, self.steps, self.drawn(), bytes.fromhex(self.round.predicate["value"]), secret,
                                                             bytes.fromhex(self.proof.id))

    def drawn(self):
        """The policy's draw: a round's is nobody's."""
        count = len(self.steps) - 1
        key = bytes(32) if self.round else bytes.fromhex(self.defender)
        drawn = answers.draw(self.value, bytes.fromhex(self.proof.id), key, count, cost.drawn_count(self.task.predicate, count))
        return drawn + [count] * self.proof.predicate["diverged"]

    def committed(self, opened, index):
        states = self.proof.predicate["states"]
        digest = bytes.fromhex(opened["digest"])
        root = digests.root_from_path(index, states["count"], digests.leaf(b"\x04" + digest), evidence.digest_list(opened["path"]))
        require(root is not None and root.hex() == states["root"], "a state that is not committed")
        return digest

    def opened_row(self, opened):
        rows, row = self.verdict.predicate["rows"], opened["row"]
        leaf = digests.leaf(statements.canonical(row))
        if row != self.verdict.predicate.get("first_disagreement") and not self.is_stated(opened):
            require(opened["index"] < rows["count"], "no such row")
            root = digests.root_from_path(opened["index"], rows["count"], leaf, evidence.digest_list(opened["path"]))
            require(root is not None and root.hex() == rows["root"], "a row that is not the verdict's")
        require(row["index"] == self.segment, "the row of another segment")
        require(row["reason"] in ("equal", "digest") or self.about == "segment", "a row whose witness is not played on")
        return row

    def is_stated(self, opened):
        """Whether the verdict states the row's witness: the place-th witness is that of the place-th segment drawn."""
        stated, place, row = evidence.digest_list(self.verdict.predicate.get("witnesses", "")), opened["index"], opened["row"]
        if opened["path"] or self.source is None or place >= len(stated):
            return False
        drawn = self.drawn()
        return place < len(drawn) and row["index"] == drawn[place] and row["agrees"] and row["expected"] == self.end.hex() and row["witness"] == stated[place].hex()

    def place_among_drawn(self):
        require(self.source is not None, "the beacon is missing")
        drawn = self.drawn()
        require(self.segment in drawn, "a segment that is not drawn")
        return drawn.index(self.segment)

    def bounds(self):
        """The steps of the states before and after; there is none after a last state."""
        first = self.steps[self.segment]
        return (first, first + 1) if self.diverging else (*self.steps[self.segment:self.segment + 2], None)[:2]

    def is_one_step(self):
        first, last = self.bounds()
        return last == first + 1

    def witnessed_step(self):
        """dgx-protocol(7), "Witness". None of a segment of one step."""
        require("beacon" not in self.verdict.predicate or self.source is not None, "the beacon is missing")
        return None if self.is_one_step() else self.bounds()[1] - 1

    def game(self):
        """The game as it begins."""
        first, last = self.bounds()
        made = Game(self.task.predicate, self.about, self.segment, first, last, self.start, self.end, diverging=self.diverging)
        made.demanded = self.demanded
        made.defender_id, made.forced = bytes.fromhex(self.defender), self.forced
        if self.about in ("row", "witness"):
            made.asked = {"verdict": self.verdict.predicate, "step": self.witnessed_step(), "place": self.place}
        self.is_false = bool(self.row) and made.is_false_on_its_face(self.row, self.end)
        if self.row and not self.is_false:
            made.follow(self.row, self.about == "witness")
        return made

    def decided_at_once(self):
        """Whether the statement falls, for a challenge that needs no move; else None."""
        proof, initial = self.proof.predicate, self.task.predicate["initial"]["digest"]
        if self.about == "initial":
            return self.start.hex() != initial or proof["initial"] != initial
        if self.about == "final":
            return self.end.hex() != proof["final"]
        return None


class Judge:
    """Plays the moves of a transcript. `game` is the state after them, `ruling` what follows or None."""

    def __init__(self, transcript):
        self.transcript, self.game, self.ruling = transcript, transcript.game(), None
        self.last, self.turn, self.taken, self.answered = transcript.challenge.id, 0, 0, False
        self.turns, self.answers = {transcript.challenge.id: 0}, {}
        if transcript.decided_at_once() is not None:
            self.end(transcript.decided_at_once(), "claim", "g")
            return
        if transcript.is_false:
            self.end(True, "post")
            return
        self.rules = self.game.play()
        next(self.rules)
        for move in transcript.moves:
            if self.ruling is None and not self.answered:
                self.move(move)

    def end(self, falls, reason, claim=None, scalar=None):
        optional = {"claim": claim, "scalar": scalar}
        self.ruling = {"at": dict(self.game.at), "falls": falls, "reason": reason, "moves": self.taken, "last": self.last,
                       **{key: value for key, value in optional.items() if value is not None}}

    def side_of(self, move):
        return DEFENDER if move.key_id == self.transcript.defender else CHALLENGER

    def move(self, move):
        fields = move.predicate
        require(set(fields) == MOVE_FIELDS and isinstance(fields["say"], dict), "a move with other fields")
        require(fields["task"] == self.transcript.task.id and fields["game"] == self.transcript.challenge.id, "a move of another game")
        require(fields["previous"] in self.turns, "answers a statement that is not here")
        require(move.key_id in (self.transcript.defender, self.transcript.challenge.key_id), "a move of somebody else")
        side, turn = self.side_of(move), fields["turn"]
        self.taken, self.last = self.taken + 1, move.id
        falls = side == DEFENDER
        if turn != self.turns[fields["previous"]] + 1:
            return self.end(falls, "malformed")
        if (side == DEFENDER) != (turn % 2 == 1):
            return self.end(falls, "out-of-turn")
        if fields["previous"] in self.answers:
            return self.end(falls, "two-moves", "h")
        self.turns[move.id], self.answers[fields["previous"]] = turn, move.id
        self.turn = turn
        try:
            self.rules.send(fields["say"])
        except Lost as lost:
            self.end(falls, lost.reason, lost.claim, lost.scalar)
        except Judged as judged:
            self.end(judged.falls, "claim", judged.claim, judged.scalar)
        except Answered:
            self.answered = True


def judge(text):
    """The ruling's falls, reason, claim, at, scalar, moves, last; None if the game is not over."""
    return Judge(Transcript(text)).ruling
