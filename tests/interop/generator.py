"""Random step programs, in the grammar of dgx-program(5): every scalar operation on numbers that are hard, every fold at lengths around
the edges of its blocks, every form of access. What each line is, is a matter of chance; that a reader accepts it, is not."""

import math

import numpy as np

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, 3.0, 2.0**-149, -(2.0**-149), 2.0**-126 - 2.0**-149, 2.0**-126, 2.0**-125, -(2.0**-127), 1e-20,
          2.0**23 + 1, -(2.0**24) + 1, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 1e20, 2.0**127, (2 - 2.0**-23) * 2.0**127,
          -(2 - 2.0**-23) * 2.0**127, 1 + 2.0**-23, 1 - 2.0**-24, 88.5, -103.5, 0.1, 255.5, -0.25, math.inf, -math.inf,
          # A product of the first two lies just below half the smallest subnormal: added to the third, binary64 hides that.
          (1 + 2.0**-20) * 2.0**-75, (1 - 2.0**-20) * 2.0**-75, 2.0**-127 + 2.0**-149]
INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 10, 63, 255, 256, -255, 2**24 + 1, -(2**25) - 3, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63),
            -(2**63) + 1, 2**32 + 5]
UNARY_FLOAT = ["sqrt", "neg", "abs", "floor", "trunc", "rint", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "f32"]
BINARY_BOTH = ["add", "sub", "mul", "max", "min"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
# Lengths of folds: what is left of one block, of lanes, of two levels.
DOT_LENGTHS = [1, 2, 31, 255, 256, 257, 511, 4095, 4096, 4097, 8200]
SUM_LENGTHS = [1, 31, 32, 33, 63, 64, 65, 2047, 2048, 2049, 4096, 6150]
CHAIN_LENGTHS = [1, 2, 7, 33]
RANKS = "ik"


def hex_float(value):
    if math.isinf(value) or value == 0:
        return ("-" if math.copysign(1, value) < 0 else "") + ("inf" if value else "0x0p0")
    mantissa, exponent = float(value).hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{int(exponent)}"


def coordinate(terms, constant, divisor=None, exact=True):
    """Canonical text of a sum of {symbol: coefficient}, perhaps divided."""
    order = sorted((symbol for symbol in terms if terms[symbol]), key=lambda symbol: ("ik$".index(symbol[0]), int(symbol[1:])))
    text = ""
    for symbol in order:
        size = abs(terms[symbol])
        text += ("-" if terms[symbol] < 0 else "+" if text else "") + ("" if size == 1 else f"{size}*") + symbol
    bare = len(order) == 1 and terms[order[0]] == 1 and constant == 0
    if not text:
        text = str(constant)
    elif constant > 0 and text[0] == "-":
        text = f"{constant}{text}"
    elif constant:
        text += f"{constant:+d}"
    if divisor is None:
        return text
    return f"{text if bare else '(' + text + ')'}{'/' if exact else '//'}{divisor}"


def outputs(ranges):
    """Sizes of the indices i0, i1 ..."""
    return [size for name, size in ranges.items() if name[0] == "i"]


class Program:
    def __init__(self, seed, batch, data):
        """`data`: the dataset's fields by name; x is f32, y i64."""
        self.random = np.random.default_rng(seed)
        self.lines = []
        self.entries = {}
        self.input([], "f32", "state loss")
        self.input([], "i64", "state step")
        self.floats = [self.input([batch, *data["x"].shape[1:]], "f32", "batch x"), self.input([64, 3], "f32", "uniform 7"),
                       self.input([5, 3], "f32", "state model/a.weight"), self.input([5], "f32", "state model/a.bias")]
        self.lines[2 + 2]["next"], self.lines[2 + 3]["next"] = 4, 5
        self.integers = [self.input([batch, *data["y"].shape[1:]], "i64", "batch y"), 1]
        for name in sorted(data.keys() - {"x", "y"}):
            element = {"f": "f32", "i": "i64", "u": "u8"}[data[name].dtype.kind]
            (self.floats if element == "f32" else self.integers).append(self.input([batch, *data[name].shape[1:]], element, f"batch {name}"))
        self.constants()

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, probability):
        return self.random.random() < probability

    def line(self, kind, element, shape, **fields):
        self.lines.append({"k": kind, "t": element, "s": list(shape), "v": len(self.lines), **fields})
        return len(self.lines) - 1

    def input(self, shape, element, source, **fields):
        return self.line("input", element, shape, src=source, **fields)

    def constants(self):
        finite = self.input([len(FLOATS)], "f32", "constant", of=[hex_float(np.float32(value)) for value in FLOATS])
        nan = self.line("map", "f32", [len(FLOATS) + 1], x=[f"{finite}[i0]?inf"], do=[f"eq i0 {len(FLOATS)}", "sub x0 x0", "select t0 t1 x0"])
        self.hard_floats = nan
        self.hard_integers = self.input([len(INTEGERS)], "i64", "constant", of=[str(value) for value in INTEGERS])
        self.bytes = self.input([3, 4], "u8", "constant", of=[str(value) for value in (0, 1, 2, 3, 127, 128, 254, 255, 7, 9, 64, 31)])
        self.schedule = self.input([5], "f32", "schedule", of=["lr", "-lr", "lr/(1-b1^t)", "1/sqrt(1-b2^t)", "1-lr*wd"])
        self.floats += [nan, finite, self.schedule]
        self.integers += [self.hard_integers, self.bytes]

    def elements(self, value):
        return math.prod(self.lines[value]["s"])

    def every_operation(self):
        """Each scalar operation on all combinations of the hard numbers, and on the batch."""
        many, whole = self.elements(self.hard_floats), self.hard_integers
        self.made = []
        for name in UNARY_FLOAT + ["i64", "u8"]:
            for value in (self.hard_floats, self.floats[0]):
                shape = self.lines[value]["s"]
                indices = ",".join(f"i{n}" for n in range(len(shape)))
                self.made.append(self.line("map", "i64" if name in ("i64", "u8") else "f32", shape, x=[f"{value}[{indices}]"], do=[f"{name} x0"]))
        for name in ["neg", "abs", "not", "f32", "i64", "u8"]:
            self.made.append(self.line("map", "f32" if name == "f32" else "i64", [len(INTEGERS)], x=[f"{whole}[i0]"], do=[f"{name} x0"]))
        for name in BINARY_BOTH + COMPARISONS + ["div"]:
            self.pairs(name, self.hard_floats, many, "i64" if name in COMPARISONS else "f32")
        for name in BINARY_BOTH + COMPARISONS + ["and", "or", "idiv", "imod"]:
            self.pairs(name, whole, len(INTEGERS), "i64")
        triples = [f"{self.hard_floats}[i{n}]" for n in range(3)]
        self.made.append(self.line("map", "f32", [many] * 3, x=triples, do=["fma x0 x1 x2"]))
        self.made.append(self.line("map", "f32", [len(INTEGERS), many, 2], x=[f"{whole}[i0]", f"{self.hard_floats}[i1]"],
                                   do=["neg x1", "mul x0 i2", "select t1 x1 t0"]))
        self.made.append(self.line("map", "u8", [len(INTEGERS)], x=[f"{whole}[i0]"], do=["add x0 0"]))

    def pairs(self, name, value, size, element):
        self.made.append(self.line("map", element, [size, size], x=[f"{value}[i0]", f"{value}[i1]"], do=[f"{name} x0 x1"]))

    def access(self, value, ranges):
        """A random access with a fill; `ranges` are the sizes of the indices by name."""
        line = self.lines[value]
        sizes, text = list(line["s"]), str(value)
        if sizes == outputs(ranges) and self.chance(0.7):
            return f"{text}[{','.join(f'i{n}' for n in range(len(sizes)))}]"
        if self.chance(0.3):
            count = math.prod(sizes)
            first = self.pick([size for size in (1, 2, 3, 4, 5, count) if count % size == 0])
            sizes = [first, count // first]
            text += "@" + ".".join(str(size) for size in sizes)
        return f"{text}[{','.join(self.coordinate(size, ranges) for size in sizes)}]?{self.fill(line['t'])}"

    def coordinate(self, size, ranges):
        terms = {symbol: int(self.pick([1, 1, 1, -1, 2, 3, -2])) for symbol in ranges if self.chance(0.6)}
        lowest = sum(min(0, factor * (ranges[symbol] - 1)) for symbol, factor in terms.items())
        constant = int(self.random.integers(-3, size + 3)) if not terms or self.chance(0.5) else -lowest
        how = self.pick(["plain", "plain", "exact", "floor"]) if terms else "plain"
        return coordinate(terms, constant, None if how == "plain" else int(self.pick([2, 3, 5])), how == "exact")

    def fill(self, element):
        if element == "f32":
            return hex_float(np.float32(self.pick(FLOATS)))
        return str(self.pick(INTEGERS if element == "i64" else [0, 1, 255]))

    def indirect(self, value, accesses, ranges):
        """An access with $: the integer that an access of its own, added before it, reads."""
        accesses.append(self.access(self.pick(self.integers), ranges))
        others = [self.coordinate(size, ranges) for size in self.lines[value]["s"][1:]]
        return f"{value}[{','.join([f'${len(accesses) - 1}', *others])}]?{self.fill(self.lines[value]['t'])}"

    def expression(self, wants_float, ranges, steps, accesses, accumulator=None, depth=3):
        """An operand; appends the steps and accesses that it needs."""
        if depth == 0 or steps and self.chance(0.15):
            return self.leaf(wants_float, ranges, accesses, accumulator)
        operation, kinds = self.operation(wants_float)
        operands = [self.expression(kind, ranges, steps, accesses, accumulator, depth - 1) for kind in kinds]
        steps.append(" ".join([operation, *operands]))
        return f"t{len(steps) - 1}"

    def operation(self, wants_float):
        """A random one with this result, and whether each operand is a float."""
        if wants_float:
            return self.pick([(name, [True]) for name in UNARY_FLOAT] + [("f32", [False])] * 3 + [(name, [True] * 2) for name in BINARY_BOTH + ["div"]] * 3
                             + [("fma", [True] * 3)] * 3 + [("select", [False, True, True])] * 3)
        kind = bool(self.chance(0.5))
        return self.pick([("i64", [True]), ("u8", [True]), ("not", [False]), ("neg", [False]), ("abs", [False]), ("u8", [False]), ("and", [False] * 2),
                          ("or", [False] * 2), ("idiv", [False] * 2), ("imod", [False] * 2), ("select", [False] * 3)]
                         + [(name, [False] * 2) for name in BINARY_BOTH] + [(name, [kind] * 2) for name in COMPARISONS])

    def pick_value(self, wants_float, ranges):
        """Often one of the line's own shape: such lines may be computed together."""
        values = self.floats if wants_float else self.integers
        alike = [value for value in values if self.lines[value]["s"] == outputs(ranges)]
        return self.pick(alike if alike and self.chance(0.6) else values)

    def leaf(self, wants_float, ranges, accesses, accumulator):
        if accumulator is not None and accumulator == wants_float and self.chance(0.4):
            return "acc"
        if len(accesses) < 3 and self.chance(0.7) or not accesses:
            value = self.pick_value(wants_float, ranges)
            if len(accesses) < 2 and self.lines[value]["s"] and self.chance(0.2):
                accesses.append(self.indirect(value, accesses, ranges))
            else:
                accesses.append(self.access(value, ranges))
            return f"x{len(accesses) - 1}"
        if not wants_float and ranges and self.chance(0.6):
            return self.pick(list(ranges))
        return hex_float(np.float32(self.pick(FLOATS))) if wants_float else str(self.pick(INTEGERS))

    def random_line(self, kind, lengths, element):
        shape = self.pick([[], [3], [4, 1, 3], [7, 9]]) if kind != "map" else self.pick([[], [7, 9], [7, 9], [63], [3, 5, 70]])
        iteration = [math.prod(shape)] if self.chance(0.2) else shape
        length = self.pick(lengths)
        fold = [length] if self.chance(0.5) or length % 3 else [length // 3, 3]
        outside = {f"i{n}": size for n, size in enumerate(iteration)}
        ranges = dict(outside) if kind == "map" else {**outside, **{f"k{n}": size for n, size in enumerate(fold)}}
        is_float = element == "f32" if kind != "argmax" else self.chance(0.7)
        accesses, steps, fields = [], [], {}
        if kind == "chain":
            accesses.append(self.access(self.pick(self.floats if is_float else self.integers), outside))
            fields["init"] = "x0"
            if self.chance(0.6):
                fields["when"] = []
                self.expression(False, ranges, fields["when"], accesses, depth=2)
        self.expression(is_float, ranges, steps, accesses, is_float if kind == "chain" else None, depth=self.pick([1, 2, 3]))
        if kind != "map":
            fields["f"] = fold
        if iteration != shape:
            fields["i"] = iteration
        return self.add(self.line(kind, element, shape, x=accesses, do=steps, **fields))

    def add(self, value):
        """Later lines may read it."""
        self.made.append(value)
        (self.floats if self.lines[value]["t"] == "f32" else self.integers).append(value)

    def random_dot(self):
        length, shape = self.pick(DOT_LENGTHS), self.pick([[], [5], [3, 4]])
        ranges = {**{f"i{n}": size for n, size in enumerate(shape)}, "k0": length}
        values = self.floats if self.chance(0.4) else self.floats[1:2]
        accesses = [self.access(self.pick(values), ranges) for _ in range(2)]
        self.add(self.line("dot", "f32", shape, f=[length], x=accesses))

    def random_lines(self, count):
        for _ in range(count):
            element = self.pick(["f32", "f32", "f32", "i64", "u8"])
            for kind, lengths in (("map", [1]), ("sum", SUM_LENGTHS), ("map", [1]), ("max", SUM_LENGTHS), ("chain", CHAIN_LENGTHS), ("map", [1])):
                self.random_line(kind, lengths, element)
            self.random_line("argmax", SUM_LENGTHS, "i64")
            self.random_dot()

    def keep(self):
        """Every number becomes part of the next state: floats that are not finite as numbers that stand for them."""
        for value in self.made:
            line = self.lines[value]
            entry = self.input(line["s"], line["t"], f"state optimizer/made/{value}")
            indices = ",".join(f"i{n}" for n in range(len(line["s"])))
            if line["t"] == "f32":
                steps = ["abs x0", "lt t0 inf", "ne x0 x0", "min x0 0x1p2", "max t3 -0x1p2", "select t2 0x1.8p1 t4", "select t1 x0 t5"]
                self.lines[entry]["next"] = self.line("map", "f32", line["s"], x=[f"{value}[{indices}]"], do=steps)
            else:
                self.lines[entry]["next"] = value
        self.lines[1]["next"] = self.line("map", "i64", [], x=["1[]"], do=["add x0 1"])
        self.lines[0]["next"] = self.line("map", "f32", [], x=["1[]"], do=["f32 x0"])
