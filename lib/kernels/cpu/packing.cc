// Packs row panels of A and panels of B as tiles read them: the numbers of one term side by side. If these
// are adjacent in the matrix already, short rows of a known width are copied; if consecutive terms are
// adjacent, squares are transposed in registers; otherwise it goes element by element.
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
constexpr auto kCopies = copies(std::make_integer_sequence<int, kPanelWidth>());

// Copies full panels of a matrix with contiguous columns, eight rows at a time: reads stay in order and
// within few pages.
void copy_panels(Matrix b, std::int64_t depth, std::int64_t panels, float* to, std::int64_t panel_stride) {
  constexpr std::int64_t kRows = 8;
  for (std::int64_t k = 0; k < depth; k += kRows) {
    const std::int64_t rows = std::min(kRows, depth - k);
    for (std::int64_t s = 0; s < panels; ++s) {
      copy_rows<kPanelWidth>(to + s * panel_stride + k * kPanelWidth,
                             b.data + k * b.row_stride + s * kPanelWidth, b.row_stride, rows);
    }
  }
}

}  // namespace

void pack_row_panel(const KernelTable& kernels, Matrix row_panel, int width, std::int64_t depth, float* to) {
  if (row_panel.column_stride == 1)
    return kernels.pack_transposed(to, width, row_panel.data, row_panel.row_stride, depth);
  if (row_panel.row_stride == 1) {
    return kCopies[static_cast<std::size_t>(width - 1)](to, row_panel.data, row_panel.column_stride, depth);
  }
  pack_elements(to, width, width, row_panel, depth);
}

void pack_panels(const KernelTable& kernels, Matrix b, std::int64_t depth, std::int64_t columns, float* to,
                 std::int64_t panel_stride) {
  const std::int64_t full = columns / kPanelWidth;
  if (b.column_stride == 1) {
    copy_panels(b, depth, full, to, panel_stride);
  } else {
    for (std::int64_t s = 0; s < full; ++s) {
      const Matrix panel = {b.data + s * kPanelWidth * b.column_stride, b.row_stride, b.column_stride};
      pack_row_panel(kernels, panel.transposed(), kPanelWidth, depth, to + s * panel_stride);
    }
  }
  const auto rest = static_cast<int>(columns % kPanelWidth);
  if (rest == 0 || depth == 0) return;
  const Matrix panel = {b.data + full * kPanelWidth * b.column_stride, b.row_stride, b.column_stride};
  std::memset(to + full * panel_stride, 0, static_cast<std::size_t>(depth * kPanelWidth) * sizeof(float));
  pack_elements(to + full * panel_stride, kPanelWidth, rest, panel.transposed(), depth);
}

void pack(Matrix b, std::int64_t depth, std::int64_t columns, std::int64_t first_panel,
          std::int64_t end_panel, float* packed) {
  const std::int64_t first = first_panel * kPanelWidth;
  const std::int64_t end = std::min(columns, end_panel * kPanelWidth);
  b.data += first * b.column_stride;
  pack_panels(current_kernels(), b, depth, std::max<std::int64_t>(0, end - first),
              packed + first_panel * panel_stride(depth), panel_stride(depth));
}

}  // namespace dgx::kernels::cpu
