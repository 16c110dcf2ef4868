#include "dgx/kernels/cpu/strip.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/kernels/scalar.h"
#include "instruction_sets.h"

namespace dgx::kernels::cpu {
namespace {

struct Case {
  StripOp strip;
  ScalarOp scalar;
};

constexpr Case kFloatCases[] = {{StripOp::kAddF, ScalarOp::kAdd},     {StripOp::kSubF, ScalarOp::kSub},
                                {StripOp::kMulF, ScalarOp::kMul},     {StripOp::kDivF, ScalarOp::kDiv},
                                {StripOp::kFmaF, ScalarOp::kFma},     {StripOp::kSqrtF, ScalarOp::kSqrt},
                                {StripOp::kNegF, ScalarOp::kNeg},     {StripOp::kAbsF, ScalarOp::kAbs},
                                {StripOp::kMaxF, ScalarOp::kMax},     {StripOp::kMinF, ScalarOp::kMin},
                                {StripOp::kFloorF, ScalarOp::kFloor}, {StripOp::kTruncF, ScalarOp::kTrunc},
                                {StripOp::kRintF, ScalarOp::kRint},   {StripOp::kExpF, ScalarOp::kExp},
                                {StripOp::kExpm1F, ScalarOp::kExpm1}, {StripOp::kLogF, ScalarOp::kLog},
                                {StripOp::kLog1pF, ScalarOp::kLog1p}, {StripOp::kSinF, ScalarOp::kSin},
                                {StripOp::kCosF, ScalarOp::kCos},     {StripOp::kTanhF, ScalarOp::kTanh},
                                {StripOp::kErfF, ScalarOp::kErf}};

constexpr Case kIntegerCases[] = {
    {StripOp::kAddI, ScalarOp::kAdd}, {StripOp::kSubI, ScalarOp::kSub},   {StripOp::kMulI, ScalarOp::kMul},
    {StripOp::kNegI, ScalarOp::kNeg}, {StripOp::kAbsI, ScalarOp::kAbs},   {StripOp::kMaxI, ScalarOp::kMax},
    {StripOp::kMinI, ScalarOp::kMin}, {StripOp::kIdivI, ScalarOp::kIdiv}, {StripOp::kImodI, ScalarOp::kImod}};

constexpr ScalarOp kComparisons[] = {ScalarOp::kEq, ScalarOp::kNe, ScalarOp::kLt,
                                     ScalarOp::kLe, ScalarOp::kGt, ScalarOp::kGe};

/// Random bits, so including subnormals, infinities, NaNs and both zeros, and ordinary numbers.
std::vector<float> random_floats(std::mt19937_64& random, std::size_t count) {
  std::vector<float> numbers(count);
  std::uniform_real_distribution<float> ordinary(-4, 4);
  constexpr float kSpecial[] = {0.0F,      -0.0F, 1.0F,      -1.0F,      INFINITY,
                                -INFINITY, NAN,   0x1p-149F, -0x1p-130F, 2.5F};
  for (float& x : numbers) {
    const auto kind = random() % 4;
    x = kind == 0   ? std::bit_cast<float>(static_cast<std::uint32_t>(random()))
        : kind == 1 ? kSpecial[random() % std::size(kSpecial)]
                    : ordinary(random);
  }
  return numbers;
}

std::vector<std::int64_t> random_integers(std::mt19937_64& random, std::size_t count) {
  std::vector<std::int64_t> numbers(count);
  constexpr std::int64_t kSpecial[] = {0, 1, -1, std::numeric_limits<std::int64_t>::min(),
                                       std::numeric_limits<std::int64_t>::max()};
  for (auto& x : numbers) {
    const auto kind = random() % 3;
    x = kind == 0   ? static_cast<std::int64_t>(random())
        : kind == 1 ? kSpecial[random() % std::size(kSpecial)]
                    : static_cast<std::int64_t>(random() % 21) - 10;
  }
  return numbers;
}

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(canonical_nan(x)); }

void run_one(StripOp op, void* out, void* a, void* b, void* c, std::int64_t count) {
  void* registers[] = {out, a, b, c};
  run_strip({{op, 0, {1, 2, 3}}}, registers, count);
}

/// Counts that end differently within a vector on some instruction set, and the longest.
constexpr std::int64_t kCounts[] = {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, kStripLength};

TEST_CASE("a strip instruction gives each lane what the scalar operation gives, on every instruction set") {
  std::mt19937_64 random(20);
  constexpr auto kLength = static_cast<std::size_t>(kStripLength);
  test::with_every_instruction_set([&](InstructionSet set) {
    for (const std::int64_t count : kCounts) {
      auto a = random_floats(random, kLength);
      auto b = random_floats(random, kLength);
      auto c = random_floats(random, kLength);
      auto i = random_integers(random, kLength);
      auto j = random_integers(random, kLength);
      std::vector<float> out(kLength);
      std::vector<std::int64_t> integers(kLength);
      std::vector<std::int32_t> masks(kLength);
      for (const Case& op : kFloatCases) {
        run_one(op.strip, out.data(), a.data(), b.data(), c.data(), count);
        for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
          INFO(name_of(set) << " " << name_of(op.scalar) << " of " << a[n] << ", " << b[n] << ", " << c[n]);
          if (bits(out[n]) != bits(apply_real(op.scalar, a[n], b[n], c[n]))) FAIL();
        }
      }
      for (const Case& op : kIntegerCases) {
        run_one(op.strip, integers.data(), i.data(), j.data(), nullptr, count);
        for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
          INFO(name_of(set) << " " << name_of(op.scalar) << " of " << i[n] << ", " << j[n]);
          if (integers[n] != apply_integer(op.scalar, i[n], j[n])) FAIL();
        }
      }
      for (int k = 0; k < 6; ++k) {
        run_one(static_cast<StripOp>(static_cast<int>(StripOp::kEqF) + k), masks.data(), a.data(), b.data(),
                nullptr, count);
        for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
          if (masks[n] != -compare(kComparisons[k], a[n], b[n])) FAIL(name_of(kComparisons[k]));
        }
        run_one(StripOp::kSelectF, out.data(), masks.data(), a.data(), c.data(), count);
        for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
          if (bits(out[n]) != bits(masks[n] != 0 ? a[n] : c[n])) FAIL("select");
        }
      }
    }
  });
}

