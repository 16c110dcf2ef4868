#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "dgx/kernels/cpu/channels_last.h"
#include "dgx/kernels/cpu/window.h"
#include "dgx/kernels/dot_state.h"
#include "instruction_sets.h"
#include "random_floats.h"

namespace dgx::kernels::cpu {
namespace {

/// The weight gradient of a convolution of `images` images of size × size with padding 1, and the memory of
/// both its sides and of its outputs.
struct Convolution {
  std::int64_t images, size, planes, columns, taps, step;
  bool channels_last;

  [[nodiscard]] std::int64_t outputs() const { return (size + 2 - taps) / step + 1; }
  [[nodiscard]] std::int64_t elements() const { return planes * taps * taps * columns; }
  [[nodiscard]] std::int64_t depth() const { return images * outputs() * outputs(); }

  /// Its form over images first … end−1.
  [[nodiscard]] WindowGradientForm form(std::int64_t first, std::int64_t end) const {
    const std::int64_t plane = channels_last ? 1 : size * size;
    const std::int64_t pixel = channels_last ? planes : 1;
    const std::int64_t other_pixel = channels_last ? columns : 1;
    WindowGradientForm out;
    out.rows = {outputs(), step, taps, 1, -1, 1, size, size * pixel};
    out.columns = {outputs(), step, taps, 1, -1, 1, size, pixel};
    for (std::int64_t p = 0; p < planes; ++p) {
      out.planes.push_back(p * plane);
      out.out_planes.push_back(p * taps * taps);
    }
    for (std::int64_t n = first; n < end; ++n) {
      out.images.push_back((n - first) * planes * size * size);
      out.other_images.push_back((n - first) * columns * outputs() * outputs());
    }
    out.other_row = outputs() * other_pixel;
    out.other_column = other_pixel;
    out.count = columns;
    out.other_step = channels_last ? 1 : outputs() * outputs();
    out.out_row_tap = taps;
    out.out_column_tap = 1;
    out.out_step = planes * taps * taps;
    return out;
  }
  /// By image and then as form() reads them.
  Floats operand = random_floats(images * planes * size * size, 3);
  Floats other = random_floats(images * columns * outputs() * outputs(), 4);

