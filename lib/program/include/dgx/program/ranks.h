#pragma once

#include <cstddef>
#include <vector>

#include "dgx/program/classes.h"
#include "dgx/program/program.h"

namespace dgx::program {

// Messages of ranks that share the slices of a step, in its body (dgx-placement(7), "Ranks" and "Experts"),
// by the text alone: whoever runs a step and whoever foretells one go by it. Where experts are at home,
// place_experts() has given the classes their homes.

/// The times that each line of a step's body waits for other ranks, one after another: for values that they
/// gather, or give to experts' homes, or get from there. The same on all ranks, and for any number of them.
[[nodiscard]] kernels::ByValue<std::size_t> waits_of(const Program& program, const Classes& classes);

/// The lines of class C that a rank makes after it has begun the gathers of their phase, ascending: meanwhile
/// the ranks behind it, which trail it by such a line, make what it waits for. They are the last of each
/// phase but the last phase, which gathers nothing: so many that they have together at least the terms of its
/// largest.
[[nodiscard]] std::vector<kernels::ValueIndex> folds_behind_gathers(
    const Program& program, const Classes& classes, const kernels::ByValue<std::size_t>& waits);

/// The values that all ranks gather for lines of the body, ascending.
[[nodiscard]] std::vector<kernels::ValueIndex> gathered_in_body(const Classes& classes);

/// A value of the body of which ranks send each other slices, because experts are at home.
struct HomeMove {
  kernels::ValueIndex value{};
  std::vector<int> homes;  ///< that need all of it, ascending; none if the value comes from its own home
  bool operator==(const HomeMove&) const = default;
};

/// The values that are moved to homes and back, each behind its phase; ascending.
[[nodiscard]] std::vector<HomeMove> moves_of(const Program& program, const Classes& classes);

}  // namespace dgx::program
