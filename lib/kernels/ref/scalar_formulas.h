#pragma once

#include <array>
#include <cstdint>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/operation_formulas.h"
#include "dgx/kernels/scalar.h"

namespace dgx::kernels {

/// A number with its type, NaN canonical, as records show it.
[[nodiscard]] inline Number number_of(NumberType type, Slot slot) {
  return type == NumberType::kFloat ? Number::of(canonical_nan(slot.real)) : Number::of(slot.integer);
}
[[nodiscard]] inline Slot slot_of(const Number& number) {
  return number.type == NumberType::kFloat ? Slot::of(number.real) : Slot::of(number.integer);
}

/// The scalar operations by name, on numbers without types (dgx-numerics(7), "Scalar operations").
namespace formula {

/// Returns the result of an operation on operands of `type`. For a select, operands 0 and 1 are the condition
/// and the branch taken.
inline Slot apply(ScalarOp op, NumberType type, const std::array<Slot, 3>& operands) {
  const Slot a = operands[0];
  const Slot b = operands[1];
  const bool is_real = type == NumberType::kFloat;
  switch (op) {
    case ScalarOp::kSelect: return b;
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
      return Slot::of(is_real ? compare(op, a.real, b.real) : compare(op, a.integer, b.integer));
    case ScalarOp::kF32: return Slot::of(is_real ? a.real : to_f32(a.integer));
    case ScalarOp::kI64: return Slot::of(is_real ? to_i64(a.real) : a.integer);
    case ScalarOp::kU8: return Slot::of(is_real ? to_u8(a.real) : to_u8(a.integer));
    default: break;
  }
  return is_real ? Slot::of(formula::apply_real(op, a.real, b.real, operands[2].real))
                 : Slot::of(formula::apply_integer(op, a.integer, b.integer));
}

/// is_better for numbers without types.
inline bool is_better(NumberType type, Slot candidate, Slot best) {
  return type == NumberType::kInteger ? is_better(candidate.integer, best.integer)
                                      : is_better(candidate.real, best.real);
}

}  // namespace formula
}  // namespace dgx::kernels
