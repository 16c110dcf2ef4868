#include "dgx/kernels/cpu/matmul.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

#include "dgx/kernels/cpu/dispatch.h"
#include "dot_definition.h"
#include "instruction_sets.h"

namespace dgx::kernels::cpu {
namespace {

using Floats = std::vector<float>;
using test::with_every_instruction_set;

enum class Values { kNormal, kFiniteEdges, kNonFinite };

// Signed zeros, subnormals, huge numbers and products that underflow to −0 would reveal skipping or
// reordering.
float random_value(std::mt19937& random, Values values) {
  const float sign = random() % 2 == 0 ? 1.0F : -1.0F;
  const auto uniform = static_cast<float>(random() % 65536) / 65536.0F;
  if (values == Values::kNormal) return sign * uniform;
  switch (random() % (values == Values::kNonFinite ? 200 : 8)) {
    case 0: return sign * 0.0F;
    case 1: return sign * std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x800000));
    case 2: return sign * uniform * 1e-30F;
    case 3: return sign * uniform * 1e18F;
    case 4: return sign * std::numeric_limits<float>::min();
    case 8: return sign * std::numeric_limits<float>::infinity();
    case 9: return std::numeric_limits<float>::quiet_NaN();
    case 10: return sign * std::numeric_limits<float>::max();
    default: return sign * uniform;
  }
}

Floats random_floats(std::int64_t count, std::uint32_t seed, Values values) {
  std::mt19937 random(seed);
  Floats out(static_cast<std::size_t>(count));
  for (float& x : out) x = random_value(random, values);
  return out;
}

bool same_bits(float a, float b) {
  return (a != a && b != b) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

enum class Order { kRowMajor, kTransposed, kEveryThird };
constexpr Order kOrders[] = {Order::kRowMajor, Order::kTransposed, Order::kEveryThird};

// A [rows, columns] matrix with numbers of its own, of exactly the required size, so that the sanitizer sees
// a read past the end.
struct Operand {
  Operand(std::int64_t rows, std::int64_t columns, Order order, std::uint32_t seed, Values values) {
    if (order == Order::kRowMajor) matrix = {nullptr, columns, 1};
    if (order == Order::kTransposed) matrix = {nullptr, 1, rows};
    if (order == Order::kEveryThird) matrix = {nullptr, columns * 3, 3};
    // At least one, so that no address is null.
    const std::int64_t count = rows * columns * (order == Order::kEveryThird ? 3 : 1);
    numbers = random_floats(std::max<std::int64_t>(1, count), seed, values);
    matrix.data = numbers.data();
  }
  Matrix matrix;
  Floats numbers;
};

Floats expected_product(const MatmulShape& shape, Matrix a, Matrix b) {
  Floats c;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      c.push_back(dot(a.data + r * a.row_stride, a.column_stride, b.data + j * b.column_stride, b.row_stride,
                      shape.depth));
    }
  }
  return c;
}

std::int64_t first_difference(const Floats& a, const Floats& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return static_cast<std::int64_t>(i);
  }
  return a.size() == b.size() ? -1 : -2;
}

void check_product(const MatmulShape& shape, const Operand& a, const Operand& b) {
  const Floats expected = expected_product(shape, a.matrix, b.matrix);
  with_every_instruction_set([&](auto) {
    Scratch scratch;
    Floats c(expected.size(), 7.0F);
    matmul(shape, a.matrix, b.matrix, c.data(), shape.columns, scratch);
    REQUIRE(first_difference(c, expected) == -1);
  });
}

void check_product(const MatmulShape& shape, Order a_order, Order b_order, Values values) {
  CAPTURE(shape.rows, shape.columns, shape.depth, static_cast<int>(a_order), static_cast<int>(b_order));
  const Operand a(shape.rows, shape.depth, a_order, 1, values);
  const Operand b(shape.depth, shape.columns, b_order, 2, values);
  check_product(shape, a, b);
}

}  // namespace

TEST_CASE("a product equals its definition at every edge of the tiles") {
  for (const std::int64_t rows : {1, 2, 6, 7, 13, 14, 15, 29}) {
    for (const std::int64_t columns : {1, 15, 16, 17, 31, 32, 33, 49}) {
      check_product({rows, columns, 19}, Order::kRowMajor, Order::kRowMajor, Values::kFiniteEdges);
    }
  }
}

TEST_CASE("a product equals its definition at every edge of blocks and groups") {
  for (const std::int64_t depth :
       {0, 1, 3, 4, 5, 31, 32, 33, 255, 256, 257, 511, 513, 4095, 4096, 4097, 8192, 8449}) {
    check_product({3, 18, depth}, Order::kRowMajor, Order::kRowMajor, Values::kFiniteEdges);
    check_product({15, 2, depth}, Order::kTransposed, Order::kTransposed, Values::kNormal);
  }
}

