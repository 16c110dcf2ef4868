#include "matrix_instruction.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ref_support.h"

namespace dgx::test {
namespace {

using kernels::bits;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float dot(const MatrixInstruction& instruction, const std::vector<float>& a, const std::vector<float>& b,
          float c) {
  return fused_dot(instruction, a, b, c);
}

TEST_CASE("a factor is cut to its format") {
  CHECK(as_factor(FactorFormat::kBf16, 0x1.01fffep0F) == 0x1p0F);
  CHECK(as_factor(FactorFormat::kTf32, -0x1.005ffep0F) == -0x1.004p0F);
  CHECK(std::isnan(as_factor(FactorFormat::kBf16, std::bit_cast<float>(0x7F800001U))));
}

TEST_CASE("terms are cut below the greatest exponent, and so is the result") {
  const std::vector<float> a = {0x1p-12F, 0x1p-12F}, ones = {0x1p-12F, 0x1p-12F};  // two products of 2^-24
  CHECK(dot({.fraction_bits = 24}, a, ones, 1) == 0x1.000002p0F);
  CHECK(dot({.fraction_bits = 23}, a, ones, 1) == 1);
  CHECK(dot({.fraction_bits = 24}, {0x1p-12F}, {0x1p-12F}, 1) == 1);
  CHECK(dot({.fraction_bits = 24}, {0x1.8p-12F}, {-0x1p-12F}, -1) == -1);  // towards zero
  CHECK(dot({.fraction_bits = 25, .rounding = ResultRounding::kNearestEven}, {0x1.8p-12F}, {-0x1p-12F}, -1) ==
        -0x1.000002p0F);
}

TEST_CASE("a chunk is added at once, and its result to the next") {
  const std::vector<float> a = {1, 0x1p-13F, 0x1p-13F, 0x1p-13F, 0x1p-13F},
                           b = {1, 0x1p-12F, 0x1p-12F, 0x1p-12F, 0x1p-12F};
  CHECK(dot({.chunk = 5}, a, b, 0) == 0x1.000002p0F);
  CHECK(dot({.chunk = 4}, a, b, 0) == 1);
  CHECK(dot({.chunk = 1}, a, b, 0) == 1);
}

TEST_CASE("a zero may lend its partner's exponent") {
  const std::vector<float> a = {0, 1}, b = {0x1p127F, 0x1p-26F};
  CHECK(dot({.zeros = ZeroExponent::kNone}, a, b, 0) == 0x1p-26F);
  CHECK(dot({.zeros = ZeroExponent::kSmallest}, a, b, 0) == 0);  // aligned to 2^1: 2^-26 is below 2^(1-25)
  CHECK(bits(dot({}, {0, -0.0F}, {1, 1}, -0.0F)) == 0);
}

TEST_CASE("what is infinite, no number, subnormal or too great") {
  CHECK(dot({}, {kInfinity, 1}, {1, 1}, 0) == kInfinity);
  CHECK(bits(dot({}, {kInfinity, 1}, {1, 1}, -kInfinity)) == 0x7FC00000U);
  CHECK(bits(dot({}, {0, 1}, {kInfinity, 1}, 0)) == 0x7FC00000U);
  CHECK(dot({}, {0x1p-100F}, {0x1p-49F}, 0) == 0x1p-149F);
  CHECK(dot({}, {0x1p-100F}, {0x1p-50F}, 0) == 0);
  CHECK(dot({}, {0x1p-80F, 0x1p-80F}, {0x1p-60F, -0x1p-61F}, 0) == 0x1p-141F);
  CHECK(dot({}, {0x1p120F}, {0x1p8F}, 0) == kInfinity);
  CHECK(dot({}, {-0x1p120F}, {0x1p7F}, -0x1p127F) == -kInfinity);
}

/// Computes it in doubles: every product of factors is exact in one, and so are multiples of the last place
/// kept.
float from_doubles(const MatrixInstruction& instruction, const std::vector<float>& a,
                   const std::vector<float>& b, float c) {
  const auto exponent_of = [](float x) { return std::fabs(x) < 0x1p-126F ? -126 : std::ilogb(x); };
  for (std::size_t begin = 0; begin < a.size(); begin += static_cast<std::size_t>(instruction.chunk)) {
    const std::size_t end = std::min(a.size(), begin + static_cast<std::size_t>(instruction.chunk));
    int aligned = instruction.zeros == ZeroExponent::kNone && c == 0 ? -1000 : exponent_of(c);
    for (std::size_t n = begin; n < end; ++n) {
      if (instruction.zeros == ZeroExponent::kNone && a[n] * b[n] == 0 && (a[n] == 0 || b[n] == 0)) continue;
      aligned = std::max(aligned, exponent_of(a[n]) + exponent_of(b[n]));
    }
    const int scale = instruction.fraction_bits - aligned;
    double sum = std::trunc(std::ldexp(static_cast<double>(c), scale));
    for (std::size_t n = begin; n < end; ++n)
      sum += std::trunc(std::ldexp(static_cast<double>(a[n]) * static_cast<double>(b[n]), scale));
    const double value = std::ldexp(sum, -scale);
    c = static_cast<float>(value);
    if (instruction.rounding == ResultRounding::kTruncated &&
        std::fabs(static_cast<double>(c)) > std::fabs(value))
      c = std::nextafter(c, 0.0F);
    if (c == 0) c = 0;
  }
  return c;
}

TEST_CASE("the emulation is what doubles give, on numbers that they hold") {
  std::mt19937 random(7);
  const auto draw = [&random](int spread) {
    if (random() % 9 == 0) return 0.0F;
    const auto number = std::ldexp(1 + static_cast<float>(random() % 1024) / 1024,
                                   static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2);
    return random() % 2 == 0 ? number : -number;
  };
  for (int round = 0; round < 40'000; ++round) {
    const MatrixInstruction instruction{
        .factors = round % 2 == 0 ? FactorFormat::kBf16 : FactorFormat::kTf32,
        .fraction_bits = 22 + static_cast<std::int32_t>(random() % 6),
        .chunk = 1 << random() % 5,
        .zeros = random() % 2 == 0 ? ZeroExponent::kSmallest : ZeroExponent::kNone,
        .rounding = random() % 2 == 0 ? ResultRounding::kTruncated : ResultRounding::kNearestEven};
    std::vector<float> a(16), b(16);
    const int spread = 2 + static_cast<int>(random() % 40);
    for (float& x : a) x = as_factor(instruction.factors, draw(spread));
    for (float& x : b) x = as_factor(instruction.factors, draw(spread));
    const float c = draw(spread) * 1.0009765625F;
    const float got = dot(instruction, a, b, c), expected = from_doubles(instruction, a, b, c);
    if (bits(got) == bits(expected)) continue;
    CAPTURE(round, instruction.fraction_bits, instruction.chunk);
    REQUIRE(bits(got) == bits(expected));
  }
}

}  // namespace
}  // namespace dgx::test
