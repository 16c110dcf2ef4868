#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "dgx/core/host_device.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/function_formulas.h"
#include "dgx/kernels/scalar.h"

/// The scalar operations by name, on a CPU and on a GPU (dgx-numerics(7), "Scalar operations").
namespace dgx::kernels::formula {

/// kernels::apply_real.
DGX_HOST_DEVICE inline float apply_real(ScalarOp op, float a, float b, float c) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kFma:
      return std::fma(a, b, c);
    case ScalarOp::kSqrt:
      return std::sqrt(a);
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return std::fabs(a);
    case ScalarOp::kMax:
      return max_of(a, b);
    case ScalarOp::kMin:
      return min_of(a, b);
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kTrunc:
      return std::trunc(a);
    case ScalarOp::kRint:
      return std::nearbyint(a);
    case ScalarOp::kExp:
      return exp_f32(a);
    case ScalarOp::kExpm1:
      return expm1_f32(a);
    case ScalarOp::kLog:
      return log_f32(a);
    case ScalarOp::kLog1p:
      return log1p_f32(a);
    case ScalarOp::kSin:
      return sin_f32(a);
    case ScalarOp::kCos:
      return cos_f32(a);
    case ScalarOp::kTanh:
      return tanh_f32(a);
    case ScalarOp::kErf:
      return erf_f32(a);
    default:
      return 0;
  }
}

/// kernels::apply_integer.
DGX_HOST_DEVICE inline std::int64_t apply_integer(ScalarOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case ScalarOp::kAdd:
      return wrapping_add(a, b);
    case ScalarOp::kSub:
      return wrapping_sub(a, b);
    case ScalarOp::kMul:
      return wrapping_mul(a, b);
    case ScalarOp::kNeg:
      return wrapping_sub(0, a);
    case ScalarOp::kAbs:
      return a < 0 ? wrapping_sub(0, a) : a;
    case ScalarOp::kMax:
      return max_of(a, b);
    case ScalarOp::kMin:
      return min_of(a, b);
    case ScalarOp::kAnd:
      return a != 0 && b != 0;
    case ScalarOp::kOr:
      return a != 0 || b != 0;
    case ScalarOp::kNot:
      return a == 0;
    case ScalarOp::kIdiv:
      return floor_div(a, b);
    case ScalarOp::kImod:
      return floor_mod(a, b);
    default:
      return 0;
  }
}

/// The scalar operation of a step on numbers without types. Of a select, operands 0 and 1 are the condition
/// and the branch taken.
DGX_HOST_DEVICE inline Slot apply_step(const CompiledStep& step, const std::array<Slot, 3>& operands) {
  const Slot a = operands[0];
  const Slot b = operands[1];
  const bool is_real = step.operand_type == NumberType::kFloat;
  Slot result;
  result.integer = 0;
  switch (step.op) {
    case ScalarOp::kSelect:
      return b;  // the branch taken
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
      result.integer = is_real ? compare(step.op, a.real, b.real) : compare(step.op, a.integer, b.integer);
      return result;
    case ScalarOp::kF32:
      result.real = is_real ? a.real : to_f32(a.integer);
      return result;
    case ScalarOp::kI64:
      result.integer = is_real ? to_i64(a.real) : a.integer;
      return result;
    case ScalarOp::kU8:
      result.integer = is_real ? to_u8(a.real) : to_u8(a.integer);
      return result;
    default:
      break;
  }
  if (is_real) {
    result.real = formula::apply_real(step.op, a.real, b.real, operands[2].real);
  } else {
    result.integer = formula::apply_integer(step.op, a.integer, b.integer);
  }
  return result;
}

/// Whether a candidate of max or argmax replaces the best so far: a NaN beats all but a NaN, else the
/// greater.
DGX_HOST_DEVICE inline bool is_better(NumberType type, Slot candidate, Slot best) {
  if (type == NumberType::kInteger) return candidate.integer > best.integer;
  const bool is_nan = candidate.real != candidate.real;
  const bool best_is_nan = best.real != best.real;
  return is_nan ? !best_is_nan : candidate.real > best.real;
}

}  // namespace dgx::kernels::formula
