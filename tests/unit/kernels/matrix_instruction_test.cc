#include "matrix_instruction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
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

/// The layout of a format's codes: sign, exponent, fraction. The test's own knowledge, not limits_of's.
struct Layout {
  FactorFormat format;
  int width, fraction_bits;
  bool infinite;

  [[nodiscard]] std::uint32_t magnitudes() const { return (1U << (width - 1)) - 1; }
  [[nodiscard]] std::uint32_t sign() const { return 1U << (width - 1); }
};

constexpr std::array<Layout, 4> kLayouts = {{{FactorFormat::kBf16, 16, 7, true},
                                             {FactorFormat::kFp16, 16, 10, true},
                                             {FactorFormat::kE4m3, 8, 3, false},
                                             {FactorFormat::kE5m2, 8, 2, true}}};

/// The number that a code stands for, by arithmetic.
float decoded(const Layout& layout, std::uint32_t code) {
  const std::uint32_t fractions = 1U << layout.fraction_bits;
  const std::uint32_t magnitude = code & layout.magnitudes(), fraction = magnitude % fractions;
  const int exponent_bits = layout.width - 1 - layout.fraction_bits;
  const int stored = static_cast<int>(magnitude / fractions), greatest = (1 << exponent_bits) - 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  float number = stored == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - layout.fraction_bits)
                             : std::ldexp(static_cast<float>(fractions + fraction),
                                          std::min(stored, 2 * bias + 1) - bias - layout.fraction_bits);
  if (layout.infinite && stored == greatest) number = fraction == 0 ? kInfinity : std::nanf("");
  if (!layout.infinite && magnitude == layout.magnitudes()) number = std::nanf("");
  return std::copysign(number, (code & layout.sign()) != 0 ? -1.0F : 1.0F);
}

TEST_CASE("every code is that of its number, which its format has") {
  for (const Layout& layout : kLayouts) {
    int numbers = 0;
    for (std::uint32_t code = 0; code < 2 * layout.sign(); ++code) {
      const float number = decoded(layout, code), factor = as_factor(layout.format, number);
      const std::uint32_t again = code_of(layout.format, number);
      numbers += std::isnan(number) ? 0 : 1;
      const bool same = std::isnan(number) ? std::isnan(factor) && again == (code | layout.magnitudes())
                                           : bits(factor) == bits(number) && again == code;
      if (same) continue;
      CAPTURE(layout.format, code, number, factor);
      FAIL("its code is " << again);
    }
    const int greatest = (1 << layout.fraction_bits) - 1;  // fractions of NaNs beside infinities
    CHECK(numbers == (1 << layout.width) - 2 * (layout.infinite ? greatest : 1));
  }
}

TEST_CASE("a number between two of a format becomes the one nearer to zero") {
  for (const Layout& layout : kLayouts) {
    for (std::uint32_t code = 1; code < 2 * layout.sign(); ++code) {
      const float number = decoded(layout, code);
      if ((code & layout.magnitudes()) == 0 || !std::isfinite(number)) continue;
      const float inner = std::nextafter(number, 0.0F);
      const float outer = std::nextafter(number, std::copysign(kInfinity, number));
      const float below = as_factor(layout.format, inner), above = as_factor(layout.format, outer);
      if (bits(below) == bits(decoded(layout, code - 1)) && bits(above) == bits(number) &&
          code_of(layout.format, inner) == code - 1 && code_of(layout.format, outer) == code)
        continue;
      CAPTURE(layout.format, code, number, below);
      FAIL("what is a little greater becomes " << above);
    }
  }
}

TEST_CASE("a finite number beyond a format's largest becomes that, and an infinity where there is none") {
  CHECK(as_factor(FactorFormat::kFp16, 65536) == 65504);
  CHECK(as_factor(FactorFormat::kFp16, -0x1p127F) == -65504);
  CHECK(as_factor(FactorFormat::kE4m3, 480) == 448);  // 480 would be the code of NaN
  CHECK(as_factor(FactorFormat::kE4m3, -0x1p127F) == -448);
  CHECK(as_factor(FactorFormat::kE5m2, 65536) == 57344);
  CHECK(as_factor(FactorFormat::kBf16, std::numeric_limits<float>::max()) == 0x1.FEp127F);
  CHECK(as_factor(FactorFormat::kTf32, std::numeric_limits<float>::max()) == 0x1.FFCp127F);
  CHECK(as_factor(FactorFormat::kE4m3, kInfinity) == 448);
  CHECK(as_factor(FactorFormat::kE4m3, -kInfinity) == -448);
  for (const auto format :
       {FactorFormat::kBf16, FactorFormat::kTf32, FactorFormat::kFp16, FactorFormat::kE5m2})
    CHECK(as_factor(format, -kInfinity) == -kInfinity);
}