  /// Lets the state of output element e take position k.
  void take(DotState& state, std::int64_t e, std::int64_t k) const {
    const std::int64_t column = e / (planes * taps * taps), plane = e / (taps * taps) % planes;
    const WindowGradientForm all = form(0, images);
    const std::int64_t image = k / (outputs() * outputs()), row = k / outputs() % outputs(),
                       at = k % outputs();
    const auto y = index_inside(all.rows, row, e / taps % taps), x = index_inside(all.columns, at, e % taps);
    const auto place = static_cast<std::size_t>(image);
    const std::int64_t from = all.images[place] + all.planes[static_cast<std::size_t>(plane)];
    const float a =
        y && x ? operand[static_cast<std::size_t>(from + *y * all.rows.stride + *x * all.columns.stride)]
               : 0.0F;
    state.take(a, other[static_cast<std::size_t>(all.other_images[place] + row * all.other_row +
                                                 at * all.other_column + column * all.other_step)]);
  }
};

/// Runs all shares, each in two shares of the planes if there are several, and compares the words after each,
/// and the outputs, with DotState. `bounds`: the images at which shares begin, then the end.
void check(const Convolution& c, const std::vector<std::int64_t>& bounds) {
  CAPTURE(c.images, c.size, c.planes, c.columns, c.taps, c.step, c.channels_last, bounds);
  const std::int64_t each = c.outputs() * c.outputs();
  std::vector<std::int64_t> positions;
  for (const std::int64_t bound : bounds) positions.push_back(bound * each);
  const auto used = words_used(positions);
  std::array<Floats, kDotWords> memory;
  std::array<float*, kDotWords> words{};
  for (std::size_t w = 0; w < kDotWords; ++w) {
    const auto place = static_cast<std::size_t>(place_of(static_cast<DotWord>(w), c.depth()));
    if (!used[place]) continue;
    if (memory[place].empty()) memory[place].assign(static_cast<std::size_t>(c.elements()), 7.0F);
    words[w] = memory[place].data();
  }
  std::vector<DotState> states(static_cast<std::size_t>(c.elements()));
  for (std::size_t q = 0; q + 1 < bounds.size(); ++q) {
    const WindowGradient gradient(c.form(bounds[q], bounds[q + 1]));
    const DotShare share{positions[q], positions[q + 1] - positions[q], q + 2 == bounds.size()};
    const std::int64_t middle = c.planes > 16 ? 16 : c.planes / 2;
    for (const auto& [first, end] : {std::pair{std::int64_t{0}, middle}, std::pair{middle, c.planes}}) {
      if (first == end) continue;
      Floats scratch(static_cast<std::size_t>(gradient.scratch_size(end - first, kDotWords)), -7.0F);
      WindowGradientRunner runner(gradient, first, end, scratch.data());
      runner.resume(share, c.operand.data() + bounds[q] * c.planes * c.size * c.size,
                    c.other.data() + bounds[q] * c.columns * each, words);
    }
    for (std::int64_t e = 0; e < c.elements(); ++e) {
      DotState& state = states[static_cast<std::size_t>(e)];
      for (std::int64_t k = positions[q]; k < positions[q + 1]; ++k) c.take(state, e, k);
      const DotWords exist = share.last ? DotWords{} : dot_words_at(positions[q + 1]);
      const auto word = [&](DotWord w) { return words[static_cast<std::size_t>(w)][e]; };
      if (exist.block) REQUIRE(word(DotWord::kBlock) == state.block);
      if (exist.group) REQUIRE(same(word(DotWord::kGroup), state.group));
      if (exist.total) REQUIRE(same(word(DotWord::kTotal), state.total));
      if (share.last) REQUIRE(same(word(DotWord::kTotal), state.end()));
    }
  }
}

}  // namespace

TEST_CASE("a window gradient that is cut between images goes on with the words of DotState") {
  test::with_every_instruction_set([&](auto) {
    for (const bool channels_last : {false, true}) {
      // Blocks of one image, of parts of images, and of several; groups of several shares; one plane, 16, and
      // more than a tile; columns that fill no panel; rows that are taps.
      check({6, 16, 1, 16, 3, 1, channels_last}, {0, 2, 3, 6});
      check({5, 7, 16, 16, 3, 1, channels_last}, {0, 1, 2, 5});
      check({9, 28, 2, 32, 3, 1, channels_last}, {0, 1, 6, 9});
      check({40, 3, 17, 16, 2, 1, channels_last}, {0, 7, 8, 40});
      check({7, 28, 1, 48, 3, 2, channels_last}, {0, 3, 4, 7});
      check({3, 9, 3, 5, 5, 2, channels_last}, {0, 1, 2, 3});
      check({2, 6, 16, 32, 1, 1, channels_last}, {0, 1, 2});
    }
  });
}

TEST_CASE("a window gradient with numbers that are not finite goes on, too") {
  test::with_every_instruction_set([&](auto) {
    for (const bool channels_last : {false, true}) {
      Convolution c{6, 16, 1, 16, 3, 1, channels_last};
      c.other[16 * 16 * 16 + 5] = std::numeric_limits<float>::infinity();
      const std::vector<std::int64_t> bounds{0, 2, 3, 6};
      const auto whole = [&] {
        const WindowGradient gradient(c.form(0, c.images));
        Floats scratch(static_cast<std::size_t>(gradient.scratch_size(1)), 0.0F);
        Floats out(static_cast<std::size_t>(c.elements()));
        WindowGradientRunner(gradient, 0, 1, scratch.data())
            .run(c.operand.data(), c.other.data(), out.data());
        return out;
      }();
      Floats block(whole.size()), total(whole.size());
      for (std::size_t q = 0; q + 1 < bounds.size(); ++q) {
        const WindowGradient gradient(c.form(bounds[q], bounds[q + 1]));
        Floats scratch(static_cast<std::size_t>(gradient.scratch_size(1, kDotWords)), 0.0F);
        WindowGradientRunner runner(gradient, 0, 1, scratch.data());
        runner.resume({bounds[q] * 256, (bounds[q + 1] - bounds[q]) * 256, q + 2 == bounds.size()},
                      c.operand.data() + bounds[q] * 256, c.other.data() + bounds[q] * 256 * 16,
                      {block.data(), total.data(), total.data()});
      }
      for (std::size_t e = 0; e < whole.size(); ++e) {
        const bool agree = std::isnan(whole[e]) ? std::isnan(total[e]) : same(whole[e], total[e]);
        REQUIRE(agree);
      }
      CHECK(std::ranges::any_of(whole, [](float x) { return !std::isfinite(x); }));
      CHECK(std::ranges::any_of(whole, [](float x) { return std::isfinite(x); }));
    }
  });
}

}  // namespace dgx::kernels::cpu
