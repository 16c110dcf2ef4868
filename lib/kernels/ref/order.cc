#include "dgx/kernels/order.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

#include "dgx/core/checked.h"
#include "dgx/kernels/philox.h"

namespace dgx::kernels {
namespace {

constexpr int kFeistelRounds = 6;
constexpr std::int64_t kMostSamples = (std::int64_t{1} << 53) - 1;

}  // namespace

DataOrder::DataOrder(std::uint64_t seed, std::int64_t samples, std::int64_t batch)
    : seed_(seed),
      samples_(samples),
      batch_(batch),
      half_bits_(static_cast<int>((std::bit_width(static_cast<std::uint64_t>(samples - 1)) + 1) / 2)) {}

Result<DataOrder> DataOrder::create(std::uint64_t seed, std::int64_t samples, std::int64_t batch) {
  if (samples < 1 || samples > kMostSamples)
    return usage_error(fmt::format("cannot order {} samples", samples));
  if (batch < 1) return usage_error(fmt::format("batch is {}", batch), "at least 1");
  if (batch > samples)
    return usage_error(fmt::format("batch is {}, but there are {} samples", batch, samples));
  return DataOrder(seed, samples, batch);
}

std::uint64_t DataOrder::rounds(std::uint64_t x, std::uint32_t epoch) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  const std::uint32_t stream = Stream{StreamKind::kDataOrder, 0}.word();
  std::uint64_t left = x >> half_bits_;
  std::uint64_t right = x & mask;
  for (std::uint32_t round = 0; round < kFeistelRounds; ++round) {
    const auto words = philox({static_cast<std::uint32_t>(right), epoch, round, stream},
                              {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
    const std::uint64_t mixed = left ^ (words[0] & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

// The rounds permute a set at most four times as large, so the walk comes back below n, after 4 tries on
// average at worst.
std::int64_t DataOrder::walk_from(std::uint64_t x, std::uint32_t epoch) const {
  while (x >= static_cast<std::uint64_t>(samples_)) x = rounds(x, epoch);
  return static_cast<std::int64_t>(x);
}

std::int64_t DataOrder::sample_at(std::int64_t position) const {
  const auto epoch = static_cast<std::uint32_t>(static_cast<std::uint64_t>(position / samples_));
  return walk_from(rounds(static_cast<std::uint64_t>(position % samples_), epoch), epoch);
}

// Computes kPhiloxLanes positions side by side: one after the other, each would wait for its own 60 rounds of
// Philox.
void DataOrder::samples_at(std::int64_t position, std::int64_t* out) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::array<std::uint64_t, kPhiloxLanes> left, right;
  PhiloxWords counters;
  for (std::size_t lane = 0; lane < kPhiloxLanes; ++lane) {
    const std::int64_t at = position + static_cast<std::int64_t>(lane);
    const auto x = static_cast<std::uint64_t>(at % samples_);
    left[lane] = x >> half_bits_;
    right[lane] = x & mask;
    counters[1][lane] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(at / samples_));
  }
  counters[3].fill(Stream{StreamKind::kDataOrder, 0}.word());
  for (std::uint32_t round = 0; round < kFeistelRounds; ++round) {
    counters[2].fill(round);
    for (std::size_t lane = 0; lane < kPhiloxLanes; ++lane)
      counters[0][lane] = static_cast<std::uint32_t>(right[lane]);
    const PhiloxWords words =
        philox_lanes(counters, {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
    for (std::size_t lane = 0; lane < kPhiloxLanes; ++lane) {
      left[lane] = std::exchange(right[lane], left[lane] ^ (words[0][lane] & mask));
    }
  }
  for (std::size_t lane = 0; lane < kPhiloxLanes; ++lane) {
    out[lane] = walk_from((left[lane] << half_bits_) | right[lane], counters[1][lane]);
  }
}

std::vector<std::int64_t> DataOrder::batch_indices(std::int64_t step) const {
  constexpr auto kLanes = static_cast<std::int64_t>(kPhiloxLanes);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(batch_));
  std::int64_t i = 0;
  for (; i + kLanes <= batch_; i += kLanes) samples_at(step * batch_ + i, indices.data() + i);
  for (; i < batch_; ++i) indices[static_cast<std::size_t>(i)] = sample_at(step * batch_ + i);
  return indices;
}

Result<std::int64_t> DataOrder::steps_in(std::int64_t epochs) const {
  const auto positions = checked_mul(epochs, samples_);
  if (!positions || *positions < batch_) return usage_error(fmt::format("{} epochs make no step", epochs));
  return *positions / batch_;
}

}  // namespace dgx::kernels
