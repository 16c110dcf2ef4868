#!/usr/bin/env python3
"""Writes include/dgx/kernels/function_tables.h: the constants of the elementary functions, from their definitions.

Standard library only. Run it as `make_function_tables.py > include/dgx/kernels/function_tables.h`, and
`make_function_tables.py pairs > include/dgx/kernels/function_pair_tables.h` for those of function_pairs.h.
Polynomials interpolate at Chebyshev nodes, which is within a small factor of minimax.
"""

import math
import struct
import sys
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
                "Relative error of kExpTable[i]: 2^(i/16) = kExpTable[i] (1 + this).")
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


# function_pair_tables.h: constants in binary32, or as sums of two.


def single(value):
    """The float next to `value`, or to the double next to it."""
    return Fraction(struct.unpack("f", struct.pack("f", float(value)))[0])


def short(value):
    """A float in C's hexadecimal notation."""
    digits, exponent = float(single(value)).hex().split("p")
    return f"{digits.rstrip('0').rstrip('.')}p{exponent}F"


def two(value):
    head = single(value)
    return [head, single(value - head)]


def print_float(name, value):
    print(f"inline constexpr float {name} = {short(value)};")


def print_sum(name, value):
    """kName and kNameTail."""
    head, tail = two(value)
    print_float(name, head)
    print_float(f"{name}Tail", tail)


def print_floats(name, values, comment):
    print(f"\n// {comment}")
    print(f"DGX_TABLE float {name}[{len(values)}] = {{{', '.join(short(value) for value in values)}}};")


def print_rows(kind, name, rows, comment):
    print(f"\n// {comment}")
    print(f"alignas(128) DGX_TABLE {kind} {name}[{len(rows)}] = {{")
    for row in rows:
        print("    {" + ", ".join(short(value) for value in row) + "},")
    print("};")


def pair_exp_tables():
    print_float("kPairsThirtyTwoOverLn2", 32 / LN2)
    print_sum("kPairsLn2Over32", LN2 / 32)
    print_rows("FloatPair", "kPairsExpTable", [two(exp(LN2 * i / 32)) for i in range(32)], "2^(i/32).")
    bound = LN2 / 64 * Fraction(10001, 10000)
    print_floats("kPairsExpPolynomial", polynomial(lambda r: (exp(r) - 1 - r - r**2 / 2) / r**3, -bound, bound, 2),
                 "(e^r - 1 - r - r^2/2) / r^3 for |r| <= ln(2)/64.")


# Of equal length in the bits of a float, from PAIR_LOG_LOW to twice that; one of them is [1 - 1/128, 1 + 1/64).
PAIR_LOG_LOW = Fraction(3, 4) - Fraction(1, 128)


def pair_log_tables():
    edges = ([PAIR_LOG_LOW + Fraction(i, 64) for i in range(17)] + [1 + Fraction(1, 64) + Fraction(i, 32) for i in range(16)])
    reciprocals = [Fraction(1) if low < 1 < high else single(2 / (low + high)) for low, high in zip(edges[:-1], edges[1:])]
    print_sum("kPairsLn2", LN2)
    low_bits = int.from_bytes(struct.pack(">f", float(PAIR_LOG_LOW)), "big")
    print(f"inline constexpr std::uint32_t kPairsLogLowBits = 0x{low_bits:08x};  // of {float(PAIR_LOG_LOW)}")
    print_rows("FloatLogarithm", "kPairsLogTable", [[c, *two(-log(c))] for c in reciprocals],
               "c near 1/m in the interval, and -log(c).")
    bounds = [edge * c - 1 for low, high, c in zip(edges[:-1], edges[1:], reciprocals) for edge in (low, high)]
    print_floats("kPairsLogPolynomial", polynomial(lambda r: (log(1 + r) - r + r**2 / 2) / r**3, min(bounds), max(bounds), 4),
                 f"(log(1 + r) - r + r^2/2) / r^3 for {float(min(bounds)):.5f} <= r <= {float(max(bounds)):.5f}.")


def pair_erf_tables():
    print("\n// erf(a)/a for |a - i/16| <= 1/32: coefficients of d^k, d = a - i/16, the first three as sums.")
    print("alignas(128) DGX_TABLE FloatErf kPairsErfTable[64] = {")
    for i in range(64):
        row = polynomial(lambda d: erf_over_x(Fraction(i, 16) + d), Fraction(-1, 32), Fraction(1, 32), 7)
        sums = "}, {".join(", ".join(short(value) for value in two(c)) for c in row[:3])
        print("    {{{" + sums + "}}, {" + ", ".join(short(c) for c in row[3:]) + "}},")
    print("};")


def sine(x):
    return fraction(x * series(x * x, Fraction(1), lambda n: Fraction(-1, 2 * n * (2 * n + 1))))


def sine_of_turn(i):
    """sin(2 pi i / 128)."""
    i %= 128
    if i >= 64:
        return -sine_of_turn(i - 64)
    return sine(PI * min(i, 64 - i) / 64)


def pair_sine_tables():
    print_float("kPairsSixtyFourOverPi", 64 / PI)
    first = single(PI / 64)
    second, third = two(PI / 64 - first)
    print_float("kPairsPiOver64First", first)
    print_float("kPairsPiOver64Second", second)
    print_float("kPairsPiOver64Third", third)
    print_rows("FloatPair", "kPairsSineTable", [two(sine_of_turn(i)) for i in range(128)], "sin(i pi/64).")
    bound, tiny = (PI / 128 * Fraction(103, 100)) ** 2, Fraction(1, 2**40)
    print_floats("kPairsSinPolynomial", polynomial(sine_quotient, tiny, bound, 1), "(sin(r) - r) / r^3 in r^2, |r| <= 1.03 pi/128.")
    print_floats("kPairsCosPolynomial", polynomial(cosine_quotient, tiny, bound, 1), "(cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= 1.03 pi/128.")


def pair_tables():
    pair_exp_tables()
    print()
    pair_log_tables()
    pair_erf_tables()
    print()
    pair_sine_tables()


PAIR_TYPES = """/// A number as the sum of two floats.
struct alignas(8) FloatPair {
  float head;
  float tail;
};
struct alignas(16) FloatLogarithm {
  float reciprocal;
  float head;
  float tail;
};
struct alignas(16) FloatErf {
  FloatPair sums[3];
  float further[5];
};
"""


def main():
    pairs = sys.argv[1:] == ["pairs"]
    print("#pragma once\n")
    print("#include <cstdint>\n")
    print("#include \"dgx/core/host_device.h\"\n")
    print("// Written by make_function_tables.py. Constants of the elementary functions;")
    print(f"// {'function_pairs.h' if pairs else 'function_formulas.h'} says what they are for.")
    print("// clang-format off\n")
    print("namespace dgx::kernels {\n")
    if pairs:
        print(PAIR_TYPES)
        pair_tables()
    else:
        tables()
    print("\n}  // namespace dgx::kernels")


def tables():
    exp_tables()
    print()
    log_tables()
    erf_tables()
    print()
    sine_tables()


if __name__ == "__main__":
    main()
