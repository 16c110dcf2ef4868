#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "kernel_table.h"

namespace dgx::kernels::cpu {

/// Finds the terms of a block that a tile must take. A term with a factor ±0 adds nothing if the other factor
/// is finite (dgx-numerics(7), "What an implementation is free to do"), and attention masks, padding and ReLU
/// make many at a time: half of the probabilities of a causal softmax are 0. Only terms before the first and
/// after the last nonzero one are left out, and only if they are zero in all of a row panel's rows or all of
/// a tile's columns, so that the search costs almost nothing on operands without zeros. Remembers the zeros
/// of a row block's row panels in one block of depth.
class ZeroTerms {
 public:
  static constexpr std::size_t kMostRowPanels = 32;  // of a row block

  /// Call when the panels change.
  void forget_panels() { panels_ = {}; }

  /// Narrows `task`, a tile of row panel `row_panel` with the whole block, to the positions that it must
  /// take.
  void leave_out(const KernelTable& kernels, TileTask& task, std::size_t row_panel, int rows, int panels) {
    Operand& a = row_panels_[row_panel];
    if (!a.terms) a.terms = kernels.terms_of_row_panel(task, rows);
    if (!panels_.terms) panels_.terms = kernels.terms_of_panels(task, panels);
    Range terms{0, task.depth};
    if (leaves_out(*a.terms, task)) {
      if (!panels_.is_finite) panels_.is_finite = panels_are_finite(kernels, task, panels);
      if (*panels_.is_finite) terms = *a.terms;
    }
    if (leaves_out(*panels_.terms, task)) {
      if (!a.is_finite) a.is_finite = row_panel_is_finite(kernels, task, rows);
      if (*a.is_finite) terms = both(terms, *panels_.terms);
    }
    task.a += terms.begin * task.a_step;
    task.b += terms.begin * task.b_step;
    task.depth = terms.size();
  }

 private:
  struct Operand {
    std::optional<Range> terms;
    std::optional<bool> is_finite;
  };

  /// True if so many terms can be left out that the other operand is worth a search for infinities and NaNs.
  static bool leaves_out(const Range& terms, const TileTask& task) {
    constexpr std::int64_t kWorthIt = 8;
    return terms.size() + kWorthIt <= task.depth;
  }
  static Range both(const Range& x, const Range& y) {
    const std::int64_t begin = std::max(x.begin, y.begin);
    return {begin, std::max(begin, std::min(x.end, y.end))};
  }
  static bool row_panel_is_finite(const KernelTable& kernels, const TileTask& task, int rows) {
    if (task.a_row_stride == 1) return kernels.all_finite(task.a, task.depth, rows, task.a_step);
    return kernels.all_finite(task.a, rows, task.depth, task.a_row_stride);
  }
  static bool panels_are_finite(const KernelTable& kernels, const TileTask& task, int panels) {
    for (int s = 0; s < panels; ++s) {
      if (!kernels.all_finite(task.b + s * task.b_panel_stride, task.depth, 16, task.b_step)) return false;
    }
    return true;
  }

  std::array<Operand, kMostRowPanels> row_panels_;
  Operand panels_;
};

}  // namespace dgx::kernels::cpu
