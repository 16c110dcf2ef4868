#pragma once

#include <memory>
#include <vector>

#include "dgx/program/program.h"

namespace dgx::exec {

/// The same step where images that lie between convolutions have their channels last: values [n, c, h, w]
/// become [n, h, w, c], and so do the primitives that make them and all accesses to them. Every element keeps
/// its definition, and every fold its order; only the places of elements change. Then a convolution finds its
/// channels side by side (kernels/cpu/channels_last.h), and what is done element by element runs over long
/// rows. That the program itself is rewritten, not the plan, is what makes the rest of the executor follow.
///
/// Chosen are values that only the step itself sees, of shapes that convolutions read or make, with channels
/// that fill strips. Inputs, next state and values in `keep` stay as they are. Returns `program` if there is
/// nothing to do.
[[nodiscard]] std::shared_ptr<const program::Program> with_channels_last(
    std::shared_ptr<const program::Program> program, const std::vector<kernels::ValueIndex>& keep);

}  // namespace dgx::exec
