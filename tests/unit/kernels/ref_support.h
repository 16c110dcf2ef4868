#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/kernels/evaluate.h"
#include "json_vectors.h"

namespace dgx::kernels {

using test::integer;
using test::member;

/// tests/vectors/kernels_ref.json, derived by tests/vectors/kernels_ref.py.
const json::Value& vectors();
std::string text(const json::Value& object, std::string_view key);
/// A string of hex digits.
std::uint64_t hex(const json::Value& value);
std::uint32_t bits(float value);

/// Floats of both signs with exponents −12 … 12, as in kernels_ref.py.
std::vector<float> pattern(std::uint64_t seed, std::int64_t count);

Tensor floats(Shape shape, std::vector<float> values);
Tensor integers(Shape shape, std::vector<std::int64_t> values);
ByValue<TensorView> views(const std::vector<Tensor>& values);
ByValue<ValueType> types(const std::vector<Tensor>& values);

Term i(int n, std::int64_t coefficient = 1);
Term k(int n, std::int64_t coefficient = 1);
Term via(int n, std::int64_t coefficient = 1);
Coordinate at(std::vector<Term> terms, std::int64_t constant = 0);
Coordinate exactly(std::vector<Term> terms, std::int64_t constant, std::int64_t divisor);
Coordinate floored(std::vector<Term> terms, std::int64_t constant, std::int64_t divisor);
Access read(int value, std::vector<Coordinate> coordinates, std::optional<Literal> fill = {});
Step step(ScalarOp op, std::initializer_list<Operand> operands);

Primitive map(DType dtype, Shape shape, std::vector<Access> accesses, std::vector<Step> steps = {});
Primitive fold(Kind kind, DType dtype, Shape shape, Shape over, std::vector<Access> accesses,
               std::vector<Step> steps = {});

/// compile(), which must succeed.
CompiledPrimitive compiled(const Primitive& primitive, const std::vector<Tensor>& values);
/// All elements, by evaluate_all.
Tensor evaluate(const Primitive& primitive, const std::vector<Tensor>& values);
/// The message of a compile() that must fail.
std::string refusal(const Primitive& primitive, const std::vector<Tensor>& values);

}  // namespace dgx::kernels
