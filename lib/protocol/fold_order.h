#pragma once

#include <array>
#include <cstdint>

#include "dgx/kernels/fold_order.h"
#include "dgx/kernels/scalar.h"

namespace dgx::protocol {

/// The order of additions in folds (dgx-numerics(7), "Folds"), shared by the code that shows running results
/// and the code that judges them.
using kernels::kDotBlock;
using kernels::kDotGroup;
using kernels::kSumBlock;
using kernels::kSumLanes;

[[nodiscard]] inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

[[nodiscard]] inline kernels::Number zero_of(kernels::NumberType type) {
  return type == kernels::NumberType::kFloat ? kernels::Number::of(0.0F)
                                             : kernels::Number::of(std::int64_t{0});
}

[[nodiscard]] inline kernels::Number add(const kernels::Number& a, const kernels::Number& b) {
  const std::array<kernels::Number, 2> both{a, b};
  return kernels::apply_scalar(kernels::ScalarOp::kAdd, both);
}

}  // namespace dgx::protocol
