#include "dgx/jobs/plot.h"

#include <fmt/format.h>

#include "inspect/curves.h"

namespace dgx::jobs {

Result<std::string> plot(const PlotOptions& options) {
  if (options.columns < kLeastPlotColumns || options.columns > kMostPlotColumns)
    return usage_error(fmt::format("--columns must be from {} to {}", kLeastPlotColumns, kMostPlotColumns));
  DGX_TRY(const RunCurves curves, read_curves(options.run));
  if (options.form == PlotForm::kSvg) return plot_svg(curves);
  return plot_text(curves, options.columns, options.form == PlotForm::kBraille);
}

}  // namespace dgx::jobs
