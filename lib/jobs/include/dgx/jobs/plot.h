#pragma once

#include <string>

#include "dgx/core/result.h"

namespace dgx::jobs {

/// The ways to draw: an SVG file, or lines of text in Braille dots (UTF-8) or in ASCII.
enum class PlotForm { kSvg, kBraille, kAscii };

/// dgx-inspect(1), plot.
struct PlotOptions {
  std::string run;
  PlotForm form = PlotForm::kAscii;
  int columns = 80;  ///< width of text, from kLeastPlotColumns to kMostPlotColumns
};
inline constexpr int kLeastPlotColumns = 40;
inline constexpr int kMostPlotColumns = 1000;

/// Draws a run's loss by step, and its validation loss if there is one; returns the SVG's bytes or the lines.
/// It reads RUN/log.csv and RUN/validation.csv; without the first, the run's index. kMissing if there is no
/// run, or one without a step; kMalformed for a broken log; kUsage for columns out of range.
[[nodiscard]] Result<std::string> plot(const PlotOptions& options);

}  // namespace dgx::jobs
