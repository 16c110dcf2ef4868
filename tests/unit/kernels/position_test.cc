#include "dgx/kernels/position.h"

#include <catch2/catch.hpp>
#include <limits>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

using Op = ScalarOp;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<std::int64_t> kLengths{1,   2,    31,   32,   33,   255,  256,  257, 511,
                                         513, 2047, 2048, 2049, 4095, 4096, 4097, 4353};

/// A value table as a source.
class Table final : public ValueSource {
 public:
  explicit Table(const std::vector<Tensor>& values) : views_(views(values)) {}
  Number element(ValueIndex value, std::int64_t index) override {
    const TensorView& view = views_[value];
    const auto at = static_cast<std::size_t>(index);
    switch (view.dtype) {
      case DType::kF32: return Number::of(reinterpret_cast<const float*>(view.bytes.data())[at]);
      case DType::kI64: return Number::of(reinterpret_cast<const std::int64_t*>(view.bytes.data())[at]);
      case DType::kU8: return Number::of(static_cast<std::int64_t>(view.bytes[at]));
    }
    return {};
  }

 private:
  ByValue<TensorView> views_;
};

/// A fold with its values: rows of two elements, so that the second differs from the first.
struct Case {
  std::string name;
  Primitive primitive;
  std::vector<Tensor> values;
};

std::vector<float> sprinkled(std::uint64_t seed, std::int64_t count) {
  std::vector<float> out = pattern(seed, count);
  for (std::size_t at = 7; at < out.size(); at += 300) out[at] = at % 3 == 0 ? -0.0F : 0.0F;
  return out;
}

std::vector<std::int64_t> whole(std::int64_t count) {
  std::vector<std::int64_t> out;
  std::uint64_t state = 9;
  for (std::int64_t n = 0; n < count; ++n) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    out.push_back(static_cast<std::int64_t>(state) >> (n % 5 == 0 ? 0 : 50));
  }
  return out;
}

const Access kTerm = read(0, {at({i(0)}), at({k(0)})});

Case dot_of(std::int64_t n) {
  return {"dot",
          fold(Kind::kDot, DType::kF32, {2}, {n}, {kTerm, read(1, {at({k(0)})})}),
          {floats({2, n}, sprinkled(1, 2 * n)), floats({n}, sprinkled(2, n))}};
}

Case of_floats(Kind kind, std::int64_t n) {
  const DType dtype = kind == Kind::kArgmax ? DType::kI64 : DType::kF32;
  return {"floats",
          fold(kind, dtype, {2}, {n}, {kTerm}, {step(Op::kNeg, {Operand::access(0)})}),
          {floats({2, n}, sprinkled(3, 2 * n))}};
}

Case of_copies(Kind kind, std::int64_t n) {
  const DType dtype = kind == Kind::kArgmax ? DType::kI64 : DType::kF32;
  return {"copies", fold(kind, dtype, {2}, {n}, {kTerm}), {floats({2, n}, sprinkled(3, 2 * n))}};
}

/// NaNs of different payloads, from the middle on.
Case of_nans(Kind kind, std::int64_t n) {
  Case out = of_copies(kind, n);
  out.name = "NaNs";
  std::vector<float> numbers = sprinkled(3, 2 * n);
  for (std::size_t at = numbers.size() / 2; at < numbers.size(); at += 17) {
    numbers[at] = std::bit_cast<float>(0xFF800001U + static_cast<std::uint32_t>(at));
  }
  out.values = {floats({2, n}, numbers)};
  return out;
}

Case of_integers(Kind kind, DType dtype, std::int64_t n) {
  return {"integers",
          fold(kind, dtype, {2}, {n}, {kTerm}, {step(Op::kAdd, {Operand::access(0), Operand::fold(0)})}),
          {integers({2, n}, whole(2 * n))}};
}

Case chain_of(std::int64_t n, bool with_when) {
  Case out{with_when ? "chain with when" : "chain",
           fold(Kind::kChain, DType::kF32, {2}, {n}, {kTerm, read(1, {at({i(0)})})},
                {step(Op::kMul, {Operand::accumulator(), Operand::literal(0.75F)}),
                 step(Op::kAdd, {Operand::step(0), Operand::access(0)})}),
           {floats({2, n}, sprinkled(4, 2 * n)), floats({2}, {2.5F, kNan})}};
  out.primitive.init = Operand::access(1);
  if (with_when) {
    out.primitive.when = {step(Op::kImod, {Operand::fold(0), Operand::literal(std::int64_t{3})}),
                          step(Op::kNe, {Operand::step(0), Operand::literal(std::int64_t{0})})};
  }
  return out;
}

