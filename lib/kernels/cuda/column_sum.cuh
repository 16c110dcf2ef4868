#pragma once

// A dot with ones, down the columns of a matrix (dgx-numerics(7), "Folds"): fma(1, x, block) is block + x. A
// block of threads takes 8 columns, a sector of memory, and a group of 16 blocks of the fold, with a thread
// per column and block; then one thread per column adds the 16 sums in order. The additions of a block depend
// on each other, so its numbers are read up to 64 ahead. If a column has more than one group, another kernel
// adds the groups in order. A column of one block of the fold is read by 16 threads at once, to shared
// memory, and one of them adds its numbers: a small sum would else be many waits for memory in turn.

#include "words.h"

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/fold_order.h"
#include "dgx/kernels/scalar.h"

namespace dgx::kernels::cuda {

inline constexpr int kSumColumns = 8;
inline constexpr int kSumAhead = 32;  // numbers that are read together

[[nodiscard]] inline Grid grid_of(const ColumnSum& sum) {
  return {(sum.columns + kSumColumns - 1) / kSumColumns * dot_groups(sum.rows),
          kSumColumns * static_cast<unsigned>(kDotGroupBlocks)};
}

/// Reads kSumAhead numbers of a column; those beyond the first `left` become 0.
__device__ inline void read_column(float (&numbers)[kSumAhead], const float* from, std::int64_t row_stride,
                                   std::int64_t left) {
  if (left >= kSumAhead) {
    DGX_UNROLL
    for (int n = 0; n < kSumAhead; ++n) {
      numbers[n] = *from;
      if (n + 1 < kSumAhead) from += row_stride;
    }
    return;
  }
  DGX_UNROLL
  for (int n = 0; n < kSumAhead; ++n) numbers[n] = n < left ? from[n * row_stride] : 0.0F;
}

/// The sum of `count` numbers of a column, at most 256. No partial sum is -0, so the zeros beyond the last
/// number change none.
__device__ inline float sum_of_block(const float* from, std::int64_t row_stride, std::int64_t count) {
  float block = 0, now[kSumAhead], next[kSumAhead];
  read_column(now, from, row_stride, count);
  for (std::int64_t left = count; left > 0; left -= 2 * kSumAhead) {
    if (left > kSumAhead) from += kSumAhead * row_stride;
    read_column(next, from, row_stride, left - kSumAhead);
    DGX_UNROLL
    for (int n = 0; n < kSumAhead; ++n) block = block + now[n];
    if (left > 2 * kSumAhead) from += kSumAhead * row_stride;
    read_column(now, from, row_stride, left - 2 * kSumAhead);
    DGX_UNROLL
    for (int n = 0; n < kSumAhead; ++n) block = block + next[n];
  }
  return block;
}

/// The sum of at most 256 numbers of column `x` of the 8, by thread y = 0 of 16 that read them together.
__device__ inline float sum_of_few(const float* from, std::int64_t row_stride, int rows, bool exists, int x,
                                   int y) {
  constexpr int kReaders = static_cast<int>(kDotGroupBlocks), kEach = static_cast<int>(kDotBlock) / kReaders;
  __shared__ float numbers[kDotBlock][kSumColumns];
  DGX_UNROLL
  for (int n = 0; n < kEach; ++n) {
    const int row = n * kReaders + y;
    numbers[row][x] = exists && row < rows ? from[row * row_stride] : 0.0F;
  }
  __syncthreads();
  float block = 0;
  if (y != 0) return block;
  for (int row = 0; row < rows; row += kReaders) {
    DGX_UNROLL
    for (int n = 0; n < kReaders; ++n) block = block + numbers[row + n][x];
  }
  return block;
}

__global__ void run_column_sum(ColumnSum sum) {
  __shared__ float blocks[kDotGroupBlocks][kSumColumns];
  const auto across = static_cast<std::uint32_t>((sum.columns + kSumColumns - 1) / kSumColumns);
  const int x = static_cast<int>(threadIdx.x) % kSumColumns, y = static_cast<int>(threadIdx.x) / kSumColumns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x % across) * kSumColumns + x;
  const std::int64_t group = blockIdx.x / across;
  const bool exists = column < sum.columns;
  if (sum.rows <= kDotBlock) {
    const float block = sum_of_few(sum.x + column, sum.row_stride, static_cast<int>(sum.rows), exists, x, y);
    if (y == 0 && exists) sum.out[column] = canonical_nan(0.0F + (0.0F + block));
    return;
  }
  const std::int64_t first = group * kDotGroupPositions + y * kDotBlock;
  const std::int64_t count = sum.rows - first < kDotBlock ? sum.rows - first : kDotBlock;
  blocks[y][x] = exists && count > 0
                     ? sum_of_block(sum.x + first * sum.row_stride + column, sum.row_stride, count)
                     : 0.0F;
  __syncthreads();
  if (y != 0 || !exists) return;
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