TEST_CASE("a product equals its definition for every order of its operands") {
  for (const Order a : kOrders) {
    for (const Order b : kOrders) {
      check_product({31, 37, 261}, a, b, Values::kNormal);
      check_product({5, 16, 7}, a, b, Values::kFiniteEdges);
    }
  }
}

TEST_CASE("a product passes infinities and NaN as its definition does") {
  for (const Order order : kOrders) check_product({29, 33, 300}, order, order, Values::kNonFinite);
}

TEST_CASE("a product larger than a macro tile equals its definition") {
  check_product({230, 800, 270}, Order::kRowMajor, Order::kTransposed, Values::kNormal);
  check_product({115, 1585, 300}, Order::kRowMajor, Order::kRowMajor, Values::kNormal);  // shallow and wide
  check_product({227, 290, 513}, Order::kRowMajor, Order::kRowMajor, Values::kNormal);
  check_product({113, 769, 33}, Order::kTransposed, Order::kRowMajor, Values::kNormal);
  check_product({390, 35, 258}, Order::kTransposed, Order::kRowMajor, Values::kNormal);
}

TEST_CASE("a product whose rows lie a power of two apart equals its definition") {
  check_product({17, 512, 512}, Order::kRowMajor, Order::kRowMajor, Values::kNormal);
  check_product({512, 20, 270}, Order::kTransposed, Order::kTransposed, Values::kNormal);
}

TEST_CASE("a product without rows or columns writes nothing") {
  check_product({0, 5, 3}, Order::kRowMajor, Order::kRowMajor, Values::kNormal);
  check_product({5, 0, 3}, Order::kRowMajor, Order::kRowMajor, Values::kNormal);
}

TEST_CASE("a product of zeros is +0, also when every term underflows to -0") {
  const Floats a(40, -1e-30F);
  const Floats b(40 * 3, 1e-30F);
  with_every_instruction_set([&](auto) {
    Scratch scratch;
    Floats c(3, 7.0F);
    matmul({1, 3, 40}, {a.data(), 40, 1}, {b.data(), 3, 1}, c.data(), 3, scratch);
    CHECK(first_difference(c, Floats(3, 0.0F)) == -1);
  });
}

// Sets ±0 as a mask would: `kept` says which elements stay.
template <class Kept>
void set_zeros(Operand& operand, std::int64_t rows, std::int64_t columns, const Kept& kept) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at =
          static_cast<std::size_t>(r * operand.matrix.row_stride + c * operand.matrix.column_stride);
      if (!kept(r, c)) operand.numbers[at] = (r + c) % 3 == 0 ? -0.0F : 0.0F;
    }
  }
}

TEST_CASE("a product of operands with zeros at the ends of their rows or columns equals its definition") {
  const auto causal = [](std::int64_t r, std::int64_t c) { return c <= r; };
  const auto later = [](std::int64_t r, std::int64_t c) { return c >= r; };
  const auto nothing = [](std::int64_t, std::int64_t) { return false; };
  const auto band = [](std::int64_t r, std::int64_t c) { return c + 40 > r && c < r + 30; };
  const auto check = [&](const MatmulShape& shape, Order order, Values values, const auto& of_a,
                         const auto& of_b) {
    CAPTURE(shape.rows, shape.columns, shape.depth, static_cast<int>(order), static_cast<int>(values));
    Operand a(shape.rows, shape.depth, order, 8, values);
    Operand b(shape.depth, shape.columns, order, 9, values);
    set_zeros(a, shape.rows, shape.depth, of_a);
    set_zeros(b, shape.depth, shape.columns, of_b);
    check_product(shape, a, b);
  };
  const auto all = [](std::int64_t, std::int64_t) { return true; };
  for (const Order order : kOrders) {
    // A zero times an infinity or a NaN must not be skipped.
    for (const Values values : {Values::kFiniteEdges, Values::kNonFinite}) {
      check({67, 37, 67}, order, values, causal, all);
      check({67, 37, 67}, order, values, later, all);
      check({37, 67, 67}, order, values, all, causal);
      check({37, 67, 67}, order, values, all, later);
      check({67, 70, 300}, order, values, band, causal);
      check({5, 18, 40}, order, values, nothing, all);
      check({5, 18, 40}, order, values, all, nothing);
    }
  }
}

