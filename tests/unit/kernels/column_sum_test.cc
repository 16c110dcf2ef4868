#include "dgx/kernels/cpu/column_sum.h"

#include <bit>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

#include "dot_definition.h"
#include "instruction_sets.h"

namespace dgx::kernels::cpu {
namespace {

using Floats = std::vector<float>;
using test::with_every_instruction_set;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float x) { return x != x ? 0x7FC00000U : std::bit_cast<std::uint32_t>(x); }

Floats random_floats(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  Floats out(static_cast<std::size_t>(count));
  for (float& x : out) {
    const float sign = random() % 2 == 0 ? 1.0F : -1.0F;
    const auto kind = static_cast<std::uint32_t>(random() % 10);
    const auto mantissa = static_cast<std::uint32_t>(random() % 0x800000);
    if (kind == 0)
      x = sign * 0.0F;
    else if (kind == 1)
      x = sign * std::bit_cast<float>(mantissa);
    else
      x = sign * std::bit_cast<float>(mantissa | (120U + kind) << 23);
  }
  return out;
}

float column_definition(const float* x, std::int64_t stride, std::int64_t rows) {
  const float one = 1.0F;
  return dot(&one, 0, x, stride, rows);
}

float sum_definition(const Floats& x) {
  Floats blocks;
  for (std::size_t first = 0; first == 0 || first < x.size(); first += 2048) {
    float lanes[32] = {};
    for (std::size_t i = first; i < std::min(x.size(), first + 2048); ++i) lanes[(i - first) % 32] += x[i];
    for (std::size_t distance = 16; distance > 0; distance /= 2) {
      for (std::size_t l = 0; l < distance; ++l) lanes[l] += lanes[l + distance];
    }
    blocks.push_back(lanes[0]);
  }
  return blocks.size() == 1 ? blocks[0] : sum_definition(blocks);
}

float max_by_row(const Floats& x) {
  float out = 7;
  row_max(1, static_cast<std::int64_t>(x.size()), x.data(), 0, &out);
  return out;
}

std::int64_t argmax_by_row(const Floats& x) {
  std::int64_t out = 7;
  row_argmax(1, static_cast<std::int64_t>(x.size()), x.data(), 0, &out);
  return out;
}

}  // namespace

TEST_CASE("a column's dot with one equals its definition at every edge") {
  for (const std::int64_t rows : {0, 1, 255, 256, 257, 2047, 2049, 4095, 4096, 4097, 8200}) {
    for (const std::int64_t columns : {1, 3, 4, 7, 8, 9, 15, 16, 17, 33, 129, 150}) {
      const std::int64_t stride = columns + 1;
      const Floats x = random_floats(rows * stride + columns, 1);
      with_every_instruction_set([&](auto) {
        CAPTURE(rows, columns);
        Floats out(static_cast<std::size_t>(columns), 7.0F);
        column_dot_one(rows, columns, x.data(), stride, out.data());
        bool equal = true;
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto at = static_cast<std::size_t>(c);
          equal = equal && bits(out[at]) == bits(column_definition(x.data() + c, stride, rows));
        }
        CHECK(equal);
      });
    }
  }
}

TEST_CASE("a row's sum equals its definition at every edge") {
  for (const std::int64_t count :
       {0, 1, 2, 31, 32, 33, 63, 65, 257, 2047, 2048, 2049, 4097, 65537, 2048 * 2048 + 1}) {
    const Floats x = random_floats(count, 2);
    const float expected = sum_definition(x);
    with_every_instruction_set([&](auto) {
      CAPTURE(count);
      float out = 7;
      row_sum(1, count, x.data(), 0, &out);
      CHECK(bits(out) == bits(expected));
    });
  }
}

TEST_CASE("columns summed from a stream of rows equal their rows' sums, however the numbers come") {
  for (const std::int64_t rows : {1, 31, 32, 33, 49, 784, 2048, 2049, 4200}) {
    for (const std::int64_t columns : {1, 8, 16, 24, 33}) {
      const Floats x = random_floats(rows * columns, 5);
      const auto memory = static_cast<std::size_t>(ColumnSums::size(rows, columns));
      with_every_instruction_set([&](auto) {
        CAPTURE(rows, columns);
        Floats lanes(memory), out(static_cast<std::size_t>(columns));
        ColumnSums sums(rows, columns, lanes.data());
        std::mt19937 random(6);
        for (std::int64_t at = 0; at < rows * columns;) {
          const std::int64_t count = std::min(rows * columns - at, std::int64_t{1} << random() % 14);
          float* const place = random() % 2 == 0 ? sums.place(count) : nullptr;
          if (place == nullptr) sums.take(x.data() + at, count);
          for (std::int64_t i = 0; place != nullptr && i < count; ++i)
            place[i] += x[static_cast<std::size_t>(at + i)];
          at += count;
        }
        sums.finish(out.data());
        bool equal = true;
        for (std::int64_t c = 0; c < columns; ++c) {
          Floats column;
          for (std::int64_t r = 0; r < rows; ++r)
            column.push_back(x[static_cast<std::size_t>(r * columns + c)]);
          equal = equal && bits(out[static_cast<std::size_t>(c)]) == bits(sum_definition(column));
        }
        CHECK(equal);
      });
    }
  }
}

TEST_CASE("rows are folded at their own stride") {
  const Floats x = random_floats(3 * 50, 3);
  with_every_instruction_set([&](auto) {
    float sums[3];
    row_sum(3, 40, x.data(), 50, sums);
    for (std::size_t r = 0; r < 3; ++r) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(50 * r);
      CHECK(bits(sums[r]) == bits(sum_definition(Floats(begin, begin + 40))));
    }
  });
}

TEST_CASE("max and argmax follow the contract on ties, zeros, NaN and nothing") {
  with_every_instruction_set([&](auto) {
    CHECK(bits(max_by_row({})) == bits(-kInfinity));
    CHECK(bits(max_by_row({-0.0F})) == 0U);
    CHECK(bits(max_by_row({-kInfinity, -kInfinity})) == bits(-kInfinity));
    CHECK(argmax_by_row({-kInfinity, -kInfinity}) == 0);
    CHECK(argmax_by_row({-1.0F, -0.0F, 0.0F}) == 1);
    CHECK(argmax_by_row({1.0F, 3.0F, 3.0F, 2.0F}) == 1);
    CHECK(argmax_by_row({1.0F, kNan, kInfinity, kNan}) == 1);
  });
}

TEST_CASE("max and argmax find the greatest and NaN wherever it stands") {
  for (const std::size_t count : {1U, 15U, 16U, 17U, 63U, 64U, 65U, 130U}) {
    for (std::size_t at = 0; at < count; ++at) {
      Floats x = random_floats(static_cast<std::int64_t>(count), 4);
      x[at] = 1e30F;
      Floats poisoned = x;
      poisoned[at] = std::bit_cast<float>(0xFFC12345U);
      poisoned[(at + 1) % count] = count > 1 ? kInfinity : poisoned[at];
      with_every_instruction_set([&](auto) {
        REQUIRE(max_by_row(x) == 1e30F);
        REQUIRE(argmax_by_row(x) == static_cast<std::int64_t>(at));
        REQUIRE(std::bit_cast<std::uint32_t>(max_by_row(poisoned)) == 0x7FC00000U);
        REQUIRE(argmax_by_row(poisoned) == static_cast<std::int64_t>(at));
      });
    }
  }
}

}  // namespace dgx::kernels::cpu
