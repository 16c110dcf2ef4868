#pragma once

#include <array>
#include <vector>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/scalar.h"
#include "dgx/protocol/fold_levels.h"

namespace dgx::protocol {

[[nodiscard]] inline kernels::Number zero_of(kernels::NumberType type) {
  return type == kernels::NumberType::kFloat ? kernels::Number::of(0.0F)
                                             : kernels::Number::of(std::int64_t{0});
}
[[nodiscard]] inline kernels::Number add(const kernels::Number& a, const kernels::Number& b) {
  const std::array<kernels::Number, 2> both{a, b};
  return kernels::apply_scalar(kernels::ScalarOp::kAdd, both);
}

/// The entries of `list` for one element of a fold, from the values that its line reads; others may be empty.
/// Cost: the fold up to the end of the list.
[[nodiscard]] Result<std::vector<kernels::Running>> fold_numbers(const kernels::CompiledPrimitive& line,
                                                                 const kernels::ByValue<TensorView>& values,
                                                                 std::int64_t element, const FoldList& list);

/// True if the list ends with the whole fold's result, which must agree with the element that the defender
/// claims.
[[nodiscard]] bool ends_fold(const kernels::CompiledPrimitive& line, const FoldList& list);

}  // namespace dgx::protocol
