#pragma once

#include <cmath>
#include <cstdint>

#include "dgx/core/host_device.h"
#include "dgx/kernels/arithmetic.h"
#include "dgx/kernels/function_formulas.h"
#include "dgx/kernels/scalar_op.h"

/// The scalar operations by name (dgx-numerics(7), "Scalar operations"), on a CPU and on a GPU. Like
/// arithmetic.h, they use no container and no string.
namespace dgx::kernels::formula {

/// Implements kernels::apply_real. Functions says how the elementary functions are computed: by their
/// definition, or by function_pairs.h. The bits are the same.
template <class Functions = DefinedFunctions>
DGX_HOST_DEVICE inline float apply_real(ScalarOp op, float a, float b, float c) {
  switch (op) {
    case ScalarOp::kAdd: return a + b;
    case ScalarOp::kSub: return a - b;
    case ScalarOp::kMul: return a * b;
    case ScalarOp::kDiv: return a / b;
    case ScalarOp::kFma: return std::fma(a, b, c);
    case ScalarOp::kSqrt: return std::sqrt(a);
    case ScalarOp::kNeg: return -a;
    case ScalarOp::kAbs: return std::fabs(a);
    case ScalarOp::kMax: return max_of(a, b);
    case ScalarOp::kMin: return min_of(a, b);
    case ScalarOp::kFloor: return std::floor(a);
    case ScalarOp::kTrunc: return std::trunc(a);
    case ScalarOp::kRint: return std::nearbyint(a);
    case ScalarOp::kExp: return Functions::exp(a);
    case ScalarOp::kExpm1: return Functions::expm1(a);
    case ScalarOp::kLog: return Functions::log(a);
    case ScalarOp::kLog1p: return Functions::log1p(a);
    case ScalarOp::kSin: return Functions::sin(a);
    case ScalarOp::kCos: return Functions::cos(a);
    case ScalarOp::kTanh: return Functions::tanh(a);
    case ScalarOp::kErf: return Functions::erf(a);
    default: return 0;
  }
}

/// Implements kernels::apply_integer.
DGX_HOST_DEVICE inline std::int64_t apply_integer(ScalarOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case ScalarOp::kAdd: return wrapping_add(a, b);
    case ScalarOp::kSub: return wrapping_sub(a, b);
    case ScalarOp::kMul: return wrapping_mul(a, b);
    case ScalarOp::kNeg: return wrapping_sub(0, a);
    case ScalarOp::kAbs: return a < 0 ? wrapping_sub(0, a) : a;
    case ScalarOp::kMax: return max_of(a, b);
    case ScalarOp::kMin: return min_of(a, b);
    case ScalarOp::kAnd: return a != 0 && b != 0;
    case ScalarOp::kOr: return a != 0 || b != 0;
    case ScalarOp::kNot: return a == 0;
    case ScalarOp::kIdiv: return floor_div(a, b);
    case ScalarOp::kImod: return floor_mod(a, b);
    default: return 0;
  }
}

/// True if a candidate of max or argmax replaces the best so far: a NaN beats all but a NaN; otherwise the
/// greater wins.
DGX_HOST_DEVICE inline bool is_better(float candidate, float best) {
  const bool is_nan = candidate != candidate;
  const bool best_is_nan = best != best;
  return is_nan ? !best_is_nan : candidate > best;
}
DGX_HOST_DEVICE inline bool is_better(std::int64_t candidate, std::int64_t best) { return candidate > best; }

}  // namespace dgx::kernels::formula
