#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "dgx/core/host_device.h"
#include "dgx/kernels/function_formulas.h"
#include "dgx/kernels/function_pair_tables.h"

/// The elementary functions without binary64, for processors on which that is slow: a consumer GPU does 64
/// binary32 operations in the time of one in binary64. function_formulas.h stays the definition: this way
/// either gives the value or says that it is not certain. Compile without contraction.

// Method. A function is evaluated to some 40 bits, as a sum of two floats, a head and a tail, together with a
// bound on its error. If the sum rounds to the same float anywhere within the bound, that float is the value.
// Otherwise, for one argument in 2^14 or fewer, the definition is evaluated; also where a value or argument
// is subnormal, or an argument of sin or cos large. That every value called certain is right is not argued
// but known: all 2^32 arguments of each function were compared with the definition (tests/slow/functions.cc).
// A bound has a part relative to the value, for the last roundings, and a part relative to the first term of
// the series that is a single float; near a zero of the function the latter is greater.
//
// Exact sums and products of floats follow T. J. Dekker, "A floating-point technique for extending the
// available precision" (1971), the test before rounding A. Ziv, "Fast evaluation of elementary mathematical
// functions with correctly rounded last bit" (1991). Ordinary arguments take one path, so threads of a warp
// do not diverge.

namespace dgx::kernels::formula::pairs {

/// A value, and whether it is certain; if not, the definition must be evaluated.
struct Rounded {
  float value;
  bool certain;
};

/// The real value differs from `sum` by less than `error`.
struct Estimate {
  FloatPair sum;
  float error;
};

/// Added to a float below 2^22 in magnitude, it leaves the nearest integer, in two's complement, in the low
/// bits; kShiftToSixteenth, below 2^18, the sixteenths.
inline constexpr float kShiftToInteger = 0x1.8p23F;
inline constexpr float kShiftToSixteenth = 0x1.8p19F;

/// a + b exactly where |a| >= |b| or a is 0, else to about the last place of b.
DGX_HOST_DEVICE inline FloatPair sum(float a, float b) {
  const float head = a + b;
  return {head, b - (head - a)};
}

/// a + b exactly.
DGX_HOST_DEVICE inline FloatPair sum_in_any_order(float a, float b) {
  const float head = a + b;
  const float from_b = head - a;
  return {head, (a - (head - from_b)) + (b - from_b)};
}

/// a b exactly, if its last place is no smaller than a subnormal's.
DGX_HOST_DEVICE inline FloatPair product(float a, float b) {
  const float head = a * b;
  return {head, std::fma(a, b, -head)};
}

DGX_HOST_DEVICE inline Rounded rounded(const Estimate& x) {
  const float most = x.sum.head + (x.sum.tail + x.error);
  const float least = x.sum.head + (x.sum.tail - x.error);
  return {most, most == least};
}

/// e^x = 2^floor(steps / 32) * power * (1 + less_one), power = 2^(steps mod 32 / 32).
struct Exponential {
  std::int32_t steps;
  FloatPair power;
  FloatPair less_one;
  float cubic;  ///< the part of less_one beyond the square
};

/// x = k ln(2)/32 + r with |r| <= ln(2)/64, for |x| <= 89. x minus k times the head of ln(2)/32 is exact.
DGX_HOST_DEVICE inline Exponential exponential(float x) {
  const float shifted = std::fma(x, kPairsThirtyTwoOverLn2, kShiftToInteger);
  const float k = shifted - kShiftToInteger;
  const FloatPair r = sum(std::fma(-k, kPairsLn2Over32, x), -k * kPairsLn2Over32Tail);
  const FloatPair square = product(r.head, r.head);
  const float* const c = kPairsExpPolynomial;
  const float cubic = r.head * square.head * std::fma(std::fma(c[2], r.head, c[1]), r.head, c[0]);
  FloatPair less_one = sum(r.head, 0.5F * square.head);
  less_one.tail += std::fma(0.5F, square.tail, cubic) + std::fma(r.tail, r.head, r.tail);
  const auto steps = std::bit_cast<std::int32_t>(shifted);
  return {steps, kPairsExpTable[steps & 31], less_one, cubic};
}

/// x 2^floor(steps / 32), if x and the result are normal. The bits of kShiftToInteger in `steps` are shifted
/// out.
DGX_HOST_DEVICE inline float scaled(float x, std::int32_t steps) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) +
                              (static_cast<std::uint32_t>(steps & ~31) << 18));
}

