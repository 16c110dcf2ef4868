#pragma once

#include <cstdint>
#include <vector>

#include "dgx/kernels/primitive.h"
#include "dgx/program/classes.h"

namespace dgx::program {

/// Slices [begin, begin + count) of `slices`.
struct Cut {
  std::int64_t begin = 0, count = 1, slices = 1;

  /// The part's share of a dimension that the slices divide.
  [[nodiscard]] std::int64_t share(std::int64_t dimension) const { return dimension / slices * count; }
  /// The part's first index of such a dimension.
  [[nodiscard]] std::int64_t first(std::int64_t dimension) const { return dimension / slices * begin; }
};

/// An access of a part's line: the piece's line that it reads, and whether it stays in the part's slices.
struct Reading {
  kernels::ValueIndex value{};
  bool stays = false;
};

/// Returns the line as a part computes it (dgx-placement(7), "Local programs"): shapes, views, and the
/// numbers that tell it where it is; `readings` has one for each access. A line of class W only reads other
/// lines.
[[nodiscard]] kernels::Primitive cut_line(const kernels::Primitive& line, SampleClass of, const Cut& cut,
                                          const std::vector<Reading>& readings);

/// Lets a chain begin at the piece's line `carry`, of the chain's type and shape, instead of at its init.
void begin_at(kernels::Primitive& chain, kernels::ValueIndex carry);

}  // namespace dgx::program
