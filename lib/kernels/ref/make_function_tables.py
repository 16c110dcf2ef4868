#!/usr/bin/env python3
"""Writes include/dgx/kernels/function_tables.h: the constants of the elementary functions, from their definitions.

Standard library only. Run it as `make_function_tables.py > include/dgx/kernels/function_tables.h`.
Polynomials interpolate at Chebyshev nodes, which is within a small factor of minimax.
"""

import math
import struct
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 110
PRECISION = 330  # bits; every value below is a Fraction good to about that many


def fraction(value):
    """A Decimal or Fraction rounded to a multiple of 2^-PRECISION, so that numerators stay short."""
    return Fraction(round(Fraction(value) * 2**PRECISION), 2**PRECISION)


def exp(x):
    return fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())


def log(x):
    return fraction((Decimal(x.numerator) / Decimal(x.denominator)).ln())


def series(x2, first, ratio):
    """first * (1 + x2 * ratio(1) * (1 + x2 * ratio(2) * ...)), summed until a term is below 2^-PRECISION."""
    term, total, n = first, first, 1
    while abs(term) > Fraction(1, 2**PRECISION):
        term = fraction(term * x2 * ratio(n))
        total += term
        n += 1
    return total


def arctan_inverse(n):
    return sum(Fraction((-1) ** k, (2 * k + 1) * n ** (2 * k + 1)) for k in range(260))


PI = fraction(4 * (4 * arctan_inverse(5) - arctan_inverse(239)))
LN2 = log(Fraction(2))


def square_root(x):
    return Fraction(math.isqrt(int(x * 4**PRECISION)), 2**PRECISION)


def erf_over_x(x):
    """erf(x)/x = 2/sqrt(pi) * sum of (-1)^n x^2n / (n! (2n+1))."""
    power, total, n = Fraction(1), Fraction(0), 0
    while abs(power) > Fraction(1, 2**PRECISION):
        total += power / (2 * n + 1)
        n += 1
        power = fraction(-power * x * x / n)
    return fraction(total * 2 / square_root(PI))


def chebyshev_nodes(low, high, count):
    return [Fraction(low + high) / 2 + Fraction(high - low) / 2 * Fraction(math.cos(math.pi * (2 * k + 1) / (2 * count)))
            for k in range(count)]


def polynomial(function, low, high, degree):
    """Monomial coefficients, in ascending order, of the interpolant at the Chebyshev nodes of [low, high]."""
    nodes = chebyshev_nodes(low, high, degree + 1)
    newton = [function(x) for x in nodes]  # divided differences
    for level in range(1, degree + 1):
        for i in range(degree, level - 1, -1):
            newton[i] = (newton[i] - newton[i - 1]) / (nodes[i] - nodes[i - level])
    result = [Fraction(0)] * (degree + 1)
    for i in range(degree, -1, -1):
        result = [(result[j - 1] if j else 0) - nodes[i] * result[j] for j in range(degree + 1)]
        result[0] += newton[i]
    return result


def high_part(value, bits):
    """`value` truncated to a multiple of 2^-bits."""
    return Fraction(math.floor(value * 2**bits), 2**bits)


def double_bits(value):
    return int.from_bytes(struct.pack(">d", float(value)), "big")


def nudge(value, units):
    """The double nearest to `value`, moved away from 0 by `units` of its last place."""
    return Fraction(struct.unpack(">d", (double_bits(value) + units).to_bytes(8, "big"))[0])


def hexadecimal(value):
    return float(value).hex()  # Fraction to float is correctly rounded


def print_scalar(name, value):
    print(f"inline constexpr double {name} = {hexadecimal(value)};")


def print_table(name, values, comment):
    print(f"\n// {comment}")
    print(f"alignas(64) DGX_TABLE double {name}[{len(values)}] = {{")
    for value in values:
        print(f"    {hexadecimal(value)},")
    print("};")


def exp_tables():
    print_scalar("kSixteenOverLn2", 16 / LN2)
    high = high_part(LN2 / 16, 40)
    print_scalar("kLn2Over16High", high)
    print_scalar("kLn2Over16Low", LN2 / 16 - high)
    powers = [exp(LN2 * i / 16) for i in range(16)]
    rounded = [Fraction(float(p)) for p in powers]
    print_table("kExpTable", powers, "2^(i/16).")
    print_table("kExpTableError", [(p - r) / r for p, r in zip(powers, rounded)],
                "What is missing in kExpTable[i], relative to it.")
    bound = LN2 / 32 * Fraction(10001, 10000)
    print_table("kExpPolynomial", polynomial(lambda r: (exp(r) - 1 - r) / r**2, -bound, bound, 5),
                "(e^r - 1 - r) / r^2 for |r| <= ln(2)/32.")


LOG_LOW = Fraction(3, 4) - Fraction(1, 64)  # so that one interval, of the bits, is [1 - 1/64, 1 + 1/32)


def log_intervals():
    """The 16 intervals of equal length in the bits of a double, from LOG_LOW to 2 LOG_LOW."""
    edges = [LOG_LOW + Fraction(i, 32) for i in range(9)] + [1 + Fraction(1, 32) + Fraction(i, 16) for i in range(8)]
    return list(zip(edges[:-1], edges[1:]))


