#pragma once

#include <cstdint>
#include <span>

namespace dgx::test {

/// Research for a version 2 of the numbers (dgx-proposal(7)): what a GPU's matrix instruction is taken to
/// compute for one element of d = a b + c. matrix_instruction.cu compares it with a GPU.

/// The format of the factors. A number is truncated to the format: the low bits are dropped.
enum class FactorFormat : std::uint8_t { kBf16, kTf32, kFp16, kE4m3, kE5m2 };

/// The numbers of a format: subnormals down to 2^(least_exponent − fraction_bits), zeros of both signs, NaN.
struct FormatLimits {
  int width = 0;           ///< bits that a factor takes in a register
  int fraction_bits = 0;   ///< stored below the leading one
  int least_exponent = 0;  ///< of normal numbers
  int most_exponent = 0;
  float largest = 0;     ///< finite
  bool infinite = true;  ///< there are infinities
};

[[nodiscard]] FormatLimits limits_of(FactorFormat format);

/// The part that zeros among the factors play in the choice of the exponent to which all terms are aligned.
enum class ZeroExponent : std::uint8_t {
  kSmallest,  ///< a zero has its format's subnormals' exponent, so its product's is that plus the other's
  kNone,      ///< a product of 0 takes no part
};

/// The rounding of the sum to a binary32.
enum class ResultRounding : std::uint8_t { kTruncated, kNearestEven };

/// MatrixInstruction::least_aligned where there is no least: below every term's exponent.
inline constexpr std::int32_t kNoLeast = -1000;

/// A hypothesis about the instruction. fused_dot says what is common to all hypotheses.
struct MatrixInstruction {
  FactorFormat factors = FactorFormat::kBf16;
  std::int32_t fraction_bits = 25;  ///< of an aligned term, below the aligned exponent: 0 … 40
  std::int32_t chunk = 16;          ///< terms that are added at once: 1 … 64
  ZeroExponent zeros = ZeroExponent::kSmallest;
  ResultRounding rounding = ResultRounding::kTruncated;
  std::int32_t result_bits = 23;          ///< fraction bits of the sum's binary32: 1 … 23
  std::int32_t least_aligned = kNoLeast;  ///< the aligned exponent is at least this
  /// The instructions are those that ptxas makes of FP8 factors for sm_90, which has mma.sync for wider ones
  /// only: the factors become fp16; the terms at positions 0 and 1 of every four are added to 0, then those
  /// at 2 and 3 to the result; an ordinary addition, rounded to nearest, adds c.
  bool widened = false;

  bool operator==(const MatrixInstruction&) const = default;
};

/// A number as a factor of the format, truncated towards 0: beyond the largest it is that, unless it is an
/// infinity and the format has those; a NaN stays one.
[[nodiscard]] float as_factor(FactorFormat format, float x);

/// The bits of as_factor(format, x) as the instruction reads them. Those of a tf32 are all bits of x:
/// it is the instruction that drops the low ones. A NaN has all bits set but, maybe, the sign.
[[nodiscard]] std::uint32_t code_of(FactorFormat format, float x);

/// The sum of c and the products of a and b (of equal length), chunk after chunk: each chunk's result is the
/// next one's c. In a chunk
/// - a product is exact: the integer product of two significands, with the sum of their exponents. A
///   subnormal of its format has the exponent of the format's smallest normal number and a leading 0;
/// - the aligned exponent is the greatest of c's and the products', and of least_aligned;
/// - each term is cut, towards zero, to a multiple of 2^(that − fraction_bits); the cut terms are added
///   exactly;
/// - the sum is rounded once to a binary32, which may be subnormal, or infinite above all finite ones. A
///   result of 0 is +0, even that of a negative sum.
/// If a term is NaN, or infinities of both signs meet, the result is 0x7FC00000; otherwise an infinite term
/// is the result.
[[nodiscard]] float fused_dot(const MatrixInstruction& instruction, std::span<const float> a,
                              std::span<const float> b, float c);

}  // namespace dgx::test
