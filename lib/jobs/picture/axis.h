#pragma once

#include <string>
#include <vector>

namespace dgx::jobs {

/// A number on an axis, with its label.
struct Tick {
  double value = 0;
  std::string label;
};

/// Maps the numbers from `low` to `high` to places along a line, with ticks at round numbers.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;  ///< ascending, all within the range

  /// The place of a number, 0 at `low` and 1 at `high`; a number outside is moved to the nearer end.
  [[nodiscard]] double place(double number) const;
};

/// An axis whose ticks are multiples of 1, 2 or 5 times a power of ten, about `wanted` of them. An empty
/// range is widened around its number.
[[nodiscard]] Axis linear_axis(double low, double high, int wanted);

/// The axis for values from `low` to `high`. Logarithmic if `low` is above zero and `high` at least ten times
/// as large, with ticks at 1, 2 and 5 times powers of ten, or at powers of ten alone if those were too many;
/// otherwise linear_axis().
[[nodiscard]] Axis value_axis(double low, double high, int wanted);

}  // namespace dgx::jobs
