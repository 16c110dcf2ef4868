// Folds of a matrix's rows and columns in the prescribed lanes and blocks. Column sums take row after row and
// keep the lanes and levels of all columns at once; row folds take one block of a row at a time, with its
// lanes in registers.
#include "dgx/kernels/cpu/column_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "dgx/core/checked.h"
#include "dgx/kernels/cpu/strip.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"

namespace dgx::kernels::cpu {
namespace {

constexpr auto kSumLanes = static_cast<std::int64_t>(kernels::kSumLanes);

/// to[i] += from[i]
void add(float* to, const float* from, std::int64_t count) {
  static const std::vector<StripInstruction> kAdd = {{StripOp::kAddF, 0, {0, 1, 0}}};
  for (std::int64_t i = 0; i < count; i += kStripLength) {
    void* const registers[] = {to + i, const_cast<float*>(from) + i};
    run_strip(kAdd, registers, std::min(kStripLength, count - i));
  }
}

/// Levels of a sum of `rows` numbers: blocks of numbers, blocks of their results, and so on until one is
/// left.
std::size_t levels_of(std::int64_t rows) {
  std::size_t levels = 1;
  for (; rows > kSumBlock; rows = ceil_div(rows, kSumBlock)) ++levels;
  return levels;
}

float sum_of(const KernelTable& kernels, const float* x, std::int64_t count) {
  if (count <= kSumBlock) return kernels.block_sum(x, count);
  std::vector<float> blocks;
  blocks.reserve(static_cast<std::size_t>(ceil_div(count, kSumBlock)));
  for (std::int64_t i = 0; i < count; i += kSumBlock) {
    blocks.push_back(kernels.block_sum(x + i, std::min(kSumBlock, count - i)));
  }
  return sum_of(kernels, blocks.data(), static_cast<std::int64_t>(blocks.size()));
}

// Index of the first NaN if `best` is NaN, else of the first element equal to `best`; 0 if there is none.
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

ColumnSums::ColumnSums(std::int64_t rows, std::int64_t columns, float* memory)
    : columns_(columns), lanes_(memory), taken_(levels_of(rows)) {}

std::int64_t ColumnSums::size(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::int64_t>(levels_of(rows)) * kSumLanes * columns;
}

void ColumnSums::take(const float* numbers, std::int64_t count) { take(0, numbers, count); }

/// If the level's block is full, passes its sums on to the next level.
void ColumnSums::pass_on(std::size_t level) {
  if (taken_[level] == kSumBlock * columns_ && level + 1 < taken_.size())
    take(level + 1, close(level), columns_);
}

void ColumnSums::take(std::size_t level, const float* numbers, std::int64_t count) {
  const std::int64_t width = kSumLanes * columns_;
  float* const lanes = lanes_ + static_cast<std::int64_t>(level) * width;
  std::int64_t& taken = taken_[level];
  while (count > 0) {
    pass_on(level);
    const std::int64_t at = taken % width;
    std::int64_t some = std::min(count, width - at);  // blocks end where a row of lanes ends
    if (taken < width) {
      std::memcpy(lanes + at, numbers, static_cast<std::size_t>(some) * sizeof(float));
    } else if (some < width) {
      add(lanes + at, numbers, some);
    } else {
      some = std::min(count, kSumBlock * columns_ - taken) / width * width;
      current_kernels().add_rows(lanes, numbers, some / width, width);
    }
    taken += some;
    numbers += some;
    count -= some;
  }
}

float* ColumnSums::place(std::int64_t count) {
  pass_on(0);
  const std::int64_t width = kSumLanes * columns_;
  const std::int64_t at = taken_[0] % width;
  if (at + count > width) return nullptr;
  if (taken_[0] < width) std::fill_n(lanes_ + at, count, 0.0F);
  taken_[0] += count;
  return lanes_ + at;
}

/// Closes a level's block and returns its sums, one per column. Lanes that no row reached are skipped: they
/// would be +0 and change nothing. The others started at their first number instead of +0, which only the
/// sign of a zero sum can show: hence the last addition.
const float* ColumnSums::close(std::size_t level) {
  float* const lanes = lanes_ + static_cast<std::int64_t>(level) * kSumLanes * columns_;
  const std::int64_t reached = taken_[level] / columns_;
  for (std::int64_t distance = kSumLanes / 2; distance > 0; distance /= 2) {
    const std::int64_t pairs = std::min(distance, reached - distance);
    if (pairs > 0) add(lanes, lanes + distance * columns_, pairs * columns_);
  }
  for (std::int64_t c = 0; c < columns_; ++c) lanes[c] += 0.0F;
  taken_[level] = 0;
  return lanes;
}

void ColumnSums::finish(float* out) {
  for (std::size_t level = 0; level + 1 < taken_.size(); ++level) {
    if (taken_[level] > 0) take(level + 1, close(level), columns_);
  }
  std::memcpy(out, close(taken_.size() - 1), static_cast<std::size_t>(columns_) * sizeof(float));
}

}  // namespace dgx::kernels::cpu
