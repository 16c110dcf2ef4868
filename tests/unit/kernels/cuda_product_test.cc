// Products of the GPU kernels, on the emulated device, against the bits of kernels/ref.

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <utility>

#include "dgx/kernels/evaluate.h"
#include "emulated_device.h"
#include "ref_support.h"

namespace dgx::kernels {
namespace {

/// Numbers in the device's memory.
class OnDevice {
 public:
  explicit OnDevice(const char* behaves = "") : device_(test::emulated_device(behaves)) {}
  [[nodiscard]] cuda::Device& device() { return *device_; }

  [[nodiscard]] float* numbers(std::int64_t count) {
    auto memory = device_->allocate(count * 4);
    REQUIRE(memory.ok());
    return static_cast<float*>(*memory);
  }
  [[nodiscard]] float* upload(const std::vector<float>& from) {
    float* const to = numbers(static_cast<std::int64_t>(from.size()));
    REQUIRE(device_->upload(to, from.data(), static_cast<std::int64_t>(from.size() * 4)).ok());
    return to;
  }
  [[nodiscard]] std::vector<float> download(const float* from, std::int64_t count) {
    std::vector<float> to(static_cast<std::size_t>(count));
    REQUIRE(device_->download(to.data(), from, count * 4).ok());
    return to;
  }

 private:
  std::unique_ptr<cuda::Device> device_;
};

/// Strides of [batch][lines][depth] or [batch][depth][lines].
struct Side {
  std::int64_t batch = 0, line = 0, depth = 0, base = 0;
};

struct Shapes {
  std::int64_t rows = 1, columns = 1, depth = 1, batch = 1;
  bool a_transposed = false, b_transposed = false;
  std::int64_t gap = 0;        ///< numbers skipped between neighbours in memory
  bool gap_before_all = true;  ///< as many numbers lie before the first one, too
  cuda::Tile tile = cuda::Tile::kAny;
  std::int64_t piece = 0;

