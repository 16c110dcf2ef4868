// Convolutions and their gradients on the emulated device, in tiles, against the bits of kernels/ref.
#include "device/device_dots.h"

#include <catch2/catch.hpp>
#include <limits>

#include "emulated_device.h"
#include "ref_support.h"

namespace dgx::exec {
namespace {

using namespace kernels;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Form {
  std::int64_t images = 2, in = 3, out = 5, height = 9, width = 7, kernel = 3, stride = 1, padding = 1,
               dilation = 1;
  float fill = 0;

  [[nodiscard]] std::int64_t rows() const {
    return (height + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
  [[nodiscard]] std::int64_t columns() const {
    return (width + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

Shape images(const Form& f) { return {f.images, f.in, f.height, f.width}; }
Shape weights(const Form& f) { return {f.out, f.in, f.kernel, f.kernel}; }
Shape results(const Form& f) { return {f.images, f.out, f.rows(), f.columns()}; }

Access window(int value, Coordinate image, Coordinate channel, const Form& f, Term row, Term column,
              Term row_tap, Term column_tap) {
  row.coefficient = column.coefficient = f.stride;
  row_tap.coefficient = column_tap.coefficient = f.dilation;
  return read(value,
              {std::move(image), std::move(channel), at({row, row_tap}, -f.padding),
               at({column, column_tap}, -f.padding)},
              Literal{f.fill});
}

/// y[n, co, oh, ow] over (kh, kw, ci), of x and w.
Primitive forward(const Form& f) {
  return fold(Kind::kDot, DType::kF32, results(f), {f.kernel, f.kernel, f.in},
              {window(0, at({i(0)}), at({k(2)}), f, i(2), i(3), k(0), k(1)),
               read(1, {at({i(1)}), at({k(2)}), at({k(0)}), at({k(1)})})});
}
/// dx[n, ci, h, w] over (kh, kw, co), of dy and w.
Primitive input_gradient(const Form& f) {
  const auto back = [&f](Term at, Term tap) {
    tap.coefficient = -f.dilation;
    return exactly({at, tap}, f.padding, f.stride);
  };
  return fold(Kind::kDot, DType::kF32, images(f), {f.kernel, f.kernel, f.out},
              {read(0, {at({i(0)}), at({k(2)}), back(i(2), k(0)), back(i(3), k(1))}, Literal{f.fill}),
               read(1, {at({k(2)}), at({i(1)}), at({k(0)}), at({k(1)})})});
}
/// dw[co, ci, kh, kw] over (n, oh, ow), of dy and x.
Primitive weight_gradient(const Form& f) {
  return fold(Kind::kDot, DType::kF32, weights(f), {f.images, f.rows(), f.columns()},
              {read(0, {at({k(0)}), at({i(0)}), at({k(1)}), at({k(2)})}),
               window(1, at({k(0)}), at({i(1)}), f, k(1), k(2), i(2), i(3))});
}

Tensor numbers(const Shape& shape, std::uint64_t seed, bool spiced) {
  std::vector<float> values = pattern(seed, *element_count(shape));
  const std::vector<float> spices = {-0.0F, 0x1p-149F, kInfinity, kNan, -kInfinity, 0x1.fffffep127F};
  for (std::size_t n = seed % 5; spiced && n < values.size(); n += 41)
    values[n] = spices[n / 41 % spices.size()];
  return floats(shape, std::move(values));
}

class Bench {
 public:
  explicit Bench(const char* behaves = "") : device_(test::emulated_device(behaves)) {}

  void check(const Primitive& primitive, const std::vector<Tensor>& values, cuda::Tile tile,
             std::int64_t piece = 0) {
    auto dot = recognise_tiled_dot({}, compiled(primitive, values));
    REQUIRE(dot);
    dot->dot.a.from = there(values[static_cast<std::size_t>(dot->a)]);
    dot->dot.b.from = there(values[static_cast<std::size_t>(dot->b)]);
    const Tensor expected = evaluate(primitive, values);
    dot->dot.out = memory(expected.count());
    dot->dot.form = {tile, piece};
    if (piece != 0) dot->dot.pieces = memory(cuda::piece_numbers(wanted_of(dot->dot), dot->dot.form));
    const Status launched = device_->launch(dot->dot);
    if (!launched.ok()) FAIL(launched.error().message);
    Tensor got(DType::kF32, expected.shape());
    REQUIRE(device_->download(got.bytes().data(), dot->dot.out, expected.count() * 4).ok());
    std::int64_t wrong = 0;
    for (std::int64_t n = 0; n < expected.count(); ++n) {
      const auto at = static_cast<std::size_t>(n);
      wrong += bits(got.as<float>()[at]) != bits(expected.as<float>()[at]) ? 1 : 0;
    }
    INFO("tile " << cuda::extent_of(tile).rows << " × " << cuda::extent_of(tile).columns << ", pieces of "
                 << piece);
    CHECK(wrong == 0);
  }

 private:
  float* memory(std::int64_t count) {
    auto taken = device_->allocate(count * 4);
    REQUIRE(taken.ok());
    return static_cast<float*>(*taken);
  }
  const float* there(const Tensor& tensor) {
    float* const to = memory(tensor.count());
    REQUIRE(device_->upload(to, tensor.bytes().data(), tensor.count() * 4).ok());
    return to;
  }

  std::unique_ptr<cuda::Device> device_;
};

void check_all(Bench& bench, const Form& f, cuda::Tile tile, bool spiced) {
  INFO(f.images << " images, " << f.in << " to " << f.out << " channels, " << f.height << " × " << f.width
                << ", kernel " << f.kernel << ", stride " << f.stride << ", padding " << f.padding
                << ", dilation " << f.dilation << ", fill " << f.fill);
  const Tensor x = numbers(images(f), 1, spiced), w = numbers(weights(f), 2, spiced),
               y = numbers(results(f), 3, spiced);
  bench.check(forward(f), {x, w}, tile);
  bench.check(input_gradient(f), {y, w}, tile);
  bench.check(weight_gradient(f), {y, x}, tile);
}

TEST_CASE("convolutions on a device have the bits of the definition in every tile", "[device]") {
  Bench bench;
  for (const cuda::Tile tile : cuda::kTiles) {
    for (const bool spiced : {false, true}) {
      check_all(bench, {.in = 4, .out = 5}, tile, spiced);
      check_all(bench, {.in = 5, .out = 33, .stride = 2}, tile, spiced);
      check_all(bench, {.in = 4, .out = 4, .height = 12, .width = 5, .padding = 2, .dilation = 2}, tile,
                spiced);
      check_all(bench, {.images = 3, .in = 8, .out = 6, .kernel = 1, .stride = 3, .padding = 0}, tile,
                spiced);
    }
    // Four at a time.
    check_all(bench, {.images = 4, .in = 4, .out = 8, .height = 8, .width = 8}, tile, false);
    check_all(bench, {.in = 4, .out = 4, .fill = -0.0F}, tile, false);
  }
}

TEST_CASE("a weight gradient over many images adds its groups in order, in one kernel or two", "[device]") {
  const Form f{.images = 6, .in = 4, .out = 5, .height = 31, .width = 30};  // 5,580 positions
  const Tensor x = numbers(images(f), 1, false), y = numbers(results(f), 3, false);
  for (const char* order : {"", "order=reversed", "order=shuffled"}) {
    Bench bench(order);
    for (const std::int64_t piece : {0, 256, 4096})
      bench.check(weight_gradient(f), {y, x}, cuda::Tile::k32x32Fine, piece);
  }
  Bench bench;
  for (const cuda::Tile tile : {cuda::Tile::kAny, cuda::Tile::k16x256})
    bench.check(weight_gradient(f), {y, x}, tile, 256);
}

TEST_CASE("a convolution of several blocks of positions has the bits of the definition", "[device]") {
  Bench bench;
  const Form f{.images = 1, .in = 70, .out = 34, .height = 6, .width = 6};  // 630 positions
  for (const cuda::Tile tile : cuda::kTiles) check_all(bench, f, tile, true);
}

TEST_CASE("channels in groups are a batch of dots", "[device]") {
  // y[n, g, co, h, w]: 3 groups of 4 channels.
  const Primitive grouped = fold(
      Kind::kDot, DType::kF32, {2, 3, 4, 5, 5}, {3, 3, 4},
      {read(0, {at({i(0)}), at({i(1, 4), k(2)}), at({i(3), k(0)}, -1), at({i(4), k(1)}, -1)}, Literal{0.0F}),
       read(1, {at({i(1)}), at({i(2)}), at({k(2)}), at({k(0)}), at({k(1)})})});
  const std::vector<Tensor> values = {numbers({2, 12, 5, 5}, 1, true), numbers({3, 4, 4, 3, 3}, 2, true)};
  Bench bench;
  for (const cuda::Tile tile : {cuda::Tile::kAny, cuda::Tile::k32x32Fine, cuda::Tile::k128x128})
    bench.check(grouped, values, tile);
}

TEST_CASE("a convolution in three dimensions, and one of a channel each, are dots", "[device]") {
  // y[n, co, d, h, w] over (kd, kh, kw, ci); y[n, c, h, w] over (kh, kw), and its weights' gradient over (n,
  // h, w).
  const Primitive solid =
      fold(Kind::kDot, DType::kF32, {2, 5, 4, 5, 6}, {3, 3, 2, 3},
           {read(0, {at({i(0)}), at({k(3)}), at({i(2), k(0)}, -1), at({i(3), k(1)}, -1), at({i(4), k(2)})},
                 Literal{0.0F}),
            read(1, {at({i(1)}), at({k(3)}), at({k(0)}), at({k(1)}), at({k(2)})})});
  const Primitive flat =
      fold(Kind::kDot, DType::kF32, {2, 6, 7, 7}, {3, 3},
           {read(0, {at({i(0)}), at({i(1)}), at({i(2), k(0)}, -1), at({i(3), k(1)}, -1)}, Literal{0.0F}),
            read(1, {at({i(1)}), at({k(0)}), at({k(1)})})});
  const Primitive gradient =
      fold(Kind::kDot, DType::kF32, {6, 3, 3}, {2, 7, 7},
           {read(0, {at({k(0)}), at({i(0)}), at({k(1)}), at({k(2)})}),
            read(1, {at({k(0)}), at({i(0)}), at({k(1), i(1)}, -1), at({k(2), i(2)}, -1)}, Literal{0.0F})});
  const Tensor x = numbers({2, 6, 7, 7}, 1, true);
  Bench bench;
  for (const cuda::Tile tile : {cuda::Tile::kAny, cuda::Tile::k32x32Fine, cuda::Tile::k16x256}) {
    bench.check(solid, {numbers({2, 3, 4, 5, 7}, 1, true), numbers({5, 3, 3, 3, 2}, 2, true)}, tile);
    bench.check(flat, {x, numbers({6, 3, 3}, 2, true)}, tile);
    bench.check(gradient, {x, x}, tile);
  }
}

TEST_CASE("a coordinate of several indices has a tap for each of their numbers", "[device]") {
  // Windows of windows: 2 · 3 taps of one coordinate, on the positions' side and on the lines' side.
  const Primitive wide = fold(Kind::kDot, DType::kF32, {5, 30}, {2, 3, 4},
                              {read(0, {at({i(0)}), at({k(0)}), at({k(1)}), at({k(2)})}),
                               read(1, {at({i(1), k(0, 4), k(1)}, -3), at({k(2)})}, Literal{0.0F})});
  const Primitive back =
      fold(Kind::kDot, DType::kF32, {5, 2, 3}, {30},
           {read(0, {at({i(0)}), at({k(0)})}), read(1, {at({k(0), i(1, 4), i(2)}, -3)}, Literal{0.0F})});
  Bench bench;
  for (const cuda::Tile tile : cuda::kTiles) {
    bench.check(wide, {numbers({5, 2, 3, 4}, 1, false), numbers({30, 4}, 2, false)}, tile);
    bench.check(back, {numbers({5, 30}, 1, false), numbers({30}, 2, false)}, tile);
  }
}

TEST_CASE("a dot may read what lies before where its indices are 0", "[device]") {
  // A convolution with a reversed kernel, of a value that is read backwards.
  Term back = i(1), turned = k(0);
  back.coefficient = turned.coefficient = -1;
  const Primitive reversed = fold(Kind::kDot, DType::kF32, {6, 20}, {3, 5},
                                  {read(0, {at({i(0)}), at({turned}, 2), at({k(1)})}),
                                   read(1, {at({back, k(0)}, 18), at({k(1)})}, Literal{0.0F})});
  Bench bench;
  for (const cuda::Tile tile : cuda::kTiles)
    bench.check(reversed, {numbers({6, 3, 5}, 1, false), numbers({20, 5}, 2, false)}, tile);
}

TEST_CASE("what tiles do not cover is not recognised", "[device]") {
  const auto refused = [](const Primitive& primitive, const std::vector<Tensor>& values) {
    return !recognise_tiled_dot({}, compiled(primitive, values)).has_value();
  };
  const Tensor line = numbers({20}, 1, false), square = numbers({20, 20}, 2, false),
               small = numbers({6, 6, 6, 6}, 3, false);
  // Not supported: windows on both sides; four coordinates that may be out of range; more taps than bits; a
  // fill other than 0; an index that is read.
  CHECK(refused(
      fold(Kind::kDot, DType::kF32, {20, 20}, {9},
           {read(0, {at({i(0), k(0)}, -4)}, Literal{0.0F}), read(1, {at({i(1), k(0)}, -4)}, Literal{0.0F})}),
      {line, line}));
  CHECK(refused(
      fold(Kind::kDot, DType::kF32, {5, 6, 6, 6, 6}, {3},
           {read(0, {at({i(0)}), at({k(0)})}),
            read(1, {at({i(1), k(0)}, -1), at({i(2), k(0)}, -1), at({i(3), k(0)}, -1), at({i(4), k(0)}, -1)},
                 Literal{0.0F})}),
      {square, small}));
  CHECK(refused(fold(Kind::kDot, DType::kF32, {5, 40}, {40},
                     {read(0, {at({i(0)}), at({k(0)})}), read(1, {at({i(1), k(0)}, -20)}, Literal{0.0F})}),
                {numbers({5, 40}, 1, false), line}));
  CHECK(refused(fold(Kind::kDot, DType::kF32, {5, 20}, {20},
                     {read(0, {at({i(0)}), at({k(0)})}), read(1, {at({i(1), k(0)}, -9)}, Literal{-1.5F})}),
                {square, line}));
  const Tensor index = integers({20}, std::vector<std::int64_t>(20, 3));
  CHECK(refused(
      fold(Kind::kDot, DType::kF32, {20, 20}, {20},
           {read(0, {at({i(0)}), at({k(0)})}), read(1, {at({via(2)}), at({i(1)})}), read(2, {at({k(0)})})}),
      {square, square, index}));
}

}  // namespace
}  // namespace dgx::exec
