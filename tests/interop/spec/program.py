"""The step program: dgx-program(5) for what a line says, dgx-numerics(7) for what its numbers are. Whole values at once, but each
element is made by the operations of its definition in their order, and by no others."""

import json
import math
import re

import numpy as np

from . import inputs, numbers

DTYPES = {"f32": np.dtype("<f4"), "i64": np.dtype("<i8"), "u8": np.dtype("|u1")}
ACCESS = re.compile(r"(\d+)(?:@([\d.]+))?\[(.*?)\](?:\?(.*))?")
COORDINATE = re.compile(r"(?:\((.+)\)|(.+?))(?:(//?)(\d+))?")
TERM = re.compile(r"([+-]?)(?:(\d+)\*)?([ik]\d+|\$\d+|\d+)")
ZERO = np.float32(0)


def literal(text):
    if "x" in text or "inf" in text:
        return np.float32(float.fromhex(text))
    return np.int64(int(text))


class Line:
    """One line, evaluated over arrays of its iteration indices. `env` maps i0 …, k0 … to integers or to arrays that broadcast."""

    def __init__(self, fields, table):
        self.fields, self.table = fields, table
        self.accesses = fields.get("x", [])
        self.iteration = fields.get("i", fields["s"])
        self.fold = fields.get("f", [])

    def grids(self, extra=0):
        """Index arrays of the iteration, each along its own axis, with `extra` axes of length 1 behind."""
        rank = len(self.iteration) + extra
        shapes = [[-1 if axis == place else 1 for axis in range(rank)] for place in range(len(self.iteration))]
        return {f"i{n}": np.arange(size).reshape(shapes[n]) for n, size in enumerate(self.iteration)}

    def positions(self):
        """Every fold position in row-major order."""
        for position in np.ndindex(*self.fold):
            yield {f"k{n}": np.int64(index) for n, index in enumerate(position)}

    def coordinate(self, text, env):
        """The coordinate, and whether its division is exact."""
        inside, plain, division, divisor = COORDINATE.fullmatch(text).groups()
        total = np.int64(0)
        for sign, factor, symbol in TERM.findall(inside or plain):
            if symbol[0] == "$":
                amount = self.read(int(symbol[1:]), env)
            else:
                amount = env[symbol] if symbol[0] in "ik" else np.int64(int(symbol))
            total = total + (-1 if sign == "-" else 1) * int(factor or 1) * amount
        if not division:
            return total, True
        return total // int(divisor), True if division == "//" else total % int(divisor) == 0

    def read(self, number, env):
        value, view, coordinates, fill = ACCESS.fullmatch(self.accesses[number]).groups()
        array = self.table[int(value)]
        if view is not None:
            array = array.reshape([int(size) for size in view.split(".")] if view else [])
        places, good = [], True
        for text, size in zip(coordinates.split(",") if coordinates else [], array.shape, strict=True):
            at, exact = self.coordinate(text, env)
            within = (at >= 0) & (at < size) & exact
            good = good & within
            places.append(np.where(within, at, 0))
        got = array[tuple(places)]
        if array.dtype != np.float32:
            got = np.asarray(got).astype(np.int64)
        if fill is not None:
            got = np.where(good, got, literal(fill))
        assert fill is not None or np.all(good), self.accesses[number]
        return got

    def run(self, steps, env, accumulator=None):
        """The last step's result; without steps, access 0."""
        results, reads = [], {}

        def operand(text):
            if text == "acc":
                return accumulator
            if text[0] == "x":
                number = int(text[1:])
                if number not in reads:
                    reads[number] = self.read(number, env)
                return reads[number]
            if text[0] == "t":
                return results[int(text[1:])]
            return env[text] if text[0] in "k" or re.fullmatch(r"i\d+", text) else literal(text)

        for step in steps:
            name, *operands = step.split()
            results.append(numbers.apply(name, [operand(text) for text in operands]))
        return results[-1] if results else self.read(0, env)

    def value(self):
        result = getattr(self, self.fields["k"])()
        shaped = np.broadcast_to(result, self.iteration).reshape(self.fields["s"])
        return numbers.canonical(np.ascontiguousarray(shaped)).astype(DTYPES[self.fields["t"]]).reshape(self.fields["s"])

    def map(self):
        return self.run(self.fields.get("do", []), self.grids())

    def dot(self):
        """Blocks of 256, groups of 16 blocks, each total from +0."""
        total = group = block = np.zeros(self.iteration, np.float32)
        env, count = self.grids(), math.prod(self.fold)
        for n, position in enumerate(self.positions()):
            env.update(position)
            block = numbers.fma(self.read(0, env), self.read(1, env), block)
            last = n + 1 == count
            if last or (n + 1) % 256 == 0:
                group, block = group + block, np.zeros_like(block)
            if last or (n + 1) % 4096 == 0:
                total, group = total + group, np.zeros_like(group)
        return total

    def sum(self):
        """Blocks of 2,048, 32 lanes each, lanes joined at distance 16, 8, 4, 2, 1; the same again over the blocks."""
        env = self.grids(1)
        flat = np.arange(math.prod(self.fold))
        env.update({f"k{n}": index for n, index in enumerate(np.unravel_index(flat, self.fold))})
        terms = self.run(self.fields.get("do", []), env)
        terms = np.broadcast_to(terms, [*self.iteration, len(flat)])
        while True:
            terms = lanes_joined(terms)
            if terms.shape[-1] == 1:
                return terms[..., 0]

    def greatest(self):
        """The greatest element and the first place that has it; NaN above all, -0 as +0."""
        best, place = np.full(self.iteration, -np.inf, np.float32), np.zeros(self.iteration, np.int64)
        env = self.grids()
        for n, position in enumerate(self.positions()):
            env.update(position)
            candidate = self.run(self.fields.get("do", []), env) + ZERO
            wins = ~np.isnan(best) & ((candidate > best) | np.isnan(candidate))
            best, place = np.where(wins, candidate, best), np.where(wins, n, place)
        return best, place

    def max(self):
        return self.greatest()[0]

    def argmax(self):
        return self.greatest()[1]

    def chain(self):
        env, init = self.grids(), self.fields["init"]
        accumulator = self.read(int(init[1:]), env) if init[0] == "x" else literal(init)
        accumulator = np.broadcast_to(accumulator, self.iteration)
        for position in self.positions():
            env.update(position)
            taken = self.run(self.fields["do"], env, accumulator)
            if self.fields.get("when"):
                taken = np.where(self.run(self.fields["when"], env) != 0, taken, accumulator)
            accumulator = np.broadcast_to(taken, self.iteration)
        return accumulator