# With the reciprocals that log_reciprocal would find for these intervals, log comes out on the wrong side of a midpoint of
# two floats at 0x1.827a74p-7, 0x1.b121a6p+76, 0x1.2f1fd6p+3 and 0x1.6351d8p+95. With these, at no argument.
LOG_RECIPROCALS = {0: 0x15550F1, 3: 0x12F711A, 11: 0xD796C8, 14: 0xBA2E56}


def log_reciprocal(interval, low, high):
    """c near 1/middle, a multiple of 2^-24, whose logarithm is by chance very near to a double."""
    if low < 1 < high:
        return Fraction(1)
    def distance(c):
        exact = log(Fraction(c, 2**24))
        return abs(Fraction(float(exact)) - exact)
    middle = round(2**24 / ((low + high) / 2))
    return Fraction(LOG_RECIPROCALS.get(interval) or min(range(middle - 600, middle + 600), key=distance), 2**24)


def log_tables():
    high = high_part(LN2, 42)
    print_scalar("kLn2High", high)
    print_scalar("kLn2Low", LN2 - high)
    print(f"inline constexpr std::uint64_t kLogLowBits = 0x{double_bits(LOG_LOW):016x};  // of {float(LOG_LOW)}")
    intervals = log_intervals()
    reciprocals = [log_reciprocal(i, low, high) for i, (low, high) in enumerate(intervals)]
    bounds = [edge * c - 1 for (low, high), c in zip(intervals, reciprocals) for edge in (low, high)]
    print_table("kLogReciprocal", reciprocals, "c near 1/m in the interval, a multiple of 2^-24, -log(c) near to a double.")
    print_table("kLogTable", [-log(c) for c in reciprocals], "-log(c).")
    print_table("kLogPolynomial",
                polynomial(lambda r: (log(1 + r) - r) / r**2, min(bounds), max(bounds), 9),
                f"(log(1 + r) - r) / r^2 for {float(min(bounds)):.5f} <= r <= {float(max(bounds)):.5f}.")


ERF_DEGREE = 11


def erf_tables():
    rows = [polynomial(lambda d: erf_over_x(Fraction(2 * i + 1, 8) + d), Fraction(-1, 8), Fraction(1, 8), ERF_DEGREE)
            for i in range(16)]
    rows[0][0] = nudge(rows[0][0], 1)  # else erf is wrong at 0x1.81d5acp-13 and nowhere else
    print("\n// erf(a)/a on [i/4, i/4 + 1/4), in d = a - i/4 - 1/8: row k holds the coefficients of d^k of all intervals.")
    print(f"alignas(64) DGX_TABLE double kErfPolynomial[{ERF_DEGREE + 1}][16] = {{")
    for k in range(ERF_DEGREE + 1):
        print("    {" + ", ".join(hexadecimal(row[k]) for row in rows) + "},")
    print("};")


def sine_tables():
    print_scalar("kTwoOverPi", 2 / PI)
    first = high_part(PI / 2, 32)
    second = high_part(PI / 2 - first, 65)
    print_scalar("kHalfPiFirst", first)
    print_scalar("kHalfPiSecond", second)
    print_scalar("kHalfPiThird", PI / 2 - first - second)
    head = Fraction(float(PI / 2))
    print_scalar("kHalfPiHigh", head)
    print_scalar("kHalfPiLow", PI / 2 - head)
    bound = (PI / 4 * Fraction(1001, 1000)) ** 2

    # In z = r^2; the interval starts just above 0 only so that the quotients below are defined.
    tiny = Fraction(1, 2**40)
    print_table("kSinPolynomial", polynomial(sine_quotient, tiny, bound, 6), "(sin(r) - r) / r^3 in r^2, |r| <= pi/4.")
    print_table("kCosPolynomial", polynomial(cosine_quotient, tiny, bound, 6),
                "(cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4.")
    bits = high_part(2 / PI, 320 - 32)
    words = [int(bits * 2**288 // 2 ** (64 * (4 - i))) % 2**64 for i in range(5)]
    print("\n// 32 zero bits, then the bits of 2/pi after the binary point.")
    print("DGX_TABLE std::uint64_t kTwoOverPiBits[5] = {")
    print("    " + ", ".join(f"0x{word:016x}" for word in words) + "};")


def sine_quotient(z):
    return series(z, Fraction(-1, 6), lambda n: Fraction(-1, (2 * n + 2) * (2 * n + 3)))


def cosine_quotient(z):
    return series(z, Fraction(1, 24), lambda n: Fraction(-1, (2 * n + 3) * (2 * n + 4)))


print("#pragma once\n\n#include <cstdint>\n\n#include \"dgx/core/host_device.h\"\n")
print("// Written by make_function_tables.py. Constants of the elementary functions; function_formulas.h says what they are for.\n")
print("namespace dgx::kernels {\n")
exp_tables()
print()
log_tables()
erf_tables()
print()
sine_tables()
print("\n}  // namespace dgx::kernels")
