#pragma once

#include <array>
#include <cstdint>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/operation_formulas.h"
#include "dgx/kernels/scalar.h"

/// The scalar operations by name, on numbers without types (dgx-numerics(7), "Scalar operations").
namespace dgx::kernels::formula {

/// A step's scalar operation. For a select, operands 0 and 1 are the condition and the branch taken.
inline Slot apply_step(const CompiledStep& step, const std::array<Slot, 3>& operands) {
  const Slot a = operands[0];
  const Slot b = operands[1];
  const bool is_real = step.operand_type == NumberType::kFloat;
  Slot result;
  result.integer = 0;
  switch (step.op) {
    case ScalarOp::kSelect: return b;  // the branch taken
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
      result.integer = is_real ? compare(step.op, a.real, b.real) : compare(step.op, a.integer, b.integer);
      return result;
    case ScalarOp::kF32: result.real = is_real ? a.real : to_f32(a.integer); return result;
    case ScalarOp::kI64: result.integer = is_real ? to_i64(a.real) : a.integer; return result;
    case ScalarOp::kU8: result.integer = is_real ? to_u8(a.real) : to_u8(a.integer); return result;
    default: break;
  }
  if (is_real) {
    result.real = formula::apply_real(step.op, a.real, b.real, operands[2].real);
  } else {
    result.integer = formula::apply_integer(step.op, a.integer, b.integer);
  }
  return result;
}

/// is_better for numbers without types.
inline bool is_better(NumberType type, Slot candidate, Slot best) {
  return type == NumberType::kInteger ? is_better(candidate.integer, best.integer)
                                      : is_better(candidate.real, best.real);
}

}  // namespace dgx::kernels::formula
