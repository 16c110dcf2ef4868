#pragma once

#include <functional>

#include "dgx/kernels/primitive.h"

namespace dgx::lowering {

/// True if the line's elements are linear in those of the values for which `varies` holds, of which it reads
/// at least one: a map, sum or dot of f32, or a chain that only adds, by the rules of dgx-lowerings(7),
/// "Workers". So if each of these values is the sum of some others, the line is the sum of what it gives for
/// those.
[[nodiscard]] bool is_linear(const kernels::Primitive& line,
                             const std::function<bool(kernels::ValueIndex)>& varies);

}  // namespace dgx::lowering
