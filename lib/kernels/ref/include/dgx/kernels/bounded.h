#pragma once

#include <span>

#include "dgx/core/result.h"
#include "dgx/kernels/evaluate.h"

namespace dgx::kernels {

/// An element and a bound on its rounding error.
struct BoundedNumber {
  Number number;  ///< as evaluate_element gives it
  /// Absolute; infinite if rounding may have decided a branch, a division's sign or an argmax.
  double bound = 0;
};

/// Evaluates an element over numbers that carry a running error bound (Higham, "Accuracy and Stability of
/// Numerical Algorithms", 3.3). Every evaluation of this element in binary32 from the same operands is within
/// `bound` of the exact result if it
/// - adds the terms of a fold in any order, with or without fused multiply-add;
/// - uses functions (exp … erf) right to 4 units in the last place.
/// So two such evaluations are at most 2 · `bound` apart. Bounds are computed in binary64, whose own rounding
/// is covered by a factor.
///
/// Integers are exact or unknown (infinite bound). kMalformed as for evaluate_element. Cost: about ten times
/// evaluate_element's.
[[nodiscard]] Result<BoundedNumber> bound_element(const CompiledPrimitive& primitive,
                                                  std::span<const TensorView> values, std::int64_t element);

}  // namespace dgx::kernels
