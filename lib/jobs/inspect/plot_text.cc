#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "inspect/curves.h"

namespace dgx::jobs {
namespace {

/// The characters that a picture is drawn with.
struct Signs {
  int across, down;  ///< dots in a character
  const char *tick, *side, *corner, *below, *bottom, *loss;
};
constexpr Signs kBraille{2, 4, "┤", "│", "└", "┬", "─", "⠤⠤"};
constexpr Signs kAscii{1, 1, "+", "|", "+", "+", "-", "*"};

/// The characters between the axes. A cell has dots, and perhaps a letter over them.
class Canvas {
 public:
  Canvas(int columns, int rows, const Signs& signs)
      : columns_(columns),
        rows_(rows),
        signs_(signs),
        dots_(static_cast<std::size_t>(columns * rows)),
        letters_(dots_.size()) {}

  [[nodiscard]] int dots_across() const { return columns_ * signs_.across; }
  [[nodiscard]] int dots_down() const { return rows_ * signs_.down; }

  void dot(int x, int y) {
    // The bits of U+2800, by column and row of a cell.
    constexpr std::uint8_t kBits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    std::uint8_t& dots = dots_[cell(x / signs_.across, y / signs_.down)];
    dots = static_cast<std::uint8_t>(dots | kBits[x % signs_.across][y % signs_.down]);
  }
  void letter(int x, int y, char letter) { letters_[cell(x / signs_.across, y / signs_.down)] = letter; }

  /// Draws a line of dots without gaps, from left to right.
  void line(int x1, int y1, int x2, int y2) {
    int before = y1;
    for (int x = x1; x <= x2; ++x) {
      const double part = x2 == x1 ? 1 : static_cast<double>(x - x1) / (x2 - x1);
      const int y = static_cast<int>(std::lround(y1 + part * (y2 - y1)));
      for (int at = std::min(before, y); at <= std::max(before, y); ++at) dot(x, at);
      before = y;
    }
  }

  [[nodiscard]] std::string row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) text += sign(cell(column, row));
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

 private:
  [[nodiscard]] std::size_t cell(int column, int row) const {
    return static_cast<std::size_t>(row * columns_ + column);
  }
  [[nodiscard]] std::string sign(std::size_t cell) const {
    const unsigned dots = dots_[cell];
    if (letters_[cell] != 0) return std::string(1, letters_[cell]);
    if (dots == 0) return " ";
    if (signs_.across == 1) return signs_.loss;
    // U+2800 + dots in UTF-8.
    return {'\xe2', static_cast<char>(0xa0U | dots >> 6U), static_cast<char>(0x80U | (dots & 0x3fU))};
  }

  int columns_;
  int rows_;
  const Signs& signs_;
  std::vector<std::uint8_t> dots_;
  std::vector<char> letters_;  // 0: none
};

int place_of(double place, int count) { return static_cast<int>(std::lround(place * (count - 1))); }

/// The axis for the losses drawn: means of columns, and validations.
Axis loss_axis(const std::vector<Bin>& bins, const StepCurve& validation, int ticks) {
  double low = bins.front().mean, high = low;
  const auto take = [&](double value) { low = std::min(low, value), high = std::max(high, value); };
  for (const Bin& bin : bins) take(bin.mean);
  for (const double value : validation.values) take(value);
  return value_axis(low, high, ticks);
}

void draw(const RunCurves& curves, const std::vector<Bin>& bins, const Axis& steps, const Axis& losses,
          Canvas& canvas) {
  const auto down = [&](double loss) { return place_of(1 - losses.place(loss), canvas.dots_down()); };
  for (std::size_t n = 0; n < bins.size(); ++n) {
    const Bin& from = bins[n > 0 ? n - 1 : 0];
    canvas.line(static_cast<int>(from.column), down(from.mean), static_cast<int>(bins[n].column),
                down(bins[n].mean));
  }
  for (std::size_t i = 0; i < curves.validation.steps.size(); ++i) {
    canvas.letter(place_of(steps.place(curves.validation.steps[i]), canvas.dots_across()),
                  down(curves.validation.values[i]), 'o');
  }
}

/// The two lines below the picture: the axis of steps, and its labels where there is room for them.
std::string foot(const Axis& steps, int indent, int width, const Signs& signs) {
  std::vector<std::string> line(static_cast<std::size_t>(width), signs.bottom);
  std::string labels;
  for (const Tick& tick : steps.ticks) {
    const int column = place_of(steps.place(tick.value), width);
    line[static_cast<std::size_t>(column)] = signs.below;
    const int length = static_cast<int>(tick.label.size());
    const int begin = std::clamp(column - length / 2, 0, std::max(width - length, 0));
    const int end = static_cast<int>(labels.size());
    if (begin > end || end == 0)
      labels += std::string(static_cast<std::size_t>(begin - end), ' ') + tick.label;
  }
  return fmt::format("{:>{}}{}{}\n{:>{}}{}\n", "", indent, signs.corner, fmt::join(line, ""), "", indent + 1,
                     labels);
}

}  // namespace

std::string plot_text(const RunCurves& curves, int columns, bool braille) {
  const Signs& signs = braille ? kBraille : kAscii;
  const int rows = std::clamp(columns / 5, 10, 24);
  constexpr int kMostLabel =
      8;  // "1.25e-06"; reserved, since the width is needed before the labels are known
  const int width = columns - kMostLabel - 3;
  Canvas canvas(width, rows, signs);
  const Axis steps = step_axis(curves, width / 12);
  const auto bins = binned(curves.loss, steps, static_cast<std::size_t>(canvas.dots_across()));
  const Axis losses = loss_axis(bins, curves.validation, rows / 3);
  draw(curves, bins, steps, losses, canvas);
  std::vector<std::string> labels(static_cast<std::size_t>(rows));
  for (const Tick& tick : losses.ticks)
    labels[static_cast<std::size_t>(place_of(1 - losses.place(tick.value), rows))] = tick.label;
  std::string text = fmt::format("{:>{}} loss{}   {} loss of each batch{}\n", "", kMostLabel,
                                 losses.logarithmic ? ", logarithmic" : "", signs.loss,
                                 curves.validation.empty() ? "" : "   o validation");
  for (int row = 0; row < rows; ++row) {
    const std::string& label = labels[static_cast<std::size_t>(row)];
    text += fmt::format("{:>{}} {}{}\n", label, kMostLabel, label.empty() ? signs.side : signs.tick,
                        canvas.row(row));
  }
  text += foot(steps, kMostLabel + 1, width, signs);
  return text + fmt::format("{:>{}} step; {}\n", "", kMostLabel, last_numbers(curves));
}

}  // namespace dgx::jobs
