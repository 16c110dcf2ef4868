#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

#include "dgx/core/host_device.h"
#include "dgx/kernels/function_exceptions.h"
#include "dgx/kernels/function_tables.h"

/// The computation of the functions in functions.h, on a CPU and on a GPU: the same operations, so the same
/// bits. functions.h is the contract of those that end in _f32; the others are their parts. Must be compiled
/// without contraction (-ffp-contract=off, -fmad=false).

// Method. Every function is evaluated in binary64 to about one unit of its last place and rounded once to
// binary32. The rounding is right unless a midpoint of two floats lies between the real value and the double,
// which has a probability of 2^-29 per argument. Which arguments these are is not argued but known, by
// running all 2^32 (tests/slow/functions.cc): none, or the few of function_exceptions.h. So there is no
// rounding test and no second, slower path.
//
// Reductions and tables follow P. T. P. Tang, "Table-driven implementation of the exponential function in
// IEEE floating-point arithmetic" (1989) and "... of the logarithm function" (1990); M. H. Payne and R. N.
// Hanek, "Radian reduction for trigonometric functions" (1983); proof by enumeration follows the CORE-MATH
// project (A. Sibidanov, P. Zimmermann, S. Glondu, 2022). kernels/cpu/functions-inl.h does the same
// operations on vectors.

