#include "dgx/kernels/functions.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dgx/kernels/function_pairs.h"
#include "function_spans.h"

namespace dgx::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
constexpr float kGreatest = std::numeric_limits<float>::max();
constexpr std::uint32_t kCanonicalNan = 0x7FC00000U;

using Function = float (*)(float);

struct Case {
  float x;
  float value;
};

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

void check(Function function, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    INFO("argument bits 0x" << std::hex << bits_of(c.x));
    CHECK(bits_of(function(c.x)) == bits_of(c.value));
  }
}

/// The library's bits for a NaN: a comparison of floats would not reveal them.
const float kNan = std::bit_cast<float>(kCanonicalNan);

// The values in this file were computed with MPFR 4.2 to 300 bits and rounded once.
TEST_CASE("log is right where a double's value is a midpoint of floats") {
  check(log_f32, {{0x1.827a74p-7F, -0x1.1c2b1ep+2F},
                  {0x1.2f1fd6p+3F, 0x1.1fcbcep+1F},
                  {0x1.bacb4ap+25F, 0x1.1e0696p+4F},
                  {0x1.b121a6p+76F, 0x1.a9a3f2p+5F},
                  {0x1.6351d8p+95F, 0x1.08b512p+6F}});
}

TEST_CASE("log1p is right at its exceptional arguments") {
  check(log1p_f32, {{0x1.800006p-21F, 0x1.7ffffep-21F},
                    {0x1.200036p-17F, 0x1.1fffe6p-17F},
                    {0x1.fb035ap-2F, 0x1.9bddc2p-2F},
                    {-0x1.7ffffap-21F, -0x1.800002p-21F},
                    {-0x1.1fffcap-17F, -0x1.20001ap-17F},
                    {-0x1.1d9188p-9F, -0x1.1de14ap-9F}});
}

TEST_CASE("sin and cos are right at their exceptional arguments") {
  check(sin_f32, {{0x1.33333p+13F, -0x1.63f4bap-2F}, {-0x1.33333p+13F, 0x1.63f4bap-2F}});
  check(cos_f32, {{0x1.3170fp+63F, 0x1.fe2976p-1F},
                  {-0x1.3170fp+63F, 0x1.fe2976p-1F},
                  {0x1.2b9622p+67F, 0x1.f0285ep-1F},
                  {-0x1.2b9622p+67F, 0x1.f0285ep-1F}});
}

TEST_CASE("erf is right at its exceptional arguments") {
  check(erf_f32, {{0x1.81d5acp-13F, 0x1.b35e28p-13F}, {-0x1.81d5acp-13F, -0x1.b35e28p-13F}});
}

TEST_CASE("sin and cos reduce arguments that are huge or nearly a multiple of pi/2") {
  check(sin_f32, {{0x1.fffffep+127F, -0x1.0b3366p-1F},
                  {0x1.f37c8ap+95F, 0x1p+0F},
                  {-0x1p+127F, -0x1.3f2c62p-1F},
                  {0x1.921fb6p+0F, 0x1p+0F},
                  {0x1.921fb6p+1F, -0x1.777a5cp-24F},
                  {0x1.6c6cbcp+45F, -0x1.f2882ep-1F},
                  {0x1.fffffep+16F, -0x1.ffb2f2p-1F},
                  {0x1p+17F, -0x1.ff8bd8p-1F}});
  check(cos_f32, {{0x1.fffffep+127F, 0x1.b4bf2cp-1F},
                  {0x1.f37c8ap+95F, -0x1.bbdd52p-30F},
                  {-0x1p+127F, 0x1.90571ep-1F},
                  {0x1.921fb6p+0F, -0x1.777a5cp-25F},
                  {0x1.921fb6p+1F, -0x1p+0F},
                  {0x1.6c6cbcp+45F, -0x1.d2a552p-3F},
                  {0x1.fffffep+16F, 0x1.18dad4p-5F},
                  {0x1p+17F, 0x1.58ced6p-5F}});
}

TEST_CASE("overflow and underflow begin at the right argument") {
  check(exp_f32, {{0x1.62e42ep+6F, 0x1.ffff08p+127F},
                  {0x1.62e43p+6F, kInfinity},
                  {-0x1.5d589ep+6F, 0x1.00004cp-126F},
                  {-0x1.5d58ap+6F, 0x1.ffff98p-127F},
                  {-0x1.9fe368p+6F, 0x1p-149F},
                  {-0x1.9fe36ap+6F, 0.0F}});
  check(expm1_f32, {{0x1.62e42ep+6F, 0x1.ffff08p+127F},
                    {0x1.62e43p+6F, kInfinity},
                    {-0x1.154244p+4F, -0x1.fffffep-1F},
                    {-0x1.154246p+4F, -0x1p+0F}});
  check(tanh_f32, {{0x1.205966p+3F, 0x1.fffffep-1F}, {0x1.205968p+3F, 0x1p+0F}});
  check(erf_f32, {{0x1.f5a888p+1F, 0x1.fffffep-1F}, {0x1.f5a88ap+1F, 0x1p+0F}});
}