/// A random operation of a chain, or one that ends it.
StripOp random_operation(std::mt19937_64& random) {
  constexpr StripOp kOperations[] = {
      StripOp::kAddF,   StripOp::kSubF,        StripOp::kMulF,  StripOp::kDivF, StripOp::kFmaF,
      StripOp::kSqrtF,  StripOp::kNegF,        StripOp::kAbsF,  StripOp::kMaxF, StripOp::kMinF,
      StripOp::kFloorF, StripOp::kTruncF,      StripOp::kRintF, StripOp::kEqF,  StripOp::kNeF,
      StripOp::kLtF,    StripOp::kLeF,         StripOp::kGtF,   StripOp::kGeF,  StripOp::kSelectF,
      StripOp::kAndM,   StripOp::kOrM,         StripOp::kNotM,  StripOp::kFmaF, StripOp::kMulF,
      StripOp::kTanhF,  StripOp::kCheckFinite, StripOp::kEqI,   StripOp::kNeI,  StripOp::kLtI,
      StripOp::kLeI,    StripOp::kGtI,         StripOp::kGeI};
  return kOperations[random() % std::size(kOperations)];
}

bool takes_masks(StripOp op) { return op == StripOp::kAndM || op == StripOp::kOrM || op == StripOp::kNotM; }
bool takes_integers(StripOp op) { return op >= StripOp::kEqI && op <= StripOp::kGeI; }
bool makes_mask(StripOp op) {
  return takes_masks(op) || takes_integers(op) || (op >= StripOp::kEqF && op <= StripOp::kGeF);
}

