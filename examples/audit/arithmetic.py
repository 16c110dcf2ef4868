"""The arithmetic of audit.sh: dgx-numerics(7) with Python's fractions and decimal, which are exact, and slow. A float is a Python float that is a
binary32, an integer of 64 bits an int; an argmax has pairs (best, position)."""

import math
import re
import struct
from decimal import Decimal, localcontext
from fractions import Fraction

from schedules import schedule

LOWEST, HIGHEST = -2**63, 2**63 - 1


class Odd(float):
    """A NaN that is not the one NaN: only its bits matter."""

    raw = 0


def kind_size(kind):
    return {"f32": 4, "i64": 8, "u8": 1}[kind]


def unpack(kind, data):
    """Little-endian numbers."""
    if kind != "f32":
        return list(struct.unpack(f"<{len(data) // kind_size(kind)}{'q' if kind == 'i64' else 'B'}", data))
    found = list(struct.unpack(f"<{len(data) // 4}f", data))
    for n, number in enumerate(found):
        if math.isnan(number):
            found[n] = Odd(number)
            found[n].raw = struct.unpack_from("<I", data, 4 * n)[0]
    return found


def bits(number, kind=None):
    if isinstance(number, tuple):
        return f"{bits(number[0])} at position {number[1]} ({bits(number[1])})"
    if isinstance(number, float):
        word = getattr(number, "raw", 0x7FC00000) if math.isnan(number) else struct.unpack("<I", struct.pack("<f", number))[0]
        return f"0x{word:08x}"
    return f"0x{number:02x}" if kind == "u8" else f"0x{number % 2**64:016x}"


def wrap(number):
    return (number + 2**63) % 2**64 - 2**63


# Scalar operations.


def nearest(exact, zero=0.0):
    """The binary32 nearest to a fraction, ties to even; `zero` has the sign of an exact 0."""
    if exact == 0:
        return zero
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - 23, -149)  # what the last digit of the result is worth; 2^-149 is the least there is
    rounded = round(size / unit) * unit  # round() takes ties to even
    return math.copysign(math.inf if rounded >= 2**128 else float(rounded), exact)


def add(a, b):
    if isinstance(a, int):
        return wrap(a + b)
    if not (math.isfinite(a) and math.isfinite(b)):
        return a + b  # an infinity, or NaN
    return nearest(Fraction(a) + Fraction(b), a + b)


def multiply(a, b):
    if isinstance(a, int):
        return wrap(a * b)
    return nearest(Fraction(a) * Fraction(b), a * b) if math.isfinite(a) and math.isfinite(b) else a * b


def fma(a, b, c):
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    return nearest(Fraction(a) * Fraction(b) + Fraction(c), a * b + c)


def divide(a, b):
    if b == 0 and not math.isnan(a):
        return math.nan if a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)
    return nearest(Fraction(a) / Fraction(b), a / b) if math.isfinite(a) and math.isfinite(b) else a / b


def square_root(a):
    if not a > 0 or math.isinf(a):
        return math.nan if a < 0 else a
    return nearest(Fraction(math.sqrt(a)))  # 53 digits are enough for the second rounding to 24 to change nothing


def floor_divide(a, b):
    return wrap(a // b) if b else 0


def to_integer(a):
    if isinstance(a, int):
        return a
    if math.isnan(a):
        return 0
    return HIGHEST if a >= 2.0**63 else LOWEST if a < -2.0**63 else int(a)


def whole(function):
    return lambda a: math.copysign(float(function(a)), a) if math.isfinite(a) else a


OPERATIONS = {
    "add": add, "sub": lambda a, b: add(a, -b) if isinstance(a, float) else wrap(a - b), "mul": multiply, "div": divide, "fma": fma, "sqrt": square_root,
    "neg": lambda a: -a if isinstance(a, float) else wrap(-a), "abs": lambda a: abs(a) if isinstance(a, float) else wrap(abs(a)),
    "max": lambda a, b: a if a > b else b, "min": lambda a, b: a if a < b else b,
    "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b), "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b), "ge": lambda a, b: int(a >= b), "and": lambda a, b: int(a != 0 and b != 0), "or": lambda a, b: int(a != 0 or b != 0),
    "not": lambda a: int(a == 0), "floor": whole(math.floor), "trunc": whole(math.trunc), "rint": whole(round),
    "idiv": floor_divide, "imod": lambda a, b: wrap(a - floor_divide(a, b) * b) if b else 0,
    "f32": lambda a: nearest(Fraction(a)) if isinstance(a, int) else a, "i64": to_integer, "u8": lambda a: min(max(to_integer(a), 0), 255),
}


# Elementary functions: the real value to 150 digits, rounded once. The C library's functions will not do, they are not correctly
# rounded; CORE-MATH or MPFR are.

DIGITS = 150


