#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "dgx/core/host_device.h"
#include "dgx/core/result.h"
#include "dgx/kernels/functions.h"
#include "dgx/kernels/primitive.h"

namespace dgx::kernels {

/// The scalar operations of dgx-numerics(7), one by one. Each is a total function of its operands' values: no
/// trap, no flag, no dependence on a NaN's payload. They assume round to nearest and subnormals kept
/// (dgx/kernels ground rules) and are compiled without contraction. What is marked DGX_HOST_DEVICE is for a
/// GPU too; so are apply_real and apply_integer, which scalar_formulas.h defines.

/// The one NaN that is ever stored, hashed or posted.
inline constexpr std::uint32_t kCanonicalNanBits = 0x7FC00000U;

/// `value`, or the NaN 0x7FC00000 if it is any NaN.
[[nodiscard]] DGX_HOST_DEVICE inline float canonical_nan(float value) {
  return value != value ? std::bit_cast<float>(kCanonicalNanBits) : value;
}

/// Replaces every NaN of an f32 tensor by 0x7FC00000; other types are left alone.
void canonicalise(Tensor& tensor);

/// A number with its type. Only the member that `type` names means anything; the other is zero.
struct Number {
  NumberType type = NumberType::kFloat;
  float real = 0;
  std::int64_t integer = 0;

  [[nodiscard]] static Number of(float value) { return {NumberType::kFloat, value, 0}; }
  [[nodiscard]] static Number of(std::int64_t value) { return {NumberType::kInteger, 0, value}; }
  /// The 32 bits of a float (NaN canonical), the 64 bits of an integer.
  [[nodiscard]] std::uint64_t bits() const {
    return type == NumberType::kFloat ? std::bit_cast<std::uint32_t>(canonical_nan(real))
                                      : static_cast<std::uint64_t>(integer);
  }
  /// Equality of types and bits, so that −0 differs from +0 and all NaNs are equal.
  bool operator==(const Number& other) const { return type == other.type && bits() == other.bits(); }
};

/// "0x3f800000 (1)" for a float: its bits, then its shortest decimal; decimal digits for an integer.
[[nodiscard]] std::string to_string(const Number& number);

/// The type numbers of `dtype` have inside steps: float for f32, integer for i64 and u8.
[[nodiscard]] DGX_HOST_DEVICE constexpr NumberType number_type(DType dtype) {
  return dtype == DType::kF32 ? NumberType::kFloat : NumberType::kInteger;
}

/// The type `op` gives for operands of these types, arity_of(op) of them; kMalformed with both named if it
/// takes none such. The rules:
/// - add sub mul neg abs max min: operands of one type, which is the result's;
/// - div fma sqrt floor trunc rint exp expm1 log log1p sin cos tanh erf: floats, giving a float;
/// - eq ne lt le gt ge: operands of one type, giving an integer, 0 or 1;
/// - and or not: integers (nonzero is true), giving 0 or 1;
/// - select: an integer and two operands of one type, which is the result's;
/// - idiv imod: integers, giving an integer;
/// - f32 takes either and gives a float; i64 and u8 take either and give an integer.
[[nodiscard]] Result<NumberType> result_type(ScalarOp op, std::span<const NumberType> operands);

// Integers. Addition, subtraction, multiplication, negation and absolute value wrap modulo 2^64.

[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t wrapping_sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// Rounds towards minus infinity; by 0 gives 0; −2^63 by −1 wraps to −2^63.
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrapping_sub(0, a);
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
/// a − floor_div(a, b)·b, which has the sign of b; by 0 gives 0.
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : wrapping_sub(a, wrapping_mul(floor_div(a, b), b));
}

// Conversions.

/// Rounded once, to nearest, ties to even.
[[nodiscard]] DGX_HOST_DEVICE inline float to_f32(std::int64_t value) { return static_cast<float>(value); }
/// Truncates; outside [−2^63, 2^63) saturates; NaN gives 0.
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t to_i64(float value) {
  if (value != value) return 0;
  if (value >= 0x1p63F) return std::numeric_limits<std::int64_t>::max();
  if (value < -0x1p63F) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}
/// Saturates to 0 … 255. A float is truncated first (NaN gives 0).
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t to_u8(std::int64_t value) {
  return value < 0 ? 0 : value > 255 ? 255 : value;
}
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t to_u8(float value) { return to_u8(to_i64(value)); }

// Operations by name. The caller has checked the types (result_type); an operation not of the function's kind
// gives 0.

/// eq ne lt le gt ge: 1 or 0. With a NaN operand only ne is 1.
template <class T>
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t compare(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kEq:
      return a == b;
    case ScalarOp::kNe:
      return a != b;
    case ScalarOp::kLt:
      return a < b;
    case ScalarOp::kLe:
      return a <= b;
    case ScalarOp::kGt:
      return a > b;
    case ScalarOp::kGe:
      return a >= b;
    default:
      return 0;
  }
}

/// max(a, b) is a > b ? a : b, so that a NaN in either gives b; max(+0, −0) is −0.
template <class T>
[[nodiscard]] DGX_HOST_DEVICE inline T max_of(T a, T b) {
  return a > b ? a : b;
}
/// min(a, b) is a < b ? a : b.
template <class T>
[[nodiscard]] DGX_HOST_DEVICE inline T min_of(T a, T b) {
  return a < b ? a : b;
}

/// Operations from floats to a float: add sub mul div fma sqrt neg abs max min floor trunc rint exp … erf.
/// fma rounds once. rint is to nearest, ties to even. neg and abs change only the sign bit.
[[nodiscard]] float apply_real(ScalarOp op, float a, float b, float c);

/// Operations from integers to an integer: add sub mul neg abs max min and or not idiv imod.
[[nodiscard]] std::int64_t apply_integer(ScalarOp op, std::int64_t a, std::int64_t b);

/// Any operation on typed operands (select: the chosen of the two). The types must satisfy result_type.
[[nodiscard]] Number apply_scalar(ScalarOp op, std::span<const Number> operands);

}  // namespace dgx::kernels
