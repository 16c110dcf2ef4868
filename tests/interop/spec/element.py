"""One element, one position of a fold, by itself: dgx-numerics(7), "Elements", "Accesses", "Folds", with a record of each scalar operation.
Where numbers are read from is the caller's matter: `source.shape(value)`, and `source.number(value, element)`, a float32 or an int64."""

import dataclasses
import math

import numpy as np

from . import numbers
from .program import ACCESS, COORDINATE, TERM, literal, shape

F32, I64 = np.float32, np.int64
DIGITS = {"f32": 8, "i64": 16, "u8": 2}


def wrap(value):
    return (value + 2**63) % 2**64 - 2**63


def number(value):
    """A scalar as it is shown: floats with the one NaN."""
    return numbers.canonical(np.asarray(value))[()]


def bits(value):
    if isinstance(value, np.float32):
        return f"0x{int(number(value).view(np.uint32)):08x}"
    return f"0x{int(value) % 2**64:016x}"


def raw(value):
    """The bytes of a running result: f32 in 4, integers in 8."""
    return number(value).tobytes() if isinstance(value, np.float32) else I64(value).tobytes()


def stored(value, kind):
    return numbers.stored(np.asarray(value), kind)[()]


def stored_bits(value, kind):
    """Of an element in a value of type `kind`; `value` is already stored."""
    return f"0x{int.from_bytes(np.asarray(value).tobytes(), 'little'):0{DIGITS[kind]}x}"


def unravel(index, sizes):
    found = []
    for size in reversed(sizes):
        index, rest = divmod(index, size)
        found.append(rest)
    return found[::-1]


@dataclasses.dataclass
class Operand:
    number: object
    origin: str

    def shown(self):
        return {"bits": bits(self.number), "from": self.origin}


@dataclasses.dataclass
class Record:
    """One scalar operation."""
    place: str
    operation: str
    operands: list
    result: object


class Evaluation:
    """An element of a line at one position (a map has position 0). Accesses and steps are evaluated when they are needed."""

    def __init__(self, line, source, element, position=0):
        self.line, self.source, self.position = line, source, position
        self.index = {f"i{n}": index for n, index in enumerate(unravel(element, line.get("i", line["s"])))}
        self.fold = "f" in line
        self.index.update({f"k{n}": index for n, index in enumerate(unravel(position, line.get("f", [])))})
        self.accumulator = None
        self.read, self.records = {}, []

    def access(self, n):
        if n not in self.read:
            self.read[n] = self.gather(self.line["x"][n], n)
        return self.read[n]

    def gather(self, text, n):
        value, view, coordinates, fill = ACCESS.fullmatch(text).groups()
        own = self.source.shape(int(value))
        sizes = own if view is None else shape(view)
        texts = coordinates.split(",") if coordinates else []
        found = [self.coordinate(each) for each in texts]
        if len(found) != len(sizes) or any(at is None or not 0 <= at < size for at, size in zip(found, sizes)):
            return Operand(literal(fill if fill is not None else "0"), f"fill of access {n}")
        flat = 0
        for at, size in zip(found, sizes):
            flat = flat * size + at
        return Operand(self.source.number(int(value), flat), f"value {value}[{flat}]")

    def coordinate(self, text):
        """None where a division leaves a remainder."""
        inside, plain, division, divisor = COORDINATE.fullmatch(text).groups()
        total = 0
        for sign, factor, symbol in TERM.findall(inside or plain):
            total += int(sign + (factor or "1")) * self.symbol(symbol)
        total = wrap(total)
        if division == "/" and total % int(divisor):
            return None
        return total // int(divisor) if division else total

    def symbol(self, text):
        if text[0] == "$":
            return int(self.access(int(text[1:])).number)
        return self.index[text] if text[0] in "ik" else int(text)

    def operand(self, text, steps, place, results):
        if text[0] == "x":
            return self.access(int(text[1:]))
        if text[0] == "t":
            n = int(text[1:])
            return Operand(self.step(n, steps, place, results), f"step {n}")
        if text == "acc":
            return Operand(self.accumulator, "accumulator")
        if text in self.index:
            return Operand(I64(self.index[text]), text)
        return Operand(literal(text), "literal")

    def step(self, n, steps, place, results):
        if n not in results:
            name, *texts = steps[n].split()
            operands = [self.operand(texts[0], steps, place, results)]
            if name == "select":
                operands.append(self.operand(texts[1 if operands[0].number != 0 else 2], steps, place, results))
                result = operands[1].number
            else:
                operands += [self.operand(text, steps, place, results) for text in texts[1:]]
                result = numbers.apply(name, [each.number for each in operands])[()]
            results[n] = number(result)
            where = f"{place} {n} at position {self.position}" if self.fold else f"{place} {n}"
            self.shown.append((n, Record(where, name, operands, results[n])))
        return results[n]

    def steps(self, key):
        """The last step of a list; its operations are recorded in the order of their numbers."""
        steps, self.shown = self.line[key], []
        place = "step" if key == "do" else "when"
        result = self.step(len(steps) - 1, steps, place, {})
        self.records += [record for _, record in sorted(self.shown, key=lambda pair: pair[0])]
        return Operand(result, f"step {len(steps) - 1}")

    def term(self):
        return self.steps("do") if "do" in self.line else self.access(0)

    def init(self):
        return self.operand(self.line["init"], [], "step", {}).number

    def record(self, place, operation, operands, result):
        self.records.append(Record(place, operation, operands, result))
        return result


