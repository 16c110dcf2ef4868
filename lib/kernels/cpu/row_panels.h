#pragma once

#include <algorithm>
#include <cstdint>

#include "dgx/core/checked.h"

namespace dgx::kernels::cpu {

/// Rows cut into row panels of nearly equal height, at most `most`: 15 rows are better cut 8 + 7 than 14 + 1.
struct RowPanels {
  RowPanels(std::int64_t rows, std::int64_t most)
      : count(ceil_div(rows, most)),
        base(rows / std::max<std::int64_t>(1, count)),
        extra(rows - base * count) {}
  [[nodiscard]] std::int64_t first_row(std::int64_t row_panel) const {
    return row_panel * base + std::min(row_panel, extra);
  }
  [[nodiscard]] int height(std::int64_t row_panel) const {
    return static_cast<int>(base + (row_panel < extra ? 1 : 0));
  }

  std::int64_t count;
  std::int64_t base;
  std::int64_t extra;
};

}  // namespace dgx::kernels::cpu
