#pragma once

#include <vector>

#include "builder.h"
#include "tensor_form.h"

namespace dgx::lowering {

class LineWriter;

/// A number inside a line being written, with which lowerings are written as formulas: each operator appends
/// a step. Mixed operands of + - * /, comparisons and select promote integers to f32. At least one operand
/// belongs to a LineWriter, which must outlive its expressions.
struct Expression {
  Expression(float number)
      : operand(kernels::Operand::literal(number)),
        type(kernels::NumberType::kFloat) {}  // NOLINT: implicit, as below
  Expression(std::int64_t number) : operand(kernels::Operand::literal(number)) {}  // NOLINT
  Expression(LineWriter* writer, kernels::Operand which, kernels::NumberType its_type)
      : line(writer), operand(which), type(its_type) {}

  LineWriter* line = nullptr;
  kernels::Operand operand;
  kernels::NumberType type = kernels::NumberType::kInteger;
};

/// A step with these operands, without promotion.
[[nodiscard]] Expression step(kernels::ScalarOp op, const std::vector<Expression>& operands);
[[nodiscard]] Expression to_float(const Expression& a);    ///< as f32; unchanged if it is one
[[nodiscard]] Expression to_integer(const Expression& a);  ///< as i64, truncated; unchanged if it is one

[[nodiscard]] Expression operator+(const Expression& a, const Expression& b);
[[nodiscard]] Expression operator-(const Expression& a, const Expression& b);
[[nodiscard]] Expression operator*(const Expression& a, const Expression& b);
[[nodiscard]] Expression operator/(const Expression& a, const Expression& b);  ///< in f32
[[nodiscard]] Expression operator-(const Expression& a);
[[nodiscard]] Expression fma(const Expression& a, const Expression& b, const Expression& c);
[[nodiscard]] Expression max(const Expression& a, const Expression& b);
[[nodiscard]] Expression min(const Expression& a, const Expression& b);
[[nodiscard]] Expression compare(kernels::ScalarOp op, const Expression& a, const Expression& b);
[[nodiscard]] Expression select(const Expression& condition, const Expression& yes, const Expression& no);
/// A function of one float: sqrt, exp, tanh, …
[[nodiscard]] Expression function(kernels::ScalarOp op, const Expression& a);
[[nodiscard]] inline Expression exp(const Expression& x) { return function(kernels::ScalarOp::kExp, x); }
[[nodiscard]] inline Expression expm1(const Expression& x) { return function(kernels::ScalarOp::kExpm1, x); }
[[nodiscard]] inline Expression log(const Expression& x) { return function(kernels::ScalarOp::kLog, x); }
[[nodiscard]] inline Expression log1p(const Expression& x) { return function(kernels::ScalarOp::kLog1p, x); }
[[nodiscard]] inline Expression sqrt(const Expression& x) { return function(kernels::ScalarOp::kSqrt, x); }
[[nodiscard]] inline Expression sin(const Expression& x) { return function(kernels::ScalarOp::kSin, x); }
[[nodiscard]] inline Expression cos(const Expression& x) { return function(kernels::ScalarOp::kCos, x); }
[[nodiscard]] inline Expression tanh(const Expression& x) { return function(kernels::ScalarOp::kTanh, x); }
[[nodiscard]] inline Expression erf(const Expression& x) { return function(kernels::ScalarOp::kErf, x); }
[[nodiscard]] inline Expression floor(const Expression& x) { return function(kernels::ScalarOp::kFloor, x); }
[[nodiscard]] inline Expression trunc(const Expression& x) { return function(kernels::ScalarOp::kTrunc, x); }
/// The magnitude of a number of either type.
[[nodiscard]] inline Expression abs(const Expression& x) { return step(kernels::ScalarOp::kAbs, {x}); }

/// Writes one line of the program: give it its form, read tensors, combine them, finish.
class LineWriter {
 public:
  /// A map of this shape.
  LineWriter(Builder& builder, std::string provenance, Shape shape)
      : LineWriter(builder, std::move(provenance), kernels::Kind::kMap, std::move(shape), {}) {}
  /// A fold over `fold`.
  LineWriter(Builder& builder, std::string provenance, kernels::Kind kind, Shape shape, Shape fold);
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// The tensor's element at the output's index, broadcast.
  Expression read(const TensorForm& form);
  /// The tensor's element at `indices`, which are made of output and fold indices.
  Expression read(const TensorForm& form, const std::vector<kernels::Coordinate>& indices);
  /// The element that the access reads, as given.
  Expression read(kernels::Access access, DType dtype);
  [[nodiscard]] Expression index(std::size_t n) {
    return {this, kernels::Operand::iteration(static_cast<int>(n)), kernels::NumberType::kInteger};
  }
  [[nodiscard]] Expression fold(std::size_t n) {
    return {this, kernels::Operand::fold(static_cast<int>(n)), kernels::NumberType::kInteger};
  }
  /// The element of a pickable() form at `indices`, some of which are picked_index(); 0 if one of them is
  /// outside.
  Expression pick(const TensorForm& form, const std::vector<kernels::Coordinate>& indices);

  /// Ends the line, whose value is `result`, converted to the number type of `dtype`; returns it as a tensor
  /// of all its elements. A map that only reads one whole tensor, or is one number, costs no line. Steps and
  /// accesses that `result` does not need are left out.
  TensorForm finish(DType dtype, const Expression& result);
  /// Ends a chain that starts at `init` and takes `result` where `when` is not 0 (always, if it is nullopt).
  /// The running result is accumulator(). `when` must be a step's result, such as a comparison's.
  TensorForm finish_chain(DType dtype, const Expression& result, const std::optional<Expression>& when,
                          const Expression& init);
  [[nodiscard]] Expression accumulator(kernels::NumberType type) {
    return {this, kernels::Operand::accumulator(), type};
  }

  Expression append(kernels::ScalarOp op, const std::vector<Expression>& operands);

 private:
  TensorForm finish_operand(DType dtype, const kernels::Operand& result);

  Builder& builder_;
  kernels::Primitive primitive_;
  /// By access: the form of a plain copy of it, if a tensor was read.
  std::vector<std::optional<TensorForm>> read_whole_;
};

/// `$j` as a coordinate of another access: the integer that access j of the line reads.
[[nodiscard]] kernels::Coordinate picked_index(const Expression& access);

/// Drops the steps and accesses that the line's result does not need, and orders the rest by the line's
/// meaning alone, so that one lowering has one text whatever compiler built us. Not for dot.
void arrange(kernels::Primitive& primitive);

}  // namespace dgx::lowering