/// e^x - 1 for -18 <= x <= 87.25.
DGX_HOST_DEVICE inline Estimate exponential_minus_one(float x) {
  const Exponential e = exponential(x);
  const float scale = scaled(1.0F, e.steps);
  const FloatPair power = {e.power.head * scale, e.power.tail * scale};
  const FloatPair first = sum_in_any_order(power.head, -1.0F);
  const FloatPair second = product(power.head, e.less_one.head);
  FloatPair y = sum(first.head, second.head);
  y.tail += first.tail + (std::fma(power.head, e.less_one.tail, second.tail) +
                          std::fma(power.tail, e.less_one.head, power.tail));
  return {y, std::fma(std::fabs(y.head), 0x1p-41F, std::fabs(power.head * e.cubic) * 0x1p-21F)};
}

/// A positive float as 2^exponent * m with m in [95/128, 95/64).
struct Scaled {
  float exponent;
  float unit;  ///< 2^-exponent, 0 where exponent is 127 or 128
  float m;
  FloatLogarithm entry;  ///< the table entry of m
};

DGX_HOST_DEVICE inline Scaled scaled_to_one(float x) {
  const std::uint32_t offset = std::bit_cast<std::uint32_t>(x) - kPairsLogLowBits;
  const std::uint32_t fraction = offset & 0x7FFFFFU;
  // exponent + 256 in the fraction bits of the float 2^23 makes it 2^23 + 256 + exponent.
  const std::uint32_t biased = (offset + 0x80000000U) >> 23;
  return {std::bit_cast<float>(0x4B000000U | biased) - (0x1p23F + 256.0F),
          std::bit_cast<float>(std::max(0, static_cast<std::int32_t>(0x3F800000U - (offset - fraction)))),
          std::bit_cast<float>(fraction + kPairsLogLowBits), kPairsLogTable[offset >> 18 & 31]};
}

/// log(2^exponent (m + tail)), where tail is at most half of m's last place: exponent ln(2) + log(1/c) +
/// log(1 + r) with r = c (m + tail) - 1. Near 1 the first two are 0.
DGX_HOST_DEVICE inline Estimate logarithm(const Scaled& x, float tail) {
  const FloatPair ratio = product(x.m, x.entry.reciprocal);
  const FloatPair r = sum(ratio.head - 1.0F, std::fma(tail, x.entry.reciprocal, ratio.tail));
  const FloatPair square = product(r.head, r.head);
  const float* const c = kPairsLogPolynomial;
  float q = c[4];
  for (int i = 3; i >= 0; --i) q = std::fma(q, r.head, c[i]);
  const float cubic = r.head * square.head * q;
  const FloatPair twos = product(x.exponent, kPairsLn2);
  const FloatPair first = sum(twos.head, x.entry.head);
  const FloatPair second = sum(first.head, r.head);
  FloatPair y = sum(second.head, -0.5F * square.head);
  y.tail += (first.tail + second.tail) + (twos.tail + std::fma(x.exponent, kPairsLn2Tail, x.entry.tail)) +
            (std::fma(-0.5F, square.tail, cubic) + std::fma(-r.head, r.tail, r.tail));
  return {y, std::fma(std::fabs(y.head), 0x1p-42F, std::fabs(cubic) * 0x1.8p-21F)};
}

