#include "dgx/kernels/evaluate.h"

#include <catch2/catch.hpp>
#include <limits>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

using Op = ScalarOp;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::int64_t> as_integers(const Tensor& tensor) {
  return {tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end()};
}
std::vector<float> as_floats(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

float sum_of(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return evaluate(fold(Kind::kSum, DType::kF32, {}, {n}, {read(0, {at({k(0)})})}),
                  {floats({n}, std::move(values))})
      .as<float>()[0];
}

TEST_CASE("a dot takes blocks and groups in the stated order") {
  for (const json::Value& vector : *member(vectors(), "dot").as_array()) {
    const std::int64_t n = integer(vector, "n");
    const auto seed = static_cast<std::uint64_t>(2 * n);
    const auto primitive =
        fold(Kind::kDot, DType::kF32, {1}, {n}, {read(0, {at({k(0)})}), read(1, {at({k(0)})})});
    const auto out = evaluate(primitive, {floats({n}, pattern(seed, n)), floats({n}, pattern(seed + 1, n))});
    CAPTURE(n);
    CHECK(bits(out.as<float>()[0]) == hex(member(vector, "value")));
  }
}

TEST_CASE("a sum takes lanes, blocks and levels in the stated order") {
  for (const json::Value& vector : *member(vectors(), "sum").as_array()) {
    const std::int64_t n = integer(vector, "n");
    CAPTURE(n);
    CHECK(bits(sum_of(pattern(static_cast<std::uint64_t>(n), n))) == hex(member(vector, "value")));
  }
}

TEST_CASE("a sum and a dot are never minus zero") {
  CHECK(bits(sum_of({-0.0F, -0.0F})) == 0);
  const auto dot = fold(Kind::kDot, DType::kF32, {}, {2}, {read(0, {at({k(0)})}), read(0, {at({k(0)})})});
  CHECK(bits(evaluate(dot, {floats({2}, {-0.0F, 0.0F})}).as<float>()[0]) == 0);
}

TEST_CASE("a sum of integers wraps") {
  const auto primitive = fold(Kind::kSum, DType::kI64, {}, {3}, {read(0, {at({k(0)})})});
  const auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(as_integers(evaluate(primitive, {integers({3}, {most, 1, 5})}))[0] ==
        std::numeric_limits<std::int64_t>::min() + 5);
}

TEST_CASE("the dot of a matrix product splits by rows and columns") {
  const auto primitive = fold(Kind::kDot, DType::kF32, {2, 2}, {3},
                              {read(0, {at({i(0)}), at({k(0)})}), read(1, {at({k(0)}), at({i(1)})})});
  const auto out =
      evaluate(primitive, {floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({3, 2}, {1, 10, 2, 20, 3, 30})});
  CHECK(as_floats(out) == std::vector<float>{14, 140, 32, 320});
}

TEST_CASE("a convolution's padding is its fill") {
  const auto primitive =
      fold(Kind::kDot, DType::kF32, {4}, {3}, {read(0, {at({i(0), k(0)}, -1)}, 0.0F), read(1, {at({k(0)})})});
  const auto out = evaluate(primitive, {floats({4}, {1, 2, 3, 4}), floats({3}, {100, 10, 1})});
  CHECK(as_floats(out) == std::vector<float>{12, 123, 234, 340});
}

TEST_CASE("an exact division misses unless it divides, a floored one rounds down") {
  const auto exact = map(DType::kF32, {5}, {read(0, {exactly({i(0)}, -1, 2)}, -7.0F)});
  CHECK(as_floats(evaluate(exact, {floats({2}, {10, 20})})) == std::vector<float>{-7, 10, -7, 20, -7});
  const auto floor = map(DType::kF32, {5}, {read(0, {floored({i(0)}, -1, 2)}, -7.0F)});
  CHECK(as_floats(evaluate(floor, {floats({2}, {10, 20})})) == std::vector<float>{-7, 10, 10, 20, 20});
}

TEST_CASE("an access through an integer value takes any integer") {
  const auto most = std::numeric_limits<std::int64_t>::max();
  const auto gather = map(DType::kF32, {4}, {read(1, {at({via(1)})}, 9.0F), read(0, {at({i(0)})})});
  const auto out = evaluate(gather, {integers({4}, {1, -1, most, 0}), floats({2}, {5, 6})});
  CHECK(as_floats(out) == std::vector<float>{6, 9, 9, 5});
}

TEST_CASE("a view is the same elements in another shape") {
  Access access = read(0, {at({i(1)}), at({i(0)})});
  access.view = Shape{2, 3};
  CHECK(as_floats(evaluate(map(DType::kF32, {3, 2}, {access}), {floats({6}, {0, 1, 2, 3, 4, 5})})) ==
        std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("an iteration shape splits the indices and not the order") {
  auto primitive = map(DType::kI64, {6}, {},
                       {step(Op::kMul, {Operand::iteration(0), Operand::literal(std::int64_t{10})}),
                        step(Op::kAdd, {Operand::step(0), Operand::iteration(1)})});
  primitive.iteration = Shape{2, 3};
  CHECK(as_integers(evaluate(primitive, {})) == std::vector<std::int64_t>{0, 1, 2, 10, 11, 12});
}

TEST_CASE("relu keeps NaN and minus zero") {
  const auto relu = map(DType::kF32, {4}, {read(0, {at({i(0)})})},
                        {step(Op::kMax, {Operand::literal(0.0F), Operand::access(0)})});
  const auto out = evaluate(relu, {floats({4}, {-1, -0.0F, 2, -kNan})});
  CHECK(bits(out.as<float>()[0]) == 0);
  CHECK(bits(out.as<float>()[1]) == 0x80000000);
  CHECK(out.as<float>()[2] == 2);
  CHECK(bits(out.as<float>()[3]) == kCanonicalNanBits);
}

TEST_CASE("max takes NaN, turns minus zero into zero, and starts at minus infinity") {
  const auto greatest = [](std::vector<float> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    const auto primitive = fold(Kind::kMax, DType::kF32, {}, {n}, {read(0, {at({k(0)})})});
    return bits(evaluate(primitive, {floats({n}, std::move(values))}).as<float>()[0]);
  };
  CHECK(greatest({1, kNan, 2}) == kCanonicalNanBits);
  CHECK(greatest({-0.0F}) == 0);
  CHECK(greatest({-3, -2, -4}) == bits(-2));
  CHECK(greatest({}) == bits(-kInfinity));
}

TEST_CASE("argmax is the lowest of equals, and the first NaN") {
  const auto where = [](std::vector<float> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    const auto primitive = fold(Kind::kArgmax, DType::kI64, {}, {n}, {read(0, {at({k(0)})})});
    return evaluate(primitive, {floats({n}, std::move(values))}).as<std::int64_t>()[0];
  };
  CHECK(where({1, 3, 3}) == 1);
  CHECK(where({1, kNan, kNan, kInfinity}) == 1);
  CHECK(where({-0.0F, 0.0F}) == 0);
  CHECK(where({-kInfinity, -kInfinity}) == 0);
  CHECK(where({}) == 0);
}

TEST_CASE("argmax counts positions in row-major order of the fold") {
  const auto primitive =
      fold(Kind::kArgmax, DType::kI64, {2}, {2, 2}, {read(0, {at({i(0)}), at({k(0)}), at({k(1)})})});
  CHECK(as_integers(evaluate(primitive, {floats({2, 2, 2}, {0, 1, 5, 2, 1, 9, 0, 3})})) ==
        std::vector<std::int64_t>{2, 1});
}

TEST_CASE("a keyed chain adds where its key matches, and keeps the bits elsewhere") {
  auto scatter = fold(Kind::kChain, DType::kF32, {3}, {4}, {read(0, {at({k(0)})}), read(1, {at({k(0)})})},
                      {step(Op::kAdd, {Operand::accumulator(), Operand::access(0)})});
  scatter.init = Operand::literal(-0.0F);
  scatter.when = {step(Op::kEq, {Operand::access(1), Operand::iteration(0)})};
  const auto out = evaluate(scatter, {floats({4}, {1, 2, 4, 8}), integers({4}, {0, 2, 0, 0})});
  CHECK(out.as<float>()[0] == 13);
  CHECK(bits(out.as<float>()[1]) == 0x80000000);
  CHECK(out.as<float>()[2] == 2);
}

TEST_CASE("a chain starts at what its init reads") {
  auto chain = fold(Kind::kChain, DType::kF32, {2}, {2}, {read(0, {at({k(0)})}), read(1, {at({i(0)})})},
                    {step(Op::kSub, {Operand::access(0), Operand::accumulator()})});
  chain.init = Operand::access(1);
  CHECK(as_floats(evaluate(chain, {floats({2}, {10, 3}), floats({2}, {1, 2})})) ==
        std::vector<float>{-6, -5});
}

TEST_CASE("a stored integer saturates in u8") {
  const auto narrow = map(DType::kU8, {3}, {read(0, {at({i(0)})})});
  const auto out = evaluate(narrow, {integers({3}, {-5, 7, 300})});
  CHECK(std::vector<int>(out.as<std::uint8_t>().begin(), out.as<std::uint8_t>().end()) ==
        std::vector<int>{0, 7, 255});
}

// A source that knows some elements and records requests for others.
class Leaves : public ValueSource {
 public:
  Number element(ValueIndex value, std::int64_t index) override {
    const int number = to_number(value);
    asked.push_back({number, index});
    return number == 2 ? Number::of(std::int64_t{1}) : Number::of(static_cast<float>(10 * number + index));
  }
  std::vector<std::pair<int, std::int64_t>> asked;
};

TEST_CASE("select reads only the branch it takes, even through steps that several share") {
  const std::vector<Tensor> values = {floats({3}, {0, 0, 0}), floats({3}, {0, 0, 0}),
                                      integers({3}, {0, 0, 0})};
  const auto primitive =
      map(DType::kF32, {3}, {read(0, {at({i(0)})}), read(1, {at({i(0)})}), read(2, {at({i(0)})})},
          {step(Op::kNeg, {Operand::access(0)}), step(Op::kNeg, {Operand::access(1)}),
           step(Op::kSelect, {Operand::access(2), Operand::step(0), Operand::step(1)}),
           step(Op::kAdd, {Operand::step(2), Operand::step(0)})});
  Leaves leaves;
  CHECK(evaluate_element(compiled(primitive, values), leaves, 2) == Number::of(-4.0F));
  CHECK(leaves.asked == std::vector<std::pair<int, std::int64_t>>{{0, 2}, {2, 2}});
}

TEST_CASE("nested selects that share steps stay linear") {
  std::vector<Step> steps = {step(Op::kAdd, {Operand::access(0), Operand::literal(1.0F)})};
  while (steps.size() + 3 <= kMaxSteps) {
    const auto last = static_cast<int>(steps.size()) - 1;
    steps.push_back(step(Op::kAdd, {Operand::step(last), Operand::literal(1.0F)}));
    steps.push_back(step(Op::kSub, {Operand::step(last), Operand::literal(1.0F)}));
    steps.push_back(
        step(Op::kSelect, {Operand::iteration(0), Operand::step(last + 1), Operand::step(last + 2)}));
  }
  const auto out = evaluate(map(DType::kF32, {2}, {read(0, {at({})})}, steps), {floats({1}, {0})});
  CHECK(as_floats(out) == std::vector<float>{-20, 22});
}

TEST_CASE("any range of a value is filled with the whole's elements") {
  const auto values = std::vector<Tensor>{floats({7, 5}, pattern(3, 35)), floats({5}, pattern(4, 5))};
  const auto primitive = map(DType::kF32, {7, 5}, {read(0, {at({i(0)}), at({i(1)})}), read(1, {at({i(1)})})},
                             {step(Op::kMul, {Operand::access(0), Operand::access(1)})});
  const Tensor whole = evaluate(primitive, values);
  const CompiledPrimitive made = compiled(primitive, values);
  for (std::int64_t cut = 0; cut <= 35; ++cut) {
    Tensor parts(DType::kF32, {7, 5});
    REQUIRE(evaluate_all(made, views(values), parts, cut, 35).ok());
    REQUIRE(evaluate_all(made, views(values), parts, 0, cut).ok());
    CHECK(as_floats(parts) == as_floats(whole));
  }
  for (std::int64_t n = 0; n < 35; ++n) {
    CHECK(*evaluate_element(made, views(values), n) ==
          Number::of(whole.as<float>()[static_cast<std::size_t>(n)]));
  }
}

TEST_CASE("values that are not those compiled for are refused") {
  const auto values = std::vector<Tensor>{floats({4}, {1, 2, 3, 4})};
  const CompiledPrimitive made = compiled(map(DType::kF32, {4}, {read(0, {at({i(0)})})}), values);
  Tensor out(DType::kF32, {4});
  CHECK_FALSE(evaluate_all(made, {}, out, 0, 4).ok());
  CHECK_FALSE(evaluate_all(made, views({floats({3}, {1, 2, 3})}), out, 0, 4).ok());
  CHECK_FALSE(evaluate_all(made, views({integers({4}, {1, 2, 3, 4})}), out, 0, 4).ok());
  CHECK_FALSE(evaluate_all(made, views(values), out, 0, 5).ok());
  Tensor other(DType::kI64, {4});
  CHECK_FALSE(evaluate_all(made, views(values), other, 0, 4).ok());
}

TEST_CASE("a value without elements is filled") {
  const auto out =
      evaluate(map(DType::kF32, {0, 3}, {read(0, {at({i(0)}), at({i(1)})})}), {floats({0, 3}, {})});
  CHECK(out.count() == 0);
}

}  // namespace
}  // namespace dgx::kernels
