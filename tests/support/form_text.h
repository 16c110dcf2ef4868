#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "dgx/core/tensor.h"

namespace dgx::test {

/// An input of a small program.
struct FormInput {
  DType dtype;
  Shape shape;
  std::int64_t below = 0;  ///< integers are in [0, below)
};

inline std::string text_of(const Shape& shape, char separator = ',') {
  std::string text;
  for (const std::int64_t extent : shape)
    text += (text.empty() ? "" : std::string(1, separator)) + std::to_string(extent);
  return text;
}

/// The text of a program. `lines` are the values after the inputs, with @V for their "v"; inputs are state
/// entries model/a, model/b, ….
inline std::string program_text(const std::vector<FormInput>& inputs, const std::vector<std::string>& lines) {
  std::string text;
  std::size_t v = 0;
  for (const FormInput& input : inputs) {
    text += "{\"k\":\"input\",\"s\":[" + text_of(input.shape) + "],\"src\":\"state model/" +
            std::string(1, static_cast<char>('a' + v)) + "\",\"t\":\"" + std::string(name_of(input.dtype)) +
            "\",\"v\":" + std::to_string(v) + "}\n";
    ++v;
  }
  for (std::string line : lines) {
    line.replace(line.find("@V"), 2, std::to_string(v++));
    text += line + "\n";
  }
  return text;
}

/// The lines of a convolution and its gradients, as lowerings write them.
struct Convolution {
  std::int64_t images = 2, in = 3, out = 5, height = 6, width = 7, kernel_h = 3, kernel_w = 3;
  std::int64_t stride = 1, dilation = 1, padding = 1, groups = 1;
  bool channels_last = false;  ///< images are [n, h, w, c]

  [[nodiscard]] std::int64_t out_height() const {
    return (height + 2 * padding - dilation * (kernel_h - 1) - 1) / stride + 1;
  }
  [[nodiscard]] std::int64_t out_width() const {
    return (width + 2 * padding - dilation * (kernel_w - 1) - 1) / stride + 1;
  }
  [[nodiscard]] FormInput x() const { return {DType::kF32, image(in, height, width)}; }
  [[nodiscard]] FormInput w() const { return {DType::kF32, {out, in / groups, kernel_h, kernel_w}}; }
  [[nodiscard]] FormInput dy() const { return {DType::kF32, image(out, out_height(), out_width())}; }
  [[nodiscard]] Shape image(std::int64_t channels, std::int64_t rows, std::int64_t columns) const {
    return channels_last ? Shape{images, rows, columns, channels} : Shape{images, channels, rows, columns};
  }
  /// An image shape with its channels divided into groups.
  [[nodiscard]] Shape grouped(std::int64_t channels, std::int64_t rows, std::int64_t columns) const {
    const std::int64_t some = channels / groups;
    return channels_last ? Shape{images, rows, columns, groups, some}
                         : Shape{images, groups, some, rows, columns};
  }
  /// An access to such an image at the expressions for image, channel (with its group), row and column.
  [[nodiscard]] std::string at(const std::string& n, const std::string& c, const std::string& h,
                               const std::string& w) const {
    return "[" + (channels_last ? n + "," + h + "," + w + "," + c : n + "," + c + "," + h + "," + w) + "]";
  }
  /// The symbol for an output image's channel, row or column; images have rank 4, or 5 if there are groups.
  [[nodiscard]] std::string channel() const {
    return channels_last ? (groups == 1 ? "i3" : "i4") : groups == 1 ? "i1" : "i2";
  }
  [[nodiscard]] std::string group() const { return channels_last ? "i3" : "i1"; }
  [[nodiscard]] std::string row() const { return channels_last ? "i1" : groups == 1 ? "i2" : "i3"; }
  [[nodiscard]] std::string column() const { return channels_last ? "i2" : groups == 1 ? "i3" : "i4"; }

