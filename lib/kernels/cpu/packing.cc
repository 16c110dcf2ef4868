// Packs panels of A and strips of B as tiles read them: the numbers of one term side by side. If these are
// adjacent in the matrix already, short rows of a known width are copied; if consecutive terms are adjacent,
// squares are transposed in registers; otherwise it goes element by element.
#include "packing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace dgx::kernels::cpu {
namespace {

void pack_elements(float* to, std::int64_t to_stride, int width, Matrix from, std::int64_t depth) {
  for (std::int64_t k = 0; k < depth; ++k) {
    for (int i = 0; i < width; ++i)
      to[k * to_stride + i] = from.data[i * from.row_stride + k * from.column_stride];
  }
}

// A constant width turns the copy into two or three moves.
template <int kWidth>
void copy_rows(float* to, const float* from, std::int64_t stride, std::int64_t depth) {
  for (std::int64_t k = 0; k < depth; ++k)
    std::memcpy(to + k * kWidth, from + k * stride, kWidth * sizeof(float));
}

using CopyRows = void (*)(float*, const float*, std::int64_t, std::int64_t);
template <int... kIndices>
constexpr std::array<CopyRows, sizeof...(kIndices)> copies(std::integer_sequence<int, kIndices...>) {
  return {copy_rows<kIndices + 1>...};
}
constexpr auto kCopies = copies(std::make_integer_sequence<int, kStripWidth>());

// Copies full strips of a matrix with contiguous columns, eight rows at a time: reads stay in order and
// within few pages.
void copy_strips(Matrix b, std::int64_t depth, std::int64_t strips, float* to, std::int64_t strip_stride) {
  constexpr std::int64_t kRows = 8;
  for (std::int64_t k = 0; k < depth; k += kRows) {
    const std::int64_t rows = std::min(kRows, depth - k);
    for (std::int64_t s = 0; s < strips; ++s) {
      copy_rows<kStripWidth>(to + s * strip_stride + k * kStripWidth,
                             b.data + k * b.row_stride + s * kStripWidth, b.row_stride, rows);
    }
  }
}

}  // namespace

void pack_panel(const KernelTable& kernels, Matrix panel, int width, std::int64_t depth, float* to) {
  if (panel.column_stride == 1)
    return kernels.pack_transposed(to, width, panel.data, panel.row_stride, depth);
  if (panel.row_stride == 1) {
    return kCopies[static_cast<std::size_t>(width - 1)](to, panel.data, panel.column_stride, depth);
  }
  pack_elements(to, width, width, panel, depth);
}

void pack_strips(const KernelTable& kernels, Matrix b, std::int64_t depth, std::int64_t columns, float* to,
                 std::int64_t strip_stride) {
  const std::int64_t full = columns / kStripWidth;
  if (b.column_stride == 1) {
    copy_strips(b, depth, full, to, strip_stride);
  } else {
    for (std::int64_t s = 0; s < full; ++s) {
      const Matrix strip = {b.data + s * kStripWidth * b.column_stride, b.row_stride, b.column_stride};
      pack_panel(kernels, strip.transposed(), kStripWidth, depth, to + s * strip_stride);
    }
  }
  const auto rest = static_cast<int>(columns % kStripWidth);
  if (rest == 0 || depth == 0) return;
  const Matrix strip = {b.data + full * kStripWidth * b.column_stride, b.row_stride, b.column_stride};
  std::memset(to + full * strip_stride, 0, static_cast<std::size_t>(depth * kStripWidth) * sizeof(float));
  pack_elements(to + full * strip_stride, kStripWidth, rest, strip.transposed(), depth);
}

void pack(Matrix b, std::int64_t depth, std::int64_t columns, std::int64_t first_strip,
          std::int64_t end_strip, float* packed) {
  const std::int64_t first = first_strip * kStripWidth;
  const std::int64_t end = std::min(columns, end_strip * kStripWidth);
  b.data += first * b.column_stride;
  pack_strips(current_kernels(), b, depth, std::max<std::int64_t>(0, end - first),
              packed + first_strip * strip_stride(depth), strip_stride(depth));
}

}  // namespace dgx::kernels::cpu
