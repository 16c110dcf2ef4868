#include "settle/bounds_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "picture/svg.h"

namespace dgx::jobs {
namespace {

using protocol::Economy;

constexpr int kWidth = 800, kHeight = 890;
/// The second picture's distance below the first.
constexpr int kBelow = 440;
/// Points of a curve at most; segments are drawn one by one if there are fewer.
constexpr std::int64_t kPoints = 240;

constexpr std::string_view kLight = R"(.zero { stroke: #1f2328; stroke-dasharray: 2 3 }
.alone, .some, .many, .cost, .tax { fill: none; stroke-width: 2 }
.alone, .cost { stroke: #0b4f9e } .some { stroke: #e07b00 } .many { stroke: #a40e26 } .tax { stroke: #e07b00 }
.some, .tax { stroke-dasharray: 9 4 } .many { stroke-dasharray: 3 3 }
.mark { fill: none; stroke: #1f2328; stroke-width: 2 }
)";
constexpr std::string_view kDark = R"(.zero { stroke: #e6edf3 }
.alone, .cost { stroke: #58a6ff } .some { stroke: #f0a34a } .many { stroke: #ff7b72 } .tax { stroke: #f0a34a }
.mark { stroke: #e6edf3 }
)";

struct Point {
  double x = 0, y = 0;
};
/// A curve with its class and its name in the legend.
struct Curve {
  std::string_view kind;
  std::string name;
  std::vector<Point> points;
};

PlotArea area_of(const std::vector<Curve>& curves, double least, double most, int below) {
  double low = least, high = most;
  for (const Curve& curve : curves) {
    for (const Point& point : curve.points) low = std::min(low, point.y), high = std::max(high, point.y);
  }
  PlotArea out{linear_axis(0, 1, 10), linear_axis(low, high, 6)};
  constexpr int kLegend = 24;  // the height of a line above the plot
  out.top += below + kLegend;
  out.bottom += below + kLegend;
  return out;
}

std::string drawn(const std::vector<Curve>& curves, const PlotArea& area) {
  std::string out;
  int left = area.left;
  for (const Curve& curve : curves) {
    std::string points;
    for (const Point& point : curve.points) points += svg_point(area.x(point.x), area.y(point.y));
    out += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", curve.kind, points);
    const int y = area.top - 46;
    out += svg_line(left, y, left + 24, y, curve.kind) + svg_text(left + 30, y + 4, curve.name, "start");
    left += 50 + 7 * static_cast<int>(curve.name.size());
  }
  return out;
}

/// The numbers of faked segments at which a curve is drawn: from 1 to all of them.
std::vector<std::int64_t> faked_counts(std::int64_t segments) {
  std::vector<std::int64_t> out;
  const std::int64_t points = std::min(segments, kPoints);
  for (std::int64_t n = 1; n <= points; ++n) out.push_back(n * segments / points);
  if (out.front() > 1) out.insert(out.begin(), 1);
  return out;
}

std::string gain_picture(const Economy& economy) {
  constexpr std::array<std::pair<double, std::string_view>, 3> kAccomplices = {
      {{0, "alone"}, {0.2, "some"}, {0.4, "many"}}};
  std::vector<Curve> curves;
  for (const auto& [alpha, kind] : kAccomplices) {
    Curve& curve = curves.emplace_back(Curve{
        kind,
        alpha == 0 ? "no accomplices" : fmt::format("accomplices with {:.0f} % of the bonds", alpha * 100),
        {}});
    for (const std::int64_t faked : faked_counts(economy.segments)) {
      const double part = static_cast<double>(faked) / static_cast<double>(economy.segments);
      curve.points.push_back({part, economy.gain(faked, alpha)});
    }
  }
  const PlotArea area = area_of(curves, 0, 0, 0);
  return svg_frame(area, "part of the segments that is faked", "a cheat's gain, in costs of the training") +
         svg_line(area.left, area.y(0), area.right, area.y(0), "zero") + drawn(curves, area);
}

std::string overhead_picture(const Economy& economy) {
  std::vector<Curve> curves;
  curves.push_back({"cost",
                    "with the tax that audits and jackpots need",
                    {{0, economy.overhead_of(0)}, {1, economy.overhead_of(1)}}});
  curves.push_back({"tax", "with the policy's tax", {{0, economy.overhead}, {1, economy.overhead}}});
  const PlotArea area = area_of(curves, 0, 0, kBelow);
  const int left = area.left + 530, y = area.top - 46;
  return svg_frame(area, "part of the verdicts that are audited", "overhead, in costs of the training") +
         drawn(curves, area) + svg_circle(left, y, 7, "mark", "the policy") +
         svg_text(left + 14, y + 4, "the policy", "start") +
         svg_circle(area.x(economy.audits), area.y(economy.overhead), 7, "mark",
                    fmt::format("the policy: {:.3g} of the verdicts audited, overhead {:.3g}", economy.audits,
                                economy.overhead));
}

}  // namespace

std::string bounds_svg(const Economy& economy) {
  return svg_picture(kWidth, kHeight, "what a cheat gains, and what looking costs", kLight, kDark,
                     gain_picture(economy) + overhead_picture(economy));
}

}  // namespace dgx::jobs