/// sin(x + quarters pi/2) for |x| < 2^16. x = k pi/64 + r with |r| <= 1.03 pi/128; the first part of k pi/64
/// is subtracted without an error. Then sin(a + r) = sin a cos r + cos a sin r.
DGX_HOST_DEVICE inline Estimate sine(float x, std::uint32_t quarters) {
  const float shifted = std::fma(x, kPairsSixtyFourOverPi, kShiftToInteger);
  const float k = shifted - kShiftToInteger;
  const FloatPair second = product(-k, kPairsPiOver64Second);
  FloatPair r = sum_in_any_order(std::fma(-k, kPairsPiOver64First, x), second.head);
  r.tail += std::fma(-k, kPairsPiOver64Third, second.tail);
  const std::uint32_t index = std::bit_cast<std::uint32_t>(shifted) + 32 * quarters;
  const FloatPair sine = kPairsSineTable[index & 127];
  const FloatPair cosine = kPairsSineTable[(index + 32) & 127];

  const FloatPair square = product(r.head, r.head);
  const float s = square.head;
  const float cube = r.head * s;
  // sin r = r + sine_rest, cos r = 1 - s/2 + cosine_rest.
  const float sine_rest = std::fma(cube, std::fma(kPairsSinPolynomial[1], s, kPairsSinPolynomial[0]), r.tail);
  const float cosine_rest = std::fma(s * s, std::fma(kPairsCosPolynomial[1], s, kPairsCosPolynomial[0]),
                                     -std::fma(0.5F, square.tail, r.head * r.tail));
  const float half = 0.5F * s;
  const FloatPair odd = product(cosine.head, r.head);
  const FloatPair even = product(sine.head, half);
  const FloatPair first = sum(sine.head, odd.head);
  FloatPair y = sum(first.head, -even.head);
  y.tail += first.tail + (odd.tail - even.tail) + std::fma(-sine.tail, half, sine.tail) +
            std::fma(cosine.tail, r.head, std::fma(cosine.head, sine_rest, sine.head * cosine_rest));
  const float error = std::fma(std::fabs(y.head), 0x1p-43F, std::fabs(cube) * 0x1.8p-24F);
  return {y, std::fma(std::fabs(k), 0x1p-76F, error)};
}

/// erf(a) for 0 <= a <= 3.96875, by the polynomial of the nearest sixteenth.
DGX_HOST_DEVICE inline Estimate error_function(float a) {
  const float shifted = a + kShiftToSixteenth;
  const FloatErf& row = kPairsErfTable[std::bit_cast<std::uint32_t>(shifted) & 63];
  const float d = a - (shifted - kShiftToSixteenth);
  float q = row.further[4];
  for (int i = 3; i >= 0; --i) q = std::fma(q, d, row.further[i]);
  FloatPair p = {q, 0};
  for (int i = 2; i >= 0; --i) {
    const FloatPair m = product(p.head, d);
    const float tail = std::fma(p.tail, d, m.tail);
    p = sum(row.sums[i].head, m.head);
    p.tail += tail + row.sums[i].tail;
  }
  FloatPair y = product(a, p.head);
  y.tail = std::fma(a, p.tail, y.tail);
  return {y, y.head * 0x1.4p-41F};
}

/// tanh(a) = (e^2a - 1) / (e^2a + 1) for 0 <= a <= 9.5.
DGX_HOST_DEVICE inline Estimate hyperbolic_tangent(float a) {
  const Estimate n = exponential_minus_one(a + a);
  const FloatPair d = sum_in_any_order(n.sum.head, 2.0F);
  const float reciprocal = 1.0F / d.head;
  const float quotient = n.sum.head * reciprocal;
  const float rest =
      std::fma(-quotient, d.head, n.sum.head) + std::fma(-quotient, d.tail + n.sum.tail, n.sum.tail);
  return {sum(quotient, rest * reciprocal), std::fma(n.error, reciprocal, quotient * 0x1.4p-41F)};
}

DGX_HOST_DEVICE inline Rounded exp(float x) {
  constexpr float kLargest = 87.25F;  // the value is normal
  const Exponential e = exponential(std::clamp(x, -kLargest, kLargest));
  const FloatPair second = product(e.power.head, e.less_one.head);
  FloatPair y = sum(e.power.head, second.head);
  y.tail += std::fma(e.power.head, e.less_one.tail, second.tail) +
            std::fma(e.power.tail, e.less_one.head, e.power.tail);
  Rounded out = rounded({y, 0x1.4p-42F});
  out.value = scaled(out.value, e.steps);
  if (std::fabs(x) <= kLargest) return out;
  if (x > 89.0F) return {kInfinity, true};
  if (x < -105.0F) return {0.0F, true};
  return {kNan, x != x};
}

