#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "dgx/core/host_device.h"
#include "dgx/kernels/scalar_op.h"

namespace dgx::kernels {

/// The parts of the scalar operations of dgx-numerics(7), under the rules of scalar.h and without containers
/// or strings: for a GPU too, and for compilers that have no library (kernels that are compiled when a run
/// begins).

/// The one NaN that is ever stored, hashed or posted.
inline constexpr std::uint32_t kCanonicalNanBits = 0x7FC00000U;

/// `value`, or the NaN 0x7FC00000 if it is any NaN.
[[nodiscard]] DGX_HOST_DEVICE inline float canonical_nan(float value) {
  return value != value ? std::bit_cast<float>(kCanonicalNanBits) : value;
}

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

// Operations by name. The caller has checked the types (result_type); an operation that the function does not
// know gives 0.

/// eq ne lt le gt ge: 1 or 0. With a NaN operand only ne is 1.
template <class T>
[[nodiscard]] DGX_HOST_DEVICE inline std::int64_t compare(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kEq: return a == b;
    case ScalarOp::kNe: return a != b;
    case ScalarOp::kLt: return a < b;
    case ScalarOp::kLe: return a <= b;
    case ScalarOp::kGt: return a > b;
    case ScalarOp::kGe: return a >= b;
    default: return 0;
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

}  // namespace dgx::kernels
