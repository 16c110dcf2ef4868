#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "dgx/core/checked.h"

namespace dgx::kernels::cpu {

/// The exact matrix product. Every element of C is a dot(depth) of dgx-numerics(7), "Folds": blocks of 256
/// terms from +0 with fma, ascending; groups of 16 blocks; groups added from +0, ascending. An element
/// depends on its row of A and its column of B alone, so neither the split into parts and threads nor the
/// instruction set can change a bit.
///
/// Starts no threads: the caller gives each thread a Part of C and a Scratch of its own. Checks nothing:
/// strides and counts are the caller's promise. NaN results keep whatever payload the processor gives; a
/// caller that hashes, stores or posts numbers writes 0x7FC00000 for every NaN.

/// Element (r, c) is data[r * row_stride + c * column_stride]. Fast when either stride is 1; strides may be 0
/// or negative.
struct Matrix {
  const float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  [[nodiscard]] Matrix transposed() const { return {data, column_stride, row_stride}; }
};

/// C is [rows, columns], A [rows, depth], B [depth, columns]. Any of them may be 0; with depth 0, C is all
/// +0.
struct MatmulShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
};

/// Columns per panel, the unit in which columns are handled, packed and split.
inline constexpr std::int64_t kPanelWidth = 16;
[[nodiscard]] constexpr std::int64_t panel_count(std::int64_t columns) {
  return ceil_div(columns, kPanelWidth);
}

/// Floats from one panel of a packed matrix to the next: 16 per row of the matrix, plus padding where a
/// multiple of a large power of two would put all panels into the same few cache sets.
[[nodiscard]] constexpr std::int64_t panel_stride(std::int64_t depth) {
  return (depth + (depth >= 256 && depth % 64 == 0 ? 16 : 0)) * kPanelWidth;
}

/// A matrix [depth, columns] in panels: element (k, c) is data[c / 16 * panel_stride(depth) + k * 16 + c %
/// 16]. As operand B it needs no packing, so a weight kept in this form across steps is never packed again; a
/// product can be written in this form too (Output::panels), so the weight's gradient and update are in it as
/// well. `pack` writes zeros into the lanes beyond the last column; no result depends on them.
struct PackedMatrix {
  const float* data = nullptr;
  std::int64_t depth = 0;
  std::int64_t columns = 0;

  /// Floats that a packed [depth, columns] takes.
  [[nodiscard]] static constexpr std::int64_t size(std::int64_t depth, std::int64_t columns) {
    return panel_count(columns) * panel_stride(depth);
  }
};

/// Packs panels [first_panel, end_panel) of b [depth, columns] into `packed`, which holds PackedMatrix::size
/// floats and is indexed from panel 0. Threads may pack disjoint panels of one matrix.
void pack(Matrix b, std::int64_t depth, std::int64_t columns, std::int64_t first_panel,
          std::int64_t end_panel, float* packed);

/// The destination of C: element (r, c) is data[r * row_stride + c / 16 * panel_stride + c % 16]. Only
/// elements of C are written; the lanes of a last, partial panel beyond its columns are left alone.
struct Output {
  float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t panel_stride = kPanelWidth;

  /// C row-major, rows `leading` floats apart.
  [[nodiscard]] static Output row_major(float* data, std::int64_t leading) {
    return {data, leading, kPanelWidth};
  }
  /// C as a PackedMatrix of depth `rows`.
  [[nodiscard]] static Output panels(float* data, std::int64_t rows) {
    return {data, kPanelWidth, dgx::kernels::cpu::panel_stride(rows)};
  }
};

/// Called once for each finished region of C, in no promised order, by the thread that called matmul, while
/// the region is in its nearest caches: about a hundred rows by one or two panels. May change C there (bias,
/// mask, activation) and anything else (an update). `row` and `column` are those of the whole C; `column` is
/// a multiple of 16.
struct Epilogue {
  void (*function)(void* context, std::int64_t row, std::int64_t rows, std::int64_t column,
                   std::int64_t columns) = nullptr;
  void* context = nullptr;
  /// A hint: matrices in panels (as Output::panels lays them out, panels `ahead_stride` floats apart) whose
  /// elements in the region the epilogue will touch. They are prefetched while the region is computed. The
  /// first null ends the list.
  std::array<const float*, 4> ahead{};
  std::int64_t ahead_stride = 0;
};

/// A half-open region of C; column_begin is a multiple of kPanelWidth, column_end too or the last column's
/// end.
struct Part {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t column_begin = 0;
  std::int64_t column_end = 0;

  [[nodiscard]] static Part whole(const MatmulShape& shape) { return {0, shape.rows, 0, shape.columns}; }
};

/// The contents of C before a product: a dot that is cut goes on there (resumed_dot.h).
enum class Start : std::uint8_t {
  kZero,   ///< nothing that counts: C is a dot
  kSum,    ///< the sum of what came before: a group for a product of one block, a total for one of groups
  kBlock,  ///< a block that is not complete, in which all of the product's positions lie
};

/// Working memory of one thread, kept between calls: grows to what the largest call needs (at most about 16
/// MiB for products that pack B, about 2 MiB for others) and is never read before it is written.
class Scratch {
 public:
  Scratch();
  ~Scratch();

  struct Buffers;
  [[nodiscard]] Buffers& buffers() { return *buffers_; }

 private:
  std::unique_ptr<Buffers> buffers_;
};

/// Computes `part` of C = A · B, or with another `start` of C that goes on. C must not overlap A or B. Of a
/// block that goes on, a zero may have the other sign (dgx-numerics(7), "What an implementation is free to
/// do").
void matmul(const MatmulShape& shape, Matrix a, Matrix b, Output c, const Part& part, Epilogue epilogue,
            Scratch& scratch, Start start = Start::kZero);
/// Computes the same from a packed B; b.columns must be the shape's, and b.depth, too, or more: then b.data
/// points at the first of the shape's rows within a deeper matrix.
void matmul(const MatmulShape& shape, Matrix a, PackedMatrix b, Output c, const Part& part, Epilogue epilogue,
            Scratch& scratch, Start start = Start::kZero);

/// Computes all of C, row-major with rows `ldc` floats apart.
void matmul(const MatmulShape& shape, Matrix a, Matrix b, float* c, std::int64_t ldc, Scratch& scratch);

}  // namespace dgx::kernels::cpu
