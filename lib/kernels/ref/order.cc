#include "dgx/kernels/order.h"

#include <fmt/format.h>

#include <bit>

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

std::int64_t DataOrder::sample_at(std::int64_t position) const {
  const auto epoch = static_cast<std::uint32_t>(static_cast<std::uint64_t>(position / samples_));
  auto x = static_cast<std::uint64_t>(position % samples_);
  // The rounds permute a set at most four times as large, so the walk comes back below n, after 4 tries on
  // average at worst.
  do {
    x = rounds(x, epoch);
  } while (x >= static_cast<std::uint64_t>(samples_));
  return static_cast<std::int64_t>(x);
}

std::vector<std::int64_t> DataOrder::batch_indices(std::int64_t step) const {
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(batch_));
  for (std::int64_t i = 0; i < batch_; ++i) indices.push_back(sample_at(step * batch_ + i));
  return indices;
}

Result<std::int64_t> DataOrder::steps_in(std::int64_t epochs) const {
  const auto positions = checked_mul(epochs, samples_);
  if (!positions || *positions < batch_) return usage_error(fmt::format("{} epochs make no step", epochs));
  return *positions / batch_;
}

}  // namespace dgx::kernels