DGX_HOST_DEVICE inline Rounded expm1(float x) {
  constexpr float kLeast = -18.0F, kLargest = 87.25F;
  Rounded out = rounded(exponential_minus_one(std::clamp(x, kLeast, kLargest)));
  out.value = std::copysign(out.value, x);
  if (x <= kLargest) return out;
  if (x > 89.0F) return {kInfinity, true};
  return {kNan, x != x};
}

DGX_HOST_DEVICE inline Rounded log(float x) {
  const Rounded out = rounded(logarithm(scaled_to_one(x), 0.0F));
  if (x >= 0x1p-126F && x < kInfinity) return out;
  if (x == 0.0F) return {-kInfinity, true};
  return {x == kInfinity ? kInfinity : kNan, !(x > 0.0F && x < 1.0F)};
}

DGX_HOST_DEVICE inline Rounded log1p(float x) {
  const FloatPair one_more = sum_in_any_order(x, 1.0F);
  const Scaled parts = scaled_to_one(one_more.head);
  Rounded out = rounded(logarithm(parts, one_more.tail * parts.unit));
  out.value = std::copysign(out.value, x);
  if (x > -1.0F && x < kInfinity) return out;
  return {x == -1.0F ? -kInfinity : x == kInfinity ? kInfinity : kNan, true};
}

DGX_HOST_DEVICE inline Rounded sin(float x) {
  Rounded out = rounded(sine(x, 0));
  out.certain = out.certain && std::fabs(x) < 0x1p16F;
  return x == 0.0F ? Rounded{x, true} : out;
}

DGX_HOST_DEVICE inline Rounded cos(float x) {
  Rounded out = rounded(sine(x, 1));
  out.certain = out.certain && std::fabs(x) < 0x1p16F;
  return out;
}

DGX_HOST_DEVICE inline Rounded tanh(float x) {
  Rounded out = rounded(hyperbolic_tangent(std::min(std::fabs(x), 9.5F)));
  out.value = std::copysign(out.value, x);
  return x != x ? Rounded{kNan, true} : out;
}

DGX_HOST_DEVICE inline Rounded erf(float x) {
  const float a = std::min(std::fabs(x), 3.9375F);
  Rounded out = rounded(error_function(a));
  out.value = std::copysign(out.value, x);
  // The tail of a product of tiny numbers is too small for a subnormal, and so is lost.
  out.certain = out.certain && (a >= 0x1p-100F || a == 0.0F);
  return x != x ? Rounded{kNan, true} : out;
}

}  // namespace dgx::kernels::formula::pairs

namespace dgx::kernels::formula {

/// The functions by pairs, with the definition where that is uncertain.
struct PairFunctions {
  DGX_HOST_DEVICE static float exp(float x) { return of<pairs::exp, exp_f32>(x); }
  DGX_HOST_DEVICE static float expm1(float x) { return of<pairs::expm1, expm1_f32>(x); }
  DGX_HOST_DEVICE static float log(float x) { return of<pairs::log, log_f32>(x); }
  DGX_HOST_DEVICE static float log1p(float x) { return of<pairs::log1p, log1p_f32>(x); }
  DGX_HOST_DEVICE static float sin(float x) { return of<pairs::sin, sin_f32>(x); }
  DGX_HOST_DEVICE static float cos(float x) { return of<pairs::cos, cos_f32>(x); }
  DGX_HOST_DEVICE static float tanh(float x) { return of<pairs::tanh, tanh_f32>(x); }
  DGX_HOST_DEVICE static float erf(float x) { return of<pairs::erf, erf_f32>(x); }

 private:
  template <pairs::Rounded (*kPairs)(float), float (*kDefinition)(float)>
  DGX_HOST_DEVICE static float of(float x) {
    const pairs::Rounded y = kPairs(x);
    return y.certain ? y.value : rarely<kDefinition>(x);
  }
  /// One copy for all callers, which are small without it.
  template <float (*kDefinition)(float)>
  DGX_DEVICE_NOINLINE DGX_HOST_DEVICE static float rarely(float x) {
    return kDefinition(x);
  }
};

}  // namespace dgx::kernels::formula
