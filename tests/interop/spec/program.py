"""The step program: dgx-program(5) for what a line says, dgx-numerics(7) for what its numbers are. Whole values at once, but each
element is made by the operations of its definition in their order, and by no others."""

import json
import math
import re

import numpy as np

from . import folds, inputs, numbers

ACCESS = re.compile(r"(\d+)(?:@([\d.]*))?\[(.*?)\](?:\?(.*))?")
COORDINATE = re.compile(r"(?:\((.+)\)|(.+?))(?:(//?)(\d+))?")
TERM = re.compile(r"([+-]?)(?:(\d+)\*)?([ik]\d+|\$\d+|\d+)")
# So many terms of a fold are held at once.
TERMS = 1 << 20


def literal(text):
    if "x" in text or "inf" in text:
        return np.float32(float.fromhex(text))
    return np.int64(int(text))


def shape(text):
    return [int(size) for size in text.split(".")] if text else []


class Parts:
    """A sum of arrays of different shapes, added up within each shape first: most coordinates need only one index."""

    def __init__(self):
        self.by_shape = {}

    def add(self, array):
        array = np.asarray(array, np.int64)
        self.by_shape[array.shape] = self.by_shape[array.shape] + array if array.shape in self.by_shape else array

    def add_times(self, other, factor):
        for part in other.by_shape.values():
            self.add(part * np.int64(factor))

    def total(self):
        parts = sorted(self.by_shape.values(), key=lambda array: array.size)
        return sum(parts[1:], parts[0]) if parts else np.array(0)


class Accesses:
    """Reads the accesses of a line at some of its elements, [elements], and, in a fold, at all positions, [positions, 1]."""

    def __init__(self, texts, table, indices):
        self.texts, self.table, self.indices = texts, table, indices
        self.known = {}

    def coordinate(self, text, size):
        """The coordinate, and where it is inside and its division exact."""
        inside, plain, division, divisor = COORDINATE.fullmatch(text).groups()
        parts = Parts()
        for sign, factor, symbol in TERM.findall(inside or plain):
            parts.add(self.operand(symbol) * np.int64(int(sign + (factor or "1"))))
        at, exact = parts.total(), True
        if division:
            at, rest = np.divmod(at, int(divisor))
            exact = division == "//" or rest == 0
            parts = Parts()
            parts.add(at)
        return parts, (at >= 0) & (at < size) & exact

    def operand(self, symbol):
        if symbol[0] == "$":
            return self.read(int(symbol[1:]))
        return self.indices[symbol] if symbol[0] in "ik" and symbol != "inf" else literal(symbol)

    def read(self, number):
        if number not in self.known:
            with np.errstate(over="ignore"):
                self.known[number] = self.gather(*ACCESS.fullmatch(self.texts[number]).groups())
        return self.known[number]

    def gather(self, value, view, coordinates, fill):
        array = self.table[int(value)]
        sizes = array.shape if view is None else shape(view)
        place, good, stride = Parts(), np.bool_(True), array.size
        for text, size in zip(coordinates.split(",") if coordinates else [], sizes, strict=True):
            at, within = self.coordinate(text, size)
            good = good & within if not np.all(within) else good
            stride //= size
            place.add_times(at, stride)
        if np.all(good):
            return wide(np.take(array, place.total()))
        got = wide(np.take(array, np.where(good, place.total(), 0)))
        assert fill is not None, "an access without fill is outside"
        return np.where(good, got, literal(fill))


def wide(array):
    """Numbers as steps see them: floats, and integers of 64 bits."""
    return array if array.dtype == np.float32 else array.astype(np.int64)


