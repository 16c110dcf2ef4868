#pragma once

#include <cstdint>
#include <functional>

#include "dgx/core/result.h"
#include "dgx/kernels/primitive.h"

namespace dgx::program {

/// Checks that a claim about one element of a map, or one term of a fold, opens at most kMaxLeaves leaves of
/// 1 KiB on at most kMaxWays ways through its selects, counted step by step as in dgx-program(5), "Leaves".
/// `byte_size` returns a value's size in bytes. kMalformed, naming the field.
///
/// The primitive must compile (kernels/compiled.h) and have at most 64 accesses. Cost: at most 2^21
/// comparisons per step.
[[nodiscard]] Status check_leaves(const kernels::Primitive& primitive,
                                  const std::function<std::int64_t(kernels::ValueIndex)>& byte_size);

}  // namespace dgx::program
