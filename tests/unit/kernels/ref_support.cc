#include "ref_support.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>

namespace dgx::kernels {

const json::Value& vectors() {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/kernels_ref.json");
  return value;
}

std::string text(const json::Value& object, std::string_view key) {
  REQUIRE(member(object, key).as_string() != nullptr);
  return *member(object, key).as_string();
}

std::uint64_t hex(const json::Value& value) {
  REQUIRE(value.as_string() != nullptr);
  return std::stoull(*value.as_string(), nullptr, 16);
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

std::vector<float> pattern(std::uint64_t seed, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t n = 1; n <= count; ++n) {
    std::uint64_t z = static_cast<std::uint64_t>(n) * 0x9E3779B97F4A7C15U + seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    const std::uint64_t word = (z >> 63 << 31) | ((115 + (z >> 32) % 25) << 23) | (z & 0x7FFFFF);
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(word)));
  }
  return values;
}

Tensor floats(Shape shape, std::vector<float> values) {
  Tensor tensor(DType::kF32, std::move(shape));
  REQUIRE(tensor.count() == static_cast<std::int64_t>(values.size()));
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}

Tensor integers(Shape shape, std::vector<std::int64_t> values) {
  Tensor tensor(DType::kI64, std::move(shape));
  REQUIRE(tensor.count() == static_cast<std::int64_t>(values.size()));
  std::ranges::copy(values, tensor.as<std::int64_t>().begin());
  return tensor;
}

ByValue<TensorView> views(const std::vector<Tensor>& values) {
  ByValue<TensorView> all;
  for (const Tensor& value : values) all.push_back(value.view());
  return all;
}

ByValue<ValueType> types(const std::vector<Tensor>& values) {
  ByValue<ValueType> all;
  for (const Tensor& value : values) all.push_back({value.dtype(), value.shape()});
  return all;
}

Term i(int n, std::int64_t coefficient) { return {Term::Symbol::kIndex, n, coefficient}; }
Term k(int n, std::int64_t coefficient) { return {Term::Symbol::kFold, n, coefficient}; }
Term via(int n, std::int64_t coefficient) { return {Term::Symbol::kAccess, n, coefficient}; }

Coordinate at(std::vector<Term> terms, std::int64_t constant) {
  return {std::move(terms), constant, Coordinate::Division::kNone, 1};
}
Coordinate exactly(std::vector<Term> terms, std::int64_t constant, std::int64_t divisor) {
  return {std::move(terms), constant, Coordinate::Division::kExact, divisor};
}
Coordinate floored(std::vector<Term> terms, std::int64_t constant, std::int64_t divisor) {
  return {std::move(terms), constant, Coordinate::Division::kFloor, divisor};
}

Access read(int value, std::vector<Coordinate> coordinates, std::optional<Literal> fill) {
  return {ValueIndex{value}, std::nullopt, std::move(coordinates), fill};
}

Step step(ScalarOp op, std::initializer_list<Operand> operands) {
  Step made{op, {}};
  std::ranges::copy(operands, made.operands.begin());
  return made;
}

Primitive map(DType dtype, Shape shape, std::vector<Access> accesses, std::vector<Step> steps) {
  return fold(Kind::kMap, dtype, std::move(shape), {}, std::move(accesses), std::move(steps));
}

Primitive fold(Kind kind, DType dtype, Shape shape, Shape over, std::vector<Access> accesses,
               std::vector<Step> steps) {
  Primitive primitive;
  primitive.kind = kind;
  primitive.dtype = dtype;
  primitive.shape = std::move(shape);
  primitive.fold = std::move(over);
  primitive.accesses = std::move(accesses);
  primitive.steps = std::move(steps);
  return primitive;
}

CompiledPrimitive compiled(const Primitive& primitive, const std::vector<Tensor>& values) {
  auto made = compile(primitive, types(values));
  if (!made) FAIL(made.error().message);
  return *std::move(made);
}

Tensor evaluate(const Primitive& primitive, const std::vector<Tensor>& values) {
  const CompiledPrimitive made = compiled(primitive, values);
  Tensor out(primitive.dtype, primitive.shape);
  REQUIRE(evaluate_all(made, views(values), out, 0, out.count()).ok());
  return out;
}

std::string refusal(const Primitive& primitive, const std::vector<Tensor>& values) {
  const auto made = compile(primitive, types(values));
  REQUIRE_FALSE(made.ok());
  return made.error().message;
}

}  // namespace dgx::kernels
