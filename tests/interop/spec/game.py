"""The rules of a dispute: dgx-dispute(7). The game is a generator that is sent one _say_ after the other; `want` names what is
expected next, and of whom, and the fields beside it hold all that follows from the moves so far. Lost convicts the signer of the last move;
Judged ends the game by what was claimed."""

import numpy as np

from . import answers, claims, digests, evidence, forms, trees
from .evidence import Unproven, decoded, digest_list, is_integer
from .running import Contradiction

DEFENDER, CHALLENGER = "defender", "challenger"
STATES = 255
CLAIMS_B = [("claim", ["claim", *fields]) for fields in (["digest", "path"], ["before"], ["before", "line"], ["line"])]


class Lost(Exception):
    def __init__(self, reason, claim=None, scalar=None):
        super().__init__(reason)
        self.reason, self.claim, self.scalar = reason, claim, scalar


class Judged(Exception):
    def __init__(self, falls, claim=None, scalar=None):
        super().__init__(claim)
        self.falls, self.claim, self.scalar = falls, claim, scalar


class Answered(Exception):
    """A chunk is shown: whether it can be had, a receipt of the operator says."""


def malformed(condition):
    if condition:
        raise Lost("malformed")


def post(condition, claim=None):
    if condition:
        raise Lost("post", claim)


def form(function, *operands):
    """What a decoder of evidence refuses, is malformed in a move."""
    try:
        return function(*operands)
    except Unproven as error:
        raise Lost("malformed") from error