def add(a, b):
    return number(numbers.apply("add", [a, b])[()])


def combined(items, zero):
    """A sum's rule over one block of items: 32 lanes, joined. The result and the last addition."""
    lanes = [zero] * 32
    for q, item in enumerate(items):
        lanes[q % 32] = add(lanes[q % 32], item)
    return joined(lanes)


def joined(lanes):
    record = None
    for distance in (16, 8, 4, 2, 1):
        for lane in range(distance):
            operands = [Operand(lanes[lane], f"part {lane}"), Operand(lanes[lane + distance], f"part {lane + distance}")]
            lanes[lane] = add(lanes[lane], lanes[lane + distance])
            record = Record("", "add", operands, lanes[lane])
    return lanes[0], record


def is_better(x, best):
    """By the rule of max: x replaces best."""
    if isinstance(x, np.float32) and np.isnan(x):
        return not np.isnan(best)
    return bool(x > best)


def start(line, source, element, floats):
    """The running result before position 0; of an argmax (best, position)."""
    if line["k"] == "chain":
        return number(Evaluation(line, source, element).init())
    if line["k"] in ("dot", "sum"):
        return F32(0) if floats else I64(0)
    best = F32(-math.inf) if floats else I64(-2**63)
    return (best, I64(0)) if line["k"] == "argmax" else best


def after(line, source, element, position, before):
    """The running result after one position, and the scalar operations of it."""
    at = Evaluation(line, source, element, position)
    return getattr(Position, line["k"])(at, before), at.records


class Position:
    """What each fold does with a position."""

    @staticmethod
    def dot(at, block):
        a, b = at.access(0), at.access(1)
        result = number(numbers.apply("fma", [a.number, b.number, block])[()])
        return at.record(f"dot term {at.position}", "fma", [a, b, Operand(block, "accumulator")], result)

    @staticmethod
    def sum(at, lane):
        term = at.term()
        return at.record(f"sum lane {at.position}", "add", [Operand(lane, "accumulator"), term], add(lane, term.number))

    @staticmethod
    def chain(at, accumulator):
        at.accumulator = accumulator
        if "when" in at.line and at.steps("when").number == 0:
            at.records[-1] = Record(at.records[-1].place, "keep", [Operand(accumulator, "accumulator")], accumulator)
            return accumulator
        return number(at.term().number)

    @staticmethod
    def candidate(at):
        term = at.term()
        if isinstance(term.number, np.float32):
            result = add(term.number, F32(0))
            at.record(f"max operand {at.position}", "add", [term, Operand(F32(0), "literal")], result)
            return Operand(result, "accumulator")
        return term

    @staticmethod
    def max(at, best):
        x = Position.candidate(at)
        result = x.number if is_better(x.number, best) else best
        return at.record(f"max {at.position}", "fold max", [x, Operand(best, "accumulator")], result)

    @staticmethod
    def argmax(at, before):
        x, (best, where) = Position.candidate(at), before
        result = (x.number, I64(at.position)) if is_better(x.number, best) else before
        at.record(f"argmax {at.position}", "fold argmax", [x, Operand(best, "accumulator")], result[1])
        return result
