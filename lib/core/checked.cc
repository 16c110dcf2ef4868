#include "dgx/core/checked.h"

#include <fmt/format.h>

#include <limits>

namespace dgx {

Result<std::int64_t> mul_div(std::int64_t a, std::int64_t b, std::int64_t divisor) {
  if (a < 0 || b < 0 || divisor <= 0) {
    return usage_error(
        fmt::format("{} * {} / {}: needs factors of at least 0 and a positive divisor", a, b, divisor));
  }
  const auto quotient = static_cast<__int128>(a) * b / divisor;
  if (quotient > std::numeric_limits<std::int64_t>::max()) {
    return usage_error(fmt::format("{} * {} / {}: does not fit 63 bits", a, b, divisor));
  }
  return static_cast<std::int64_t>(quotient);
}

}  // namespace dgx