/// The items' sum by its rule, level by level.
Number summed(NumberType type, std::vector<Number> items) {
  const Number zero = type == NumberType::kFloat ? Number::of(0.0F) : Number::of(std::int64_t{0});
  if (items.empty()) return zero;
  for (;;) {
    std::vector<Number> results;
    for (std::size_t begin = 0; begin < items.size(); begin += 2048) {
      std::vector<Number> lanes(32, zero);
      for (std::size_t q = 0; q < 2048 && begin + q < items.size(); ++q) {
        lanes[q % 32] = apply_scalar(Op::kAdd, std::vector{lanes[q % 32], items[begin + q]});
      }
      results.push_back(combine_lanes(type, std::span<const Number, 32>(lanes)).result);
    }
    if (results.size() == 1) return results[0];
    items = results;
  }
}

Number summed(const CompiledPrimitive& primitive, const std::vector<Running>& all) {
  const NumberType type = running_type(primitive);
  const Number zero = type == NumberType::kFloat ? Number::of(0.0F) : Number::of(std::int64_t{0});
  std::vector<Number> blocks;
  for (std::size_t begin = 0; begin < all.size(); begin += 2048) {
    std::vector<Number> lanes(32, zero);
    for (std::size_t q = 0; q < 2048 && begin + q < all.size(); ++q) lanes[q % 32] = all[begin + q].value;
    blocks.push_back(combine_lanes(type, std::span<const Number, 32>(lanes)).result);
  }
  return blocks.size() == 1 ? blocks[0] : summed(type, blocks);
}

Number totalled(const std::vector<Running>& all) {
  const auto add = [](const Number& a, const Number& b) { return apply_scalar(Op::kAdd, std::vector{a, b}); };
  Number total = Number::of(0.0F);
  Number group = total;
  for (std::size_t p = 0; p < all.size(); ++p) {
    const bool is_end = p + 1 == all.size();
    if ((p + 1) % 256 == 0 || is_end) group = add(group, all[p].value);
    if ((p + 1) % 4096 == 0 || is_end) {
      total = add(total, group);
      group = Number::of(0.0F);
    }
  }
  return total;
}

/// The element, as stored, that follows from the running results.
Number recombined(const CompiledPrimitive& primitive, const std::vector<Running>& all) {
  Number out = all.back().value;
  if (primitive.kind == Kind::kDot) out = totalled(all);
  if (primitive.kind == Kind::kSum) out = summed(primitive, all);
  if (primitive.kind == Kind::kArgmax) out = Number::of(all.back().where);
  return primitive.dtype == DType::kU8 ? Number::of(to_u8(out.integer)) : out;
}

/// The running result from which position `p` starts, given the results before it.
Running before(const CompiledPrimitive& primitive, const Running& start, const std::vector<Running>& all,
               std::int64_t p) {
  const bool is_sum = primitive.kind == Kind::kSum;
  const std::int64_t back = is_sum ? 32 : 1;
  const std::int64_t in_block = is_sum ? p % 2048 : primitive.kind == Kind::kDot ? p % 256 : p;
  return in_block < back ? start : all[static_cast<std::size_t>(p - back)];
}

/// The last record that a whole element's trace has for the position, if any.
std::optional<ScalarRecord> last_of_position(const CompiledPrimitive& primitive, const Case& one,
                                             std::int64_t element, std::int64_t position) {
  std::optional<ScalarRecord> found;
  const auto visit = [&](const ScalarRecord& record) {
    const Place place = record.place;
    if (place == Place::kDotBlock || place == Place::kDotGroup || place == Place::kSumCombine) return;
    if (place == Place::kSumLane && record.step > 0) return;
    if (record.position == position) found = record;
  };
  REQUIRE(trace_element(primitive, views(one.values), element, visit).ok());
  return found;
}