TEST_CASE("the codes of infinities and NaN") {
  const float nan = std::bit_cast<float>(0x7F800001U);
  CHECK(code_of(FactorFormat::kFp16, kInfinity) == 0x7C00);
  CHECK(code_of(FactorFormat::kFp16, -kInfinity) == 0xFC00);
  CHECK(code_of(FactorFormat::kE5m2, kInfinity) == 0x7C);
  CHECK(code_of(FactorFormat::kE4m3, kInfinity) == 0x7E);
  CHECK(code_of(FactorFormat::kE4m3, -kInfinity) == 0xFE);
  CHECK(code_of(FactorFormat::kFp16, nan) == 0x7FFF);
  CHECK(code_of(FactorFormat::kE4m3, nan) == 0x7F);
  CHECK(code_of(FactorFormat::kE5m2, std::bit_cast<float>(0xFF800001U)) == 0xFF);
  CHECK(code_of(FactorFormat::kTf32, 0x1.002002p0F) == bits(0x1.002002p0F));  // with what the format drops
  CHECK(dot({.factors = FactorFormat::kE4m3}, {kInfinity}, {0.5F}, 0) == 224);
  CHECK(dot({.factors = FactorFormat::kE5m2}, {kInfinity}, {0.5F}, 0) == kInfinity);
  CHECK(bits(dot({.factors = FactorFormat::kE4m3}, {nan}, {0}, 0)) == 0x7FC00000U);
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

TEST_CASE("a sum that is cut to zero is +0") {
  CHECK(bits(dot({}, {-0x1p-75F}, {0x1p-74F}, 0)) == bits(-0x1p-149F));
  CHECK(bits(dot({}, {-0x1p-75F}, {0x1p-75F}, 0)) == 0);
  // Half the smallest subnormal is a tie, and zero is even.
  CHECK(bits(dot({.rounding = ResultRounding::kNearestEven}, {-0x1p-75F}, {0x1p-75F}, 0)) == 0);
}

TEST_CASE("a product of subnormal factors has the exponent of the format's smallest normal numbers") {
  // 2^-18 is 6 below the exponent of 2^-6 · 2^-6.
  CHECK(dot({.factors = FactorFormat::kE4m3, .fraction_bits = 6}, {0x1p-9F}, {0x1p-9F}, 0) == 0x1p-18F);
  CHECK(dot({.factors = FactorFormat::kE4m3, .fraction_bits = 5}, {0x1p-9F}, {0x1p-9F}, 0) == 0);
  CHECK(dot({.factors = FactorFormat::kFp16, .fraction_bits = 20}, {0x1p-24F}, {0x1p-24F}, 0) == 0x1p-48F);
  CHECK(dot({.factors = FactorFormat::kFp16, .fraction_bits = 19}, {0x1p-24F}, {0x1p-24F}, 0) == 0);
}

TEST_CASE("a least aligned exponent of -133 leaves nothing below 2^-158") {
  const auto aligned = [](std::int32_t least) {
    return MatrixInstruction{.zeros = ZeroExponent::kNone, .least_aligned = least};
  };
  // 2^-150 and 255 · 2^-158 are 2^-158 less than the smallest subnormal, which two of 2^-159 make up.
  const std::vector<float> halves = {0x1p-75F, 0x1.FEp-76F, 0x1p-80F, 0x1p-80F},
                           others = {0x1p-75F, 0x1p-75F, 0x1p-79F, 0x1p-79F};
  CHECK(dot(aligned(kNoLeast), halves, others, 0) == 0x1p-149F);
  CHECK(dot(aligned(-134), halves, others, 0) == 0x1p-149F);
  CHECK(dot(aligned(-133), halves, others, 0) == 0);
  // One of 2^-158 makes it up as well.
  const std::vector<float> a = {0x1p-75F, 0x1.FEp-76F, 0x1p-79F}, b = {0x1p-75F, 0x1p-75F, 0x1p-79F};
  CHECK(dot(aligned(-133), a, b, 0) == 0x1p-149F);
  CHECK(dot(aligned(-132), a, b, 0) == 0);
  // It is a least one only: these terms are aligned to 2^0.
  CHECK(dot(aligned(-133), {1, 0x1p-12F}, {1, 0x1p-11F}, 0) == 0x1.000002p0F);
}

TEST_CASE("a result may have fewer bits than a binary32") {
  const auto narrow = [](std::int32_t result_bits, ResultRounding rounding) {
    return MatrixInstruction{
        .factors = FactorFormat::kFp16, .rounding = rounding, .result_bits = result_bits};
  };
  const auto truncated = ResultRounding::kTruncated, nearest = ResultRounding::kNearestEven;
  CHECK(dot(narrow(13, truncated), {1}, {0x1p-13F}, 1) == 0x1.0008p0F);
  CHECK(dot(narrow(12, truncated), {1}, {0x1p-13F}, 1) == 1);
  CHECK(dot(narrow(13, truncated), {1, 1}, {0x1p-13F, 1}, 1) == 2);  // counted from the sum's exponent
  CHECK(dot(narrow(12, truncated), {-1.5F}, {0x1p-13F}, -1) == -1);
  CHECK(dot(narrow(12, nearest), {-1.5F}, {0x1p-13F}, -1) == -0x1.001p0F);
  CHECK(dot(narrow(12, nearest), {1}, {0x1p-13F}, 1) == 1);  // ties to even
  CHECK(dot(narrow(12, nearest), {3}, {0x1p-13F}, 1) == 0x1.002p0F);
}

TEST_CASE("widened factors are added in two parts, then c") {
  const MatrixInstruction whole{.factors = FactorFormat::kE4m3};
  MatrixInstruction parts = whole;
  parts.widened = true;
  const std::vector<float> b = {256, 256, 0x1p-6F, 256, 256};
  const std::vector<float> cancelling = {256, -256, 0x1p-4F, 0, 0};  // 2^16 − 2^16 + 2^-10
  CHECK(dot(whole, cancelling, b, 0) == 0);
  CHECK(dot(parts, cancelling, b, 0) == 0x1p-10F);
  // Position 4 is in the first part, as 0 is, and position 3 in the second.
  CHECK(dot(parts, {256, 0, 0x1p-4F, 0, -256}, b, 0) == 0x1p-10F);
  CHECK(dot(parts, {256, 0, 0x1p-4F, -256, 0}, b, 0) == 0);
  // The first part's sum is a term of the second, and not the other way round.
  CHECK(dot(parts, {0x1p-4F, 0, 256, -256}, {0x1p-6F, 0, 256, 256}, 0) == 0);
  // An addition of its own, rounded to nearest, adds c: it cancels nothing before.
  CHECK(dot(whole, {1, 0, 2}, {1, 0, 1}, 0x1p24F) == 0x1p24F + 2);
  CHECK(dot(parts, {1, 0, 2}, {1, 0, 1}, 0x1p24F) == 0x1p24F + 4);
  CHECK(dot(parts, {256, 0, 0x1p-4F, 0, 0}, b, -0x1p16F) == 0);
  // A subnormal e4m3 is a normal fp16, so its product has its own exponent; what e4m3 drops stays dropped.
  parts.fraction_bits = 5;
  CHECK(dot(parts, {0x1p-9F}, {0x1p-9F}, 0) == 0x1p-18F);
  CHECK(dot(parts, {0x1.FFp0F}, {1}, 0) == 0x1.Ep0F);
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

/// The four elements of an H200's bf16 products, of some fifteen million of subnormal factors, that refuted
/// the hypothesis without a least aligned exponent (dgx-proposal(7), MEASURED). c is 0.
struct Refuting {
  int seed = 0;
  float gpu = 0, without_least = 0;
  std::array<float, 16> a{}, b{};
};
const Refuting kRefuting[] = {
    {2,
     -0x1.9e02p-133F,
     -0x1.9e01p-133F,
     {-0x1.9ep-70F, -0x1p-56F, -0x1.c2p-62F, 0x1.4p-73F, 0x1.acp-127F, -0x1.dcp-64F, 0x1.f4p-65F,
      -0x1.a6p-125F, -0x1.d8p-71F, -0x1p-132F, -0x1.42p-125F, 0x1.c8p-126F, -0x1.cp-126F, -0x1.8cp-69F,
      0x1.e4p-62F, -0x1.a2p-75F},
     {0x1.7cp-72F, -0x1.18p-124F, 0x1.74p-127F, 0x1.c6p-126F, 0x1.f4p-62F, 0x1.d6p-71F, -0x1.88p-70F,
      0x1.44p-71F, 0x1.ap-70F, -0x1.5p-129F, 0x1.8p-132F, 0x1.8ap-65F, -0x1.c8p-61F, 0x1.72p-124F,
      -0x1.b4p-127F, -0x1.66p-71F}},
    {3,
     0x1.199ap-134F,
     0x1.1998p-134F,
     {-0x1.8p-132F, 0x1.c2p-72F, 0x1.7p-128F, -0x1.f8p-67F, 0x1.f4p-126F, -0x1.b4p-58F, 0x1.b8p-71F,
      -0x1.76p-65F, 0x1.4p-131F, -0x1.bp-129F, 0x1.4cp-127F, 0x1.c2p-65F, 0x1.8cp-74F, -0x1.b6p-74F,
      0x1.48p-127F, 0x1.ecp-64F},
     {0x1.4cp-58F, -0x1.82p-67F, -0x1.6p-70F, 0x1.1ap-70F, -0x1.aep-62F, 0x1.2p-127F, 0x1.c4p-126F,
      0x1.62p-72F, 0x1.4p-131F, 0x1.cp-129F, -0x1.ep-128F, 0x1.12p-72F, -0x1.c2p-74F, 0x1.6p-130F,
      -0x1.76p-75F, 0x1.88p-71F}},
    {4,
     0x1.064p-135F,
     0x1.063cp-135F,
     {0x1.26p-66F, 0x1.a6p-75F, -0x1.5cp-71F, -0x1.5ep-63F, -0x1.8cp-70F, -0x1.6ap-125F, 0x1.d4p-126F,
      0x1.56p-65F, -0x1.9ap-61F, -0x1.64p-124F, 0x1.5cp-74F, 0x1.46p-124F, -0x1p-133F, -0x1.6p-73F,
      -0x1.76p-73F, 0x1.26p-71F},
     {-0x1.9ep-75F, -0x1.aep-75F, -0x1.1p-128F, -0x1.12p-74F, -0x1.6p-130F, 0x1.bp-61F, 0x1.66p-74F,
      -0x1p-132F, 0x1.b8p-125F, -0x1.34p-74F, 0x1.b8p-75F, 0x1.02p-125F, -0x1.6ap-126F, 0x1.cp-131F,
      -0x1.18p-66F, 0x1.06p-65F}},
    {6,
     -0x1.a7d8p-136F,
     -0x1.a7dp-136F,
     {0x1.4cp-73F, -0x1.0cp-127F, 0x1.2ep-71F, -0x1.86p-68F, 0x1.48p-128F, -0x1.b6p-124F, -0x1.8p-132F,
      -0x1.bcp-75F, -0x1.7ap-71F, -0x1.dep-124F, 0x1.cp-75F, -0x1.a2p-75F, 0x1.4ep-75F, -0x1.ep-70F,
      0x1.dcp-126F, -0x1p-126F},
     {0x1.d6p-65F, 0x1.a6p-57F, 0x1.66p-65F, 0x1.76p-67F, -0x1.4p-131F, 0x1.04p-64F, 0x1.8p-73F, 0x1.d6p-65F,
      -0x1.0ap-70F, -0x1.7ap-64F, 0x1.e2p-70F, -0x1.cap-74F, 0x1.1cp-70F, -0x1.7ap-68F, -0x1.4p-67F,
      -0x1.4ep-58F}}};

TEST_CASE("the least aligned exponent of bf16 products is -133: four elements of a GPU") {
  int agree_with_134 = 0, agree_with_132 = 0;
  for (const Refuting& element : kRefuting) {
    INFO("seed " << element.seed);
    MatrixInstruction instruction{.fraction_bits = 25, .chunk = 16, .zeros = ZeroExponent::kNone};
    const auto result = [&](std::int32_t least) {
      instruction.least_aligned = least;
      return fused_dot(instruction, element.a, element.b, 0);
    };
    CHECK(result(kNoLeast) == element.without_least);
    CHECK(result(-133) == element.gpu);
    agree_with_134 += result(-134) == element.gpu ? 1 : 0;
    agree_with_132 += result(-132) == element.gpu ? 1 : 0;
  }
  CHECK(agree_with_134 == 1);
  // Other elements, on which the GPU agreed with the hypothesis without a least one, speak against -132.
  CHECK(agree_with_132 == 4);
}

}  // namespace
}  // namespace dgx::test
