"""Scalar operations on arrays: dgx-numerics(7), "Scalar operations". Floats are binary32, integers int64."""

import numpy as np

from .functions import FUNCTIONS

F32 = np.float32
LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SMALLEST_NORMAL = 2.0**-126


def canonical(array):
    """Every NaN is 0x7FC00000."""
    if array.dtype != F32:
        return array
    return np.where(np.isnan(array), np.uint32(0x7FC00000).view(F32), array).astype(F32)


def fma(a, b, c):
    """Rounded once: the product of two binary32 is exact in binary64."""
    return add_to_product(a.astype(np.float64) * b.astype(np.float64), c)


def add_to_product(product, addend):
    """binary64 + binary32, rounded once to binary32. Rounding the binary64 sum again is right, unless that sum lies in the middle between
    two binary32; below the smallest normal number there are other middles, so these sums are looked at, too."""
    total = np.asarray(product + addend.astype(np.float64))
    rounded = total.astype(F32)
    unsure = (total.view(np.int64) & 0x1FFFFFFF == 0x10000000) | (np.abs(total) < SMALLEST_NORMAL)
    if unsure.any():
        product, addend = np.broadcast_to(product, total.shape)[unsure], np.broadcast_to(addend, total.shape)[unsure]
        rounded[unsure] = to_odd(product, addend.astype(np.float64)).astype(F32)
    return rounded


def to_odd(a, b):
    """a + b rounded to odd in binary64 (Boldo and Melquiond): rounding that to binary32 is as if it were the only rounding."""
    total = a + b
    virtual = total - a
    error = (a - (total - virtual)) + (b - virtual)
    bits = total.view(np.int64)
    adjust = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(adjust, bits + toward, bits).view(np.float64)


def _divide(a, b):
    quotient = a // np.where((b == 0) | (b == -1), 1, b)
    return np.where(b == 0, 0, np.where(b == -1, -a, quotient))


def _to_i64(a):
    if a.dtype != F32:
        return a
    inside = (a >= F32(-2.0**63)) & (a < F32(2.0**63))
    ends = np.where(np.isnan(a), 0, np.where(a > 0, HIGHEST, LOWEST))
    return np.where(inside, np.where(inside, a, F32(0)).astype(np.int64), ends)


def _flag(condition):
    return condition.astype(np.int64)


OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": fma,
    "sqrt": np.sqrt,
    "neg": lambda a: -a,
    "abs": np.abs,
    "max": lambda a, b: np.where(a > b, a, b),
    "min": lambda a, b: np.where(a < b, a, b),
    "eq": lambda a, b: _flag(a == b),
    "ne": lambda a, b: _flag(a != b),
    "lt": lambda a, b: _flag(a < b),
    "le": lambda a, b: _flag(a <= b),
    "gt": lambda a, b: _flag(a > b),
    "ge": lambda a, b: _flag(a >= b),
    "select": lambda c, a, b: np.where(c != 0, a, b),
    "and": lambda a, b: _flag((a != 0) & (b != 0)),
    "or": lambda a, b: _flag((a != 0) | (b != 0)),
    "not": lambda a: _flag(a == 0),
    "floor": np.floor,
    "trunc": np.trunc,
    "rint": np.rint,
    "idiv": _divide,
    "imod": lambda a, b: np.where(b == 0, 0, a - _divide(a, b) * b),
    "f32": lambda a: a.astype(F32),
    "i64": _to_i64,
    "u8": lambda a: np.clip(_to_i64(a), 0, 255),
    **FUNCTIONS,
}


def apply(name, operands):
    with np.errstate(all="ignore"):
        return np.asarray(OPERATIONS[name](*[np.asarray(operand) for operand in operands]))


def cosine(x):
    return apply("cos", [np.array(x, F32)])[()]


def stored(array, kind):
    """What an element of a value of type `kind` is, after the result of its last step."""
    if kind == "u8":
        return apply("u8", [array]).astype(np.uint8)
    return canonical(array).astype("<f4") if kind == "f32" else array.astype("<i8")