namespace dgx::kernels::formula {

inline constexpr float kNan = std::bit_cast<float>(0x7FC00000U);
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Added to a double below 2^51 in magnitude, it leaves the nearest integer, in two's complement, in the low
// bits.
inline constexpr double kRoundToInteger = 0x1.8p52;
inline constexpr double kRoundToQuarter = 0x1.8p50;

DGX_HOST_DEVICE inline float round_to_float(double x) { return static_cast<float>(x); }

/// e^x = scale * (1 + tail), scale = 2^(k/16) up to its rounding.
struct Exponential {
  double scale;
  double tail;
  double scale_error;  ///< relative: 2^(k/16) = scale * (1 + scale_error)
};

/// x = k ln(2)/16 + r with |r| <= ln(2)/32, for |x| <= 128. k ln(2)/16 is subtracted in two parts, the first
/// exactly; tail = e^r - 1 is off by less than 2^-58, so scale + scale * tail by less than 0.6 units of the
/// last place and its final rounding.
DGX_HOST_DEVICE inline Exponential exponential(double x) {
  const double shifted = std::fma(x, kSixteenOverLn2, kRoundToInteger);
  const double k = shifted - kRoundToInteger;
  const double r = std::fma(-k, kLn2Over16Low, std::fma(-k, kLn2Over16High, x));
  const double r2 = r * r;
  const double a = std::fma(kExpPolynomial[1], r, kExpPolynomial[0]);
  const double b = std::fma(kExpPolynomial[3], r, kExpPolynomial[2]);
  const double c = std::fma(kExpPolynomial[5], r, kExpPolynomial[4]);
  const double q = std::fma(std::fma(c, r2, b), r2, a);
  const auto bits = std::bit_cast<std::uint64_t>(shifted);
  const std::uint64_t index = bits & 15;
  const std::uint64_t exponent = (bits - index) << 48;  // floor(k / 16) in the place of a double's exponent
  const double scale = std::bit_cast<double>(std::bit_cast<std::uint64_t>(kExpTable[index]) + exponent);
  return {scale, std::fma(q, r2, r), kExpTableError[index]};
}

/// e^x - 1. Where scale is near 1 the difference cancels, which exposes scale's own rounding unless
/// scale_error has been added to `tail`: the relative error is about 2^-52 with it, and up to 2^-48 without.
DGX_HOST_DEVICE inline double minus_one(const Exponential& e, double tail) {
  return std::fma(e.scale, tail, e.scale - 1.0);
}

/// A positive double as 2^exponent * m with m in [47/64, 47/32), and log(m) = table + log(1 + r), r = c m
/// - 1.
struct Logarithm {
  double exponent;
  double r;
  double table;  ///< -log(c), exactly 0 for x in [1 - 1/64, 1 + 1/32)
};

/// c has at most 25 bits, so r is exact where x is a float.
DGX_HOST_DEVICE inline Logarithm logarithm(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t offset = bits - kLogLowBits;
  const std::uint64_t index = (offset >> 48) & 15;
  const auto exponent = static_cast<std::int64_t>(offset) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
  return {static_cast<double>(exponent), std::fma(m, kLogReciprocal[index], -1.0), kLogTable[index]};
}

/// exponent ln(2) + table + log(1 + r). The first product is exact, kLogTable was chosen near to doubles, and
/// near 1, where the sum could cancel, exponent and table are 0: the relative error is below 0.6 * 2^-52.
DGX_HOST_DEVICE inline double sum(const Logarithm& parts) {
  const double r = parts.r;
  const double r2 = r * r;
  const double a = std::fma(kLogPolynomial[1], r, kLogPolynomial[0]);
  const double b = std::fma(kLogPolynomial[3], r, kLogPolynomial[2]);
  const double c = std::fma(kLogPolynomial[5], r, kLogPolynomial[4]);
  const double d = std::fma(kLogPolynomial[7], r, kLogPolynomial[6]);
  const double e = std::fma(kLogPolynomial[9], r, kLogPolynomial[8]);
  const double q = std::fma(std::fma(std::fma(std::fma(e, r2, d), r2, c), r2, b), r2, a);
  const double tail = std::fma(q, r2, r);
  const double head = std::fma(parts.exponent, kLn2High, parts.table);
  return head + std::fma(parts.exponent, kLn2Low, tail);
}

/// |x| = quadrant pi/2 + high + low, |high| <= pi/4; high + low has a relative error below 2^-70.
struct Angle {
  unsigned quadrant;
  double high;
  double low;
};

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

/// 128 bits of 2/pi from bit `offset` of kTwoOverPiBits, 0 the first.
DGX_HOST_DEVICE inline Uint128 two_over_pi_bits(unsigned offset) {
  const unsigned word = offset / 64;
  const unsigned shift = offset % 64;
  const Uint128 front = Uint128{kTwoOverPiBits[word]} << 64 | kTwoOverPiBits[word + 1];
  return shift == 0 ? front : front << shift | kTwoOverPiBits[word + 2] >> (64 - shift);
}

/// Reduces a finite |x| = m 2^e >= 1/2: multiplies m by the bits of 2/pi that matter modulo 4, as a
/// fixed-point number with 126 bits after the point. The part cut off is below 2^-102, and no float is nearer
/// than 2^-32 to a multiple of pi/2.
DGX_HOST_DEVICE inline Angle reduce(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU;
  const std::uint32_t m = (bits & 0x7FFFFFU) | 0x800000U;
  const unsigned e_plus_150 = bits >> 23;
  const Uint128 turns = two_over_pi_bits(e_plus_150 - 120) * m;
  const auto quadrant = static_cast<unsigned>((turns + (Uint128{1} << 125)) >> 126);
  const auto fraction = static_cast<Int128>(turns - (Uint128{quadrant} << 126));
  const auto head = static_cast<double>(fraction);
  const auto tail = static_cast<double>(fraction - static_cast<Int128>(head));
  const double f = head * 0x1p-126;
  const double high = f * kHalfPiHigh;
  const double low = std::fma(f, kHalfPiHigh, -high) + std::fma(f, kHalfPiLow, tail * 0x1p-126 * kHalfPiHigh);
  return {quadrant, high, low};
}

/// sin(high + low), error about 0.6 units of the last place of the double.
DGX_HOST_DEVICE inline double sine(double high, double low) {
  const double r2 = high * high;
  double q = kSinPolynomial[6];
  for (int i = 5; i >= 0; --i) q = std::fma(q, r2, kSinPolynomial[i]);
  return high + std::fma(q, high * r2, std::fma(-0.5 * r2, low, low));
}

/// cos(high + low), likewise. 1 - r2/2 is rounded to `head`, and what that rounding lost is added at the end.
DGX_HOST_DEVICE inline double cosine(double high, double low) {
  const double r2 = high * high;
  double q = kCosPolynomial[6];
  for (int i = 5; i >= 0; --i) q = std::fma(q, r2, kCosPolynomial[i]);
  const double half = 0.5 * r2;
  const double head = 1.0 - half;
  return head + (((1.0 - head) - half) + std::fma(q, r2 * r2, -high * low));
}

/// sin(quadrant pi/2 + high + low).
DGX_HOST_DEVICE inline double sine_in_quadrant(const Angle& angle) {
  const double magnitude =
      angle.quadrant % 2 == 0 ? sine(angle.high, angle.low) : cosine(angle.high, angle.low);
  return angle.quadrant % 4 < 2 ? magnitude : -magnitude;
}

/// Sets `value` and returns true if x is among the `count` arguments of `exceptions`.
DGX_HOST_DEVICE inline bool is_exception(float x, const FunctionException* exceptions, std::size_t count,
                                         float& value) {
  for (std::size_t i = 0; i < count; ++i) {
    if (x != exceptions[i].argument) continue;
    value = exceptions[i].value;
    return true;
  }
  return false;
}

DGX_HOST_DEVICE inline bool is_infinite_or_nan(float x) { return !(std::fabs(x) < kInfinity); }

DGX_HOST_NOINLINE DGX_HOST_DEVICE inline float exp_f32(float x) {
  if (x != x) return kNan;
  // Below -105 the value rounds to 0, above 89 to infinity.
  const Exponential e = exponential(std::clamp(x, -105.0F, 89.0F));
  return round_to_float(std::fma(e.scale, e.tail, e.scale));
}

DGX_HOST_NOINLINE DGX_HOST_DEVICE inline float expm1_f32(float x) {
  if (x != x) return kNan;
  // Below -30 the value rounds to -1.
  const Exponential e = exponential(std::clamp(x, -30.0F, 89.0F));
  return std::copysign(round_to_float(minus_one(e, e.tail + e.scale_error)), x);
}

DGX_HOST_NOINLINE DGX_HOST_DEVICE inline float log_f32(float x) {
  if (x == 0.0F) return -kInfinity;
  if (!(x > 0.0F)) return kNan;
  if (x == kInfinity) return kInfinity;
  return round_to_float(sum(logarithm(x)));
}

DGX_HOST_NOINLINE DGX_HOST_DEVICE inline float log1p_f32(float x) {
  if (x == -1.0F) return -kInfinity;
  if (!(x > -1.0F)) return kNan;
  if (x == kInfinity) return kInfinity;
  float exception = 0;
  if (is_exception(x, kLog1pExceptions, std::size(kLog1pExceptions), exception)) return exception;
  Logarithm parts = logarithm(1.0 + static_cast<double>(x));
  // Near 0, where 1 + x is rounded, r is x; elsewhere 1 + x is exact, or rounded without effect where x is
  // above 2^29.
  if (parts.exponent == 0.0 && parts.table == 0.0) parts.r = x;
  return std::copysign(round_to_float(sum(parts)), x);
}

DGX_HOST_NOINLINE DGX_HOST_DEVICE inline float sin_f32(float x) {
  if (is_infinite_or_nan(x)) return kNan;
  if (x == 0.0F) return x;
  if (std::fabs(x) < 0.75F) return round_to_float(sine(x, 0.0));
  float of_magnitude = 0;
  if (!is_exception(std::fabs(x), kSinExceptions, std::size(kSinExceptions), of_magnitude)) {
    of_magnitude = round_to_float(sine_in_quadrant(reduce(x)));
  }
  return x < 0.0F ? -of_magnitude : of_magnitude;
}

DGX_HOST_NOINLINE DGX_HOST_DEVICE inline float cos_f32(float x) {
  if (is_infinite_or_nan(x)) return kNan;
  if (std::fabs(x) < 0.75F) return round_to_float(cosine(x, 0.0));
  float exception = 0;
  if (is_exception(std::fabs(x), kCosExceptions, std::size(kCosExceptions), exception)) return exception;
  Angle angle = reduce(x);
  ++angle.quadrant;  // cos(a) = sin(a + pi/2)
  return round_to_float(sine_in_quadrant(angle));
}

DGX_HOST_NOINLINE DGX_HOST_DEVICE inline float tanh_f32(float x) {
  if (x != x) return kNan;
  // tanh(a) = (e^2a - 1) / (e^2a + 1); from 10 on it rounds to 1. Even without scale_error no argument comes
  // out wrong.
  const double a = std::min(std::fabs(x), 10.0F);
  const Exponential e = exponential(a + a);
  const double numerator = minus_one(e, e.tail);
  return std::copysign(round_to_float(numerator / (numerator + 2.0)), x);
}

DGX_HOST_NOINLINE DGX_HOST_DEVICE inline float erf_f32(float x) {
  if (x != x) return kNan;
  // From 3.9999 on the value rounds to 1.
  const double a = std::min(std::fabs(x), 3.9999F);
  const double shifted = (a - 0.125) + kRoundToQuarter;
  const std::uint64_t i = std::bit_cast<std::uint64_t>(shifted) & 15;
  const double d = (a - (shifted - kRoundToQuarter)) - 0.125;
  const double d2 = d * d;
  double even = kErfPolynomial[10][i];
  double odd = kErfPolynomial[11][i];
  for (int k = 8; k >= 0; k -= 2) {
    even = std::fma(even, d2, kErfPolynomial[k][i]);
    odd = std::fma(odd, d2, kErfPolynomial[k + 1][i]);
  }
  return std::copysign(round_to_float(a * std::fma(odd, d, even)), x);
}

/// The functions as defined, for templates that take as a parameter how functions are computed.
struct DefinedFunctions {
  DGX_HOST_DEVICE static float exp(float x) { return exp_f32(x); }
  DGX_HOST_DEVICE static float expm1(float x) { return expm1_f32(x); }
  DGX_HOST_DEVICE static float log(float x) { return log_f32(x); }
  DGX_HOST_DEVICE static float log1p(float x) { return log1p_f32(x); }
  DGX_HOST_DEVICE static float sin(float x) { return sin_f32(x); }
  DGX_HOST_DEVICE static float cos(float x) { return cos_f32(x); }
  DGX_HOST_DEVICE static float tanh(float x) { return tanh_f32(x); }
  DGX_HOST_DEVICE static float erf(float x) { return erf_f32(x); }
};

}  // namespace dgx::kernels::formula
