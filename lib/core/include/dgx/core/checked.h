#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "dgx/core/result.h"

namespace dgx {

/// Integer arithmetic that returns nullopt where it would wrap. For sizes, counts and money.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// a / b, rounded up; a is not negative, b positive. Never overflows.
template <std::integral T>
[[nodiscard]] constexpr T ceil_div(T a, std::type_identity_t<T> b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// floor(a · b / divisor) with a 128-bit product; kUsage when a or b is negative, the divisor is not
/// positive, or the result does not fit.
[[nodiscard]] Result<std::int64_t> mul_div(std::int64_t a, std::int64_t b, std::int64_t divisor);

}  // namespace dgx
