#include <fmt/format.h>

#include <algorithm>

#include "inspect/curves.h"

namespace dgx::jobs {
namespace {

constexpr int kWidth = 800, kHeight = 420;
constexpr int kLeft = 70, kRight = 780, kTop = 50, kBottom = 360;  // edges of the plot
constexpr std::size_t kMostMarks = 100;  // validations with a mark of their own: more would hide the line

/// Colours by class, which follow the reader's choice of light or dark.
constexpr std::string_view kStyle = R"(
text { font: 12px sans-serif; fill: #1f2328 }
.paper { fill: #ffffff } .grid { stroke: #d0d7de } .axis { stroke: #57606a }
.loss { fill: none; stroke: #0b4f9e; stroke-width: 1.5 } .range { fill: #0b4f9e; fill-opacity: 0.2 }
.validation { fill: none; stroke: #e07b00; stroke-width: 2 } .mark { fill: #e07b00 }
.best { fill: none; stroke: #1f2328; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.paper { fill: #0d1117 } .grid { stroke: #30363d } .axis { stroke: #9198a1 }
.loss { stroke: #58a6ff } .range { fill: #58a6ff }
.validation { stroke: #f0a34a } .mark { fill: #f0a34a } .best { stroke: #e6edf3 }
}
)";

/// Both axes of a picture, and the places of their numbers in pixels.
struct Scale {
  Axis steps, losses;

  [[nodiscard]] double x(double step) const { return kLeft + steps.place(step) * (kRight - kLeft); }
  [[nodiscard]] double y(double loss) const { return kBottom - losses.place(loss) * (kBottom - kTop); }
};

std::string text(double x, double y, std::string_view words, std::string_view anchor) {
  // All words are our own: nothing in them needs escaping.
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
}

std::string line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
                     x2, y2, kind);
}

std::string circle(double x, double y, int radius, std::string_view kind, std::string_view words) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" class=\"{}\"><title>{}</title></circle>\n",
                     x, y, radius, kind, words);
}

/// Grid, axes and their labels.
std::string frame(const Scale& scale) {
  std::string out;
  for (const Tick& tick : scale.losses.ticks) {
    const double y = scale.y(tick.value);
    out += line(kLeft, y, kRight, y, "grid") + text(kLeft - 8, y + 4, tick.label, "end");
  }
  for (const Tick& tick : scale.steps.ticks) {
    const double x = scale.x(tick.value);
    out += line(x, kBottom, x, kBottom + 5, "axis") + text(x, kBottom + 20, tick.label, "middle");
  }
  out += line(kLeft, kTop, kLeft, kBottom, "axis") + line(kLeft, kBottom, kRight, kBottom, "axis");
  out += text((kLeft + kRight) / 2.0, kBottom + 42, "step", "middle");
  out += text(kLeft - 8, kTop - 12, scale.losses.logarithmic ? "loss (logarithmic)" : "loss", "start");
  return out;
}

std::string point(double x, double y) { return fmt::format("{:.1f},{:.1f} ", x, y); }

/// The training loss: the mean of each column as a line, over the range of its steps.
std::string loss_line(const std::vector<Bin>& bins, const Scale& scale) {
  std::string upper, lower, mean;
  for (const Bin& bin : bins) {
    const auto x = static_cast<double>(kLeft + static_cast<int>(bin.column));
    upper += point(x, scale.y(bin.high));
    lower.insert(0, point(x, scale.y(bin.low)));  // right to left, closing the polygon
    mean += point(x, scale.y(bin.mean));
  }
  return fmt::format("<polygon class=\"range\" points=\"{}{}\"/>\n<polyline class=\"loss\" points=\"{}\"/>\n",
                     upper, lower, mean);
}

std::string validation_line(const RunCurves& curves, const Scale& scale) {
  const StepCurve& curve = curves.validation;
  if (curve.empty()) return {};
  std::string points, marks;
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    const double x = scale.x(curve.steps[i]);
    const double y = scale.y(curve.values[i]);
    points += point(x, y);
    if (curve.steps.size() <= kMostMarks)
      marks +=
          circle(x, y, 3, "mark", fmt::format("{:.4g} after step {:.0f}", curve.values[i], curve.steps[i]));
  }
  const auto [step, loss] = curves.best;
  marks += circle(scale.x(static_cast<double>(step)), scale.y(loss), 7, "best",
                  fmt::format("lowest: {:.4g} after step {}", loss, step));
  return fmt::format("<polyline class=\"validation\" points=\"{}\"/>\n{}", points, marks);
}

std::string legend(const RunCurves& curves) {
  constexpr int kY = 24;
  std::string out =
      line(kLeft, kY, kLeft + 24, kY, "loss") + text(kLeft + 30, kY + 4, "loss of each batch", "start");
  if (!curves.validation.empty()) {
    out += line(kLeft + 160, kY, kLeft + 184, kY, "validation") +
           text(kLeft + 190, kY + 4, "validation", "start");
  }
  return out + text(kRight, kY + 4, last_numbers(curves), "end");
}

}  // namespace

std::string plot_svg(const RunCurves& curves) {
  Scale scale{step_axis(curves, 8), {}};
  const auto bins = binned(curves.loss, scale.steps, kRight - kLeft + 1);
  double low = bins.front().low, high = bins.front().high;
  for (const Bin& bin : bins) low = std::min(low, bin.low), high = std::max(high, bin.high);
  for (const double value : curves.validation.values)
    low = std::min(low, value), high = std::max(high, value);
  scale.losses = value_axis(low, high, 6);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "role=\"img\">\n<title>loss by step</title>\n<style>{2}</style>\n<rect class=\"paper\" width=\"{0}\" "
      "height=\"{1}\"/>\n{3}{4}{5}{6}</svg>\n",
      kWidth, kHeight, kStyle, frame(scale), loss_line(bins, scale), validation_line(curves, scale),
      legend(curves));
}

}  // namespace dgx::jobs
