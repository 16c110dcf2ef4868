#include "dgx/kernels/cpu/column_sum.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "kernel_table.h"

namespace dgx::kernels::cpu {
namespace {

constexpr std::int64_t kSumBlock = 2048;

float sum_of(const KernelTable& kernels, const float* x, std::int64_t count) {
  if (count <= kSumBlock) return kernels.block_sum(x, count);
  std::vector<float> blocks;
  blocks.reserve(static_cast<std::size_t>((count + kSumBlock - 1) / kSumBlock));
  for (std::int64_t i = 0; i < count; i += kSumBlock) {
    blocks.push_back(kernels.block_sum(x + i, std::min(kSumBlock, count - i)));
  }
  return sum_of(kernels, blocks.data(), static_cast<std::int64_t>(blocks.size()));
}

// The first element that is NaN if `best` is, else the first that equals it.
std::int64_t index_of(const float* x, std::int64_t count, float best) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (best != best ? x[i] != x[i] : x[i] == best) return i;
  }
  return 0;
}

}  // namespace

void column_dot_one(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride,
                    float* out) {
  current_kernels().column_dot_one(rows, columns, x, row_stride, out);
}

void row_sum(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride, float* out) {
  const KernelTable& kernels = current_kernels();
  for (std::int64_t r = 0; r < rows; ++r) out[r] = sum_of(kernels, x + r * row_stride, columns);
}

void row_max(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride, float* out) {
  const KernelTable& kernels = current_kernels();
  for (std::int64_t r = 0; r < rows; ++r) {
    const float best = kernels.max(x + r * row_stride, columns);
    out[r] = best != best ? std::bit_cast<float>(0x7FC00000U) : best;
  }
}

void row_argmax(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride,
                std::int64_t* out) {
  const KernelTable& kernels = current_kernels();
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * row_stride;
    out[r] = index_of(row, columns, kernels.max(row, columns));
  }
}

}  // namespace dgx::kernels::cpu
