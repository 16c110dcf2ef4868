#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "dgx/core/result.h"
#include "dgx/kernels/arithmetic.h"
#include "dgx/kernels/functions.h"
#include "dgx/kernels/primitive.h"

namespace dgx::kernels {

/// The scalar operations of dgx-numerics(7), one by one. Each is a total function of its operands' values: no
/// trap, no flag, no dependence on a NaN's payload. They assume the rounding and subnormals of
/// dgx-numerics(7), "Ground rules", and are compiled without contraction. GPUs run them as arithmetic.h and
/// operation_formulas.h define them.

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

/// The type that numbers of `dtype` have inside steps: float for f32, integer for i64 and u8.
[[nodiscard]] constexpr NumberType number_type(DType dtype) {
  return dtype == DType::kF32 ? NumberType::kFloat : NumberType::kInteger;
}

/// The type that `op` gives for arity_of(op) operands of these types; kMalformed, naming both, if it does not
/// take them. The rules:
/// - add sub mul neg abs max min: operands of one type, which is the result's;
/// - div fma sqrt floor trunc rint exp expm1 log log1p sin cos tanh erf: floats, giving a float;
/// - eq ne lt le gt ge: operands of one type, giving an integer, 0 or 1;
/// - and or not: integers (nonzero is true), giving 0 or 1;
/// - select: an integer and two operands of one type, which is the result's;
/// - idiv imod: integers, giving an integer;
/// - f32 takes either and gives a float; i64 and u8 take either and give an integer.
[[nodiscard]] Result<NumberType> result_type(ScalarOp op, std::span<const NumberType> operands);

// Operations by name; canonical_nan, integers, conversions, compare, max and min are in arithmetic.h.

/// Operations from floats to a float: add sub mul div fma sqrt neg abs max min floor trunc rint exp … erf.
/// fma rounds once. rint is to nearest, ties to even. neg and abs change only the sign bit.
[[nodiscard]] float apply_real(ScalarOp op, float a, float b, float c);

/// Operations from integers to an integer: add sub mul neg abs max min and or not idiv imod.
[[nodiscard]] std::int64_t apply_integer(ScalarOp op, std::int64_t a, std::int64_t b);

/// Any operation on typed operands (a select gives the chosen one). The types must satisfy result_type.
[[nodiscard]] Number apply_scalar(ScalarOp op, std::span<const Number> operands);

}  // namespace dgx::kernels
