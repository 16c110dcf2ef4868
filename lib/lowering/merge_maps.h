#pragma once

#include <cstddef>

#include "dgx/program/program.h"

namespace dgx::lowering {

/// Writes every map that only one other map reads, element by element, into that map, as long as the line
/// stays within the caps: fewer values to hold, hash and dispute. No bit changes, because the same operations
/// are applied to the same numbers. A map that is a state entry's `next`, or one of the last `outputs`
/// values, stays, and so does one for which `stays` is true. Values are renumbered.
[[nodiscard]] program::Program merge_maps(const program::Program& program, std::size_t outputs = 0,
                                          bool (*stays)(const kernels::Primitive& line) = nullptr);

}  // namespace dgx::lowering
