#include "dgx/kernels/bounded.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

using Op = ScalarOp;

BoundedNumber bounded(const Primitive& primitive, const std::vector<Tensor>& values) {
  const auto result = bound_element(compiled(primitive, values), views(values), 0);
  REQUIRE(result.ok());
  CHECK(result->number == *evaluate_element(compiled(primitive, values), views(values), 0));
  return *result;
}

Operand x(int n) { return {Operand::Kind::kAccess, n}; }
Operand t(int n) { return {Operand::Kind::kStep, n}; }

Primitive of_two(std::vector<Step> steps, DType dtype = DType::kF32) {
  return map(dtype, {1}, {read(0, {at({i(0)})}), read(1, {at({i(0)})})}, std::move(steps));
}
std::vector<Tensor> pair(float a, float b) { return {floats({1}, {a}), floats({1}, {b})}; }

TEST_CASE("the bound of a dot covers the terms in any order, with and without fused multiply-add") {
  for (const std::int64_t n : {1, 2, 31, 257, 5000}) {
    CAPTURE(n);
    const std::vector<float> a = pattern(1, n), b = pattern(2, n);
    const auto dot = fold(Kind::kDot, DType::kF32, {1}, {n}, {read(0, {at({k(0)})}), read(1, {at({k(0)})})});
    const BoundedNumber result = bounded(dot, {floats({n}, a), floats({n}, b)});
    long double exact = 0, mass = 0;
    float ascending = 0, descending = 0;
    for (std::size_t p = 0; p < a.size(); ++p) {
      exact += static_cast<long double>(a[p]) * b[p];
      mass += std::fabs(static_cast<long double>(a[p]) * b[p]);
      ascending = ascending + a[p] * b[p];
      const std::size_t back = a.size() - 1 - p;
      descending = std::fma(a[back], b[back], descending);
    }
    for (const float computed : {result.number.real, ascending, descending})
      CHECK(std::fabs(static_cast<long double>(computed) - exact) <= result.bound);
    CHECK(result.bound <= 1.001 * static_cast<double>(n + 1) * 0x1p-24 * static_cast<double>(mass) + 1e-30);
  }
}

TEST_CASE("the bound of a sum covers what its terms were wrong by") {
  constexpr std::int64_t kCount = 3000;
  const std::vector<float> a = pattern(3, kCount);
  auto sum = fold(Kind::kSum, DType::kF32, {1}, {kCount}, {read(0, {at({k(0)})})});
  const double plain = bounded(sum, {floats({kCount}, a)}).bound;
  sum.steps = {step(Op::kMul, {x(0), x(0)})};
  const BoundedNumber squares = bounded(sum, {floats({kCount}, a)});
  long double exact = 0;
  for (const float value : a) exact += static_cast<long double>(value) * value;
  CHECK(plain > 0);
  CHECK(std::fabs(static_cast<long double>(squares.number.real) - exact) <= squares.bound);
  CHECK(squares.bound <= 1e-3 * static_cast<double>(exact));
}

TEST_CASE("the bound of an expression covers its exact value") {
  // tanh((a + b) / (a · b)), where both of the quotient's operands are rounded.
  const auto expression = of_two({step(Op::kAdd, {x(0), x(1)}), step(Op::kMul, {x(0), x(1)}),
                                  step(Op::kDiv, {t(0), t(1)}), step(Op::kTanh, {t(2)})});
  const std::vector<float> a = pattern(4, 300), b = pattern(5, 300);
  for (std::size_t n = 0; n < a.size(); ++n) {
    const BoundedNumber result = bounded(expression, pair(a[n], b[n]));
    const long double exact =
        std::tanh((static_cast<long double>(a[n]) + b[n]) / (static_cast<long double>(a[n]) * b[n]));
    CHECK(std::fabs(static_cast<long double>(result.number.real) - exact) <= result.bound);
    CHECK(result.bound < 1);
  }
}

TEST_CASE("copies and exact operations have no error") {
  CHECK(bounded(of_two({}), pair(0.1F, 1)).bound == 0);
  CHECK(bounded(of_two({step(Op::kMax, {x(0), x(1)}), step(Op::kNeg, {t(0)})}), pair(0.1F, 1)).bound == 0);
  CHECK(bounded(of_two({step(Op::kGt, {x(0), x(1)})}, DType::kI64), pair(0.1F, 1)).bound == 0);
}

TEST_CASE("a branch that rounding may have chosen has no bound") {
  const auto branch = of_two(
      {step(Op::kMul, {x(0), x(1)}), step(Op::kGt, {t(0), x(0)}), step(Op::kSelect, {t(1), x(0), x(1)})});
  CHECK(bounded(branch, pair(0.1F, 1)).bound == std::numeric_limits<double>::infinity());
  CHECK(bounded(branch, pair(0.1F, 2)).bound == 0);
}

TEST_CASE("a quotient by what may be zero, and a root of what may be negative, have no bound") {
  const auto difference = step(Op::kMul, {x(0), x(1)});
  const auto nearly_zero = step(Op::kSub, {t(0), t(0)});
  CHECK(bounded(of_two({difference, nearly_zero, step(Op::kDiv, {x(0), t(1)})}), pair(0.1F, 3)).bound ==
        std::numeric_limits<double>::infinity());
  CHECK(bounded(of_two({difference, nearly_zero, step(Op::kSqrt, {t(1)})}), pair(0.1F, 3)).bound ==
        std::numeric_limits<double>::infinity());
}

TEST_CASE("an argmax between numbers that rounding may have exchanged has no bound") {
  auto best = fold(Kind::kArgmax, DType::kI64, {1}, {2}, {read(0, {at({k(0)})}), read(1, {at({k(0)})})});
  best.steps = {step(Op::kMul, {x(0), x(1)})};
  const auto index = [&](float first, float second) {
    return bounded(best, {floats({2}, {first, second}), floats({2}, {3, 3})});
  };
  CHECK(index(0.1F, 0.2F).bound == 0);
  CHECK(index(0.1F, std::nextafter(0.1F, 1.0F)).bound == std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace dgx::kernels
