#pragma once

#include <memory>
#include <vector>

#include "dgx/program/program.h"

namespace dgx::exec {

/// The same step with channels last in the images between convolutions: values [n, c, h, w] become [n, h, w,
/// c], and so do the primitives that make them and all accesses to them. Every element keeps its definition,
/// and every fold its order; only the places of elements change. A convolution then finds its channels side
/// by side (kernels/cpu/channels_last.h), and element-wise work runs over long rows. Because the program is
/// rewritten, not the plan, the rest of the executor follows unchanged.
///
/// Applies to values that only the step itself sees, of shapes that convolutions read or make, whose number
/// of channels is a multiple of 16, the columns of a packed panel. Inputs, next state and values in `keep`
/// stay as they are. Returns `program` if there is nothing to do.
[[nodiscard]] std::shared_ptr<const program::Program> with_channels_last(
    std::shared_ptr<const program::Program> program, const std::vector<kernels::ValueIndex>& keep);

}  // namespace dgx::exec
