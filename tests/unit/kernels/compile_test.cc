#include <catch2/catch.hpp>

#include "dgx/kernels/compiled.h"
#include "ref_support.h"

namespace dgx::kernels {
namespace {

using Op = ScalarOp;

std::vector<Tensor> table() { return {floats({2, 3}, {0, 1, 2, 3, 4, 5}), integers({2}, {0, 1})}; }
Access whole() { return read(0, {at({i(0)}), at({i(1)})}); }

TEST_CASE("an access that stays inside is linear, any other is not") {
  const auto is_linear = [](Access access) {
    return compiled(map(DType::kF32, {2, 3}, {std::move(access)}), table()).accesses[0].is_linear;
  };
  CHECK(is_linear(whole()));
  CHECK(is_linear(read(0, {at({i(0, -1)}, 1), at({i(1, -1)}, 2)})));
  CHECK_FALSE(is_linear(read(0, {at({i(0)}), at({i(1)}, 1)})));
  CHECK_FALSE(is_linear(read(0, {at({i(0)}), at({i(1)}, -1)})));
  CHECK_FALSE(is_linear(read(0, {at({i(0)}), at({i(1, 2)})})));
  CHECK_FALSE(is_linear(read(0, {at({i(0)}), floored({i(1)}, 0, 2)})));
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK_FALSE(is_linear(read(0, {at({i(0, huge), i(0, huge)}), at({i(1, huge), i(1, huge), i(1, huge)})})));
}

TEST_CASE("a coefficient on an index of one position cannot lead outside") {
  const std::int64_t huge = std::int64_t{1} << 62;
  const auto out =
      evaluate(map(DType::kF32, {1}, {read(0, {at({i(0, huge)}), at({i(0, huge)}, 2)})}), table());
  CHECK(out.as<float>()[0] == 2);
}

TEST_CASE("an access without fill that leads outside gives zero") {
  const auto out = evaluate(map(DType::kF32, {2}, {read(0, {at({i(0, 1000000)}), at({}, 1)})}), table());
  CHECK(out.as<float>()[0] == 1);
  CHECK(out.as<float>()[1] == 0);
}

TEST_CASE("what does not fit its values is refused by place") {
  const auto of = [](std::vector<Access> accesses, std::vector<Step> steps = {}) {
    return refusal(map(DType::kF32, {2, 3}, std::move(accesses), std::move(steps)), table());
  };
  CHECK(of({read(2, {})}) == "access 0: there is no earlier value 2");
  CHECK(of({read(-1, {})}) == "access 0: there is no earlier value -1");
  CHECK(of({read(0, {at({i(0)})})}) == "access 0: 1 coordinates for 2 dimensions");
  CHECK(of({read(0, {at({i(0)}), at({i(2)})})}) == "access 0: coordinate 1: there is no index i2");
  CHECK(of({read(0, {at({i(0)}), at({k(0)})})}) == "access 0: coordinate 1: there is no fold index k0");
  CHECK(of({read(0, {at({i(0)}), at({via(7)})})}) == "access 0: coordinate 1: there is no access $7");
  CHECK(of({read(0, {at({via(0)}), at({i(1)})}, 0.0F)}) == "access 0: $0 is not an integer");
  CHECK(of({whole(), read(1, {at({via(1)})}, std::int64_t{0})}) == "access 1: $1 has a $ of its own");
  CHECK(of({read(0, {at({i(0)}), exactly({i(1)}, 0, 0)}, 0.0F)}) ==
        "access 0: coordinate 1: divisor 0 is below 1");
  CHECK(of({read(0, {at({i(0)}), at({i(1)})}, std::int64_t{0})}) ==
        "access 0: the fill does not have the type of f32");
  CHECK(of({}) == "do: there is no access x0");
  CHECK(of({whole()}, {step(Op::kNeg, {Operand::step(0)})}) == "do: step 0: t0 is not an earlier step");
  CHECK(of({whole()}, {step(Op::kNeg, {Operand::accumulator()})}) ==
        "do: step 0: acc outside the do of a chain");
  CHECK(of({whole()}, {step(Op::kNeg, {Operand::fold(0)})}) == "do: step 0: there is no index k0");
  CHECK(of({whole()}, {step(Op::kI64, {Operand::access(0)})}) == "do does not give a number for f32");
  CHECK(of({whole()}, {step(Op::kAdd, {Operand::access(0), Operand::iteration(0)})}) ==
        "do: step 0: add takes operands of one type, not a float, an integer");
  CHECK(of({whole()}, std::vector<Step>(65, step(Op::kNeg, {Operand::access(0)}))) ==
        "do: 65 steps, more than 64");
}

TEST_CASE("what does not fit its kind is refused") {
  const auto values = table();
  CHECK(refusal(fold(Kind::kInput, DType::kF32, {2}, {}, {}), values) ==
        "an input has no elements to compute");
  CHECK(refusal(fold(Kind::kMap, DType::kF32, {2, 3}, {2}, {whole()}), values) == "a map has no fold shape");
  CHECK(refusal(fold(Kind::kDot, DType::kF32, {2, 3}, {2}, {whole()}), values) == "a dot needs two accesses");
  CHECK(refusal(fold(Kind::kDot, DType::kF32, {2, 3}, {2}, {whole(), read(1, {at({i(0)})})}), values) ==
        "access 1 of a dot is not f32");
  CHECK(refusal(fold(Kind::kDot, DType::kF32, {2, 3}, {2}, {whole(), whole()},
                     {step(Op::kMul, {Operand::access(0), Operand::access(1)})}),
                values) == "a dot has no steps");
  CHECK(refusal(fold(Kind::kArgmax, DType::kF32, {2, 3}, {2}, {whole()}), values) == "an argmax gives i64");
  CHECK(refusal(fold(Kind::kChain, DType::kF32, {2, 3}, {2}, {whole()}), values) == "a chain needs init");

  auto with_init = fold(Kind::kSum, DType::kF32, {2, 3}, {2}, {whole()});
  with_init.init = Operand::literal(0.0F);
  CHECK(refusal(with_init, values) == "only a chain has init and when");

  auto chain = fold(Kind::kChain, DType::kF32, {2, 3}, {2}, {whole(), read(0, {at({k(0)}), at({i(1)})})});
  chain.init = Operand::literal(std::int64_t{0});
  CHECK(refusal(chain, values) == "init does not have type f32");
  chain.init = Operand::access(1);
  CHECK(refusal(chain, values) == "init reads an access with fold indices");
  chain.init = Operand::literal(0.0F);
  chain.when = {step(Op::kNeg, {Operand::access(0)})};
  CHECK(refusal(chain, values) == "when gives a float");

  auto split = map(DType::kF32, {2, 3}, {whole()});
  split.iteration = Shape{5};
  CHECK(refusal(split, values) == "iteration shape [5] and shape [2,3] differ in their number of elements");
  auto viewed = map(DType::kF32, {2, 3}, {whole()});
  viewed.accesses[0].view = Shape{4};
  CHECK(refusal(viewed, values) == "access 0: view [4] and [2,3] differ in their number of elements");
}

}  // namespace
}  // namespace dgx::kernels
