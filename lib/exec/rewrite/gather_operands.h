#pragma once

#include <optional>

#include "dgx/kernels/primitive.h"

namespace dgx::exec {

/// A dot whose operands are lines of their own: `left` and `right` have a position's numbers behind those of
/// the one before, so that `dot` is a matrix product.
struct GatheredDot {
  kernels::Primitive left, right, dot;
};

/// Takes a dot apart whose two accesses read different indices of its iteration, as those of a convolution's
/// weight gradient do, which has windows that products cannot read. `left` and `right` are to be the values
/// `at` and the next one. The numbers are the same. Nullopt if the dot has another form, or would need more
/// than 8 dimensions. The operands take positions × rows and positions × columns floats.
[[nodiscard]] std::optional<GatheredDot> gather_operands(const kernels::Primitive& dot,
                                                         kernels::ValueIndex at);

}  // namespace dgx::exec
