#pragma once

// Dots whose sides are read through windows, in the same tiles as products (tile.cuh): convolutions, their inputs' and their weights'
// gradients, any stride, dilation, groups. Nothing is laid out anew (no im2col): an element's place is what its line adds plus what its position adds.
// A thread knows its lines; what positions add is worked out once a block of 256 positions, a position a thread, and left in
// shared memory for all: the divisions that take a number apart into indices cost nothing then.

#include "words.h"

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/scalar.h"
#include "product.cuh"
#include "tile.cuh"

namespace dgx::kernels::cuda {

inline constexpr int kParts = 1 + static_cast<int>(kDotGuards);

/// Adds what index number `n` moves each part by.
__device__ inline void add_walk(const Walk& walk, std::uint32_t n, std::int32_t (&parts)[kParts]) {
  for (int d = walk.dimensions; d-- > 0;) {
    const auto at = static_cast<std::size_t>(d);
    const auto extent = static_cast<std::uint32_t>(walk.extents[at]);
    const auto index = static_cast<std::int32_t>(n % extent);
    n /= extent;
    DGX_UNROLL
    for (std::size_t p = 0; p < kParts; ++p) parts[p] += index * walk.coefficients[p][at];
  }
}

/// What positions add, of two blocks of them: while one is used up, the next is made.
using PositionParts = std::int32_t[2][kParts][kDotBlock];

template <int kPer, bool kIsGuarded>
class WindowSide {
 public:
  static constexpr int kLoads = TileShare<kPer>::kLoads;

  __device__ WindowSide(const DotSide& side, const float* from, std::int64_t first, std::int64_t lines, std::int64_t begin, std::int64_t end,
                        PositionParts& parts)
      : side_(side), from_(from), share_(side.along_depth), parts_(parts), next_(begin), end_(end) {
    const std::int64_t line = first + share_.line;
    DGX_UNROLL
    for (int j = 0; j < kLoads; ++j) {
      DGX_UNROLL
      for (int p = 0; p < kParts; ++p) lines_[j][p] = side.base[static_cast<std::size_t>(p)];
      if (line + j * share_.line_step >= lines) continue;
      ++line_count_;
      add_walk(side.lines, static_cast<std::uint32_t>(line + j * share_.line_step), lines_[j]);
    }
    positions_ = static_cast<int>(end - begin) - share_.k;
  }

  __device__ void start() { describe(0); }
  __device__ void begin_block() {
    described_ ^= 1;
    describe(described_);
  }

  __device__ void copy(TileBuffer<kPer>& to) {
    float* const first = &to[share_.k][share_.line];
    const auto& parts = parts_[round_ / kRounds % 2];
    const int k = round_ % kRounds * kTileStep + share_.k;
    DGX_UNROLL
    for (int j = 0; j < kLoads; ++j) {
      const int position = k + j * share_.k_step;
      std::int32_t element = lines_[j][0] + parts[0][position];
      bool inside = true;
      DGX_UNROLL
      for (int g = 0; kIsGuarded && g < kParts - 1; ++g) {
        if (g < side_.guard_count) inside = pass(side_.guards[static_cast<std::size_t>(g)], lines_[j][g + 1] + parts[g + 1][position], element) && inside;
      }
      const bool exists = j < line_count_ && j * share_.k_step < positions_;
      float* const place = first + j * (share_.k_step * kTilePitch<kPer> + share_.line_step);
      if (exists && !inside) {
        *place = side_.fill;
      } else {
        copy_async<1>(place, from_ + (exists ? element : 0), exists);
      }
    }
    ++round_;
    positions_ -= kTileStep;
  }

 private:
  static constexpr int kRounds = static_cast<int>(kDotBlock) / kTileStep;

  /// Whether a guarded coordinate is inside; it moves `element` then.
  __device__ static bool pass(const DotGuard& guard, std::int32_t at, std::int32_t& element) {
    if (at < 0) return false;
    if (guard.divisor != 1) {
      const std::int32_t quotient = at / guard.divisor;
      if (guard.is_exact && quotient * guard.divisor != at) return false;
      at = quotient;
    }
    if (at >= guard.size) return false;
    element += at * guard.stride;
    return true;
  }

  __device__ void describe(unsigned slot) {
    const auto t = static_cast<int>(threadIdx.x);
    std::int32_t parts[kParts] = {};
    if (next_ + t < end_) add_walk(side_.positions, static_cast<std::uint32_t>(next_ + t), parts);
    DGX_UNROLL
    for (int p = 0; p < kParts; ++p) parts_[slot][p][t] = parts[p];
    next_ += kDotBlock;
  }

  const DotSide& side_;
  const float* from_;
  TileShare<kPer> share_;
  PositionParts& parts_;
  std::int64_t next_, end_;  // the first position that is not described
  std::int32_t lines_[kLoads][kParts];
  int line_count_ = 0;  // of a thread's lines, so many exist
  int positions_;       // from the round's first that the thread takes
  int round_ = 0;
  unsigned described_ = 0;
};
static_assert(kTileThreads == kDotBlock, "a thread describes one position of a block");

struct DotOut {
  const Dot& dot;
  float* out;     ///< of this batch number
  float* groups;  ///< or null; of this batch number in group 0
  std::int64_t group_stride, first_row, first_column;

  __device__ static std::int64_t place(const Walk& walk, std::int64_t n) {
    std::int32_t parts[kParts] = {};
    add_walk(walk, static_cast<std::uint32_t>(n), parts);
    return parts[0];
  }
  __device__ std::int64_t row(int n) const {
    const std::int64_t r = first_row + n;
    if (r >= dot.rows) return -1;
    return groups != nullptr ? r * dot.columns : place(dot.out_rows, r);
  }
  __device__ std::int64_t column(int n) const {
    const std::int64_t c = first_column + n;
    if (c >= dot.columns) return -1;
    return groups != nullptr ? c : place(dot.out_columns, c);
  }
  __device__ void put(std::int64_t row, std::int64_t column, float sum, std::int64_t group) const {
    put_sum(groups != nullptr ? groups + group * group_stride : nullptr, out, row + column, sum, group);
  }
};

__device__ inline std::int64_t place_of(const Dot& d, std::int64_t r, std::int64_t c) {
  return DotOut::place(d.out_rows, r) + DotOut::place(d.out_columns, c);
}

template <int kPer>
__global__ void __launch_bounds__(kTileThreads, 2) run_dot(Dot d) {
  __shared__ PositionParts a_parts, b_parts;
  const TileWork work(d, kTileSide * kPer);
  const float* const a = d.a.from + batch_offset(d.batch, work.batch, 0);
  const float* const b = d.b.from + batch_offset(d.batch, work.batch, 1);
  WindowSide<kPer, false> left(d.a, a, work.first_row, d.rows, work.begin, work.end, a_parts);
  WindowSide<kPer, true> right(d.b, b, work.first_column, d.columns, work.begin, work.end, b_parts);
  const DotOut out{d, d.out + batch_offset(d.batch, work.batch, 2), d.groups == nullptr ? nullptr : d.groups + work.batch * d.rows * d.columns,
                   d.batch.count * d.rows * d.columns, work.first_row, work.first_column};
  run_tile<kPer>(left, right, out, work.begin, work.end);
}

[[nodiscard]] inline auto dot_kernel(const Dot& d) {
  switch (product_per(d)) {
    case 8: return run_dot<8>;
    case 4: return run_dot<4>;
    default: return run_dot<2>;
  }
}

}  // namespace dgx::kernels::cuda
