#include <catch2/catch.hpp>
#include <random>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

// Random accesses against a reading of the definition that keeps no state between elements.

using Indices = std::vector<std::int64_t>;

Indices indices_of(std::int64_t element, const Shape& shape) {
  Indices indices(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    indices[d] = element % shape[d];
    element /= shape[d];
  }
  return indices;
}

struct Naive {
  const Primitive& primitive;
  const std::vector<Tensor>& values;

  [[nodiscard]] std::int64_t read(std::size_t n, const Indices& i, const Indices& k) const {
    const Access& access = primitive.accesses[n];
    const Tensor& value = values[static_cast<std::size_t>(access.value)];
    const Shape& shape = access.view ? *access.view : value.shape();
    std::int64_t element = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Coordinate& coordinate = access.coordinates[d];
      std::int64_t at = coordinate.constant;
      for (const Term& term : coordinate.terms) {
        const auto index = static_cast<std::size_t>(term.index);
        const std::int64_t symbol = term.symbol == Term::Symbol::kIndex  ? i[index]
                                    : term.symbol == Term::Symbol::kFold ? k[index]
                                                                         : read(index, i, k);
        at += term.coefficient * symbol;
      }
      const std::int64_t rest = ((at % coordinate.divisor) + coordinate.divisor) % coordinate.divisor;
      if (coordinate.division == Coordinate::Division::kExact && rest != 0) return fill(access);
      at = (at - rest) / coordinate.divisor;
      if (at < 0 || at >= shape[d]) return fill(access);
      element = element * shape[d] + at;
    }
    return value.as<std::int64_t>()[static_cast<std::size_t>(element)];
  }
  [[nodiscard]] static std::int64_t fill(const Access& access) {
    return access.fill ? std::get<std::int64_t>(*access.fill) : 0;
  }
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  Coordinate coordinate(bool may_indirect) {
    Coordinate made = at({}, between(-2, 2));
    for (std::int64_t n = between(0, 2); n > 0; --n) {
      const std::int64_t symbol = between(0, may_indirect ? 2 : 1);
      const std::int64_t coefficient = between(-2, 2);
      if (symbol == 0) made.terms.push_back(i(static_cast<int>(between(0, 1)), coefficient));
      if (symbol == 1) made.terms.push_back(k(static_cast<int>(between(0, 1)), coefficient));
      if (symbol == 2) made.terms.push_back(via(0, coefficient));
    }
    const std::int64_t division = between(0, 3);
    if (division >= 2) made.divisor = between(1, 3);
    if (division == 2) made.division = Coordinate::Division::kExact;
    if (division == 3) made.division = Coordinate::Division::kFloor;
    return made;
  }
  Access access(bool may_indirect) {
    Access made = read(0, {coordinate(may_indirect), coordinate(may_indirect)});
    if (between(0, 1) == 0) made.fill = between(-9, 9);
    if (between(0, 3) == 0) made.view = Shape{2, 10};
    return made;
  }

 private:
  std::mt19937_64 engine_;
};

TEST_CASE("an access reads what its formula says, inside or outside") {
  std::vector<std::int64_t> numbers;
  Random random(20);
  for (int n = 0; n < 20; ++n) numbers.push_back(random.between(-6, 6));
  const std::vector<Tensor> values = {integers({4, 5}, numbers)};
  for (int round = 0; round < 3000; ++round) {
    const auto primitive =
        fold(Kind::kSum, DType::kI64, {3, 4}, {2, 3}, {random.access(false), random.access(true)},
             {step(ScalarOp::kSub, {Operand::access(0), Operand::access(1)})});
    const Tensor out = evaluate(primitive, values);
    const Naive naive{primitive, values};
    for (std::int64_t n = 0; n < 12; ++n) {
      std::int64_t sum = 0;
      for (std::int64_t p = 0; p < 6; ++p) {
        const Indices i = indices_of(n, {3, 4});
        const Indices k = indices_of(p, {2, 3});
        sum += naive.read(0, i, k) - naive.read(1, i, k);
      }
      CAPTURE(round, n);
      REQUIRE(out.as<std::int64_t>()[static_cast<std::size_t>(n)] == sum);
    }
  }
}

}  // namespace
}  // namespace dgx::kernels
