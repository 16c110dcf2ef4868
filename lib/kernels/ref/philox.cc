#include "dgx/kernels/philox.h"

#include <cassert>
#include <cmath>
#include <span>

#include "dgx/kernels/functions.h"

namespace dgx::kernels {

using namespace philox_parts;  // low, high, unit and the constants

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
