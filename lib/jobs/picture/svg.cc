#include "picture/svg.h"

#include <fmt/format.h>

namespace dgx::jobs {
namespace {

constexpr std::string_view kLight = R"(
text { font: 12px sans-serif; fill: #1f2328 }
.paper { fill: #ffffff } .grid { stroke: #d0d7de } .axis { stroke: #57606a }
)";
constexpr std::string_view kDark = R"(@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.paper { fill: #0d1117 } .grid { stroke: #30363d } .axis { stroke: #9198a1 }
)";

}  // namespace

std::string svg_text(double x, double y, std::string_view words, std::string_view anchor) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
                     x2, y2, kind);
}

std::string svg_circle(double x, double y, int radius, std::string_view kind, std::string_view words) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" class=\"{}\"><title>{}</title></circle>\n",
                     x, y, radius, kind, words);
}

std::string svg_point(double x, double y) { return fmt::format("{:.1f},{:.1f} ", x, y); }

std::string svg_frame(const PlotArea& area, std::string_view across, std::string_view up) {
  std::string out;
  for (const Tick& tick : area.up.ticks) {
    const double y = area.y(tick.value);
    out += svg_line(area.left, y, area.right, y, "grid") + svg_text(area.left - 8, y + 4, tick.label, "end");
  }
  for (const Tick& tick : area.across.ticks) {
    const double x = area.x(tick.value);
    out += svg_line(x, area.bottom, x, area.bottom + 5, "axis") +
           svg_text(x, area.bottom + 20, tick.label, "middle");
  }
  out += svg_line(area.left, area.top, area.left, area.bottom, "axis") +
         svg_line(area.left, area.bottom, area.right, area.bottom, "axis");
  out += svg_text((area.left + area.right) / 2.0, area.bottom + 42, across, "middle");
  out += svg_text(area.left - 8, area.top - 12, up, "start");
  return out;
}

std::string svg_picture(int width, int height, std::string_view title, std::string_view light,
                        std::string_view dark, std::string_view shapes) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>{3}{4}{5}{6}}}\n</style>\n<rect class=\"paper\" "
      "width=\"{0}\" "
      "height=\"{1}\"/>\n{7}</svg>\n",
      width, height, title, kLight, light, kDark, dark, shapes);
}

}  // namespace dgx::jobs
