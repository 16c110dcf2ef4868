#pragma once

#include <cstdint>
#include <vector>

namespace dgx::kernels::cpu {

/// Folds without products over a row-major matrix (dgx-numerics(7), "Folds"), vectorised. Each column and
/// each row is defined alone, so callers may split them among threads. Checks nothing; `row_stride` is in
/// floats.

/// out[c] = dot(rows) of ones and column c: blocks of 256 rows added ascending from +0, groups of 16 blocks,
/// groups ascending. The bias gradient; a product with a row of ones gives the same.
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

/// Adds up sum(rows) of each column of a matrix that arrives in row-major order, any number of elements at a
/// time.
///
/// The 32 lanes of all columns form one row of 32 · columns numbers, in the order in which elements arrive.
/// So an element is added to the same number as the element 32 rows before it, whatever its column.
class ColumnSums {
 public:
  /// `memory`: size(rows, columns) floats.
  ColumnSums(std::int64_t rows, std::int64_t columns, float* memory);
  [[nodiscard]] static std::int64_t size(std::int64_t rows, std::int64_t columns);
  /// Takes the next `count` elements.
  void take(const float* numbers, std::int64_t count);
  /// Takes `count` numbers that the caller adds itself, one by one, to those at the returned address before
  /// the next call. Null, with nothing taken, if they do not belong to one contiguous range.
  [[nodiscard]] float* place(std::int64_t count);
  /// Call after all rows. The next number taken is the first of another matrix.
  void finish(float* out);

 private:
  void take(std::size_t level, const float* numbers, std::int64_t count);
  void pass_on(std::size_t level);
  const float* close(std::size_t level);

  std::int64_t columns_;
  float* lanes_;
  // Per level: numbers in the open block; full blocks' sums go to the next level.
  std::vector<std::int64_t> taken_;
};

}  // namespace dgx::kernels::cpu
