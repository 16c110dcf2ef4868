#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "dgx/exec/executor.h"
#include "dgx/kernels/scalar.h"
#include "form_text.h"
#include "instruction_sets.h"
#include "run_program.h"

namespace dgx::test {

inline std::shared_ptr<const program::Program> program_of(const std::vector<FormInput>& inputs,
                                                          const std::vector<std::string>& lines) {
  const std::string text = program_text(inputs, lines);
  const auto program = program::parse_program(text);
  INFO(text);
  if (!program.ok()) FAIL(program.error().message);
  return std::make_shared<const program::Program>(*program);
}

/// Numbers of all magnitudes, including zeros of both signs and subnormals.
inline Tensor random_tensor(const FormInput& input, std::mt19937& random) {
  Tensor tensor(input.dtype, input.shape);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const unsigned kind = random() % 64;
    const float scale = kind == 0 ? 0.0F : kind == 1 ? -0.0F : kind == 2 ? 1e-41F : kind == 3 ? 1e15F : 1.0F;
    const auto integer =
        static_cast<std::int64_t>(random() % static_cast<unsigned>(std::max<std::int64_t>(1, input.below)));
    if (input.dtype == DType::kF32) tensor.as<float>()[at] = normal(random) * scale;
    if (input.dtype == DType::kI64) tensor.as<std::int64_t>()[at] = integer;
    if (input.dtype == DType::kU8) tensor.bytes()[at] = static_cast<std::uint8_t>(integer);
  }
  return tensor;
}

/// The input that contains infinities and NaN.
enum class NotFinite : std::uint8_t { kNone, kFirst, kSecond };

inline void spoil(Tensor& tensor, std::mt19937& random) {
  for (const float number : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()}) {
    tensor.as<float>()[random() % static_cast<std::size_t>(tensor.count())] = number;
  }
}

/// The bytes of an evaluator's value, with each NaN replaced by the canonical one. Inside an evaluation a NaN
/// may have any payload; stored values, traces and states have only the canonical one (matrix/run.cc and
/// executor_test.cc compare their bits).
inline std::vector<std::uint8_t> stored(std::span<const std::uint8_t> bytes, DType dtype) {
  std::vector<std::uint8_t> out(bytes.begin(), bytes.end());
  for (std::size_t i = 0; dtype == DType::kF32 && i < out.size(); i += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, &out[i], sizeof number);
    number = kernels::canonical_nan(number);
    std::memcpy(&out[i], &number, sizeof number);
  }
  return out;
}

/// Checks that the program's last value has the definition's bits for every instruction set and 1, 2 and 3
/// threads, and that no value takes the generic path. Returns explain().
inline std::string check_form(const std::vector<FormInput>& inputs, const std::vector<std::string>& lines,
                              unsigned seed = 1, NotFinite spoilt = NotFinite::kNone) {
  const auto program = program_of(inputs, lines);
  std::mt19937 random(seed);
  State state;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    state.push_back(
        {"model/" + std::string(1, static_cast<char>('a' + i)), random_tensor(inputs[i], random)});
  }
  if (spoilt != NotFinite::kNone) spoil(state[spoilt == NotFinite::kFirst ? 0 : 1].tensor, random);
  const auto values = run_program(*program, state, {});
  const auto reference = values.back().bytes();
  std::string explained;
  with_every_instruction_set([&](auto set) {
    for (const int threads : {1, 2, 3}) {
      auto evaluator = exec::Evaluator::create(program, threads);
      if (!evaluator.ok()) FAIL(evaluator.error().message);
      REQUIRE((*evaluator)->load(state).ok());
      for (int repeat = 0; repeat < 2; ++repeat) {
        REQUIRE((*evaluator)->run({}).ok());
        explained = (*evaluator)->explain();
        INFO(explained << lines.back() << "\n"
                       << name_of(set) << ", " << threads << " threads, seed " << seed);
        CHECK(explained.find("element by element") == std::string::npos);
        const auto ours = stored((*evaluator)->value(values.last()).bytes, values.back().dtype());
        std::size_t first = 0;
        while (first < reference.size() && ours[first] == reference[first]) ++first;
        INFO("first differing byte " << first << " of " << reference.size());
        REQUIRE(first == reference.size());
      }
    }
  });
  return explained;
}

}  // namespace dgx::test
