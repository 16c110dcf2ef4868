#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <sstream>

#include "inspect/curves.h"
#include "picture/axis.h"

namespace dgx::jobs {
namespace {

std::vector<std::string> labels_of(const Axis& axis) {
  std::vector<std::string> out;
  for (const Tick& tick : axis.ticks) out.push_back(tick.label);
  return out;
}

using Labels = std::vector<std::string>;

TEST_CASE("ticks are round numbers within the range") {
  CHECK(labels_of(linear_axis(0, 300, 5)) == Labels{"0", "100", "200", "300"});
  CHECK(labels_of(linear_axis(0.31, 0.52, 4)) == Labels{"0.4", "0.5"});
  CHECK(labels_of(linear_axis(-1, 1, 4)) == Labels{"-1", "-0.5", "0", "0.5", "1"});
  CHECK(labels_of(value_axis(0.02, 3, 6)) == Labels{"0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"});
  CHECK(labels_of(value_axis(1e-6, 1, 6)) == Labels{"1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1"});
}

TEST_CASE("only values above zero that span a power of ten get a logarithmic axis") {
  CHECK(value_axis(0.1, 1, 5).logarithmic);
  CHECK_FALSE(value_axis(0.11, 1, 5).logarithmic);
  CHECK_FALSE(value_axis(0, 1, 5).logarithmic);
  CHECK_FALSE(value_axis(-1, 1, 5).logarithmic);
}

TEST_CASE("an axis has a place for every number, and few ticks, whatever its range") {
  constexpr double kLarge = std::numeric_limits<double>::max();
  constexpr double kSmall = std::numeric_limits<double>::denorm_min();
  const std::pair<double, double> ranges[] = {
      {0, 0}, {1, 1}, {-kLarge, kLarge}, {kSmall, kLarge}, {1e16, 1e16 + 2}, {0, kSmall}, {0x1p53, 0x1p53}};
  for (const auto& [low, high] : ranges) {
    for (const Axis& axis : {linear_axis(low, high, 5), value_axis(low, high, 5)}) {
      CHECK(axis.ticks.size() < 20);
      for (const double number : {low, high, 0.0, kLarge, -kLarge, std::nan("")}) {
        CHECK(axis.place(number) >= 0);
        CHECK(axis.place(number) <= 1);
      }
    }
  }
}

TEST_CASE("a column shows the least, the mean and the greatest of its steps") {
  StepCurve curve;
  for (int step = 1; step <= 100; ++step) curve.add(step, step % 2 == 0 ? 1 : 3);
  curve.add(101, std::nan(""));
  const auto bins = binned(curve, linear_axis(0, 100, 5), 11);
  REQUIRE(bins.size() == 11);
  CHECK(bins[5].low == 1);
  CHECK(bins[5].high == 3);
  CHECK(std::abs(bins[5].mean - 2) < 0.2);
  CHECK(bins[5].column == 5);
}

RunCurves falling(int steps, bool validated) {
  RunCurves out;
  for (int step = 1; step <= steps; ++step) out.loss.add(step, 2.0 / step);
  for (int step = 10; validated && step <= steps; step += 10) {
    out.validation.add(step, 2.5 / step);
    out.best = {step, 2.5 / step};
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("a plot in text has a mark in every column, and none beyond its width") {
  for (const int columns : {40, 80, 200}) {
    const auto lines = lines_of(plot_text(falling(1000, true), columns, false));
    std::string all(static_cast<std::size_t>(columns), ' ');
    for (std::size_t n = 1; n + 3 < lines.size(); ++n) {
      REQUIRE(lines[n].size() < static_cast<std::size_t>(columns));
      for (std::size_t at = 0; at < lines[n].size(); ++at) {
        if (lines[n][at] == '*' || lines[n][at] == 'o') all[at] = '*';
      }
    }
    CHECK(all == std::string(10, ' ') + std::string(static_cast<std::size_t>(columns) - 11, '*') + ' ');
  }
}

TEST_CASE("one step is a plot, too") {
  CHECK(plot_text(falling(1, false), 80, false).find('*') != std::string::npos);
  CHECK(plot_text(falling(1, false), 80, true).find("\xe2\xa0") != std::string::npos);
  CHECK(plot_svg(falling(1, false)).find("class=\"validation\"") == std::string::npos);
}

}  // namespace
}  // namespace dgx::jobs
