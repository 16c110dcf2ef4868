#include "matrix_instruction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>

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

Term product_of(float a, float b) {
  const Term x = term_of(a), y = term_of(b);
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

/// magnitude · 2^scale as a binary32.
float round_to_float(std::uint64_t magnitude, int scale, ResultRounding rounding) {
  if (magnitude == 0) return 0;
  const int top = static_cast<int>(std::bit_width(magnitude)) - 1 + scale;
  // The last place of the result is 2^unit.
  const int unit = std::max(top, kLeastExponent) - kSignificandBits;
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

float add_chunk(const MatrixInstruction& instruction, std::span<const float> a, std::span<const float> b,
                float c) {
  if (const auto result = special(a, b, c)) return *result;
  std::array<Term, kMostChunk + 1> terms;
  const std::size_t count = a.size() + 1;
  for (std::size_t n = 0; n < a.size(); ++n) terms[n] = product_of(a[n], b[n]);
  terms[a.size()] = term_of(c);
  int aligned = kNoExponent;
  for (std::size_t n = 0; n < count; ++n) {
    if (instruction.zeros == ZeroExponent::kNone && terms[n].significand == 0) continue;
    aligned = std::max(aligned, terms[n].exponent);
  }
  if (aligned == kNoExponent) return 0;
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < count; ++n) sum += cut(terms[n], aligned, instruction.fraction_bits);
  const float magnitude = round_to_float(static_cast<std::uint64_t>(sum < 0 ? -sum : sum),
                                         aligned - instruction.fraction_bits, instruction.rounding);
  return sum < 0 ? -magnitude : magnitude;
}

}  // namespace

float as_factor(FactorFormat format, float x) {
  if (std::isnan(x)) return x;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) &
                              (format == FactorFormat::kBf16 ? 0xFFFF0000U : 0xFFFFE000U));
}

float fused_dot(const MatrixInstruction& instruction, std::span<const float> a, std::span<const float> b,
                float c) {
  assert(a.size() == b.size() && instruction.chunk >= 1 && instruction.chunk <= kMostChunk);
  assert(instruction.fraction_bits >= 0 && instruction.fraction_bits <= 40);
  std::array<float, kMostChunk> left, right;
  const auto chunk = static_cast<std::size_t>(instruction.chunk);
  for (std::size_t begin = 0; begin < a.size(); begin += chunk) {
    const std::size_t count = std::min(chunk, a.size() - begin);
    for (std::size_t n = 0; n < count; ++n) {
      left[n] = as_factor(instruction.factors, a[begin + n]);
      right[n] = as_factor(instruction.factors, b[begin + n]);
    }
    c = add_chunk(instruction, std::span(left).first(count), std::span(right).first(count), c);
  }
  return c;
}

}  // namespace dgx::test