TEST_CASE("packed operands, panel outputs and parts give the bits of the whole product") {
  const MatmulShape shape = {61, 85, 4200};
  const Operand a(shape.rows, shape.depth, Order::kRowMajor, 3, Values::kNormal);
  for (const Order order : kOrders) {
    const Operand b(shape.depth, shape.columns, order, 4, Values::kNormal);
    const Floats expected = expected_product(shape, a.matrix, b.matrix);
    with_every_instruction_set([&](auto) {
      Floats packed(static_cast<std::size_t>(PackedMatrix::size(shape.depth, shape.columns)));
      pack(b.matrix, shape.depth, shape.columns, 0, 2, packed.data());
      pack(b.matrix, shape.depth, shape.columns, 2, panel_count(shape.columns), packed.data());
      Floats panels(static_cast<std::size_t>(PackedMatrix::size(shape.rows, shape.columns)), 7.0F);
      const Output output = Output::panels(panels.data(), shape.rows);
      Scratch scratch;
      for (const Part part : {Part{0, 20, 0, 85}, Part{20, 61, 0, 48}, Part{20, 61, 48, 85}}) {
        matmul(shape, a.matrix, PackedMatrix{packed.data(), shape.depth, shape.columns}, output, part, {},
               scratch);
      }
      Floats c;
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        for (std::int64_t j = 0; j < shape.columns; ++j) {
          c.push_back(panels[static_cast<std::size_t>(j / 16 * panel_stride(shape.rows) + r * 16 + j % 16)]);
        }
      }
      CHECK(first_difference(c, expected) == -1);
      CHECK(panels.back() == 7.0F);  // a lane beyond the last column is not written
    });
  }
}

TEST_CASE("the epilogue sees each element of its part once, finished") {
  struct Seen {
    const Floats* c = nullptr;
    const Floats* expected = nullptr;
    std::int64_t columns = 0;
    std::vector<int> count;
    bool finished = true;
  };
  const MatmulShape shape = {130, 100, 4100};
  const Operand a(shape.rows, shape.depth, Order::kTransposed, 5, Values::kNormal);
  const Operand b(shape.depth, shape.columns, Order::kRowMajor, 6, Values::kNormal);
  const Floats expected = expected_product(shape, a.matrix, b.matrix);
  with_every_instruction_set([&](auto) {
    Floats c(expected.size(), 7.0F);
    Seen seen{&c, &expected, shape.columns, std::vector<int>(c.size()), true};
    const auto look = [](void* context, std::int64_t row, std::int64_t rows, std::int64_t column,
                         std::int64_t columns) {
      auto& s = *static_cast<Seen*>(context);
      for (std::int64_t r = row; r < row + rows; ++r) {
        for (std::int64_t j = column; j < column + columns; ++j) {
          const auto at = static_cast<std::size_t>(r * s.columns + j);
          ++s.count[at];
          s.finished = s.finished && same_bits((*s.c)[at], (*s.expected)[at]);
        }
      }
    };
    Scratch scratch;
    matmul(shape, a.matrix, b.matrix, Output::row_major(c.data(), shape.columns), {7, 130, 16, 100},
           {look, &seen}, scratch);
    CHECK(seen.finished);
    bool once = true;
    for (std::size_t i = 0; i < c.size(); ++i) {
      const bool inside = i / 100 >= 7 && i % 100 >= 16;
      once = once && seen.count[i] == (inside ? 1 : 0) && (inside || c[i] == 7.0F);
    }
    CHECK(once);
  });
}

TEST_CASE("an instruction set the machine lacks is refused and changes nothing") {
  const InstructionSet before = current_instruction_set();
#if defined(__x86_64__)
  const Status status = force_instruction_set(InstructionSet::kNeon);
  REQUIRE(!status.ok());
  CHECK(status.error().message == "instruction set neon is not available on this machine");
#else
  REQUIRE(!force_instruction_set(InstructionSet::kAvx2).ok());
#endif
  CHECK(current_instruction_set() == before);
}

TEST_CASE("the floating-point mode of a fresh thread is the contract's") { CHECK(check_float_mode().ok()); }

#if defined(__x86_64__)
TEST_CASE("a thread that flushes subnormals or rounds otherwise is refused") {
  const unsigned before = __builtin_ia32_stmxcsr();
  for (const unsigned bit : {0x8000U, 0x0040U, 0x2000U, 0x4000U}) {
    __builtin_ia32_ldmxcsr(before | bit);
    const bool ok = check_float_mode().ok();
    __builtin_ia32_ldmxcsr(before);
    CHECK(!ok);
  }
}
#endif

}  // namespace dgx::kernels::cpu
