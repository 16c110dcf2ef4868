#include "dgx/kernels/cpu/resumed_dot.h"

#include <bit>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "dgx/kernels/dot_state.h"
#include "instruction_sets.h"
#include "random_floats.h"

namespace dgx::kernels::cpu {
namespace {

using Bounds = std::vector<std::int64_t>;

/// A product of two matrices that lie in memory in any order, and its words.
struct Cut {
  MatmulShape shape;
  Bounds bounds;
  bool a_transposed = false, b_transposed = false, b_packed = false;
  Floats a = random_floats(shape.rows * shape.depth, 1);
  Floats b = random_floats(shape.columns * shape.depth, 2);

  [[nodiscard]] Matrix left() const {
    return a_transposed ? Matrix{a.data(), 1, shape.rows} : Matrix{a.data(), shape.depth, 1};
  }
  [[nodiscard]] Matrix right() const {
    return b_transposed ? Matrix{b.data(), 1, shape.depth} : Matrix{b.data(), shape.columns, 1};
  }
  [[nodiscard]] float at_left(std::int64_t r, std::int64_t k) const {
    return left().data[r * left().row_stride + k * left().column_stride];
  }
  [[nodiscard]] float at_right(std::int64_t k, std::int64_t c) const {
    return right().data[k * right().row_stride + c * right().column_stride];
  }
};

/// Runs all shares of a cut product, each in two parts of C, and compares the words after each, and C, with
/// DotState.
void check(const Cut& cut) {
  const auto& [rows, columns, depth] = cut.shape;
  CAPTURE(rows, columns, depth, cut.bounds, cut.a_transposed, cut.b_transposed, cut.b_packed);
  const std::size_t count = static_cast<std::size_t>(rows * columns);
  const auto used = words_used(cut.bounds);
  std::array<Floats, kDotWords> memory;
  DotOutputs words{};
  for (std::size_t w = 0; w < kDotWords; ++w) {
    const auto place = static_cast<std::size_t>(place_of(static_cast<DotWord>(w), depth));
    if (used[place] && memory[place].empty()) memory[place].assign(count, 7.0F);
    words[w] = Output::row_major(memory[place].data(), columns);
  }
  std::vector<DotState> states(count);
  Scratch scratch;
  Floats packed;
  const Matrix left = cut.left(), right = cut.right();
  for (std::size_t q = 0; q + 1 < cut.bounds.size(); ++q) {
    const std::int64_t first = cut.bounds[q], end = cut.bounds[q + 1];
    const DotShare share{first, end - first, end == depth};
    const MatmulShape shape{rows, columns, end - first};
    const Matrix a{left.data + first * left.column_stride, left.row_stride, left.column_stride};
    const Matrix b{right.data + first * right.row_stride, right.row_stride, right.column_stride};
    packed.assign(static_cast<std::size_t>(PackedMatrix::size(shape.depth, columns)), 0.0F);
    pack(b, shape.depth, columns, 0, panel_count(columns), packed.data());
    const std::int64_t middle = rows / 2;
    for (const Part& part : {Part{0, middle, 0, columns}, Part{middle, rows, 0, columns}}) {
      if (cut.b_packed) {
        resume_matmul(share, shape, a, PackedMatrix{packed.data(), shape.depth, columns}, words, part,
                      scratch);
      } else {
        resume_matmul(share, shape, a, b, words, part, scratch);
      }
    }
    for (std::int64_t e = 0; e < rows * columns; ++e) {
      DotState& state = states[static_cast<std::size_t>(e)];
      for (std::int64_t k = first; k < end; ++k)
        state.take(cut.at_left(e / columns, k), cut.at_right(k, e % columns));
      const DotWords exist = share.last ? DotWords{} : dot_words_at(end);
      const auto word = [&](DotWord w) { return words[static_cast<std::size_t>(w)].data[e]; };
      if (exist.block) REQUIRE(word(DotWord::kBlock) == state.block);
      if (exist.group) REQUIRE(same(word(DotWord::kGroup), state.group));
      if (exist.total) REQUIRE(same(word(DotWord::kTotal), state.total));
      if (share.last) REQUIRE(same(word(DotWord::kTotal), state.end()));
    }
  }
}

const std::vector<Bounds> kBounds = {{0, 1},
                                     {0, 1, 2, 3},
                                     {0, 100, 128},
                                     {0, 255, 256, 257},
                                     {0, 256, 512},
                                     {0, 300, 1000},
                                     {0, 512, 768, 1000},
                                     {0, 1024, 2048},
                                     {0, 4096},
                                     {0, 2048, 4096},
                                     {0, 4095, 4097},
                                     {0, 4096, 8192, 8300},
                                     {0, 3840, 4352, 9000},
                                     {0, 37, 4200, 8192, 8193},
                                     {0, 5000, 5001, 12300}};

}  // namespace

TEST_CASE("a product that is cut anywhere goes on with the words of DotState") {
  test::with_every_instruction_set([&](auto) {
    for (const Bounds& bounds : kBounds) {
      check({{3, 18, bounds.back()}, bounds});
      check({{15, 33, bounds.back()}, bounds, true, true});
      check({{29, 16, bounds.back()}, bounds, true, false, true});
    }
  });
}

TEST_CASE("a product cut at random goes on with the words of DotState") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t most) { return static_cast<std::int64_t>(random() % most); };
  test::with_every_instruction_set([&](auto) {
    for (int round = 0; round < 12; ++round) {
      Bounds bounds{0};
      while (bounds.size() < 6) bounds.push_back(bounds.back() + 1 + below(round % 2 == 0 ? 400 : 3000));
      check({{1 + below(20), 1 + below(40), bounds.back()},
             bounds,
             below(2) == 0,
             below(2) == 0,
             below(3) == 0});
    }
  });
}

