#include "simulate/simulate_svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "picture/svg.h"

namespace dgx::jobs {
namespace {

constexpr int kWidth = 800;
/// The second picture's distance below the first, its rows, and what is above and below them.
constexpr int kBelow = 440, kRow = 26, kAbove = 50, kUnder = 70;
/// Room for the names of rows, and for half of the last number.
constexpr int kLeft = 170, kRight = 750;

constexpr std::string_view kLight = R"(.zero { stroke: #1f2328; stroke-dasharray: 2 3 }
.mean, .least { fill: none; stroke-width: 2 } .interval { stroke-width: 2 }
.mean, .interval { stroke: #0b4f9e } .least { stroke: #e07b00; stroke-dasharray: 9 4 }
.gain { fill: #0b4f9e } .loss { fill: #a40e26 }
)";
constexpr std::string_view kDark = R"(.zero { stroke: #e6edf3 }
.mean, .interval { stroke: #58a6ff } .least { stroke: #f0a34a } .gain { fill: #58a6ff } .loss { fill: #ff7b72 }
)";

std::string legend(const PlotArea& area, int left, std::string_view kind, std::string_view name) {
  const int y = area.top - 38;
  return svg_line(left, y, left + 24, y, kind) + svg_text(left + 30, y + 4, name, "start");
}

std::string pool_picture(const Simulation& simulation) {
  double most = 0;
  for (const PoolPoint& point : simulation.pool) most = std::max(most, point.mean);
  PlotArea area{linear_axis(0, 100, 10), linear_axis(0, most, 6)};
  area.left = 110;
  area.top += 24;
  area.bottom += 24;
  std::string mean = svg_point(area.x(0), area.y(0)), least = mean;
  for (const PoolPoint& point : simulation.pool) {
    const auto x = area.x(static_cast<double>(point.percent));
    mean += svg_point(x, area.y(point.mean));
    least += svg_point(x, area.y(static_cast<double>(point.least)));
  }
  return svg_frame(area, "percent of each market's tasks that are settled",
                   "jackpot account, in base units") +
         fmt::format("<polyline class=\"mean\" points=\"{}\"/>\n", mean) +
         fmt::format("<polyline class=\"least\" points=\"{}\"/>\n", least) +
         legend(area, area.left, "mean", "mean of the markets") +
         legend(area, area.left + 220, "least", "the least in any market");
}

/// A row each: its mean, and a line from the low to the high end of its interval.
std::string gains_picture(const Simulation& simulation) {
  double low = 0, high = 0;
  for (const Earnings& row : simulation.earnings) {
    low = std::min(low, row.low);
    high = std::max(high, row.high);
  }
  const auto rows = static_cast<int>(simulation.earnings.size());
  PlotArea area{linear_axis(low, high, 8), {-0.5, rows - 0.5, false, {}}};
  area.left = kLeft;
  area.right = kRight;
  area.top = kBelow + kAbove;
  area.bottom = area.top + kRow * rows;
  for (int n = 0; n < rows; ++n) {
    const Earnings& row = simulation.earnings[static_cast<std::size_t>(n)];
    area.up.ticks.push_back(
        {static_cast<double>(rows - 1 - n), fmt::format("{} as {}", name_of(row.kind), name_of(row.role))});
  }
  std::string out = svg_frame(area, "gain per task, in base units: mean and 95 % interval", "") +
                    svg_line(area.x(0), area.top, area.x(0), area.bottom, "zero");
  for (int n = 0; n < rows; ++n) {
    const Earnings& row = simulation.earnings[static_cast<std::size_t>(n)];
    const double y = area.y(rows - 1 - n);
    out += svg_line(area.x(row.low), y, area.x(row.high), y, "interval") +
           svg_circle(area.x(row.mean), y, 5, row.mean < 0 ? "loss" : "gain",
                      fmt::format("{} as {}: {:.6g} in {} tasks", name_of(row.kind), name_of(row.role),
                                  row.mean, row.times));
  }
  return out;
}

}  // namespace

std::string simulation_svg(const Simulation& simulation) {
  const int height = kBelow + kAbove + kRow * static_cast<int>(simulation.earnings.size()) + kUnder;
  return svg_picture(kWidth, height, "what people gain in a market, and what its jackpot holds", kLight,
                     kDark, pool_picture(simulation) + gains_picture(simulation));
}

}  // namespace dgx::jobs
