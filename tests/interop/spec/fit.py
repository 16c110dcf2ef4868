"""Whether a line fits the types and shapes of the values that it names: dgx-dispute(7), "Evidence". The line is one of the program, so that its
own text needs no second look."""

import math

import numpy as np

from .functions import FUNCTIONS
from .program import ACCESS, COORDINATE, TERM, literal, shape

SAME, COMPARED = ("add", "sub", "mul", "max", "min"), ("eq", "ne", "lt", "le", "gt", "ge")
FLOATS = ("div", "fma", "sqrt", "floor", "trunc", "rint", *FUNCTIONS)
INTEGERS = ("and", "or", "not", "idiv", "imod")


class Misfit(Exception):
    pass


def need(condition):
    if not condition:
        raise Misfit()


def result_of(name, types):
    """Whether an operation on operands of these types gives a float; True is a float."""
    if name == "select":
        need(not types[0] and types[1] == types[2])
        return types[1]
    if name in SAME + COMPARED:
        need(types[0] == types[1])
        return name in SAME and types[0]
    if name in FLOATS + INTEGERS:
        need(all(each == (name in FLOATS) for each in types))
        return name in FLOATS
    return types[0] if name in ("neg", "abs") else name == "f32"


class Line:
    """`values`: type and shape of each value that the line names."""

    def __init__(self, line, values):
        self.line = line
        self.accesses = [self.access(text, values) for text in line["x"]]
        for text in line["x"]:
            for symbol in self.symbols(text):
                need(symbol[0] != "$" or not self.accesses[int(symbol[1:])])

    @staticmethod
    def symbols(text):
        coordinates = ACCESS.fullmatch(text).group(3)
        for each in coordinates.split(",") if coordinates else []:
            inside, plain, _, _ = COORDINATE.fullmatch(each).groups()
            yield from (symbol for _, _, symbol in TERM.findall(inside or plain))

    @staticmethod
    def access(text, values):
        """Whether it reads floats."""
        value, view, coordinates, fill = ACCESS.fullmatch(text).groups()
        need(int(value) in values)
        kind, own = values[int(value)]
        sizes = own if view is None else shape(view)
        need(math.prod(sizes) == math.prod(own) and len(sizes) == (len(coordinates.split(",")) if coordinates else 0))
        if fill is not None:
            number = literal(fill)
            need(isinstance(number, np.float32) == (kind == "f32") and (kind != "u8" or 0 <= number <= 255))
        return kind == "f32"

    def operand(self, text, steps):
        if text[0] == "x" or text[0] == "t":
            return (self.accesses if text[0] == "x" else steps)[int(text[1:])]
        if text == "acc":
            return self.line["t"] == "f32"
        return text[0] not in "ik" and isinstance(literal(text), np.float32) or text == "inf"

    def steps(self, key):
        steps = []
        for step in self.line[key]:
            name, *texts = step.split()
            steps.append(result_of(name, [self.operand(text, steps) for text in texts]))
        return steps[-1]

    def check(self):
        floats, kind = self.line["t"] == "f32", self.line["k"]
        if kind == "dot":
            need(self.accesses[0] and self.accesses[1])
            return
        last = self.steps("do") if "do" in self.line else self.accesses[0]
        need(kind == "argmax" or last == floats)
        need("when" not in self.line or not self.steps("when"))
        need("init" not in self.line or self.operand(self.line["init"], []) == floats)


def fits(line, values):
    try:
        Line(line, values).check()
    except Misfit:
        return False
    return True