def lanes_joined(terms):
    count = terms.shape[-1]
    blocks = -(-count // 2048)
    # Zeros behind the last term change nothing: a lane starts at +0 and so is never -0.
    padded = np.concatenate([terms, np.zeros([*terms.shape[:-1], blocks * 2048 - count], np.float32)], axis=-1)
    padded = padded.reshape([*terms.shape[:-1], blocks, 64, 32])
    lanes = np.zeros([*terms.shape[:-1], blocks, 32], np.float32)
    for row in range(64):
        lanes = lanes + padded[..., row, :]
    for distance in (16, 8, 4, 2, 1):
        lanes = lanes[..., :distance] + lanes[..., distance:2 * distance]
    return lanes[..., 0]


def parse(text):
    return [json.loads(line) for line in text.splitlines()]


def input_value(line, task, state, data, step, uniforms):
    source, _, name = line["src"].partition(" ")
    if source == "state":
        return state[name]
    if source == "batch":
        return data[name][inputs.batch_indices(int(task["seed"]), len(data[name]), task["batch"], step)]
    if source == "schedule":
        return np.array([inputs.scalar(task, each, step) for each in line["of"]], np.float32).reshape(line["s"])
    if source == "constant":
        return np.array([literal(each) for each in line["of"]], DTYPES[line["t"]]).reshape(line["s"])
    assert source == "uniform" and int(name) >= uniforms, line
    count = math.prod(line["s"])
    return inputs.uniform(int(task["seed"]), inputs.DROPOUT, int(name), step, count).reshape(line["s"])


def run_step(program, task, state, data, step):
    """Every value of one step, and the state after it."""
    table = []
    for fields in program:
        if fields["k"] == "input":
            table.append(np.ascontiguousarray(input_value(fields, task, state, data, step, 0)).reshape(fields["s"]))
        else:
            table.append(Line(fields, table).value())
    after = {line["src"][len("state "):]: table[line["next"]] for line in program if "next" in line}
    return table, after
