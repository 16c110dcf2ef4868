#pragma once

#include <cstddef>

#include "dgx/program/program.h"

namespace dgx::program {

/// The program with every map that only one other map reads, element by element, written into that map, as
/// long as the line keeps within the caps: fewer values to hold, hash and dispute. No bit changes, because
/// the same operations are applied to the same numbers. A map that is a state entry's `next`, or one of the
/// last `outputs` values, stays. Numbers are given anew.
[[nodiscard]] Program merge_maps(const Program& program, std::size_t outputs = 0);

}  // namespace dgx::program