  static std::string times(std::int64_t factor, const std::string& symbol) {
    return factor == 1 ? symbol : std::to_string(factor) + "*" + symbol;
  }
  static std::string plus(std::int64_t constant) {
    return constant == 0 ? "" : (constant < 0 ? "-" : "+") + std::to_string(std::abs(constant));
  }
  /// The input index at output index `o` and tap `t`; the iteration's symbol comes first.
  [[nodiscard]] std::string meet(const std::string& o, const std::string& t) const {
    const std::string a = times(stride, o);
    const std::string b = times(dilation, t);
    return (o[0] == 'i' ? a + "+" + b : b + "+" + a) + plus(-padding);
  }
  /// The output index that reads input index `i` through tap `t`.
  [[nodiscard]] std::string back(const std::string& i, const std::string& t) const {
    const std::string sum = i + "-" + times(dilation, t) + plus(padding);
    return stride == 1 ? sum : "(" + sum + ")/" + std::to_string(stride);
  }
  static std::string line(const Shape& fold, const Shape& shape, const Shape& iteration, const std::string& a,
                          const std::string& b) {
    const std::string split = iteration == shape ? "" : "\"i\":[" + text_of(iteration) + "],";
    return "{\"f\":[" + text_of(fold) + "]," + split + "\"k\":\"dot\",\"s\":[" + text_of(shape) +
           "],\"t\":\"f32\",\"v\":@V,\"x\":[\"" + a + "\",\"" + b + "\"]}";
  }
  static std::string view(const Shape& shape) { return "@" + text_of(shape, '.'); }

  [[nodiscard]] std::string forward() const {
    const std::string x_row = meet(row(), "k0");
    const std::string x_column = meet(column(), "k1");
    if (groups == 1) {
      return line({kernel_h, kernel_w, in}, dy().shape, dy().shape,
                  "0" + at("i0", "k2", x_row, x_column) + "?0x0p0", "1[" + channel() + ",k2,k0,k1]");
    }
    return line(
        {kernel_h, kernel_w, in / groups}, dy().shape, grouped(out, out_height(), out_width()),
        "0" + view(grouped(in, height, width)) + at("i0", group() + ",k2", x_row, x_column) + "?0x0p0",
        "1" + view({groups, out / groups, in / groups, kernel_h, kernel_w}) + "[" + group() + "," +
            channel() + ",k2,k0,k1]");
  }
  /// Inputs: dy, w.
  [[nodiscard]] std::string input_gradient() const {
    const std::string dy_row = back(row(), "k0");
    const std::string dy_column = back(column(), "k1");
    if (groups == 1) {
      return line({kernel_h, kernel_w, out}, x().shape, x().shape,
                  "0" + at("i0", "k2", dy_row, dy_column) + "?0x0p0", "1[k2," + channel() + ",k0,k1]");
    }
    return line({kernel_h, kernel_w, out / groups}, x().shape, grouped(in, height, width),
                "0" + view(grouped(out, out_height(), out_width())) +
                    at("i0", group() + ",k2", dy_row, dy_column) + "?0x0p0",
                "1" + view({groups, out / groups, in / groups, kernel_h, kernel_w}) + "[" + group() + ",k2," +
                    channel() + ",k0,k1]");
  }
  /// Inputs: x, dy.
  [[nodiscard]] std::string weight_gradient() const {
    const std::string first = groups == 1 ? "i2" : "i3";
    const std::string second = groups == 1 ? "i3" : "i4";
    const std::string x_row = meet_fold(first, "k1");
    const std::string x_column = meet_fold(second, "k2");
    if (groups == 1) {
      return line({images, out_height(), out_width()}, w().shape, w().shape, "1" + at("k0", "i0", "k1", "k2"),
                  "0" + at("k0", "i1", x_row, x_column) + "?0x0p0");
    }
    return line({images, out_height(), out_width()}, w().shape,
                {groups, out / groups, in / groups, kernel_h, kernel_w},
                "1" + view(grouped(out, out_height(), out_width())) + at("k0", "i0,i1", "k1", "k2"),
                "0" + view(grouped(in, height, width)) + at("k0", "i0,i2", x_row, x_column) + "?0x0p0");
  }
  [[nodiscard]] std::string meet_fold(const std::string& tap, const std::string& output) const {
    return times(dilation, tap) + "+" + times(stride, output) + plus(-padding);
  }
};

}  // namespace dgx::test