void check(const Case& one, std::int64_t n) {
  CAPTURE(one.name, name_of(one.primitive.kind), n);
  const CompiledPrimitive primitive = compiled(one.primitive, one.values);
  Table table(one.values);
  for (const std::int64_t element : {0, 1}) {
    const Running start = fold_start(primitive, table, element);
    CHECK(start.value.type == running_type(primitive));
    const auto all = running_results(primitive, views(one.values), element, 0, n, start);
    REQUIRE(all.ok());
    REQUIRE(static_cast<std::int64_t>(all->size()) == n);
    CHECK(recombined(primitive, *all) == *evaluate_element(primitive, views(one.values), element));
    int differing = 0;
    for (std::int64_t p = 0; p < n; ++p) {
      const auto trace = trace_position(primitive, table, element, p, before(primitive, start, *all, p));
      Running after = trace.after;
      if (primitive.kind == Kind::kSum) after.where = 0;
      differing += after == (*all)[static_cast<std::size_t>(p)] ? 0 : 1;
    }
    CHECK(differing == 0);
    for (const std::int64_t p : {std::int64_t{0}, n / 2, n - 1}) {
      auto alone = trace_position(primitive, table, element, p, before(primitive, start, *all, p)).last;
      auto in_whole = last_of_position(primitive, one, element, p);
      REQUIRE(alone.has_value() == in_whole.has_value());
      if (!alone) continue;
      CHECK(alone->index <= 3);
      alone->index = in_whole->index = 0;
      CHECK(*alone == *in_whole);
    }
  }
}

TEST_CASE("running results recombine to the element, and follow from each other one by one") {
  for (const std::int64_t n : kLengths) {
    check(dot_of(n), n);
    for (const Kind kind : {Kind::kSum, Kind::kMax, Kind::kArgmax}) {
      check(of_floats(kind, n), n);
      check(of_copies(kind, n), n);
      check(of_nans(kind, n), n);
      check(of_integers(kind, DType::kI64, n), n);
    }
    check(of_integers(Kind::kSum, DType::kU8, n), n);
    check(of_integers(Kind::kMax, DType::kU8, n), n);
    check(chain_of(n, false), n);
    check(chain_of(n, true), n);
  }
}

TEST_CASE("the last operation of an element's last position is that of its trace") {
  for (const std::int64_t n : {1, 33, 2049}) {
    for (const Case& one :
         {of_floats(Kind::kMax, n), of_integers(Kind::kArgmax, DType::kI64, n), chain_of(n, false)}) {
      CAPTURE(one.name, n);
      const CompiledPrimitive primitive = compiled(one.primitive, one.values);
      Table table(one.values);
      const Running start = fold_start(primitive, table, 1);
      const auto all = running_results(primitive, views(one.values), 1, 0, n, start);
      REQUIRE(all.ok());
      auto last = trace_position(primitive, table, 1, n - 1, before(primitive, start, *all, n - 1)).last;
      auto whole_last = trace_element(primitive, views(one.values), 1, {})->last;
      REQUIRE(last.has_value());
      last->index = whole_last->index = 0;
      CHECK(*last == *whole_last);
    }
  }
}

TEST_CASE("running results may begin anywhere, a sum's where a block does") {
  for (const Case& one :
       {dot_of(4353), of_floats(Kind::kSum, 4353), of_floats(Kind::kArgmax, 4353), chain_of(4353, true)}) {
    CAPTURE(name_of(one.primitive.kind));
    const CompiledPrimitive primitive = compiled(one.primitive, one.values);
    Table table(one.values);
    const Running start = fold_start(primitive, table, 0);
    const auto all = *running_results(primitive, views(one.values), 0, 0, 4353, start);
    const bool is_sum = primitive.kind == Kind::kSum;
    for (const std::int64_t begin : {2048, is_sum ? 4096 : 300}) {
      const auto some =
          running_results(primitive, views(one.values), 0, begin, 4353, before(primitive, start, all, begin));
      REQUIRE(some.ok());
      CHECK(std::equal(some->begin(), some->end(), all.begin() + begin, all.end()));
    }
    CHECK(running_results(primitive, views(one.values), 0, 2048, 2048, start)->empty());
    CHECK(running_results(primitive, views(one.values), 0, 300, 301, start).ok() != is_sum);
    CHECK_FALSE(running_results(primitive, views(one.values), 0, 0, 4354, start).ok());
    CHECK_FALSE(running_results(primitive, views(one.values), 0, -2048, 0, start).ok());
    CHECK_FALSE(running_results(primitive, views(one.values), 0, 2048, 0, start).ok());
    CHECK_FALSE(running_results(primitive, ByValue<TensorView>{}, 0, 0, 1, start).ok());
  }
}

