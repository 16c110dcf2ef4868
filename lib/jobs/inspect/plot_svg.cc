#include <fmt/format.h>

#include <algorithm>

#include "inspect/curves.h"
#include "picture/svg.h"

namespace dgx::jobs {
namespace {

constexpr int kWidth = 800, kHeight = 420;
constexpr std::size_t kMostMarks = 100;  // validations with a mark of their own: more would hide the line

constexpr std::string_view kLight =
    R"(.loss { fill: none; stroke: #0b4f9e; stroke-width: 1.5 } .range { fill: #0b4f9e; fill-opacity: 0.2 }
.validation { fill: none; stroke: #e07b00; stroke-width: 2 } .mark { fill: #e07b00 }
.best { fill: none; stroke: #1f2328; stroke-width: 2 }
)";
constexpr std::string_view kDark = R"(.loss { stroke: #58a6ff } .range { fill: #58a6ff }
.validation { stroke: #f0a34a } .mark { fill: #f0a34a } .best { stroke: #e6edf3 }
)";

/// The training loss: the mean of each column as a line, over the range of its steps.
std::string loss_line(const std::vector<Bin>& bins, const PlotArea& area) {
  std::string upper, lower, mean;
  for (const Bin& bin : bins) {
    const auto x = static_cast<double>(area.left + static_cast<int>(bin.column));
    upper += svg_point(x, area.y(bin.high));
    lower.insert(0, svg_point(x, area.y(bin.low)));  // right to left, closing the polygon
    mean += svg_point(x, area.y(bin.mean));
  }
  return fmt::format("<polygon class=\"range\" points=\"{}{}\"/>\n<polyline class=\"loss\" points=\"{}\"/>\n",
                     upper, lower, mean);
}

std::string validation_line(const RunCurves& curves, const PlotArea& area) {
  const StepCurve& curve = curves.validation;
  if (curve.empty()) return {};
  std::string points, marks;
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    const double x = area.x(curve.steps[i]);
    const double y = area.y(curve.values[i]);
    points += svg_point(x, y);
    if (curve.steps.size() <= kMostMarks)
      marks += svg_circle(x, y, 3, "mark",
                          fmt::format("{:.4g} after step {:.0f}", curve.values[i], curve.steps[i]));
  }
  const auto [step, loss] = curves.best;
  marks += svg_circle(area.x(static_cast<double>(step)), area.y(loss), 7, "best",
                      fmt::format("lowest: {:.4g} after step {}", loss, step));
  return fmt::format("<polyline class=\"validation\" points=\"{}\"/>\n{}", points, marks);
}

std::string legend(const RunCurves& curves, const PlotArea& area) {
  constexpr int kY = 24;
  const int left = area.left;
  std::string out =
      svg_line(left, kY, left + 24, kY, "loss") + svg_text(left + 30, kY + 4, "loss of each batch", "start");
  if (!curves.validation.empty()) {
    out += svg_line(left + 160, kY, left + 184, kY, "validation") +
           svg_text(left + 190, kY + 4, "validation", "start");
  }
  return out + svg_text(area.right, kY + 4, last_numbers(curves), "end");
}

}  // namespace

std::string plot_svg(const RunCurves& curves) {
  PlotArea area{step_axis(curves, 8), {}};
  const auto bins = binned(curves.loss, area.across, static_cast<std::size_t>(area.right - area.left + 1));
  double low = bins.front().low, high = bins.front().high;
  for (const Bin& bin : bins) low = std::min(low, bin.low), high = std::max(high, bin.high);
  for (const double value : curves.validation.values)
    low = std::min(low, value), high = std::max(high, value);
  area.up = value_axis(low, high, 6);
  const std::string frame = svg_frame(area, "step", area.up.logarithmic ? "loss (logarithmic)" : "loss");
  return svg_picture(kWidth, kHeight, "loss by step", kLight, kDark,
                     frame + loss_line(bins, area) + validation_line(curves, area) + legend(curves, area));
}

}  // namespace dgx::jobs
