#pragma once

#include <cstdint>
#include <span>

namespace dgx::test {

/// Research for a version 2 of the numbers (dgx-proposal(7)): what a GPU's matrix instruction is taken to
/// compute for one element of d = a b + c. matrix_instruction.cu compares it with a GPU.

/// The format of the factors. A number is truncated to the format: the low bits are dropped.
enum class FactorFormat : std::uint8_t { kBf16, kTf32 };

/// The part that zeros among the factors play in the choice of the exponent to which all terms are aligned.
enum class ZeroExponent : std::uint8_t {
  kSmallest,  ///< a zero has a subnormal's exponent, so its product's is that plus the other factor's
  kNone,      ///< a product of 0 takes no part
};

/// The rounding of the sum to a binary32.
enum class ResultRounding : std::uint8_t { kTruncated, kNearestEven };

/// A hypothesis about the instruction. fused_dot says what is common to all hypotheses.
struct MatrixInstruction {
  FactorFormat factors = FactorFormat::kBf16;
  std::int32_t fraction_bits = 25;  ///< of an aligned term, below the aligned exponent: 0 … 40
  std::int32_t chunk = 16;          ///< terms that are added at once: 1 … 64
  ZeroExponent zeros = ZeroExponent::kSmallest;
  ResultRounding rounding = ResultRounding::kTruncated;

  bool operator==(const MatrixInstruction&) const = default;
};

/// A number as a factor of the format: its low 16 (bf16) or 13 (tf32) bits cleared; a NaN stays one.
[[nodiscard]] float as_factor(FactorFormat format, float x);

/// The sum of c and the products of a and b (of equal length), chunk after chunk: each chunk's result is the
/// next one's c. In a chunk
/// - a product is exact: the integer product of two significands, with the sum of their exponents. A
///   subnormal has the exponent of the smallest normal number and a leading 0;
/// - the aligned exponent is the greatest of c's and the products';
/// - each term is cut, towards zero, to a multiple of 2^(that − fraction_bits); the cut terms are added
///   exactly;
/// - the sum is rounded once to a binary32, which may be subnormal, or infinite above all finite ones. A sum
///   of 0 is +0.
/// If a term is NaN, or infinities of both signs meet, the result is 0x7FC00000; otherwise an infinite term
/// is the result.
[[nodiscard]] float fused_dot(const MatrixInstruction& instruction, std::span<const float> a,
                              std::span<const float> b, float c);

}  // namespace dgx::test
