#pragma once

#include <cstdint>

namespace dgx::kernels {

/// Scalar operations (dgx-numerics(7), "Scalar operations"). Names in the text form are the enumerators
/// without k, lower case. Append only: the order is not hashed, but the names are the contract.
// clang-format off
enum class ScalarOp : std::uint8_t {
  kAdd, kSub, kMul, kDiv, kFma, kSqrt, kNeg, kAbs, kMax, kMin,
  kEq, kNe, kLt, kLe, kGt, kGe, kSelect, kAnd, kOr, kNot,
  kFloor, kTrunc, kRint, kExp, kExpm1, kLog, kLog1p, kSin, kCos, kTanh, kErf,
  kIdiv, kImod, kF32, kI64, kU8,
};
// clang-format on
inline constexpr int kScalarOpCount = static_cast<int>(ScalarOp::kU8) + 1;

/// A number inside steps is a binary32 or a 64-bit integer; u8 values are read as integers. Which of the two
/// a step gives is known statically: see result_type in scalar.h.
enum class NumberType : std::uint8_t { kFloat, kInteger };

}  // namespace dgx::kernels
