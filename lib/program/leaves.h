#pragma once

#include <cstdint>
#include <functional>

#include "dgx/core/result.h"
#include "dgx/kernels/primitive.h"

namespace dgx::program {

/// Whether a claim about one element of a map, or one term of a fold, opens at most kMaxLeaves leaves of 1 KiB on
/// at most kMaxWays ways through its selects, as dgx-program(5), "Leaves", counts them step by step. `byte_size` is a
/// value's size. kMalformed, naming the field.
///
/// Needs a primitive that compiles (kernels/compiled.h) with at most 64 accesses. Cost: at most 2^21 comparisons
/// a step.
[[nodiscard]] Status check_leaves(const kernels::Primitive& primitive,
                                  const std::function<std::int64_t(kernels::ValueIndex)>& byte_size);

}  // namespace dgx::program