def arctangent_of_inverse(n):
    power, total, k = Decimal(1) / n, Decimal(0), 0
    while power > Decimal(10) ** -(DIGITS + 60):
        total, power, k = total + power / (2 * k + 1) * (-1) ** k, power / (n * n), k + 1
    return total


def pi():
    return 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239))


def series(x, term, n):
    """Of sine (n = 1) and cosine (n = 0), of an angle below 2 pi."""
    total = term
    while abs(term) > Decimal(10) ** -DIGITS:
        n, term = n + 2, -term * x * x / ((n + 1) * (n + 2))
        total += term
    return total


def error_function(x):
    if abs(x) > 5:
        return Decimal(1).copy_sign(x)  # differs from it by less than 10^-11
    term, total, n = x, x, 0
    while abs(term) > abs(x) * Decimal(10) ** -DIGITS:
        n, term = n + 1, -term * x * x / (n + 1)
        total += term / (2 * n + 1)
    return total * 2 / pi().sqrt()


def hyperbolic_tangent(x):
    if abs(x) > 20:
        return Decimal(1).copy_sign(x)
    return ((2 * x).exp() - 1) / ((2 * x).exp() + 1)


REAL = {"exp": lambda x: x.exp(), "expm1": lambda x: x.exp() - 1, "log": lambda x: x.ln(), "log1p": lambda x: (1 + x).ln(),
        "sin": lambda x: series(x % (2 * pi()), x % (2 * pi()), 1), "cos": lambda x: series(x % (2 * pi()), Decimal(1), 0),
        "tanh": hyperbolic_tangent, "erf": error_function}
# Where the real value is no number, or 0.
SPECIAL = {"exp": {0.0: 1.0, -math.inf: 0.0, math.inf: math.inf}, "expm1": {-math.inf: -1.0, math.inf: math.inf}, "log": {0.0: -math.inf, math.inf: math.inf},
           "log1p": {-1.0: -math.inf, math.inf: math.inf}, "sin": {math.inf: math.nan, -math.inf: math.nan},
           "cos": {0.0: 1.0, math.inf: math.nan, -math.inf: math.nan}, "tanh": {math.inf: 1.0, -math.inf: -1.0}, "erf": {math.inf: 1.0, -math.inf: -1.0}}


def elementary(name, a):
    if math.isnan(a) or a in SPECIAL[name]:
        return a if math.isnan(a) else SPECIAL[name][a]
    if a == 0:
        return a  # those that are left keep the sign of zero
    if a < {"log": 0, "log1p": -1}.get(name, -math.inf):
        return math.nan
    if name in ("exp", "expm1") and abs(a) > 200:
        return math.inf if a > 0 else 0.0 if name == "exp" else -1.0
    with localcontext() as context:
        context.prec = DIGITS + 70
        return nearest(Fraction(REAL[name](Decimal(a))))


def apply(name, operands):
    result = elementary(name, *operands) if name in REAL else OPERATIONS[name](*operands)
    how = f" (to {DIGITS} digits, rounded once: a correctly rounded library says the same)" if name in REAL else ""
    print(f"    {name} {' '.join(bits(each) for each in operands)} = {bits(result)}{how}")
    return math.nan if isinstance(result, float) and math.isnan(result) else result


# Inputs.


def philox(counter, seed):
    c, k0, k1 = list(counter), seed % 2**32, seed >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k0, q % 2**32, (p >> 32) ^ c[3] ^ k1, p % 2**32]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c


def item(task, position):
    """The sample at a position of the task's order."""
    count, seed = task["dataset"]["samples"], int(task["seed"])
    epoch, x = divmod(position, count)
    half = ((count - 1).bit_length() + 1) // 2
    while True:
        left, right = x >> half, x % 2**half
        for turn in range(6):
            left, right = right, left ^ philox([right, epoch % 2**32, turn, 2 << 24], seed)[0] % 2**half
        x = left << half | right
        if x < count:
            return x


# Lines of a program: one element.

ACCESS = re.compile(r"(\d+)(?:@([\d.]*))?\[(.*?)\](?:\?(.*))?")
COORDINATE = re.compile(r"(?:\((.+)\)|(.+?))(?:(//?)(\d+))?")
TERM = re.compile(r"([+-]?)(?:(\d+)\*)?([ik]\d+|\$\d+|\d+)")


def literal(text):
    return float.fromhex(text) if "x" in text or "inf" in text else int(text)


def indices(index, sizes, letter):
    found = {}
    for n in reversed(range(len(sizes))):
        index, found[f"{letter}{n}"] = divmod(index, sizes[n])
    return found


def store(number, kind):
    return min(max(number, 0), 255) if kind == "u8" else number


