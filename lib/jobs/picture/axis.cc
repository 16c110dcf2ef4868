#include "picture/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dgx::jobs {
namespace {

/// A round number in few digits: "0.5", "1500", "2e-06".
std::string label_of(double number) {
  const bool is_whole = number == std::floor(number) && std::abs(number) < 1e9;
  return is_whole ? fmt::format("{:.0f}", number) : fmt::format("{:.6g}", number);
}

/// The smallest number of the form 1, 2 or 5 times a power of ten that is at least `number`, which is above
/// zero.
double round_up(double number) {
  const double power = std::pow(10, std::floor(std::log10(number)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= number * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double Axis::place(double number) const {
  const double at = logarithmic ? std::log(std::max(number, low) / low) / std::log(high / low)
                                : (number - low) / (high - low);
  return at >= 0 ? std::min(at, 1.0) : 0;  // a NaN, which the limits of binary64 give, is moved to the start
}

Axis linear_axis(double low, double high, int wanted) {
  if (!(low < high)) {
    const double around = low == 0 ? 1 : std::abs(low) / 10;
    low -= around;
    high += around;
  }
  Axis axis{low, high, false, {}};
  const double between = round_up((high - low) / std::max(wanted, 1));
  const double first = std::ceil(low / between - 1e-9);
  // Counts, since adding one to a number beyond 2^53 may not change it.
  for (int n = 0; n <= 2 * wanted; ++n) {
    const double value = (first + n) * between;
    if (!(value <= high + between * 1e-9)) break;
    axis.ticks.push_back({value, label_of(value == 0 ? 0 : value)});  // never "-0"
  }
  return axis;
}

Axis value_axis(double low, double high, int wanted) {
  if (!(low > 0) || high < 10 * low) return linear_axis(low, high, wanted);
  Axis axis{low, high, true, {}};
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  const bool powers_alone = 3 * (last - first) > 2 * wanted;
  const int stride = std::max((last - first) / std::max(wanted, 1), 1);
  for (int power = first; power <= last; power += stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, power);
      const bool is_within = value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
      if (is_within && (factor == 1 || !powers_alone)) axis.ticks.push_back({value, label_of(value)});
    }
  }
  return axis;
}

}  // namespace dgx::jobs