constexpr std::int32_t kInputs = 4;  // registers of numbers, then as many of masks, then of integers
constexpr std::int32_t kFirstOut = 3 * kInputs;

/// A program of `length` instructions, each of which tends to read its predecessor's result; register
/// kFirstOut + n is instruction n's.
std::vector<StripInstruction> random_program(std::mt19937_64& random, std::int32_t length) {
  std::vector<StripInstruction> program;
  std::vector<std::int32_t> numbers = {0, 1, 2, 3}, masks = {4, 5, 6, 7};
  const auto pick = [&](const std::vector<std::int32_t>& from) {
    return random() % 2 == 0 ? from.back() : from[random() % from.size()];
  };
  for (std::int32_t n = 0; n < length; ++n) {
    const StripOp op = random_operation(random);
    StripInstruction instruction{op, kFirstOut + n, {}};
    for (int k = 0; k < 3; ++k) {
      const bool mask = takes_masks(op) || (op == StripOp::kSelectF && k == 0);
      instruction.in[k] = takes_integers(op) ? 2 * kInputs + static_cast<std::int32_t>(random() % kInputs)
                                             : pick(mask ? masks : numbers);
    }
    program.push_back(instruction);
    if (op != StripOp::kCheckFinite) (makes_mask(op) ? masks : numbers).push_back(instruction.out);
  }
  return program;
}

TEST_CASE("instructions that pass over a strip together make what they make alone") {
  std::mt19937_64 random(31);
  constexpr auto kLength = static_cast<std::size_t>(kStripLength);
  constexpr std::int32_t kInstructions = 12;
  test::with_every_instruction_set([&](InstructionSet set) {
    for (int round = 0; round < 400; ++round) {
      const auto program = random_program(random, 1 + static_cast<std::int32_t>(random() % kInstructions));
      const std::int64_t count =
          round % 4 == 0 ? kStripLength : 1 + static_cast<std::int64_t>(random() % kStripLength);
      std::vector<std::vector<float>> alone(kFirstOut + kInstructions, std::vector<float>(2 * kLength, 0));
      for (std::int32_t r = 0; r < kInputs; ++r) {
        alone[static_cast<std::size_t>(r)] = random_floats(random, kLength);
        const auto integers = random_integers(random, kLength);
        std::memcpy(alone[static_cast<std::size_t>(2 * kInputs + r)].data(), integers.data(),
                    kLength * sizeof(std::int64_t));
        for (float& mask : alone[static_cast<std::size_t>(kInputs + r)])
          mask = std::bit_cast<float>(random() % 2 == 0 ? 0u : ~0u);
      }
      const auto run = [&](const std::vector<StripInstruction>& of,
                           std::vector<std::vector<float>>& registers) {
        std::vector<void*> pointers;
        for (auto& reg : registers) pointers.push_back(reg.data());
        run_strip(of, pointers.data(), count);
      };
      std::vector<StripUse> uses(alone.size());
      for (StripUse& use : uses) use.stored = random() % 2 == 0;
      for (const std::size_t one_number : {std::size_t{1}, std::size_t{2}}) {
        uses[one_number].uniform = true;
        alone[one_number].assign(kLength, alone[one_number][0]);
      }
      uses[2 * kInputs].uniform = true;
      const std::vector<std::int64_t> one_integer(kLength, static_cast<std::int64_t>(random() % 3) - 1);
      std::memcpy(alone[2 * kInputs].data(), one_integer.data(), kLength * sizeof(std::int64_t));
      auto together = alone;
      auto chained = program;
      link_chains(chained, uses);
      run(program, alone);
      run(chained, together);
      for (const StripInstruction& instruction : program) {
        const auto out = static_cast<std::size_t>(instruction.out);
        if (!uses[out].stored && instruction.op != StripOp::kCheckFinite) continue;
        for (std::size_t i = 0; i < kLength; ++i) {
          INFO(name_of(set) << ", element " << i << " of " << count << ", register " << out);
          const bool flags = instruction.op == StripOp::kCheckFinite || makes_mask(instruction.op);
          const auto bits_of = [&](float x) { return flags ? std::bit_cast<std::uint32_t>(x) : bits(x); };
          if (bits_of(alone[out][i]) != bits_of(together[out][i])) FAIL();
        }
      }
    }
  });
}