TEST_CASE("column sums that are cut go on, too") {
  test::with_every_instruction_set([&](auto) {
    for (const Bounds& bounds : kBounds) {
      CAPTURE(bounds);
      const std::int64_t columns = 37, rows = bounds.back();
      const Floats x = random_floats(rows * columns, 5);
      std::array<Floats, kDotWords> memory;
      std::array<float*, kDotWords> words{};
      for (std::size_t w = 0; w < kDotWords; ++w) {
        auto& place = memory[static_cast<std::size_t>(place_of(static_cast<DotWord>(w), rows))];
        if (place.empty()) place.assign(static_cast<std::size_t>(columns), 7.0F);
        words[w] = place.data();
      }
      for (std::size_t q = 0; q + 1 < bounds.size(); ++q) {
        const DotShare share{bounds[q], bounds[q + 1] - bounds[q], q + 2 == bounds.size()};
        resume_column_dot_one(share, columns, x.data() + bounds[q] * columns, columns, words);
      }
      for (std::int64_t c = 0; c < columns; ++c) {
        DotState state;
        for (std::int64_t r = 0; r < rows; ++r)
          state.take(1.0F, x[static_cast<std::size_t>(r * columns + c)]);
        REQUIRE(same(words[static_cast<std::size_t>(DotWord::kTotal)][c], state.end()));
      }
    }
  });
}

TEST_CASE("only words that a cut needs take memory") {
  using Used = std::array<bool, kDotWords>;
  CHECK(words_used(Bounds{0, 64, 128}) == Used{true, false, false});     // MLP: a block
  CHECK(words_used(Bounds{0, 1024, 2048}) == Used{false, true, false});  // GPT: groups
  CHECK(words_used(Bounds{0, 4096, 8192}) == Used{false, false, true});
  CHECK(words_used(Bounds{0, 2048, 8192}) == Used{false, true, true});
  CHECK(words_used(Bounds{0, 1568, 12544}) == Used{true, true, true});  // 784 positions a sample
}

}  // namespace dgx::kernels::cpu
