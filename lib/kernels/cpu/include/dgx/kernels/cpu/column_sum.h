#pragma once

#include <cstdint>
#include <vector>

namespace dgx::kernels::cpu {

/// Folds without products over a row-major matrix (dgx-numerics(7), "Folds"), vectorised. Columns and rows
/// are each defined alone, so that callers may split them among threads. Nothing is checked; `row_stride` is
/// in floats.

/// out[c] = dot(rows) of one and column c: blocks of 256 rows added ascending from +0, groups of 16 blocks,
/// groups ascending. The bias gradient, and what a product with a row of ones would give.
void column_dot_one(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride,
                    float* out);

/// out[r] = sum(columns) of row r: blocks of 2,048 positions, 32 lanes, combined pairwise, block results by
/// the same rule.
void row_sum(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride, float* out);

/// out[r] = max of row r: −0 counts as +0, any NaN gives 0x7FC00000, no columns give −inf.
void row_max(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride, float* out);

/// out[r] = the lowest column at which row r has its maximum, or its first NaN; 0 if there are no columns.
void row_argmax(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t row_stride,
                std::int64_t* out);

/// sum(rows) of each column of a matrix whose numbers come in row-major order, any number of them at a time.
///
/// The 32 lanes of all columns are a row of 32 · columns numbers, so that lane after lane is position after position: taking numbers is
/// adding them to their neighbours of 32 rows before, whatever the columns.
class ColumnSums {
 public:
  /// `memory`: size(rows, columns) floats.
  ColumnSums(std::int64_t rows, std::int64_t columns, float* memory);
  [[nodiscard]] static std::int64_t size(std::int64_t rows, std::int64_t columns);
  void take(const float* numbers, std::int64_t count);
  /// Takes numbers that the caller adds to what is at the place returned, one to each, before the next call.
  /// Null if that is no one place: nothing is taken then.
  [[nodiscard]] float* place(std::int64_t count);
  /// After all rows. The next number is the first of another matrix.
  void finish(float* out);

 private:
  void take(std::size_t level, const float* numbers, std::int64_t count);
  void pass_on(std::size_t level);
  const float* close(std::size_t level);

  std::int64_t columns_;
  float* lanes_;
  std::vector<std::int64_t> taken_;  // by level: numbers of the block; blocks' sums are what the next level takes
};

}  // namespace dgx::kernels::cpu
