// Products of the kernels for GPUs, on the emulated device: the bits of kernels/ref.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "device_module.h"
#include "dgx/kernels/evaluate.h"
#include "ref_support.h"

namespace dgx::kernels {
namespace {

/// Numbers in the device's memory.
class OnDevice {
 public:
  explicit OnDevice(const char* behaves = "") {
    ::setenv("DGX_EMULATED_DEVICE", behaves, 1);
    auto opened = test::open_device(DGX_EMULATED_MODULE);
    ::unsetenv("DGX_EMULATED_DEVICE");
    if (!opened.ok()) FAIL(opened.error().message);
    device_ = std::move(opened).value();
  }
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
  std::int64_t gap = 0;  ///< numbers between what neighbours in memory would be
  std::int32_t tile = 0;
  bool is_cut = false;
};

Side side_of(std::int64_t lines, std::int64_t depth, bool along_lines, std::int64_t gap) {
  if (along_lines) return {depth * (lines + gap), 1, lines + gap, gap};
  return {lines * (depth + gap), depth + gap, 1, gap};
}

/// `values` with some numbers that a kernel might treat as it likes, and at the end a place that nobody reads.
std::vector<float> spiced(std::vector<float> values, std::uint64_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> spices = {0.0F, -0.0F, 0x1p-149F, -0x1.8p-130F, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0x1.fffffep127F};
  for (std::size_t n = seed % 7; n < values.size(); n += 61 + n % 19) values[n] = spices[(n / 61) % spices.size()];
  return values;
}

std::vector<float> reference(const Shapes& s, const Side& a, const Side& b, const std::vector<float>& left, const std::vector<float>& right) {
  const auto access = [](ValueIndex value, const Side& side, int line) {
    Term t0 = i(0), t1 = i(line), t2 = k(0);
    t0.coefficient = side.batch;
    t1.coefficient = side.line;
    t2.coefficient = side.depth;
    return read(value, {at({t0, t1, t2}, side.base)});
  };
  const auto primitive = fold(Kind::kDot, DType::kF32, {s.batch, s.rows, s.columns}, {s.depth}, {access(0, a, 1), access(1, b, 2)});
  const auto count = [](const std::vector<float>& v) { return static_cast<std::int64_t>(v.size()); };
  const auto out = evaluate(primitive, {floats({count(left)}, left), floats({count(right)}, right)});
  return {out.as<float>().begin(), out.as<float>().end()};
}

void check(OnDevice& on, const Shapes& s) {
  INFO(s.batch << " × " << s.rows << " × " << s.columns << ", depth " << s.depth << ", tile " << s.tile << (s.a_transposed ? ", a transposed" : "")
               << (s.b_transposed ? ", b transposed" : "") << ", gap " << s.gap << (s.is_cut ? ", cut" : ""));
  const Side a = side_of(s.rows, s.depth, s.a_transposed, s.gap), b = side_of(s.columns, s.depth, !s.b_transposed, s.gap);
  const auto seed = static_cast<std::uint64_t>(s.rows * 1000 + s.columns + s.depth);
  const auto left = spiced(pattern(seed, s.batch * a.batch + s.gap + 1), seed), right = spiced(pattern(seed + 1, s.batch * b.batch + s.gap + 1), seed + 3);
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
  product.tile = s.tile;
  if (s.is_cut) product.groups = on.numbers(s.batch * s.rows * s.columns * cuda::dot_groups(s.depth));
  const auto before = on.download(product.out, s.batch * out_batch + 1);
  const Status launched = on.device().launch(product);
  if (!launched.ok()) FAIL(launched.error().message);
  const auto out = on.download(product.out, s.batch * out_batch + 1);
  const auto expected = reference(s, a, b, left, right);
  for (std::int64_t n = 0; n < s.batch * out_batch + 1; ++n) {
    const std::int64_t row = n / out_row, column = n % out_row;
    const bool inside = column < s.columns && row < s.batch * s.rows;
    const float wanted = inside ? expected[static_cast<std::size_t>(row * s.columns + column)] : before[static_cast<std::size_t>(n)];
    const float got = out[static_cast<std::size_t>(n)];
    if (bits(got) == bits(wanted)) continue;
    INFO("number " << n << (inside ? "" : ", which is no output"));
    REQUIRE(bits(got) == bits(wanted));
  }
}

TEST_CASE("a product on a device has the bits of the definition around every edge of its tiles", "[device]") {
  OnDevice on;
  for (const std::int32_t tile : {32, 64, 128}) {
    for (const std::int64_t rows : {std::int64_t{1}, tile - std::int64_t{1}, std::int64_t{tile}, tile + std::int64_t{1}}) {
      for (const std::int64_t columns : {std::int64_t{1}, tile - std::int64_t{1}, std::int64_t{tile}, tile + std::int64_t{5}}) {
        check(on, {.rows = rows, .columns = columns, .depth = 19, .a_transposed = rows % 2 == 0, .b_transposed = columns % 2 == 0, .tile = tile});
      }
    }
  }
}

TEST_CASE("a product on a device has the bits of the definition at every depth and stride", "[device]") {
  OnDevice on;
  for (const std::int32_t tile : {32, 64, 128}) {
    for (const std::int64_t depth : {0, 1, 7, 8, 9, 24, 31, 255, 256, 257, 512, 520}) {
      for (int form = 0; form < 4; ++form) {
        for (const std::int64_t gap : {0, 3}) {
          // All that is a multiple of 4 takes the way of the fours in the largest tile.
          const std::int64_t lines = depth % 8 == 0 ? 4 : 3;
          check(on, {.rows = lines * 9, .columns = lines * 13, .depth = depth, .batch = 2, .a_transposed = form % 2 == 1, .b_transposed = form > 1,
                     .gap = gap, .tile = tile});
        }
      }
    }
  }
}

TEST_CASE("a deep product on a device adds groups in order, in one kernel or two", "[device]") {
  for (const char* order : {"", "order=reversed", "order=shuffled"}) {
    OnDevice on(order);
    for (const std::int64_t depth : {4095, 4096, 4097, 8192, 12300}) {
      for (const bool is_cut : {false, true}) {
        check(on, {.rows = 5, .columns = 7, .depth = depth, .batch = 2, .b_transposed = true, .tile = 32, .is_cut = is_cut});
      }
    }
  }
  OnDevice on;
  for (const bool is_cut : {false, true}) check(on, {.rows = 4, .columns = 8, .depth = 8196, .b_transposed = true, .tile = 128, .is_cut = is_cut});
}

TEST_CASE("a product on a device chooses a tile that fits", "[device]") {
  OnDevice on;
  check(on, {.rows = 129, .columns = 127, .depth = 12, .batch = 70});
  check(on, {.rows = 65, .columns = 64, .depth = 12, .batch = 66});
  check(on, {.rows = 70, .columns = 70, .depth = 12});
}

}  // namespace
}  // namespace dgx::kernels
