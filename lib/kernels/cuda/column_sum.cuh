#pragma once

// A dot with ones, down the columns of a matrix (dgx-numerics(7), "Folds"): fma(1, x, block) is block + x. A
// block of threads takes 8 columns, a sector of memory, and a group of 16 blocks of the fold, with a thread
// per column and block; then one thread per column adds the 16 sums in order. The additions of a block depend
// on each other, so its numbers are read 32 ahead. If a column has more than one group, another kernel adds
// the groups in order.

#include "words.h"

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/fold_order.h"
#include "dgx/kernels/scalar.h"

namespace dgx::kernels::cuda {

inline constexpr int kSumColumns = 8;
inline constexpr int kSumAhead = 32;  // numbers

[[nodiscard]] inline Grid grid_of(const ColumnSum& sum) {
  return {(sum.columns + kSumColumns - 1) / kSumColumns * dot_groups(sum.rows),
          kSumColumns * static_cast<unsigned>(kDotGroupBlocks)};
}

__global__ void run_column_sum(ColumnSum sum) {
  __shared__ float blocks[kDotGroupBlocks][kSumColumns];
  const std::int64_t across = (sum.columns + kSumColumns - 1) / kSumColumns;
  const int x = static_cast<int>(threadIdx.x) % kSumColumns, y = static_cast<int>(threadIdx.x) / kSumColumns;
  const std::int64_t column = blockIdx.x % across * kSumColumns + x;
  const std::int64_t group = blockIdx.x / across;
  const std::int64_t first = group * kDotGroupPositions + y * kDotBlock;
  const std::int64_t end = sum.rows - first < kDotBlock ? sum.rows : first + kDotBlock;
  float block = 0;
  if (column < sum.columns) {
    for (std::int64_t row = first; row < end; row += kSumAhead) {
      const float* const from = sum.x + row * sum.row_stride + column;
      const auto left = static_cast<int>(end - row);
      float numbers[kSumAhead];
      // No block is -0, so +0 changes none.
      DGX_UNROLL
      for (int n = 0; n < kSumAhead; ++n) numbers[n] = n < left ? from[n * sum.row_stride] : 0.0F;
      DGX_UNROLL
      for (int n = 0; n < kSumAhead; ++n) block = block + numbers[n];
    }
  }
  blocks[y][x] = block;
  __syncthreads();
  if (y != 0 || column >= sum.columns) return;
  float result = 0;
  for (int b = 0; b < kDotGroupBlocks && group * kDotGroupPositions + b * kDotBlock < sum.rows; ++b)
    result = result + blocks[b][x];
  if (dot_groups(sum.rows) > 1) {
    sum.groups[group * sum.columns + column] = result;
  } else {
    sum.out[column] = canonical_nan(0.0F + result);
  }
}

__global__ void run_column_groups(ColumnSum sum) {
  const std::int64_t column = global_thread();
  if (column >= sum.columns) return;
  float total = 0;
  for (std::int64_t group = 0; group < dot_groups(sum.rows); ++group)
    total = total + sum.groups[group * sum.columns + column];
  sum.out[column] = canonical_nan(total);
}

}  // namespace dgx::kernels::cuda