TEST_CASE("subnormal arguments and values are kept") {
  for (const Function odd : {expm1_f32, log1p_f32, sin_f32, tanh_f32}) {
    check(odd, {{kSmallest, kSmallest}, {-kSmallest, -kSmallest}, {0x1.8p-130F, 0x1.8p-130F}});
  }
  check(erf_f32, {{0x1p-149F, 0x1p-149F},
                  {-0x1p-149F, -0x1p-149F},
                  {0x1.8p-130F, 0x1.b14c2p-130F},
                  {0x1p-126F, 0x1.20dd76p-126F}});
  check(log_f32,
        {{0x1p-149F, -0x1.9d1dap+6F}, {0x1.8p-130F, -0x1.66d08ep+6F}, {0x1.fffffcp-127F, -0x1.5d58ap+6F}});
  check(exp_f32, {{kSmallest, 1.0F}, {-kSmallest, 1.0F}});
  check(cos_f32, {{kSmallest, 1.0F}, {-kSmallest, 1.0F}});
}

TEST_CASE("zeros keep their sign in odd functions") {
  for (const Function odd : {expm1_f32, log1p_f32, sin_f32, tanh_f32, erf_f32}) {
    check(odd, {{0.0F, 0.0F}, {-0.0F, -0.0F}});
  }
  for (const Function even : {exp_f32, cos_f32}) check(even, {{0.0F, 1.0F}, {-0.0F, 1.0F}});
  check(log_f32, {{0.0F, -kInfinity}, {-0.0F, -kInfinity}, {1.0F, 0.0F}});
}

TEST_CASE("infinities have the limits as values") {
  check(exp_f32, {{kInfinity, kInfinity}, {-kInfinity, 0.0F}});
  check(expm1_f32, {{kInfinity, kInfinity}, {-kInfinity, -1.0F}});
  check(log_f32, {{kInfinity, kInfinity}, {-kInfinity, kNan}});
  check(log1p_f32, {{kInfinity, kInfinity}, {-kInfinity, kNan}, {-1.0F, -kInfinity}});
  check(sin_f32, {{kInfinity, kNan}, {-kInfinity, kNan}});
  check(cos_f32, {{kInfinity, kNan}, {-kInfinity, kNan}});
  check(tanh_f32, {{kInfinity, 1.0F}, {-kInfinity, -1.0F}});
  check(erf_f32, {{kInfinity, 1.0F}, {-kInfinity, -1.0F}});
}

TEST_CASE("arguments outside the domain give the one NaN") {
  check(log_f32, {{-kSmallest, kNan}, {-1.0F, kNan}, {-kGreatest, kNan}});
  check(log1p_f32, {{-0x1.000002p+0F, kNan}, {-2.0F, kNan}, {-kGreatest, kNan}});
}

TEST_CASE("every NaN argument gives the one NaN") {
  for (const std::uint32_t bits :
       {0x7FC00000U, 0xFFC00000U, 0x7F800001U, 0xFF800001U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    for (const Function f : {exp_f32, expm1_f32, log_f32, log1p_f32, sin_f32, cos_f32, tanh_f32, erf_f32}) {
      INFO("argument bits 0x" << std::hex << bits);
      CHECK(bits_of(f(std::bit_cast<float>(bits))) == kCanonicalNan);
    }
  }
}

/// A fixed sequence of 32-bit words (splitmix64's high halves).
class Words {
 public:
  explicit Words(std::uint64_t seed) : state_(seed) {}
  std::uint32_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
  }

 private:
  std::uint64_t state_;
};

/// Arguments of every kind: any bits, and moderate ones, for which the functions are not constant.
std::vector<float> arguments(std::size_t count, std::uint64_t seed) {
  std::vector<float> x(count);
  Words words(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = words.next();
    const std::uint32_t exponent = 110 + (word >> 23) % 25;  // 2^-17 to 2^8
    x[i] = std::bit_cast<float>(i % 2 == 0 ? word : (word & 0x807FFFFFU) | exponent << 23);
  }
  return x;
}

std::size_t first_difference(const dgx::testing::FunctionForms& form, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  form.span(x.data(), y.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (bits_of(y[i]) != bits_of(form.scalar(x[i]))) return i;
  }
  return x.size();
}

