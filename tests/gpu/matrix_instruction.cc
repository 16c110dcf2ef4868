#include "matrix_instruction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace dgx::test {
namespace {

constexpr int kSignificandBits = 23;  // below the leading one
constexpr int kLeastExponent = -126;
constexpr int kMostExponent = 127;
constexpr int kNoExponent = std::numeric_limits<int>::min();
constexpr std::int32_t kMostChunk = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// sign · significand · 2^(exponent − fraction).
struct Term {
  bool negative = false;
  std::uint64_t significand = 0;
  int fraction = 0;
  int exponent = 0;
};

Term term_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const int stored = static_cast<int>(bits >> kSignificandBits & 0xFFU);
  const std::uint32_t low = bits & 0x7FFFFFU;
  if (stored == 0) return {bits >> 31 != 0, low, kSignificandBits, kLeastExponent};
  return {bits >> 31 != 0, low | 0x800000U, kSignificandBits, stored - kMostExponent};
}

/// The same for a factor of a format with these limits.
Term factor_term(const FormatLimits& limits, float x) {
  Term term = term_of(x);
  if (x == 0) {
    term.exponent = limits.least_exponent;
  } else if (const int below = limits.least_exponent - term.exponent; below > 0) {
    term.significand >>= below;  // exact: the format has the number
    term.exponent = limits.least_exponent;
  }
  return term;
}

Term product_of(const FormatLimits& limits, float a, float b) {
  const Term x = factor_term(limits, a), y = factor_term(limits, b);
  return {x.negative != y.negative, x.significand * y.significand, x.fraction + y.fraction,
          x.exponent + y.exponent};
}

/// The term in multiples of 2^(aligned − fraction_bits), cut towards zero.
std::int64_t cut(const Term& term, int aligned, int fraction_bits) {
  const int shift = term.fraction - fraction_bits + (aligned - term.exponent);
  const std::uint64_t magnitude = shift >= 64  ? 0
                                  : shift >= 0 ? term.significand >> shift
                                               : term.significand << -shift;
  return term.negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
}

/// magnitude · 2^scale as a binary32 of no more fraction bits.
float round_to_float(std::uint64_t magnitude, int scale, int fraction_bits, ResultRounding rounding) {
  if (magnitude == 0) return 0;
  const int top = static_cast<int>(std::bit_width(magnitude)) - 1 + scale;
  // The last place of the result is 2^unit.
  const int unit = std::max(top, kLeastExponent) - fraction_bits;
  std::uint64_t kept = magnitude;
  if (const int drop = unit - scale; drop >= 64) {
    kept = 0;
  } else if (drop > 0) {
    kept = magnitude >> drop;
    const std::uint64_t rest = magnitude - (kept << drop), half = std::uint64_t{1} << (drop - 1);
    if (rounding == ResultRounding::kNearestEven && (rest > half || (rest == half && (kept & 1) != 0)))
      ++kept;
  } else {
    kept = magnitude << -drop;
  }
  return std::ldexp(static_cast<float>(kept), unit);  // exact, or infinite
}

/// The result if a term is infinite or NaN, else nullopt.
std::optional<float> special(std::span<const float> a, std::span<const float> b, float c) {
  bool plus = c == kInfinity, minus = c == -kInfinity, nan = std::isnan(c);
  for (std::size_t n = 0; n < a.size(); ++n) {
    if (std::isfinite(a[n]) && std::isfinite(b[n])) continue;
    const float product = a[n] * b[n];
    nan = nan || std::isnan(product);
    plus = plus || product == kInfinity;
    minus = minus || product == -kInfinity;
  }
  if (nan || (plus && minus)) return std::bit_cast<float>(0x7FC00000U);
  if (plus || minus) return plus ? kInfinity : -kInfinity;
  return std::nullopt;
}

float add_chunk(const MatrixInstruction& instruction, const FormatLimits& limits, std::span<const float> a,
                std::span<const float> b, float c) {
  if (const auto result = special(a, b, c)) return *result;
  std::array<Term, kMostChunk + 1> terms;
  const std::size_t count = a.size() + 1;
  for (std::size_t n = 0; n < a.size(); ++n) terms[n] = product_of(limits, a[n], b[n]);
  terms[a.size()] = term_of(c);
  int aligned = kNoExponent;
  for (std::size_t n = 0; n < count; ++n) {
    if (instruction.zeros == ZeroExponent::kNone && terms[n].significand == 0) continue;
    aligned = std::max(aligned, terms[n].exponent);
  }
  if (aligned == kNoExponent) return 0;
  aligned = std::max(aligned, instruction.least_aligned);
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < count; ++n) sum += cut(terms[n], aligned, instruction.fraction_bits);
  const float magnitude =
      round_to_float(static_cast<std::uint64_t>(sum < 0 ? -sum : sum), aligned - instruction.fraction_bits,
                     instruction.result_bits, instruction.rounding);
  return sum < 0 && magnitude > 0 ? -magnitude : magnitude;
}

