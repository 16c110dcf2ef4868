"""The elementary functions, correctly rounded: dgx-numerics(7), "Elementary functions".

Each is computed in long double, whose error stays far below MARGIN, and taken if every number within MARGIN rounds to the same binary32.
What is left, one argument in many millions, is computed in decimal with DIGITS digits.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

F32, WIDE = np.float32, np.longdouble
MARGIN = WIDE(2) ** -54
DIGITS = 130
assert np.finfo(WIDE).nmant >= 63, "long double is not wider than double on this machine"


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


def rounded(estimate, exact):
    def apply(array):
        wide = estimate(array.astype(WIDE))
        result = wide.astype(F32)
        margin = np.abs(wide) * MARGIN
        unsure = np.isfinite(wide) & ((wide - margin).astype(F32) != (wide + margin).astype(F32))
        if not unsure.any():
            return result
        hard, places = np.unique(array[unsure], return_inverse=True)
        result[unsure] = np.array([exactly(exact, argument) for argument in hard], F32)[places]
        return result

    return apply


def exactly(exact, argument):
    """`exact` of one finite argument other than zero, rounded from DIGITS digits."""
    with localcontext() as context:
        context.prec = DIGITS
        context.Emin, context.Emax = -10**6, 10**6
        return nearest(Fraction(exact(Decimal(float(argument)))))


def _arctangent_of_inverse(n):
    """10^(DIGITS+80) times arctan(1/n), in integers."""
    scale, total, k = 10 ** (DIGITS + 80), 0, 0
    power = scale // n
    while power:
        total += power // (2 * k + 1) * (-1) ** k
        power, k = power // (n * n), k + 1
    return total


def _pi():
    """Machin's formula; with 80 digits more than DIGITS, so that a large angle loses none of them."""
    digits = str(4 * (4 * _arctangent_of_inverse(5) - _arctangent_of_inverse(239)))
    return Decimal(f"{digits[0]}.{digits[1:]}")


PI = _pi()


def tanh(x):
    square = (2 * x).exp()
    return (square - 1) / (square + 1)


def erf(x):
    """2/sqrt(pi) · Σ (−1)^n x^(2n+1) / (n! (2n+1)); terms reach e^16 at most, far below the precision carried."""
    term, total, n = x, x, 0
    while abs(term) > abs(x) * Decimal(10) ** (-DIGITS + 5):
        n += 1
        term = -term * x * x / n
        total += term / (2 * n + 1)
    return total * 2 / PI.sqrt()


def reduced(x):
    with localcontext() as context:
        context.prec = DIGITS + 60
        return +(x % (2 * PI))


def alternating(term, angle, n):
    total = term
    while abs(term) > Decimal(10) ** (-DIGITS + 5):
        n += 2
        term = -term * angle * angle / (n * (n - 1))
        total += term
    return total


def wide_erf(x):
    """2/sqrt(pi) · e^(−x²) · Σ 2^n x^(2n+1) / (1·3·…·(2n+1)), all terms of one sign. Beyond 4 the nearest float is 1."""
    inside = np.where(np.abs(x) < 4, x, WIDE(0))
    square = inside * inside
    term = total = inside
    for n in range(200):
        term = term * (2 * square / (2 * n + 3))
        total = total + term
        if np.all(np.abs(term) <= np.abs(total) * WIDE(2) ** -66):
            break
    value = total * np.exp(-square) * (2 / np.sqrt(WIDE(str(PI)[:40])))
    value = np.where(x == 0, x, value)  # keeps the sign of zero
    return np.where(np.isnan(x), x, np.where(np.abs(x) < 4, value, np.copysign(WIDE(1), x)))


EXACT = {
    "exp": lambda x: x.exp(),
    "expm1": lambda x: x.exp() - 1,
    "log": lambda x: x.ln(),
    "log1p": lambda x: (1 + x).ln(),
    "sin": lambda x: alternating(reduced(x), reduced(x), 1),
    "cos": lambda x: alternating(Decimal(1), reduced(x), 0),
    "tanh": tanh,
    "erf": erf,
}
WIDER = {"exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": wide_erf}
FUNCTIONS = {name: rounded(WIDER[name], EXACT[name]) for name in EXACT}