TEST_CASE("vectors give the bits of the scalar functions on every instruction set") {
  constexpr std::uint64_t kSeed = 20260117;
  INFO("seed " << kSeed);
  for (const auto& form : dgx::testing::function_forms()) {
    // If the vector form calls the scalar one, only the calling code can be wrong.
    const std::vector<float> x = arguments(form.vectorised ? 1'000'003 : 10'007, kSeed);
    INFO(form.name << " on " << form.target);
    CHECK(first_difference(form, x) == x.size());
  }
}

/// Arguments at which a formula begins, ends or changes, and their neighbours.
std::vector<float> edges() {
  std::vector<float> x;
  for (const float e :
       {0.0F, kSmallest, 0x1p-126F, 1.0F, 0.75F, 0x1.78p-1F, 10.0F, 3.9999F, 89.0F, 105.0F, 30.0F, 0x1p17F,
        0x1.33333p+13F, 0x1.3170fp+63F, kGreatest, kInfinity, kNan, 0x1.800006p-21F, 0x1.81d5acp-13F}) {
    for (const int step : {-1, 0, 1}) {
      const auto near = std::bit_cast<float>(bits_of(e) + static_cast<std::uint32_t>(step));
      x.push_back(near);
      x.push_back(-near);
    }
  }
  return x;
}

TEST_CASE("vectors give the bits of the scalar functions at edges") {
  const std::vector<float> x = edges();
  for (const auto& form : dgx::testing::function_forms()) {
    INFO(form.name << " on " << form.target);
    const std::size_t i = first_difference(form, x);
    if (i != x.size()) INFO("argument bits 0x" << std::hex << bits_of(x[i]));
    CHECK(i == x.size());
  }
}

/// A function computed by pairs of floats (function_pairs.h), and its definition.
struct PairForm {
  const char* name;
  formula::pairs::Rounded (*by_pairs)(float);
  Function definition;
};

const PairForm kPairForms[] = {
    {"exp", &formula::pairs::exp, &exp_f32},    {"expm1", &formula::pairs::expm1, &expm1_f32},
    {"log", &formula::pairs::log, &log_f32},    {"log1p", &formula::pairs::log1p, &log1p_f32},
    {"sin", &formula::pairs::sin, &sin_f32},    {"cos", &formula::pairs::cos, &cos_f32},
    {"tanh", &formula::pairs::tanh, &tanh_f32}, {"erf", &formula::pairs::erf, &erf_f32},
};

/// Counts the arguments that pairs leave to the definition; fails if they are certain and wrong.
std::size_t check_pairs(const PairForm& form, const std::vector<float>& x) {
  std::size_t uncertain = 0, wrong = 0;
  for (const float argument : x) {
    const formula::pairs::Rounded got = form.by_pairs(argument);
    uncertain += got.certain ? 0 : 1;
    if (!got.certain || bits_of(got.value) == bits_of(form.definition(argument)) || ++wrong > 5) continue;
    INFO(form.name << " of argument bits 0x" << std::hex << bits_of(argument));
    CHECK(bits_of(got.value) == bits_of(form.definition(argument)));
  }
  CHECK(wrong == 0);
  return uncertain;
}

TEST_CASE("pairs of floats are certain of nothing but the value") {
  std::vector<float> x = edges();
  for (const float e : {87.25F, 88.72284F, 103.97208F, 18.0F, 9.5F, 9.010913F, 3.9375F, 3.919206F, 0x1p-100F,
                        0x1p16F, 0x1.0p-7F, 0x1.62e43p-7F}) {
    for (const std::uint32_t step : {0xFFFFFFFFU, 0U, 1U}) {
      x.push_back(std::bit_cast<float>(bits_of(e) + step));
      x.push_back(-x.back());
    }
  }
  for (std::uint32_t high = 0; high < 1U << 16; ++high)
    x.push_back(std::bit_cast<float>(high << 16 | (high * 40503U & 0xFFFFU)));
  for (const float drawn : arguments(1U << 19, 20261122)) x.push_back(drawn);
  for (const PairForm& form : kPairForms) check_pairs(form, x);
}

TEST_CASE("pairs of floats know nearly all values where functions are not constant") {
  std::vector<float> x = arguments(1U << 18, 7);
  for (float& argument : x) {
    while (!(std::fabs(argument) < 64.0F)) argument = std::isfinite(argument) ? argument * 0x1p-8F : 1.0F;
    if (std::fabs(argument) < 0x1p-64F) argument = 0.0F;
  }
  for (const PairForm& form : kPairForms) {
    INFO(form.name);
    CHECK(check_pairs(form, x) < x.size() >> 12);
  }
}

TEST_CASE("functions by pairs are those of the definition, asked or not") {
  using formula::PairFunctions;
  CHECK(PairFunctions::exp(-90.0F) == exp_f32(-90.0F));
  CHECK(PairFunctions::sin(0x1p80F) == sin_f32(0x1p80F));
  CHECK(PairFunctions::log(0x1p-140F) == log_f32(0x1p-140F));
  CHECK(PairFunctions::erf(0x1p-140F) == erf_f32(0x1p-140F));
  CHECK(PairFunctions::tanh(0.5F) == tanh_f32(0.5F));
}

}  // namespace
}  // namespace dgx::kernels
