#pragma once

#include <cstdint>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::kernels {

/// The samples that each step trains on: a keyed permutation of the sample indices for every epoch, computed
/// without state (dgx-numerics(7), "Inputs derived from the task").
///
/// Position p = step · batch + i takes sample σ(p mod n), σ the permutation of epoch ⌊p / n⌋. σ(x): let b be
/// the number of bits of n − 1 (0 for n = 1), w = ⌈b / 2⌉, and x = L · 2^w + R with R below 2^w. Six rounds r
/// = 0 … 5 take
///   (L, R) ← (R, L xor (F(R, r) mod 2^w))
/// where F(R, r) is word 0 of Philox with counter (R, epoch low, r, stream) and key (seed low, seed high),
/// stream = 2 · 2^24. The result is L · 2^w + R; while it is not below n, the six rounds are applied to it
/// again.
///
/// Batches therefore straddle epochs, every epoch shows every sample once, and there is no partial batch.
class DataOrder {
 public:
  /// kUsage unless 1 <= samples < 2^53 and 1 <= batch <= samples.
  [[nodiscard]] static Result<DataOrder> create(std::uint64_t seed, std::int64_t samples, std::int64_t batch);

  /// The sample at a position from 0. Cost: about 0.1 µs.
  [[nodiscard]] std::int64_t sample_at(std::int64_t position) const;
  /// The batch of step `step` from 0, in order.
  [[nodiscard]] std::vector<std::int64_t> batch_indices(std::int64_t step) const;
  /// ⌊epochs · samples / batch⌋; kUsage if that overflows or is not positive.
  [[nodiscard]] Result<std::int64_t> steps_in(std::int64_t epochs) const;

 private:
  DataOrder(std::uint64_t seed, std::int64_t samples, std::int64_t batch);
  [[nodiscard]] std::uint64_t rounds(std::uint64_t x, std::uint32_t epoch) const;
  [[nodiscard]] std::int64_t walk_from(std::uint64_t x, std::uint32_t epoch) const;
  void samples_at(std::int64_t position, std::int64_t* out) const;

  std::uint64_t seed_;
  std::int64_t samples_;
  std::int64_t batch_;
  int half_bits_;
};

}  // namespace dgx::kernels