class Game:
    """`first`, `last`: the steps before and after; `before`, `after`: the states' digests there; `after` None: shown first, `witness` binds it.
    Of the diverging step `after` is the diverged end until a state is shown."""

    def __init__(self, task, about, segment, first, last, before, after, witness=None, defender_id=None, diverging=False):
        self.task, self.program, self.about = task, task["program"], about
        self.first, self.last, self.before, self.after = first, last, before, after
        self.witness, self.defender_id = witness, defender_id
        self.at = {"segment": segment}
        self.diverging = diverging
        # Why nothing is recomputed: a row's reason, or that the step diverges; and the state that is said not to be finite.
        self.reason, self.excused = "non-finite" if diverging else None, None
        self.demanded, self.asked = None, None  # a chunk, a row
        self.forced = False  # whether the witness has to be false
        self.side, self.want = DEFENDER, None
        self.tree, self.lists = None, {}  # the tree in which we descend, and what was shown of each: by tree and node
        self.shown = self.node = self.table = self.line = self.list = self.numbers = None
        self.entry = self.entry_index = self.entries_root = self.entries_count = None
        self.one_step_left()

    def ask(self, want, *kinds):
        """The next move of the defender, checked for its fields; `kinds` are (name, fields) alternatives."""
        self.side, self.want = DEFENDER, want
        return (yield from self.said(kinds))

    def answer(self, want, *kinds):
        self.side, self.want = CHALLENGER, want
        return (yield from self.said(kinds))

    def said(self, kinds):
        say = yield
        for kind, names in kinds:
            if say.get("kind") == kind and set(say) == {"kind", *names}:
                malformed(not forms.is_right(say))
                return say
        raise Lost("malformed")

    def play(self):
        if self.about == "chunk":
            yield from self.chunk()
        if self.about == "row":
            yield from self.row()
        if self.reason:
            yield from self.fault()
        if self.after is None:
            yield from self.interior()
        yield from self.states()
        yield from self.values()

    def one_step_left(self):
        if self.about in ("segment", "witness", "row") and self.last - self.first == 1:
            self.at["step"] = self.first

    def row(self):
        """A row that the verifier has kept to themselves; then the game is about it."""
        say = yield from self.ask("row", ("row", ["index", "path", "row"]))
        malformed(not is_integer(say["index"]) or say["index"] > 2**24 or not form(answers.is_row, say["row"]))
        try:
            post(not answers.row_is_shown(self, say, self.asked))
        except Unproven as error:
            raise Lost("post") from error
        row = say["row"]
        played = row["reason"] in ("equal", "digest") and self.last - self.first > 1
        self.shown = [row["recomputed"], row["witness"]] if played else [row["recomputed"]]
        say = yield from self.answer("row", ("name", ["index"]))
        self.follow(row, self.named(say))

    def is_false_on_its_face(self, row, end):
        """Another end than the proof's; or an objection that says what the proof says."""
        return row["expected"] != end.hex() or (self.diverging and row["reason"] == "non-finite")

    def follow(self, row, about_witness):
        """What a row says is now what is disputed."""
        self.after, self.reason = bytes.fromhex(row["recomputed"]), row["reason"] if row["reason"] not in ("equal", "digest") else None
        if self.diverging and row["agrees"]:
            self.reason = "non-finite"
        if about_witness:
            self.last, self.after, self.witness = self.asked["step"], None, bytes.fromhex(row["witness"])
            self.one_step_left()

    def interior(self):
        say = yield from self.ask("interior", ("interior", ["digest"]))
        self.after = form(evidence.digest, say["digest"])
        witness = digests.sha(b"dgx-witness" + self.defender_id + self.after)
        post((digests.sha(b"dgx-false-witness" + witness) if self.forced else witness) != self.witness)
        self.shown = [self.after]
        say = yield from self.answer("interior", ("name", ["index"]))
        self.named(say)

    def named(self, say):
        malformed(not is_integer(say["index"]) or say["index"] >= len(self.shown))
        return say["index"]

    def states(self):
        while self.last - self.first > 1:
            stride = -(-(self.last - self.first) // STATES)
            steps = list(range(self.first + stride, self.last, stride))
            say = yield from self.ask("states", ("states", ["digests"]))
            shown = form(digest_list, say["digests"])
            malformed(len(shown) != len(steps))
            self.shown, self.steps = [*shown, self.after], [*steps, self.last]
            say = yield from self.answer("states", ("name", ["index"]))
            k = self.named(say)
            if k:
                self.first, self.before = self.steps[k - 1], self.shown[k - 1]
            self.last, self.after = self.steps[k], self.shown[k]
            self.one_step_left()

    def children(self, say, leaf=None):
        """The list shown must hash to the node; `leaf` makes a leaf's hash of what is shown at the bottom."""
        shown = form(digest_list, say["nodes"])
        malformed(len(shown) != self.node.child_count())
        bottom = self.node.bottom()
        self.hashes = [leaf(each) for each in shown] if leaf and bottom else shown
        post(digests.root(self.hashes) != self.node.hash)
        self.lists[self.tree, self.node.start, self.node.count] = self.hashes
        self.shown = shown
        return bottom

    def values(self):
        say = yield from self.ask("values", ("values", ["root", "nodes"]))
        self.table = form(evidence.digest, say["root"])
        self.tree, self.node = "values", trees.Node(0, self.program["lines"], self.table)
        bottom = self.children(say, evidence.table_leaf)
        while True:
            kinds = [("name", ["index", "line"])] if bottom else [("name", ["index"])]
            kinds += [("accept", []), ("claim", ["claim", "entry", "tensor"])]
            if bottom:
                kinds.append(("claim", ["claim", "entry", "index", "line"]))
            say = yield from self.answer("values" if bottom else "ranges", *kinds)
            if say["kind"] != "name":
                break
            k = self.named(say)
            if bottom:
                yield from self.value(self.node.start + k, self.shown[k], say["line"])
            self.node = self.node.child(k, self.hashes)
            say = yield from self.ask("values nodes", ("nodes", ["nodes"]))
            bottom = self.children(say, evidence.table_leaf)
        if say["kind"] == "claim":
            self.judge("f" if "tensor" in say else "a", say, claims.claim_f if "tensor" in say else claims.claim_a)
        yield from self.entries()

    def judge(self, claim, say, function):
        malformed(say["claim"] != claim)
        if "index" in say:
            self.named(say)
        try:
            falls, scalar = function(self, say)
        except (Unproven, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise Judged(False, claim) from error
        raise Judged(falls, claim, scalar)

    def value(self, number, value_digest, opened):
        try:
            self.line, index = evidence.line_of(opened, self.program)
        except Unproven as error:
            raise Lost("post") from error
        post(index != number)
        malformed(self.line.get("src", "").startswith("state "))  # that is for claim a
        self.at["value"] = number
        kind, shape = self.line["t"], self.line["s"]
        count = evidence.leaf_count(kind, shape)
        self.value_number, self.leaf_start = number, 0
        if count == 1:
            say = yield from self.ask("tensor", ("tensor", ["bytes"]))
            data = form(decoded, say["bytes"])
            post(evidence.tensor_digest(kind, shape, digests.leaf(data)) != value_digest or len(data) != evidence.byte_count(kind, shape), "e")
        else:
            say = yield from self.ask("tensor", ("tensor", ["root", "nodes"]))
            self.tree, self.node = "tensor", trees.Node(0, count, form(evidence.digest, say["root"]))
            post(evidence.tensor_digest(kind, shape, self.node.hash) != value_digest, "e")
            data = yield from self.leaf(say)
            self.leaf_start = self.node.start * digests.LEAF_BYTES // np.dtype(evidence.TYPES[kind][0]).itemsize
        self.numbers = np.frombuffer(data, evidence.TYPES[kind][0])
        yield from self.element()

    def leaf(self, say):
        """Descends to the bytes of the leaf named."""
        while True:
            self.children(say)
            say = yield from self.answer("tensor nodes", ("name", ["index"]))
            self.node = self.node.child(self.named(say), self.hashes)
            if self.node.count == 1:
                break
            say = yield from self.ask("tensor nodes", ("nodes", ["nodes"]))
        say = yield from self.ask("leaf", ("leaf", ["bytes"]))
        data = form(decoded, say["bytes"])
        post(digests.leaf(data) != self.node.hash)
        post(len(data) != evidence.leaf_bytes(self.line["t"], self.line["s"], self.node.start), "e")
        return data

    def element(self):
        self.shown = self.numbers
        if self.line["k"] == "input":
            say = yield from self.answer("leaf", ("claim", ["claim", "index"]), ("claim", ["claim", "data", "index"]))
            self.judge("c", say, claims.claim_c)
        if self.line["k"] == "map":
            say = yield from self.answer("leaf", ("claim", ["claim", "index", "operands"]))
            self.judge("d", say, claims.claim_d_map)
        say = yield from self.answer("leaf", ("name", ["index"]))
        k = self.named(say)
        self.at["element"] = self.leaf_start + k
        self.list, self.floats = None, None
        while True:
            yield from self.running(self.numbers[k])
            kinds = ("claim", ["claim", "index", "operands"]) if self.list.fine else ("name", ["index"])
            self.shown = self.list.entries
            say = yield from self.answer("numbers", kinds)
            if self.list.fine:
                self.judge("d", say, claims.claim_d_fold)
            self.following = self.list.following(self.named(say))

    def running(self, claimed):
        """One move of running results: the list that follows, and as long as that has one entry the next one, too."""
        first = self.list is None
        say = yield from self.ask("numbers", ("numbers", ["numbers"]))
        data = form(decoded, say["numbers"])
        if first:
            self.following = claims.layout_of(self.line, len(data)).first()
        try:
            while True:
                self.list = self.following
                data = self.entries_from(data)
                if first:
                    self.must_be(claimed)
                first = False
                self.list.check()
                if self.list.count > 1 or self.list.fine:
                    break
                self.following = self.list.following(0)
        except Contradiction as found:
            if found.position is not None:
                self.at["position"] = found.position
            raise Lost("post", "d" if found.scalar else None, found.scalar) from found
        malformed(data)

    def entries_from(self, data):
        size, count = self.list.layout.entry_bytes(), self.list.count
        malformed(len(data) < size * count)
        self.list.entries = [self.list.layout.entry(data[i:i + size]) for i in range(0, size * count, size)]
        numbers = [entry[0] if isinstance(entry, tuple) else entry for entry in self.list.entries]
        malformed(any(np.isnan(number) and number.tobytes() != claims.element.raw(number) for number in numbers))
        return data[size * count:]

    def must_be(self, claimed):
        last = self.list.last_entry()
        last = last[1] if isinstance(last, tuple) else last
        post(claims.element.stored(last, self.line["t"]).tobytes() != claimed.tobytes())

    def entries(self):
        say = yield from self.ask("entries", ("entries", ["count", "root", "nodes"]))
        malformed(not is_integer(say["count"]))
        post(not 0 < say["count"] <= self.program["lines"])
        self.entries_count, self.entries_root = say["count"], form(evidence.digest, say["root"])
        post(evidence.state_digest(self.entries_count, self.entries_root) != self.after)
        self.tree, self.node = "entries", trees.Node(0, self.entries_count, self.entries_root)
        while True:
            self.children(say)
            say = yield from self.answer("entries", ("name", ["index"]), ("claim", ["claim", "entry", "tensor"]), *CLAIMS_B)
            if "tensor" in say:
                self.judge("f", say, claims.claim_f)
            if say["kind"] == "claim":
                self.judge("b", say, claims.claim_b)
            self.node = self.node.child(self.named(say), self.hashes)
            if self.node.count == 1:
                break
            say = yield from self.ask("entries nodes", ("nodes", ["nodes"]))
        self.entry_index = self.node.start
        say = yield from self.ask("entry", ("entry", ["digest", "line", "name"]))
        tensor = evidence.digest(say["digest"])
        post(evidence.entry_leaf(say["name"], tensor) != self.node.hash)
        try:
            self.entry_line, _ = evidence.line_of(say["line"], self.program)
        except Unproven as error:
            raise Lost("post") from error
        post(self.entry_line.get("src") != f"state {say['name']}", "b")
        self.entry = (say["name"], tensor)
        say = yield from self.answer("entry", *CLAIMS_B)
        self.judge("b", say, claims.claim_b)

    def chunk(self):
        say = yield from self.ask("chunk", ("chunk", ["entry", "location", "path", "root"]))
        try:
            post(not answers.chunk_is_right(self, say, *self.demanded))
        except Unproven as error:
            raise Lost("post") from error
        raise Answered

    def fault(self):
        """For a row that was not replayed, or for the diverging step."""
        say = yield from self.ask("fault", *(("fault", names) for names in answers.FAULTS[self.reason]))
        try:
            post(not answers.fault_is_shown(self, say))
        except (Unproven, KeyError) as error:
            raise Lost("post") from error
        if self.reason == "non-finite":
            self.last, self.after = say["step"], evidence.digest(say["digest"])
            self.excused, self.shown = self.after, [self.after]
            self.one_step_left()
            say = yield from self.answer("fault", ("name", ["index"]))
            self.named(say)
            return
        if set(say) == {"kind", "entry"}:
            entry = say["entry"]
            say = yield from self.answer("foreign", *CLAIMS_B)
            self.judge("b", say, lambda game, said: (answers.is_of_program(game, said["line"], entry["name"]), None))
        raise Judged(False)
