#pragma once

#include <string>
#include <string_view>

#include "picture/axis.h"

namespace dgx::jobs {

/// The pieces of SVG pictures. Colours are given by class and follow the reader's choice of light or dark.
/// Words are our own: nothing in them is escaped.

/// A rectangle of a picture, in pixels, in which curves are drawn over two axes.
struct PlotArea {
  Axis across, up;
  int left = 70, right = 780, top = 50, bottom = 360;

  [[nodiscard]] double x(double value) const { return left + across.place(value) * (right - left); }
  [[nodiscard]] double y(double value) const { return bottom - up.place(value) * (bottom - top); }
};

[[nodiscard]] std::string svg_text(double x, double y, std::string_view words, std::string_view anchor);
[[nodiscard]] std::string svg_line(double x1, double y1, double x2, double y2, std::string_view kind);
/// A circle that says `words` when it is pointed at.
[[nodiscard]] std::string svg_circle(double x, double y, int radius, std::string_view kind,
                                     std::string_view words);
/// A place in a list of them.
[[nodiscard]] std::string svg_point(double x, double y);

/// Grid, axes, and what they are called.
[[nodiscard]] std::string svg_frame(const PlotArea& area, std::string_view across, std::string_view up);

/// The whole picture. `light` and `dark` are the styles of its own classes, a line or more each; text, paper,
/// grid and axis have theirs.
[[nodiscard]] std::string svg_picture(int width, int height, std::string_view title, std::string_view light,
                                      std::string_view dark, std::string_view shapes);

}  // namespace dgx::jobs