TEST_CASE("a strip is flagged exactly when one of its elements is infinite or NaN") {
  test::with_every_instruction_set([&](InstructionSet set) {
    for (const std::int64_t count : kCounts) {
      std::vector<float> x(static_cast<std::size_t>(count), std::numeric_limits<float>::max());
      std::uint32_t flag = 0;
      run_one(StripOp::kCheckFinite, &flag, x.data(), nullptr, nullptr, count);
      CHECK(flag == 0);
      for (float bad : {INFINITY, -INFINITY, NAN}) {
        for (std::size_t n = 0; n<x.size(); n += x.size()> 40 ? 37 : 1) {
          flag = 0;
          std::swap(x[n], bad);
          run_one(StripOp::kCheckFinite, &flag, x.data(), nullptr, nullptr, count);
          std::swap(x[n], bad);
          if (flag == 0) FAIL(name_of(set) << " missed element " << n << " of " << count);
        }
      }
    }
  });
}

TEST_CASE("fma of subnormal numbers has the bits of the definition") {
  std::mt19937_64 random(29);
  const auto tiny = [&] {
    const auto bits = static_cast<std::uint32_t>(random());
    return std::bit_cast<float>((bits & 0x80000000u) | ((bits & 0x007fffffu) >> random() % 23));
  };
  // Factors around one half, so that many products lie between two subnormals, and their neighbours.
  const auto factor = [&] {
    constexpr float kFactors[] = {0.5F,           0.9F,     0.25F,     1.0F,    0x1.000002p-1F,
                                  0x1.fffffep-2F, 0x1p-20F, 0x1.8p-3F, 0x1p31F, 0.0F};
    if (random() % 4 == 0) return std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    return random() % 2 == 0 ? kFactors[random() % std::size(kFactors)]
                             : -kFactors[random() % std::size(kFactors)];
  };
  const auto addend = [&] {
    constexpr float kAddends[] = {0.0F, -0.0F,    0x1p-60F, 0x1p-61F, 0x1.fffffep-60F,
                                  3.0F, INFINITY, 0x1p-149F};
    return random() % 4 == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(random()))
                             : kAddends[random() % std::size(kAddends)];
  };
  test::with_every_instruction_set([&](InstructionSet set) {
    for (int round = 0; round < 2000; ++round) {
      std::vector<float> x(61), y(61), z(61), out(61);
      for (std::size_t i = 0; i < out.size(); ++i) {
        x[i] = tiny();
        y[i] = factor();
        z[i] = addend();
        if (random() % 2 == 0) std::swap(x[i], y[i]);
      }
      void* const registers[] = {x.data(), y.data(), z.data(), out.data()};
      run_strip({{StripOp::kFmaF, 3, {0, 1, 2}}}, registers, 61);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const float expected = std::fma(x[i], y[i], z[i]);
        const bool same = std::bit_cast<std::uint32_t>(out[i]) == std::bit_cast<std::uint32_t>(expected);
        if (!same && !(std::isnan(out[i]) && std::isnan(expected))) {
          FAIL(name_of(set) << ": fma(" << x[i] << ", " << y[i] << ", " << z[i] << ") is " << out[i]);
        }
      }
    }
  });
}

}  // namespace
}  // namespace dgx::kernels::cpu