class Line:
    """One line over all its elements, some at a time."""

    def __init__(self, fields, table):
        self.fields, self.table = fields, table
        self.iteration = fields.get("i", fields["s"])
        self.fold = fields.get("f", [])

    def value(self):
        elements, positions = math.prod(self.iteration), math.prod(self.fold)
        size = max(1, TERMS // positions)
        parts = [self.part(np.arange(start, min(start + size, elements))) for start in range(0, elements, size)]
        return np.concatenate(parts).reshape(self.fields["s"])

    def part(self, elements):
        """The elements of these flat numbers, as stored."""
        indices = {f"i{n}": index for n, index in enumerate(np.unravel_index(elements, self.iteration or [1]))}
        if self.fields["k"] != "map":
            positions = np.unravel_index(np.arange(math.prod(self.fold)), self.fold or [1])
            indices.update({f"k{n}": index[:, None] for n, index in enumerate(positions)})
        accesses = Accesses(self.fields.get("x", []), self.table, indices)
        result = getattr(self, self.fields["k"])(accesses, len(elements))
        return numbers.stored(np.broadcast_to(result, elements.shape), self.fields["t"])

    def terms(self, accesses, count):
        return np.broadcast_to(self.last(self.fields.get("do", []), accesses), [math.prod(self.fold), count])

    @staticmethod
    def last(steps, accesses):
        """The last step's result; without steps, access 0."""
        results = []
        for step in steps:
            name, *operands = step.split()
            results.append(numbers.apply(name, [operand(text, accesses, results) for text in operands]))
        return results[-1] if results else accesses.read(0)

    def map(self, accesses, _):
        return self.last(self.fields.get("do", []), accesses)

    def dot(self, accesses, count):
        whole = [math.prod(self.fold), count]
        return folds.dot(*[np.broadcast_to(accesses.read(number), whole) for number in (0, 1)])

    def sum(self, accesses, count):
        return folds.sum(self.terms(accesses, count))

    def max(self, accesses, count):
        return folds.max(self.terms(accesses, count))

    def argmax(self, accesses, count):
        return folds.argmax(self.terms(accesses, count))

    def chain(self, accesses, count):
        init, positions = self.fields["init"], math.prod(self.fold)
        accumulator = np.broadcast_to(operand(init, accesses, []), [count])
        steps = [step.split() for step in self.fields.get("do", [])]
        fixed = before_accumulator(steps, accesses)
        when = np.broadcast_to(self.last(self.fields["when"], accesses), [positions, count]) if "when" in self.fields else None
        for position in range(positions):
            term = self.link(steps, fixed, accesses, accumulator, position)
            accumulator = np.broadcast_to(term if when is None else np.where(when[position] != 0, term, accumulator), [count])
        return accumulator

    @staticmethod
    def link(steps, fixed, accesses, accumulator, position):
        """The last step at one position, given what needs no accumulator at all of them."""
        results = []
        for number, (name, *operands) in enumerate(steps):
            if number in fixed:
                results.append(row(fixed[number], position))
                continue
            values = [accumulator if text == "acc" else results[int(text[1:])] if text[0] == "t" else row(operand(text, accesses, []), position)
                      for text in operands]
            results.append(numbers.apply(name, values))
        return results[-1] if results else row(accesses.read(0), position)


def row(array, position):
    """What an array over positions and elements has at a position."""
    array = np.asarray(array)
    return array if array.ndim < 2 else array[position if len(array) > 1 else 0]


def before_accumulator(steps, accesses):
    """Results, by step number, of the steps that depend on no accumulator."""
    fixed = {}
    for number, (name, *operands) in enumerate(steps):
        if all(text != "acc" and (text[0] != "t" or int(text[1:]) in fixed) for text in operands):
            fixed[number] = numbers.apply(name, [operand(text, accesses, fixed) for text in operands])
    return fixed


def operand(text, accesses, results):
    if text[0] == "x":
        return accesses.read(int(text[1:]))
    return results[int(text[1:])] if text[0] == "t" else accesses.operand(text)


def parse(text):
    return [json.loads(line) for line in text.splitlines()]


def input_value(line, task, state, data, step):
    source, _, name = line["src"].partition(" ")
    if source == "state":
        return state[name]
    if source == "batch":
        rows = inputs.batch_indices(int(task["seed"]), len(data["x"]), task["batch"], step)
        return np.array(rows, "<i8") if name == "i" and name not in data else data[name][rows]
    if source == "schedule":
        return np.array([inputs.scalar(task, each, step) for each in line["of"]], "<f4").reshape(line["s"])
    if source == "constant":
        return numbers.stored(np.array([literal(each) for each in line["of"]]), line["t"]).reshape(line["s"])
    assert source == "uniform", line
    count = math.prod(line["s"])
    return inputs.uniform(int(task["seed"]), inputs.DROPOUT, int(name), step, count).reshape(line["s"])


def run_step(program, task, state, data, step):
    """Every value of one step, and the state after it."""
    table = []
    for fields in program:
        value = input_value(fields, task, state, data, step) if fields["k"] == "input" else Line(fields, table).value()
        table.append(np.ascontiguousarray(value).reshape(fields["s"]))
    after = {line["src"][len("state "):]: table[line["next"]] for line in program if "next" in line}
    return table, after
