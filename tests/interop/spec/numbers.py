"""binary32 arithmetic on arrays: dgx-numerics(7), "Scalar operations" and "Elementary functions"."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

F32 = np.float32
DIGITS = 60


def canonical(array):
    """Every NaN is 0x7FC00000."""
    if array.dtype != F32:
        return array
    return np.where(np.isnan(array), np.uint32(0x7FC00000).view(F32), array).astype(F32)


def nearest(exact):
    """The binary32 nearest to a Fraction, ties to even."""
    if exact == 0:
        return F32(0)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - 23, -149)
    count = round(size / unit)
    if count * unit >= Fraction(2) ** 128:
        return F32(np.inf if exact > 0 else -np.inf)
    return F32(float(count * unit) * (1 if exact > 0 else -1))


def fma(a, b, c):
    """Rounded once. The product of two binary32 is exact in binary64; the sum is rounded to odd there (Boldo and Melquiond), so that
    rounding to binary32 afterwards is as if it were the only one."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    total = np.array(total)
    bits = total.view(np.int64)
    adjust = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(adjust, bits + toward, bits).view(np.float64).astype(F32)


def _by_element(function):
    """A function of one finite, nonzero Decimal, applied once to each different element."""

    def apply(array):
        values, places = np.unique(array.view(np.uint32), return_inverse=True)
        with localcontext() as context:
            context.prec = DIGITS
            context.Emin, context.Emax = -10**6, 10**6
            results = np.array([function(value) for value in values.view(F32)], F32)
        return results[places].reshape(array.shape)

    return apply


def _exp(x):
    if np.isnan(x) or x == np.inf:
        return x
    if x < -200:
        return F32(0)
    return F32(np.inf) if x > 200 else nearest(Fraction(Decimal(float(x)).exp()))


def _expm1(x):
    if np.isnan(x) or x == 0 or x == np.inf:
        return x
    return F32(np.inf) if x > 200 else nearest(Fraction(Decimal(float(x)).exp()) - 1) if x > -200 else F32(-1)


def _log(x):
    if np.isnan(x) or x < 0:
        return F32(np.nan)
    if x == 0:
        return F32(-np.inf)
    return x if x == np.inf else nearest(Fraction(Decimal(float(x)).ln()))


def _log1p(x):
    if np.isnan(x) or x < -1:
        return F32(np.nan)
    if x == -1:
        return F32(-np.inf)
    return x if x == np.inf or x == 0 else nearest(Fraction((1 + Decimal(float(x))).ln()))


def _tanh(x):
    if np.isnan(x) or x == 0:
        return x
    if abs(x) > 20:
        return F32(np.copysign(1, x))
    square = (2 * Decimal(float(x))).exp()
    return nearest(Fraction((square - 1) / (square + 1)))


def _erf(x):
    """2/sqrt(pi) · Σ (−1)^n x^(2n+1) / (n! (2n+1)); terms reach e^16 at most, far below the precision carried."""
    if np.isnan(x) or x == 0:
        return x
    if abs(x) > 4.5:
        return F32(np.copysign(1, x))
    value = Decimal(float(x))
    term, total, n = value, value, 0
    while abs(term) > abs(value) * Decimal(10) ** (-DIGITS + 5):
        n += 1
        term = -term * value * value / n
        total += term / (2 * n + 1)
    return nearest(Fraction(total * 2 / PI.sqrt()))


PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")


def _cosine(x):
    if not np.isfinite(x):
        return F32(np.nan)
    value = Decimal(float(x)) % (2 * PI)
    return nearest(Fraction(_alternating(Decimal(1), value, 0)))


def _sine(x):
    if not np.isfinite(x):
        return F32(np.nan)
    if x == 0:
        return x
    value = Decimal(float(x)) % (2 * PI)
    return nearest(Fraction(_alternating(value, value, 1)))


def _alternating(term, value, n):
    total = term
    while abs(term) > Decimal(10) ** (-DIGITS + 5):
        n += 2
        term = -term * value * value / (n * (n - 1))
        total += term
    return total


def _divide(a, b):
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _to_i64(a):
    if a.dtype != F32:
        return a
    inside = (a >= F32(-2.0**63)) & (a < F32(2.0**63))
    limits = np.where(a > 0, np.int64(2**63 - 1), np.int64(-(2**63)))
    return np.where(np.isnan(a), 0, np.where(inside, np.where(inside, a, 0).astype(np.int64), limits))


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
    "exp": _by_element(_exp),
    "expm1": _by_element(_expm1),
    "log": _by_element(_log),
    "log1p": _by_element(_log1p),
    "sin": _by_element(_sine),
    "cos": _by_element(_cosine),
    "tanh": _by_element(_tanh),
    "erf": _by_element(_erf),
    "idiv": _divide,
    "imod": lambda a, b: np.where(b == 0, 0, a - _divide(a, b) * b),
    "f32": lambda a: a.astype(F32),
    "i64": _to_i64,
    "u8": lambda a: np.clip(_to_i64(a), 0, 255),
}


def apply(name, operands):
    with np.errstate(all="ignore"):
        result = OPERATIONS[name](*[np.asarray(operand) for operand in operands])
    return canonical(np.asarray(result))


def cosine(x):
    return OPERATIONS["cos"](np.array(x, F32))[()]
