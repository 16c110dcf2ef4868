#pragma once

#include <vector>

#include "dgx/program/builder.h"
#include "tensor_form.h"

namespace dgx::program {

class LineWriter;

/// A number inside a line being written. Lowerings are written with it as formulas; each operator appends a
/// step. Mixed operands of + - * /, comparisons and select promote integers to f32. A LineWriter must outlive
/// its expressions; at least one operand has one.
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
[[nodiscard]] Expression to_float(const Expression& a);    ///< f32, unless it is one
[[nodiscard]] Expression to_integer(const Expression& a);  ///< i64 (truncates), unless it is one

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
  /// Its element at `indices`, of output and fold indices.
  Expression read(const TensorForm& form, const std::vector<kernels::Coordinate>& indices);
  /// An access as it stands.
  Expression read(kernels::Access access, DType dtype);
  [[nodiscard]] Expression index(std::size_t n) {
    return {this, kernels::Operand::iteration(static_cast<int>(n)), kernels::NumberType::kInteger};
  }
  [[nodiscard]] Expression fold(std::size_t n) {
    return {this, kernels::Operand::fold(static_cast<int>(n)), kernels::NumberType::kInteger};
  }
  /// Its element at `indices`, some of which are picked_index(). Where one is outside: 0. Of a pickable()
  /// form.
  Expression pick(const TensorForm& form, const std::vector<kernels::Coordinate>& indices);

  /// The line whose value is `result`, converted to `dtype`'s number type, as a tensor of all its elements. A
  /// map that only reads one tensor whole, or is one number, costs no line. Steps and accesses that `result`
  /// does not need are left out.
  TensorForm finish(DType dtype, const Expression& result);
  /// A chain's: starts at `init`, takes `result` where `when` is not 0 (always, if it is nullopt). `acc` is
  /// accumulator().
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
  std::vector<std::optional<TensorForm>>
      read_whole_;  // by access: what a copy of it would be, where it was read as a tensor
};

/// `$j`: the integer that an access of the line reads, as the coordinate of another.
[[nodiscard]] kernels::Coordinate picked_index(const Expression& access);

/// Drops the steps and accesses that the line's result does not need, and puts the rest into an order that
/// depends on the line's meaning alone, so that one lowering has one text whatever compiler built us. Not for
/// dot.
void arrange(kernels::Primitive& primitive);

}  // namespace dgx::program