class Element:
    """An element of a line, at one position if it is a fold."""

    def __init__(self, line, operands, element, data=b"", position=0):
        self.line, self.operands, self.element, self.data, self.place = line, operands, element, data, position
        self.at = {**indices(element, line.get("i", line["s"]), "i"), **indices(position, line.get("f", []), "k")}
        self.known, self.accumulator, self.floats = {}, None, line["t"] == "f32"

    def input(self, task, step):
        source, _, name = self.line["src"].partition(" ")
        if source == "schedule":
            return schedule(task, self.line["of"][self.element], step, lambda x: elementary("cos", x))
        if source == "constant":
            return literal(self.line["of"][self.element])
        words = philox([self.element % 2**32, self.element >> 32, step % 2**32, (3 << 24) + int(name)], int(task["seed"]))
        return (words[0] >> 8) * 2.0**-24

    def read(self, n):
        if n not in self.known:
            value, view, text, fill = ACCESS.fullmatch(self.line["x"][n]).groups()
            own = self.operands.shape(int(value))
            sizes = own if view is None else [int(size) for size in view.split(".") if size]
            flat, missed = 0, False
            for size, part in zip(sizes, text.split(",") if text else []):
                coordinate = self.coordinate(part)
                missed = missed or coordinate is None or not 0 <= coordinate < size
                flat = flat * size + (coordinate or 0)
            self.known[n] = literal(fill or "0") if missed else self.operands.number(int(value), flat)
            print(f"    x{n} = {self.line['x'][n]} is {'outside: ' if missed else f'element {flat} of value {value}: '}{bits(self.known[n])}")
        return self.known[n]

    def coordinate(self, text):
        inside, plain, division, divisor = COORDINATE.fullmatch(text).groups()
        total = wrap(sum(int(sign + (factor or "1")) * (self.read(int(symbol[1:])) if symbol[0] == "$" else self.at.get(symbol) if symbol in self.at else int(symbol))
                         for sign, factor, symbol in TERM.findall(inside or plain)))
        if division == "/" and total % int(divisor):
            return None
        return total // int(divisor) if division else total

    def operand(self, text, results, steps):
        if text[0] == "x":
            return self.read(int(text[1:]))
        if text[0] == "t":
            return self.step(int(text[1:]), results, steps)
        return self.accumulator if text == "acc" else self.at[text] if text in self.at else literal(text)

    def step(self, n, results, steps):
        if n not in results:
            name, *texts = steps[n].split()
            first = self.operand(texts[0], results, steps)
            if name == "select":
                results[n] = self.operand(texts[1 if first else 2], results, steps)
                print(f"    select {bits(first)}: {bits(results[n])}")
            else:
                results[n] = apply(name, [first, *(self.operand(text, results, steps) for text in texts[1:])])
        return results[n]

    def last(self, key="do"):
        return self.step(len(self.line[key]) - 1, {}, self.line[key]) if key in self.line else self.read(0)

    def map(self):
        return store(self.last(), self.line["t"])

    def stored(self, entry):
        return bits(store(entry[1] if isinstance(entry, tuple) else entry, self.line["t"]), self.line["t"])

    def start(self, floats):
        if self.line["k"] == "chain":
            return self.operand(self.line["init"], {}, [])
        best = -math.inf if floats else LOWEST
        return (best, 0) if self.line["k"] == "argmax" else best

    def after(self, before):
        """The running result after this position."""
        kind = self.line["k"]
        if kind == "dot":
            return apply("fma", [self.read(0), self.read(1), before])
        if kind == "chain":
            self.accumulator = before
            return before if "when" in self.line and self.last("when") == 0 else self.last()
        term = self.last()
        if kind == "sum":
            return apply("add", [before, term])
        x = apply("add", [term, 0.0]) if isinstance(term, float) else term
        best = before[0] if kind == "argmax" else before
        better = isinstance(x, float) and math.isnan(x) and not math.isnan(best) or x > best
        print(f"    {bits(x)} {'replaces' if better else 'does not replace'} {bits(best)}")
        if kind == "argmax":
            return (x, self.place) if better else before
        return x if better else best

    def first_list(self):
        n = math.prod(self.line["f"])
        if self.line["k"] == "dot":
            return Steps(self, "totals after groups of 4,096", 0, -(-n // 4096), self.groups, before=0.0)
        if self.line["k"] == "sum":
            levels = [n]
            while levels[-1] > 2048:
                levels.append(-(-levels[-1] // 2048))
            return Parts(self, "the sum", 1, lambda k, listing: self.items(levels, len(levels) - 1, 0, listing.entries[0]))
        limit = 1024 if self.line["k"] == "argmax" else 2048
        if self.line["k"] == "argmax":  # the line may not tell whether its bests are floats; the length of the list does
            self.floats = len(self.data) == 12 * -(-n // -(-n // limit))
        return Steps(self, "after positions", 0, n, None, limit=limit)

    def groups(self, group, before, total):
        blocks = min(16, -(-math.prod(self.line["f"]) // 256) - 16 * group)
        return Parts(self, f"of group {group} after each of its blocks of 256", blocks, lambda k, listing: self.block(16 * group + k, listing.before(k), listing.entries[k]),
                     [0.0], lambda listing: sums_to(before, listing.entries[-1], total, "total"))

    def block(self, block, before, group):
        count = min(256, math.prod(self.line["f"]) - 256 * block)
        return Parts(self, f"of block {block} after each position from {256 * block}", count, None, [0.0],
                     lambda listing: sums_to(before, listing.entries[-1], group, "group"), 256 * block)

    def items(self, levels, level, block, result):
        zero, count = 0.0 if self.floats else 0, min(2048, levels[level] - 2048 * block)
        if level:
            return Parts(self, f"the parts of which block {block} of level {level} is the sum", count,
                         lambda k, listing: self.items(levels, level - 1, 2048 * block + k, listing.entries[k]), None,
                         lambda listing: combine(lanes_of(listing.entries, zero), result))
        return Parts(self, f"of 32 lanes, after each position from {2048 * block}", count, None, [zero] * 32,
                     lambda listing: combine((listing.entries[count - 1 - (count - 1 - lane) % 32] if lane < count else zero for lane in range(32)), result), 2048 * block)


# Lists of running results.


class Parts:
    """Entries that together must give something (`check`), each of which may be shown in detail (`detail`) or is a position's (`first`)."""

    def __init__(self, fold, text, count, detail, starts=None, check=None, first=None):
        self.fold, self.text, self.count, self.detail = fold, text, count, detail
        self.starts, self.check, self.first, self.fine = starts, check, first, first is not None

    def entry_bytes(self):
        return (4 if self.fold.floats else 8) + 8 * (self.fold.line["k"] == "argmax")

    def read(self, data):
        """Takes its entries from the bytes, and returns the rest."""
        number, pair, size = "f32" if self.fold.floats else "i64", self.fold.line["k"] == "argmax", self.entry_bytes()
        chunks = [data[n * size:(n + 1) * size] for n in range(self.count)]
        self.entries = [unpack(number, chunk[:kind_size(number)])[0] for chunk in chunks]
        if pair:
            self.entries = [(entry, unpack("i64", chunk[-8:])[0]) for entry, chunk in zip(self.entries, chunks)]
        return data[size * self.count:]

    def problem(self):
        return self.check(self) if self.check else None

    def following(self, k):
        return self.detail(k, self)

    def place(self, k):
        return self.first + k

    def before(self, k):
        """What was there before entry k: one, or for lanes 32 places ago."""
        return self.entries[k - len(self.starts)] if k >= len(self.starts) else self.starts[k]


class Steps(Parts):
    """Every d-th result from `start` to `end`, and the last; before them comes `prior` (None: the fold's start). `detail` is for units that are not positions."""

    def __init__(self, fold, text, start, end, detail, before=None, limit=2048, final=None):
        self.start, self.end, self.limit, self.final, self.prior = start, end, limit, final, before
        self.stride = -(-(end - start) // limit)
        super().__init__(fold, f"{text} from {start} to {end - 1}, every {self.stride}", -(-(end - start) // self.stride), detail)
        self.name, self.fine = text, self.stride == 1 and detail is None

    def problem(self):
        wrong = self.final is not None and bits(self.entries[-1]) != bits(self.final)
        return f"The last is not {bits(self.final)}, as it was in the list before" if wrong else None

    def place(self, k):
        return min(self.start + (k + 1) * self.stride, self.end) - 1

    def before(self, k):
        return self.entries[k - 1] if k else self.prior

    def following(self, k):
        if self.stride == 1:
            return self.detail(self.start + k, self.before(k), self.entries[k])
        return Steps(self.fold, self.name, self.start + k * self.stride, self.place(k) + 1, self.detail, self.before(k), self.limit, self.entries[k])


def sums_to(before, last, result, what):
    right = add(before, last)
    print(f"    the {what}: {bits(before)} + {bits(last)} = {bits(right)}, posted as {bits(result)}")
    return f"The addition to the {what} is wrong" if bits(right) != bits(result) else None


def lanes_of(items, zero):
    lanes = [zero] * 32
    for n, number in enumerate(items):
        lanes[n % 32] = add(lanes[n % 32], number)
    return lanes


def combine(lanes, result):
    """32 lanes, joined at distances 16, 8, 4, 2, 1."""
    lanes = list(lanes)
    for distance in (16, 8, 4, 2):
        lanes = [add(lanes[n], lanes[n + distance]) for n in range(distance)]
    return sums_to(lanes[0], lanes[1], result, "sum of lanes 0 and 1")
