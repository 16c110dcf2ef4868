#pragma once

// The exact matrix product in tiles of 16 × 16 outputs, one a thread. Both sides go through shared memory, 16 positions of the fold at a time, so
// each number is read from memory once a tile. 16 divides a block of the fold (dgx-numerics(7), "Folds"): a block's, a group's and the
// total's running results are one register each, and a block ends between two rounds.

#include "words.h"

#include <cmath>

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/fold_order.h"
#include "dgx/kernels/scalar.h"

namespace dgx::kernels::cuda {

inline constexpr int kProductTile = 16;
static_assert(kDotBlock % kProductTile == 0);

/// What batch number `n` adds to the place of map `map`.
__device__ inline std::int64_t batch_offset(const Batch& batch, std::int64_t n, int map) {
  std::int64_t offset = 0;
  for (int d = batch.dimensions; d-- > 0;) {
    const auto at = static_cast<std::size_t>(d);
    offset += n % batch.extents[at] * batch.strides[static_cast<std::size_t>(map)][at];
    n /= batch.extents[at];
  }
  return offset;
}

[[nodiscard]] inline Grid grid_of(const Product& p) {
  const std::int64_t tiles = (p.rows + kProductTile - 1) / kProductTile * ((p.columns + kProductTile - 1) / kProductTile);
  return {tiles * p.batch.count, kProductTile * kProductTile};
}

__global__ void run_product(Product p) {
  __shared__ float left[kProductTile][kProductTile];
  __shared__ float right[kProductTile][kProductTile + 1];  // one more, so that columns of it lie in different banks
  const std::int64_t across = (p.columns + kProductTile - 1) / kProductTile;
  const std::int64_t down = (p.rows + kProductTile - 1) / kProductTile;
  const std::int64_t tile = blockIdx.x;
  const std::int64_t batch = tile / (across * down);
  const int x = static_cast<int>(threadIdx.x) % kProductTile, y = static_cast<int>(threadIdx.x) / kProductTile;
  const std::int64_t row = tile / across % down * kProductTile + y;
  const std::int64_t column = tile % across * kProductTile + x;
  const float* const a = p.a + batch_offset(p.batch, batch, 0);
  const float* const b = p.b + batch_offset(p.batch, batch, 1);
  float block = 0, group = 0, total = 0;
  for (std::int64_t first = 0; first < p.depth; first += kProductTile) {
    left[y][x] = row < p.rows && first + x < p.depth ? a[row * p.a_row + (first + x) * p.a_depth] : 0;
    right[y][x] = column < p.columns && first + y < p.depth ? b[(first + y) * p.b_depth + column * p.b_column] : 0;
    __syncthreads();
    const std::int64_t rest = p.depth - first;
    const int count = rest < kProductTile ? static_cast<int>(rest) : kProductTile;
    for (int k = 0; k < count; ++k) block = fmaf(left[y][k], right[k][x], block);
    __syncthreads();
    const std::int64_t done = first + count;
    if (done % kDotBlock == 0 || done == p.depth) {
      group = group + block;
      block = 0;
    }
    if (done % (kDotBlock * kDotGroup) == 0 || done == p.depth) {
      total = total + group;
      group = 0;
    }
  }
  if (row < p.rows && column < p.columns) {
    p.out[batch_offset(p.batch, batch, 2) + row * p.out_row + column] = canonical_nan(total);
  }
}

}  // namespace dgx::kernels::cuda
