"""The running results of a fold's element and the lists in which they are shown: dgx-dispute(7), "Numbers".

A list knows how many entries it has, what its entries must give together, which list comes after the entry named, and, where an entry is
one position, what came before it."""

import dataclasses
import math

import numpy as np

from . import element

BLOCK, GROUP, ITEMS = 256, 16, 2048
LIMIT, PAIRS = 2048, 1024


def ceil(a, b):
    return -(-a // b)


class Contradiction(Exception):
    """What is shown does not give what it must; `scalar` is the last operation of what was recombined, if there is one."""

    def __init__(self, scalar=None, position=None):
        super().__init__("contradiction")
        self.scalar, self.position = scalar, position


def scalar(record, claimed, result, index, place=None):
    return {"claimed": claimed, "index": index, "operands": [each.shown() for each in record.operands], "operation": record.operation,
            "place": place or record.place, "result": result}


class Layout:
    """What follows from the line alone, and from whether its running results are floats."""

    def __init__(self, line, floats):
        self.line, self.kind, self.floats = line, line["k"], floats
        self.positions = math.prod(line["f"])
        self.limit = PAIRS if self.kind == "argmax" else LIMIT
        self.zero = np.float32(0) if floats else np.int64(0)
        self.levels = [self.positions]
        while self.levels[-1] > ITEMS:
            self.levels.append(ceil(self.levels[-1], ITEMS))

    def first(self):
        if self.kind == "dot":
            return Totals(self, 0, ceil(self.positions, BLOCK * GROUP), None)
        return Sum(self) if self.kind == "sum" else Links(self, 0, self.positions, None)

    def entry_bytes(self):
        return (4 if self.floats else 8) + (8 if self.kind == "argmax" else 0)

    def entry(self, data):
        """One entry from its bytes."""
        kind, size = ("<f4", 4) if self.floats else ("<i8", 8)
        number = np.frombuffer(data[:size], kind)[0]
        return (number, np.frombuffer(data[size:], "<i8")[0]) if self.kind == "argmax" else number


def raw(entry):
    return b"".join(element.raw(part) for part in entry) if isinstance(entry, tuple) else element.raw(entry)


def bits(entry):
    return tuple(element.bits(part) for part in entry) if isinstance(entry, tuple) else element.bits(entry)


class List:
    fine = False  # whether an entry is what one position gives
    entries = None

    def last_entry(self):
        return self.entries[-1]

    def check(self):
        """Raises Contradiction if the entries do not give what they must."""

    def must_end_with(self, entry):
        if entry is not None and bits(self.entries[-1]) != bits(entry):
            raise Contradiction()

    def must_add_up(self, before, entry, place, position):
        operands = [element.Operand(before, "accumulator"), element.Operand(self.entries[-1], "part 0")]
        result = element.add(before, self.entries[-1])
        if bits(result) != bits(entry):
            raise Contradiction(scalar(element.Record(place, "add", operands, result), bits(entry), bits(result), 0), position)


class Links(List):
    """Every d-th result of positions start ... end-1, and the last. `before` is the result before them; None at the fold's start."""

    def __init__(self, layout, start, end, final, before=None):
        self.layout, self.start, self.end, self.final, self.prior = layout, start, end, final, before
        self.stride = ceil(end - start, layout.limit)
        self.count, self.fine = ceil(end - start, self.stride), self.stride == 1

    def check(self):
        self.must_end_with(self.final)

    def place(self, k):
        """The position that entry k is the result after."""
        return min(self.start + (k + 1) * self.stride, self.end) - 1

    def before(self, k):
        return self.entries[k - 1] if k else self.prior

    def following(self, k):
        return type(self)(self.layout, self.start + k * self.stride, self.place(k) + 1, self.entries[k], self.before(k))

    def honest(self, run):
        return [run.terms[self.place(k)] for k in range(self.count)]


class Totals(Links):
    """As Links, over the groups of a dot; before the first group there is +0."""

    def __init__(self, layout, start, end, final, before=None):
        super().__init__(layout, start, end, final, layout.zero if before is None else before)
        self.each, self.fine = self.fine, False

    def following(self, k):
        if not self.each:
            return super().following(k)
        return Groups(self.layout, self.start + k, self.before(k), self.entries[k])

    def honest(self, run):
        return [run.totals[self.place(k)] for k in range(self.count)]


class Groups(List):
    """The running group after each of its blocks."""

    def __init__(self, layout, group, total_before, total):
        self.layout, self.group, self.total_before, self.total = layout, group, total_before, total
        self.start, blocks = group * GROUP, ceil(layout.positions, BLOCK)
        self.count = min(GROUP, blocks - self.start)

    def check(self):
        last = min((self.group + 1) * GROUP * BLOCK, self.layout.positions) - 1
        self.must_add_up(self.total_before, self.total, f"dot group {self.group}", last)

    def before(self, k):
        return self.entries[k - 1] if k else self.layout.zero

    def following(self, k):
        return Block(self.layout, self.start + k, self.before(k), self.entries[k])

    def honest(self, run):
        return run.groups[self.start:self.start + self.count]


class Block(List):
    """The running block after each of its positions."""
    fine = True

    def __init__(self, layout, block, group_before, group):
        self.layout, self.block, self.group_before, self.group = layout, block, group_before, group
        self.start = block * BLOCK
        self.count = min(BLOCK, layout.positions - self.start)

    def check(self):
        self.must_add_up(self.group_before, self.group, f"dot block {self.block}", self.start + self.count - 1)

    def place(self, k):
        return self.start + k

    def before(self, k):
        return self.entries[k - 1] if k else self.layout.zero

    def honest(self, run):
        return run.terms[self.start:self.start + self.count]


class Sum(List):
    """The sum alone; its items, or the lanes of its only block, follow at once."""
    count = 1

    def __init__(self, layout):
        self.layout = layout

    def following(self, _):
        return part(self.layout, len(self.layout.levels) - 1, 0, self.entries[0])

    def honest(self, run):
        return [run.items[-1][0]]


def part(layout, level, block, result):
    """What shows a block of a level whose result is known: its items, or at level 0 its lanes."""
    return Items(layout, level, block, result) if level else Lanes(layout, block, result)


class Items(List):
    """The items of a block of a level above the positions."""

    def __init__(self, layout, level, block, result):
        self.layout, self.level, self.block, self.result = layout, level, block, result
        self.start = block * ITEMS
        self.count = min(ITEMS, layout.levels[level] - self.start)

    def check(self):
        must_combine(self, *element.combined(self.entries, self.layout.zero))

    def following(self, k):
        return part(self.layout, self.level - 1, self.start + k, self.entries[k])

    def honest(self, run):
        return run.items[self.level - 1][self.start:self.start + self.count]


class Lanes(List):
    """The lane's result after each position of a block."""
    fine = True

    def __init__(self, layout, block, result):
        self.layout, self.level, self.block, self.result = layout, 0, block, result
        self.start = block * ITEMS
        self.count = min(ITEMS, layout.positions - self.start)

    def check(self):
        lanes = [self.layout.zero] * 32
        for q, entry in enumerate(self.entries):
            lanes[q % 32] = entry
        must_combine(self, *element.joined(lanes))

    def place(self, k):
        return self.start + k

    def before(self, k):
        return self.entries[k - 32] if k >= 32 else self.layout.zero

    def honest(self, run):
        return run.terms[self.start:self.start + self.count]


def must_combine(items, result, record):
    if bits(result) != bits(items.result):
        last = min((items.block + 1) * ITEMS ** (items.level + 1), items.layout.positions) - 1
        raise Contradiction(scalar(record, bits(items.result), bits(result), 30, f"sum combine {items.block}"), last)


@dataclasses.dataclass(frozen=True)
class Flip:
    """A running result that is not what it should be: after a position ("term"), of a group after a block ("group"), a total after a group
    ("total"), the result of a block of a level ("item"). Of an argmax "term" is the position alone, "best" the other, or "both"."""
    what: str
    place: int
    level: int = 0


def flipped(number):
    """Another number; of an integer a low bit differs, which is left where it is stored in a byte."""
    kind, bit = (np.uint32, 22) if isinstance(number, np.float32) else (np.int64, 2)
    return (number.view(kind) ^ kind(1 << bit)).view(type(number))


class Run:
    """Every running result of one element. What is flipped enters all that follows it."""

    def __init__(self, line, source, at, flip=None):
        self.line, self.source, self.at, self.flip = line, source, at, flip
        start = element.start(line, source, at, self.floats())
        self.layout = Layout(line, self.floats())
        self.terms, self.groups, self.totals, self.items = [], [], [], []
        getattr(self, line["k"] if line["k"] in ("dot", "sum") else "links")(start)

    def floats(self):
        if self.line["k"] == "argmax":
            return isinstance(element.Evaluation(self.line, self.source, self.at).term().number, np.float32)
        return self.line["t"] == "f32"

    def perhaps(self, entry, what, place, level=0):
        if self.flip not in [Flip(each, place, level) for each in ((what, "best", "both") if isinstance(entry, tuple) else (what,))]:
            return entry
        what = self.flip.what
        if isinstance(entry, tuple):
            best = flipped(entry[0]) if what != "term" else entry[0]
            return (best, (entry[1] + 1) % self.layout.positions if what != "best" else entry[1])
        return flipped(entry)

    def after(self, position, before):
        entry, _ = element.after(self.line, self.source, self.at, position, before)
        self.terms.append(self.perhaps(entry, "term", position))
        return self.terms[-1]

    def links(self, entry):
        for position in range(self.layout.positions):
            entry = self.after(position, entry)

    def dot(self, zero):
        group = total = zero
        for start in range(0, self.layout.positions, BLOCK):
            block = zero
            for position in range(start, min(start + BLOCK, self.layout.positions)):
                block = self.after(position, block)
            group = self.perhaps(element.add(group, block), "group", start // BLOCK)
            self.groups.append(group)
            if (start // BLOCK + 1) % GROUP == 0 or start + BLOCK >= self.layout.positions:
                total = self.perhaps(element.add(total, group), "total", len(self.totals))
                self.totals.append(total)
                group = zero

    def sum(self, zero):
        results = []
        for start in range(0, self.layout.positions, ITEMS):
            lanes = [zero] * 32
            for position in range(start, min(start + ITEMS, self.layout.positions)):
                lanes[position % 32] = self.after(position, lanes[position % 32])
            results.append(self.perhaps(element.joined(lanes)[0], "item", len(results)))
        self.items = [results]
        while len(results) > 1:
            results = [element.combined(results[i:i + ITEMS], zero)[0] for i in range(0, len(results), ITEMS)]
            results = [self.perhaps(result, "item", n, len(self.items)) for n, result in enumerate(results)]
            self.items.append(results)

    def result(self):
        """The element, not yet stored."""
        if self.line["k"] == "dot":
            return self.totals[-1]
        if self.line["k"] == "sum":
            return self.items[-1][0]
        return self.terms[-1][1] if self.line["k"] == "argmax" else self.terms[-1]
