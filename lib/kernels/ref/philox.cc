#include "dgx/kernels/philox.h"

#include <cassert>
#include <cmath>
#include <span>

#include "dgx/kernels/functions.h"

namespace dgx::kernels {
namespace {

// Random123's philox4x32 constants: two multipliers, and the Weyl increments of the key.
constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
constexpr int kRounds = 10;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

// Exact: an integer below 2^24 and a power of two.
float unit(std::uint32_t numerator) { return static_cast<float>(numerator) * 0x1p-24F; }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

PhiloxWords philox_lanes(const PhiloxWords& counters, std::array<std::uint32_t, 2> key) {
  PhiloxWords words = counters;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t lane = 0; lane < kPhiloxLanes; ++lane) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * words[0][lane];
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * words[2][lane];
      words[0][lane] = high(product1) ^ words[1][lane] ^ key[0];
      words[1][lane] = low(product1);
      words[2][lane] = high(product0) ^ words[3][lane] ^ key[1];
      words[3][lane] = low(product0);
    }
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return words;
}

std::array<std::uint32_t, 4> random_words(std::uint64_t seed, Stream stream, std::int64_t step,
                                          std::int64_t element) {
  const auto position = static_cast<std::uint64_t>(element);
  return philox({low(position), high(position), low(static_cast<std::uint64_t>(step)), stream.word()},
                {low(seed), high(seed)});
}

float uniform(std::uint64_t seed, Stream stream, std::int64_t step, std::int64_t element) {
  return unit(random_words(seed, stream, step, element)[0] >> 8);
}

float normal(std::uint64_t seed, Stream stream, std::int64_t step, std::int64_t element) {
  const auto words = random_words(seed, stream, step, element);
  const float log_u = log_f32(unit((words[0] >> 8) + 1));
  const float radius = std::sqrt(-2.0F * log_u);
  const float angle = 0x1.921fb6p+2F * unit(words[1] >> 8);
  return radius * cos_f32(angle);
}

void uniform_weights(std::uint64_t seed, std::uint32_t ordinal, float bound, Tensor& out) {
  assert(out.dtype() == DType::kF32);
  const Stream stream{StreamKind::kInitialWeights, ordinal};
  std::int64_t element = 0;
  for (float& weight : out.as<float>()) {
    weight = (2.0F * uniform(seed, stream, 0, element++) - 1.0F) * bound;
  }
}

void normal_weights(std::uint64_t seed, std::uint32_t ordinal, float deviation, Tensor& out) {
  assert(out.dtype() == DType::kF32);
  const Stream stream{StreamKind::kInitialWeights, ordinal};
  std::int64_t element = 0;
  for (float& weight : out.as<float>()) weight = normal(seed, stream, 0, element++) * deviation;
}

void fill_uniform(std::uint64_t seed, Stream stream, std::int64_t step, Tensor& out) {
  assert(out.dtype() == DType::kF32);
  const std::span<float> values = out.as<float>();
  PhiloxWords counters;
  counters[2].fill(low(static_cast<std::uint64_t>(step)));
  counters[3].fill(stream.word());
  std::size_t n = 0;
  for (; n + kPhiloxLanes <= values.size(); n += kPhiloxLanes) {
    for (std::size_t lane = 0; lane < kPhiloxLanes; ++lane) {
      counters[0][lane] = low(n + lane);
      counters[1][lane] = high(n + lane);
    }
    const PhiloxWords words = philox_lanes(counters, {low(seed), high(seed)});
    for (std::size_t lane = 0; lane < kPhiloxLanes; ++lane) values[n + lane] = unit(words[0][lane] >> 8);
  }
  for (; n < values.size(); ++n) values[n] = uniform(seed, stream, step, static_cast<std::int64_t>(n));
}

}  // namespace dgx::kernels
