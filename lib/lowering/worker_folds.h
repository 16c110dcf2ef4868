#pragma once

#include <cstdint>
#include <optional>

#include "dgx/kernels/primitive.h"

namespace dgx::lowering {

/// True for a chain of f32 that starts at +0 and adds to its accumulator in its last step, and reads it
/// nowhere else.
[[nodiscard]] bool only_adds(const kernels::Primitive& line);

/// True if the line has as few dimensions, steps, terms and bytes of text as dgx-program(5) allows.
[[nodiscard]] bool is_within_caps(const kernels::Primitive& line);

/// The folds of all workers, a row each (dgx-lowerings(7), "Workers"), of a line that folds samples first, as
/// many as `workers` divide; nullopt if it is neither a dot nor a chain that only adds, or has no room for
/// another dimension.
[[nodiscard]] std::optional<kernels::Primitive> folds_of_workers(const kernels::Primitive& line,
                                                                 std::int64_t workers);

/// The constant [1], f32.
[[nodiscard]] kernels::Primitive constant_one();
/// The sum over the first dimension of `rows`, [workers, shape], in order: a dot with `one`, the constant.
[[nodiscard]] kernels::Primitive sum_of_rows(kernels::ValueIndex one, kernels::ValueIndex rows,
                                             std::int64_t workers, const Shape& shape);

}  // namespace dgx::lowering