  [[nodiscard]] cuda::TileWanted wanted() const { return {rows, columns, depth, batch}; }
};

std::string name_of(cuda::Tile tile) {
  if (tile == cuda::Tile::kAny) return "any tile";
  return "tiles of " + std::to_string(cuda::extent_of(tile).rows) + " × " +
         std::to_string(cuda::extent_of(tile).columns);
}

Side side_of(std::int64_t lines, std::int64_t depth, bool along_lines, std::int64_t gap) {
  if (along_lines) return {depth * (lines + gap), 1, lines + gap, gap};
  return {lines * (depth + gap), depth + gap, 1, gap};
}

/// `values` with some numbers replaced by ones that a kernel might treat specially.
std::vector<float> spiced(std::vector<float> values, std::uint64_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> spices = {0.0F,
                                     -0.0F,
                                     0x1p-149F,
                                     -0x1.8p-130F,
                                     kInfinity,
                                     -kInfinity,
                                     std::numeric_limits<float>::quiet_NaN(),
                                     0x1.fffffep127F};
  for (std::size_t n = seed % 7; n < values.size(); n += 61 + n % 19)
    values[n] = spices[(n / 61) % spices.size()];
  return values;
}

std::vector<float> reference(const Shapes& s, const Side& a, const Side& b, const std::vector<float>& left,
                             const std::vector<float>& right) {
  const auto access = [](int value, const Side& side, int line) {
    Term t0 = i(0), t1 = i(line), t2 = k(0);
    t0.coefficient = side.batch;
    t1.coefficient = side.line;
    t2.coefficient = side.depth;
    return read(value, {at({t0, t1, t2}, side.base)});
  };
  const auto primitive = fold(Kind::kDot, DType::kF32, {s.batch, s.rows, s.columns}, {s.depth},
                              {access(0, a, 1), access(1, b, 2)});
  const auto count = [](const std::vector<float>& v) { return static_cast<std::int64_t>(v.size()); };
  const auto out = evaluate(primitive, {floats({count(left)}, left), floats({count(right)}, right)});
  return {out.as<float>().begin(), out.as<float>().end()};
}

void check(OnDevice& on, const Shapes& s) {
  INFO(s.batch << " × " << s.rows << " × " << s.columns << ", depth " << s.depth << ", " << name_of(s.tile)
               << (s.a_transposed ? ", a transposed" : "") << (s.b_transposed ? ", b transposed" : "")
               << ", gap " << s.gap << ", pieces of " << s.piece);
  Side a = side_of(s.rows, s.depth, s.a_transposed, s.gap),
       b = side_of(s.columns, s.depth, !s.b_transposed, s.gap);
  if (!s.gap_before_all) a.base = b.base = 0;
  const auto seed = static_cast<std::uint64_t>(s.rows * 1000 + s.columns + s.depth);
  const auto left = spiced(pattern(seed, s.batch * a.batch + s.gap + 1), seed),
             right = spiced(pattern(seed + 1, s.batch * b.batch + s.gap + 1), seed + 3);
  const std::int64_t out_row = s.columns + s.gap, out_batch = s.rows * out_row;
  cuda::Product product;
  product.a = on.upload(left) + a.base;
  product.b = on.upload(right) + b.base;
  product.out = on.numbers(s.batch * out_batch + 1);
  product.rows = s.rows;
  product.columns = s.columns;
  product.depth = s.depth;
  product.a_row = a.line;
  product.a_depth = a.depth;
  product.b_depth = b.depth;
  product.b_column = b.line;
  product.out_row = out_row;
  product.batch.count = s.batch;
  product.batch.dimensions = 1;
  product.batch.extents[0] = s.batch;
  product.batch.strides[0][0] = a.batch;
  product.batch.strides[1][0] = b.batch;
  product.batch.strides[2][0] = out_batch;
  product.form = {s.tile, s.piece};
  if (s.piece != 0) product.pieces = on.numbers(cuda::piece_numbers(s.wanted(), product.form));
  const auto before = on.download(product.out, s.batch * out_batch + 1);
  const Status launched = on.device().launch(product);
  if (!launched.ok()) FAIL(launched.error().message);
  const auto out = on.download(product.out, s.batch * out_batch + 1);
  const auto expected = reference(s, a, b, left, right);
  for (std::int64_t n = 0; n < s.batch * out_batch + 1; ++n) {
    const std::int64_t row = n / out_row, column = n % out_row;
    const bool inside = column < s.columns && row < s.batch * s.rows;
    const float wanted = inside ? expected[static_cast<std::size_t>(row * s.columns + column)]
                                : before[static_cast<std::size_t>(n)];
    const float got = out[static_cast<std::size_t>(n)];
    if (bits(got) == bits(wanted)) continue;
    INFO("number " << n << (inside ? "" : ", which is no output"));
    REQUIRE(bits(got) == bits(wanted));
  }
}

TEST_CASE("a product on a device has the bits of the definition around every edge of its tiles", "[device]") {
  OnDevice on;
  for (const cuda::Tile tile : cuda::kTiles) {
    const auto [height, width] = std::pair(cuda::extent_of(tile).rows, cuda::extent_of(tile).columns);
    for (const std::int64_t rows : {std::int64_t{1}, height - 1, height, height + 1}) {
      for (const std::int64_t columns : {std::int64_t{1}, width - 1, width, width + 5}) {
        check(on, {.rows = rows,
                   .columns = columns,
                   .depth = 19,
                   .a_transposed = rows % 2 == 0,
                   .b_transposed = columns % 2 == 0,
                   .tile = tile});
      }
    }
  }
}

TEST_CASE("a product on a device has the bits of the definition at every depth and stride", "[device]") {
  OnDevice on;
  for (const cuda::Tile tile : cuda::kTiles) {
    for (const std::int64_t depth : {0, 1, 7, 8, 9, 15, 16, 17, 32, 33, 255, 256, 257, 512, 520}) {
      for (int form = 0; form < 4; ++form) {
        for (const std::int64_t gap : {0, 3}) {
          const std::int64_t lines = depth % 8 == 0 ? 4 : 3;  // four at a time, and otherwise
          check(on, {.rows = lines * 9,
                     .columns = lines * 13,
                     .depth = depth,
                     .batch = 2,
                     .a_transposed = form % 2 == 1,
                     .b_transposed = form > 1,
                     .gap = gap,
                     .tile = tile});
        }
      }
    }
  }
}

TEST_CASE("a product on a device has the bits of the definition where lines are aligned and depths are not",
          "[device]") {
  OnDevice on;
  for (const cuda::Tile tile : cuda::kTiles) {
    const auto [height, width] = std::pair(cuda::extent_of(tile).rows, cuda::extent_of(tile).columns);
    for (const std::int64_t depth : {1, 2, 7, 13, 18, 31, 257}) {
      for (int form = 0; form < 4; ++form) {
        const bool fits = depth % 2 == 1;
        check(on, {.rows = fits ? height : height + 5,
                   .columns = fits ? width : width + 8,
                   .depth = depth,
                   .batch = depth < 8 ? 2 : 1,
                   .a_transposed = form % 2 == 1,
                   .b_transposed = form > 1,
                   .gap = 4 - depth % 4,
                   .gap_before_all = false,
                   .tile = tile});
      }
    }
  }
}

TEST_CASE("a product on a device has the bits of the definition where all of its tiles is there",
          "[device]") {
  OnDevice on;
  for (const cuda::Tile tile : cuda::kTiles) {
    const auto [height, width] = std::pair(cuda::extent_of(tile).rows, cuda::extent_of(tile).columns);
    for (int form = 0; form < 4; ++form) {
      check(on, {.rows = height,
                 .columns = 2 * width,
                 .depth = 292,
                 .a_transposed = form % 2 == 1,
                 .b_transposed = form > 1,
                 .gap = 4,
                 .tile = tile});
    }
  }
}

TEST_CASE("a deep product on a device adds groups in order, in one kernel or two", "[device]") {
  for (const char* order : {"", "order=reversed", "order=shuffled"}) {
    OnDevice on(order);
    for (const std::int64_t depth : {4095, 4096, 4097, 8192, 12300}) {
      for (const std::int64_t piece : {0, 256, 4096}) {
        check(on, {.rows = 5,
                   .columns = 7,
                   .depth = depth,
                   .batch = 2,
                   .b_transposed = true,
                   .tile = cuda::Tile::k32x32Fine,
                   .piece = piece});
      }
    }
  }
  OnDevice on;
  for (const cuda::Tile tile : cuda::kTiles) {
    for (const std::int64_t piece : {0, 256, 4096})
      check(on, {.rows = 4, .columns = 8, .depth = 8196, .b_transposed = true, .tile = tile, .piece = piece});
  }
}

TEST_CASE("a product on a device chooses a tile that fits", "[device]") {
  OnDevice on;
  check(on, {.rows = 129, .columns = 127, .depth = 12, .batch = 70});
  check(on, {.rows = 65, .columns = 64, .depth = 12, .batch = 66});
  check(on, {.rows = 70, .columns = 70, .depth = 12});
  check(on, {.rows = 70, .columns = 70, .depth = 520, .piece = 256});
}

TEST_CASE("a product that is cut has memory for its pieces, or is not launched", "[device][emulated]") {
  OnDevice on;
  cuda::Product product;
  product.a = product.b = on.numbers(512);
  product.out = on.numbers(1);
  product.rows = product.columns = 1;
  product.depth = 512;
  product.form.piece = 256;
  CHECK(!on.device().launch(product).ok());
}

/// A product's time on an H200 at commit 497198d7 (gpu_product_bench --forms): microseconds in the fastest
/// form, and the forms that take at most 7 % longer. Products of the same extents differ in their layouts.
struct Measured {
  const char* name = "";
  cuda::TileWanted wanted;
  double fastest = 0;
  std::vector<cuda::TileForm> near;
};

using cuda::Tile;
const Measured kMeasured[] = {
    {"square", {512, 512, 512}, 18.2, {{Tile::k64x64Fine, 256}, {Tile::k32x128, 256}, {Tile::k16x256, 256}}},
    {"square",
     {1024, 1024, 1024},
     64.5,
     {{Tile::k64x128, 0}, {Tile::k128x64, 0}, {Tile::k128x128, 256}, {Tile::k64x128, 256}}},
    {"square",
     {2048, 2048, 2048},
     390.6,
     {{Tile::k64x128, 0}, {Tile::k128x128, 0}, {Tile::k128x64, 0}, {Tile::k64x64, 0}}},
    {"square",
     {4096, 4096, 4096},
     3023.4,
     {{Tile::k64x128, 0}, {Tile::k64x64, 0}, {Tile::k128x128, 0}, {Tile::k128x64, 0}}},
    {"square-bt", {4096, 4096, 4096}, 3166.8, {{Tile::k128x128, 0}, {Tile::k64x128, 0}, {Tile::k128x64, 0}}},
    {"square-at",
     {4096, 4096, 4096},
     2904.6,
     {{Tile::k128x128, 0}, {Tile::k64x64, 0}, {Tile::k128x64, 0}, {Tile::k64x128, 0}}},
    {"gpt-attention",
     {16384, 1152, 384},
     359.2,
     {{Tile::k128x128, 0}, {Tile::k64x128, 0}, {Tile::k128x64, 0}}},
    {"gpt-projection",
     {16384, 384, 384},
     126.9,
     {{Tile::k128x128, 0}, {Tile::k128x64, 0}, {Tile::k64x128, 0}}},
    {"gpt-up",
     {16384, 1536, 384},
     476.0,
     {{Tile::k128x128, 0}, {Tile::k64x128, 0}, {Tile::k128x64, 0}, {Tile::k64x64, 0}}},
    {"gpt-down", {16384, 384, 1536}, 474.6, {{Tile::k128x128, 0}, {Tile::k128x64, 0}, {Tile::k64x128, 0}}},
    {"gpt-up-dX",
     {16384, 384, 1536},
     447.9,
     {{Tile::k64x128, 0}, {Tile::k128x128, 0}, {Tile::k64x64, 0}, {Tile::k128x64, 0}}},
    {"gpt-up-dW",
     {1536, 384, 16384},
     471.3,
     {{Tile::k64x64, 256}, {Tile::k128x128, 256}, {Tile::k64x128, 256}, {Tile::k128x64, 256}}},
    {"gpt-projection-dW",
     {384, 384, 16384},
     131.5,
     {{Tile::k128x64, 256}, {Tile::k64x128, 256}, {Tile::k128x128, 256}, {Tile::k64x64, 256}}},
    {"gpt-scores", {256, 256, 64, 384}, 110.1, {{Tile::k128x128, 0}, {Tile::k64x128, 0}, {Tile::k128x64, 0}}},
    {"gpt-values", {256, 64, 256, 384}, 92.0, {{Tile::k64x64, 0}, {Tile::k128x64, 0}}},
    {"gpt-values-dV", {256, 64, 256, 384}, 90.7, {{Tile::k128x64, 0}, {Tile::k64x64, 0}}},
    {"mlp", {128, 256, 784}, 11.8, {{Tile::k32x32Fine, 256}}},
    {"mlp", {256, 784, 128}, 7.6, {{Tile::k64x64Fine, 0}}},
    {"mlp", {128, 10, 128}, 6.0, {{Tile::k32x32Fine, 0}}}};

TEST_CASE("the form of a product is one of the fastest on a large device, and its time about as estimated") {
  for (const Measured& measured : kMeasured) {
    const cuda::TileForm form = cuda::choose_form(measured.wanted);
    INFO(measured.name << ": " << name_of(form.tile) << ", pieces of " << form.piece);
    CHECK(std::any_of(measured.near.begin(), measured.near.end(), [&](const cuda::TileForm& near) {
      return near.tile == form.tile && near.piece == form.piece;
    }));
    const double estimated = cuda::tile_cycles(measured.wanted, form) / 1980;  // at 1,980 MHz
    CHECK(estimated > measured.fastest / 1.15);
    CHECK(estimated < measured.fastest * 1.15);
  }
}

TEST_CASE("the form of a dot keeps every processor of a large device busy") {
  // The cycles an H100's fma units need at least, divided by the form's estimated cycles.
  const auto share = [](const cuda::TileWanted& wanted) {
    const auto fma =
        static_cast<double>(wanted.rows * wanted.columns * wanted.depth * wanted.batch) / (132 * 128);
    return fma / cuda::tile_cycles(wanted, cuda::choose_form(wanted));
  };
  CHECK(share({64, 8192, 576, 1, true}) > 0.4);
  CHECK(share({16, 131072, 144, 1, true}) > 0.4);
}

TEST_CASE("the pieces of a product take a bounded part of the memory", "[device]") {
  for (const std::int64_t side : {64, 384, 1536, 8192}) {
    for (const std::int64_t depth : {100, 4096, 100000, 10000000}) {
      const cuda::TileWanted wanted{side, side, depth};
      const cuda::TileForm form = cuda::choose_form(wanted);
      CHECK(cuda::piece_numbers(wanted, form) * 4 <= std::int64_t{1} << 28);
      CHECK((form.piece == 0 || form.piece == 256 || form.piece == 4096));
    }
  }
}

}  // namespace
}  // namespace dgx::kernels
