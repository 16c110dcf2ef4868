#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "kernel_table.h"

namespace dgx::kernels::cpu {

/// Which terms of a block a tile has to take. One with a factor ±0 adds nothing if the other is finite (dgx-numerics(7), "What an
/// implementation is free to do"), and masks of attention, padding and ReLU make many at a time: of the probabilities of a causal
/// softmax half are 0. Only those before the first and behind the last other one are left out, and only where all of a panel's rows or
/// all of a tile's columns have them, so that looking for them costs operands without zeros nothing.
class ZeroTerms {
 public:
  static constexpr std::size_t kMostPanels = 32;  // of a row block

  /// Other panels, or other positions of them.
  void forget_panels() { panels_ = {}; }
  void forget_strips() { strips_ = {}; }

  /// What `task`, a tile of panel `panel` with the whole block, needs of the block.
  [[nodiscard]] Terms needed(const KernelTable& kernels, const TileTask& task, std::size_t panel, int rows, int strips) {
    Operand& a = panels_[panel];
    if (!a.terms) a.terms = kernels.terms_of_panel(task, rows);
    if (!strips_.terms) strips_.terms = kernels.terms_of_strips(task, strips);
    Terms terms{0, task.depth};
    if (leaves_out(*a.terms, task)) {
      if (!strips_.is_finite) strips_.is_finite = strips_are_finite(kernels, task, strips);
      if (*strips_.is_finite) terms = *a.terms;
    }
    if (leaves_out(*strips_.terms, task)) {
      if (!a.is_finite) a.is_finite = panel_is_finite(kernels, task, rows);
      if (*a.is_finite) terms = both(terms, *strips_.terms);
    }
    return terms;
  }

 private:
  struct Operand {
    std::optional<Terms> terms;
    std::optional<bool> is_finite;
  };

  static bool leaves_out(const Terms& terms, const TileTask& task) {
    constexpr std::int64_t kWorthIt = 8;
    return terms.end - terms.begin + kWorthIt <= task.depth;
  }
  static Terms both(const Terms& x, const Terms& y) {
    const std::int64_t begin = std::max(x.begin, y.begin);
    return {begin, std::max(begin, std::min(x.end, y.end))};
  }
  static bool panel_is_finite(const KernelTable& kernels, const TileTask& task, int rows) {
    if (task.a_row_stride == 1) return kernels.all_finite(task.a, task.depth, rows, task.a_step);
    return kernels.all_finite(task.a, rows, task.depth, task.a_row_stride);
  }
  static bool strips_are_finite(const KernelTable& kernels, const TileTask& task, int strips) {
    for (int s = 0; s < strips; ++s) {
      if (!kernels.all_finite(task.b + s * task.b_strip_stride, task.depth, 16, task.b_step)) return false;
    }
    return true;
  }

  std::array<Operand, kMostPanels> panels_;
  Operand strips_;
};

}  // namespace dgx::kernels::cpu