TEST_CASE("folds start as the page says") {
  const auto start = [](const Case& one) {
    Table table(one.values);
    return fold_start(compiled(one.primitive, one.values), table, 1).value;
  };
  CHECK(start(dot_of(3)) == Number::of(0.0F));
  CHECK(start(of_floats(Kind::kSum, 3)) == Number::of(0.0F));
  CHECK(start(of_integers(Kind::kSum, DType::kU8, 3)) == Number::of(std::int64_t{0}));
  CHECK(start(of_floats(Kind::kArgmax, 3)) == Number::of(-std::numeric_limits<float>::infinity()));
  CHECK(start(of_integers(Kind::kMax, DType::kI64, 3)) ==
        Number::of(std::numeric_limits<std::int64_t>::min()));
  CHECK(start(chain_of(3, false)) == Number::of(kNan));
}

TEST_CASE("lanes combine at distance 16 to 1, and the last addition is lane 0 plus lane 1") {
  std::vector<Number> lanes;
  for (const float value : pattern(5, 32)) lanes.push_back(Number::of(value));
  const LaneSum sum = combine_lanes(NumberType::kFloat, std::span<const Number, 32>(lanes));
  std::vector<Number> parts = lanes;
  for (std::size_t d = 16; d > 1; d /= 2) {
    for (std::size_t l = 0; l < d; ++l)
      parts[l] = apply_scalar(Op::kAdd, std::vector{parts[l], parts[l + d]});
  }
  CHECK(sum.last.index == 30);
  CHECK(sum.last.place == Place::kSumCombine);
  CHECK(sum.last.operands[0].number == parts[0]);
  CHECK(sum.last.operands[1].number == parts[1]);
  CHECK(sum.last.operands[1].index == 1);
  CHECK(sum.last.result == sum.result);
  CHECK(sum.result == apply_scalar(Op::kAdd, std::vector{parts[0], parts[1]}));
}

TEST_CASE("a position of an enormous fold costs one position") {
  const std::int64_t n = std::int64_t{1} << 23;
  for (const Kind kind : {Kind::kSum, Kind::kMax, Kind::kArgmax, Kind::kChain, Kind::kDot}) {
    CAPTURE(name_of(kind));
    Primitive huge = fold(
        kind, kind == Kind::kArgmax ? DType::kI64 : DType::kF32, {}, {n, n},
        {read(0, {at({k(0), k(1, 3)}, -7)}, Literal(1.5F)), read(0, {at({k(1)}, 1 - n)}, Literal(2.0F))});
    if (kind == Kind::kChain) huge.init = Operand::literal(1.0F);
    const std::vector<Tensor> values{floats({4}, {1, 2, 3, 4})};
    const auto primitive = compile(huge, types(values));
    REQUIRE(primitive.ok());
    Table table(values);
    const Running start{Number::of(0.5F), 3};
    const PositionTrace trace = trace_position(*primitive, table, 0, n * n - 1, start);
    CHECK(trace.last.has_value() == (kind != Kind::kChain));
    const float expected = kind == Kind::kSum ? 2.0F : kind == Kind::kDot ? 2.0F : 1.5F;
    CHECK(trace.after.value == Number::of(expected));
    if (kind == Kind::kArgmax) CHECK(trace.after.where == n * n - 1);
    CHECK(
        trace_position(*primitive, table, 0, n * n - 1, {Number::of(std::int64_t{5}), 0}).after.value.type ==
        NumberType::kFloat);
  }
}

TEST_CASE("a map has one position, its element") {
  const Primitive primitive =
      map(DType::kF32, {2}, {read(0, {at({i(0)})})}, {step(Op::kExp, {Operand::access(0)})});
  const std::vector<Tensor> values{floats({2}, {0, 3})};
  const CompiledPrimitive compiled_map = compiled(primitive, values);
  Table table(values);
  const PositionTrace trace = trace_position(compiled_map, table, 1, 0, {});
  const ElementTrace element = *trace_element(compiled_map, views(values), 1, {});
  CHECK(trace.after.value == element.result);
  CHECK(trace.last == element.last);
}

}  // namespace
}  // namespace dgx::kernels
