#pragma once

#include <cmath>

namespace dgx::tools {

/// Rounds times, rates and shares to four significant digits: clocks are no more precise. 0 for what is not
/// finite.
[[nodiscard]] inline double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 3);
  return unit >= 1 ? std::round(value / unit) * unit : std::round(value / unit) / std::round(1 / unit);
}

}  // namespace dgx::tools
