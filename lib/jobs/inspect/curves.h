#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "picture/axis.h"
#include "train/log_rows.h"

namespace dgx::jobs {

/// Finite numbers, each with its step, in the order of the steps.
struct StepCurve {
  std::vector<double> steps;
  std::vector<double> values;

  [[nodiscard]] bool empty() const { return steps.empty(); }
  void add(double step, double value);
};

/// The curves of a run so far.
struct RunCurves {
  StepCurve loss;  ///< not empty
  StepCurve validation;
  BestRow best;  ///< the lowest validation
};

/// Reads the run's logs, or the losses that its index commits to. Errors of plot().
[[nodiscard]] Result<RunCurves> read_curves(const std::string& run);

/// The part of a curve that falls on one column of a picture.
struct Bin {
  double low = 0, mean = 0, high = 0;  ///< smallest, mean and largest of its values
  std::size_t column = 0;
};

/// Distributes a curve over columns: the first is at `axis.low`, the last at `axis.high`. Columns without a
/// number have no bin.
[[nodiscard]] std::vector<Bin> binned(const StepCurve& curve, const Axis& axis, std::size_t columns);

/// The axis of steps for both curves.
[[nodiscard]] Axis step_axis(const RunCurves& curves, int ticks);

/// The last numbers in words: "after step 300: loss 0.3379, validation 0.3512, lowest 0.3402 after step 250".
[[nodiscard]] std::string last_numbers(const RunCurves& curves);

/// Draws the picture in each form; `columns` as in PlotOptions.
[[nodiscard]] std::string plot_svg(const RunCurves& curves);
[[nodiscard]] std::string plot_text(const RunCurves& curves, int columns, bool braille);

}  // namespace dgx::jobs