/// The sum by the instructions of MatrixInstruction::widened.
float widened_dot(const MatrixInstruction& instruction, std::span<const float> a, std::span<const float> b,
                  float c) {
  MatrixInstruction wide = instruction;
  wide.factors = FactorFormat::kFp16;
  wide.widened = false;
  float sum = 0;
  for (const std::size_t half : {0U, 1U}) {
    std::vector<float> left, right;
    for (std::size_t n = 0; n < a.size(); ++n) {
      if (n % 4 / 2 != half) continue;
      left.push_back(as_factor(instruction.factors, a[n]));
      right.push_back(as_factor(instruction.factors, b[n]));
    }
    sum = fused_dot(wide, left, right, sum);
  }
  return sum + c;
}

}  // namespace

FormatLimits limits_of(FactorFormat format) {
  constexpr float kMost = std::numeric_limits<float>::max();
  switch (format) {
    case FactorFormat::kTf32: return {32, 10, -126, 127, kMost, true};
    case FactorFormat::kFp16: return {16, 10, -14, 15, 65504, true};
    case FactorFormat::kE4m3: return {8, 3, -6, 8, 448, false};
    case FactorFormat::kE5m2: return {8, 2, -14, 15, 57344, true};
    default: return {16, 7, -126, 127, kMost, true};
  }
}

float as_factor(FactorFormat format, float x) {
  const FormatLimits limits = limits_of(format);
  if (std::isnan(x) || (std::isinf(x) && limits.infinite)) return x;
  if (std::fabs(x) > limits.largest) return std::copysign(limits.largest, x);
  const int dropped =
      kSignificandBits - limits.fraction_bits + std::max(limits.least_exponent - term_of(x).exponent, 0);
  if (dropped > kSignificandBits) return std::copysign(0.0F, x);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~std::uint32_t{0} << dropped);
}

std::uint32_t code_of(FactorFormat format, float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (format == FactorFormat::kTf32) return bits;
  const FormatLimits limits = limits_of(format);
  const std::uint32_t sign = bits >> 31 << (limits.width - 1);
  const std::uint32_t magnitudes = (1U << (limits.width - 1)) - 1;  // all bits but the sign
  if (std::isnan(x)) return sign | magnitudes;
  const float factor = as_factor(format, x);
  if (std::isinf(factor)) return sign | magnitudes >> limits.fraction_bits << limits.fraction_bits;
  // A subnormal's code is its significand; each exponent above adds 2^fraction_bits.
  const Term term = factor_term(limits, factor);
  const auto significand =
      static_cast<std::uint32_t>(term.significand >> (kSignificandBits - limits.fraction_bits));
  return sign | (significand +
                 (static_cast<std::uint32_t>(term.exponent - limits.least_exponent) << limits.fraction_bits));
}

float fused_dot(const MatrixInstruction& instruction, std::span<const float> a, std::span<const float> b,
                float c) {
  assert(a.size() == b.size() && instruction.chunk >= 1 && instruction.chunk <= kMostChunk);
  assert(instruction.fraction_bits >= 0 && instruction.fraction_bits <= 40);
  assert(instruction.result_bits >= 1 && instruction.result_bits <= kSignificandBits);
  if (instruction.widened) return widened_dot(instruction, a, b, c);
  const FormatLimits limits = limits_of(instruction.factors);
  std::array<float, kMostChunk> left, right;
  const auto chunk = static_cast<std::size_t>(instruction.chunk);
  for (std::size_t begin = 0; begin < a.size(); begin += chunk) {
    const std::size_t count = std::min(chunk, a.size() - begin);
    for (std::size_t n = 0; n < count; ++n) {
      left[n] = as_factor(instruction.factors, a[begin + n]);
      right[n] = as_factor(instruction.factors, b[begin + n]);
    }
    c = add_chunk(instruction, limits, std::span(left).first(count), std::span(right).first(count), c);
  }
  return c;
}

}  // namespace dgx::test
