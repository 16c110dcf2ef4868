#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dgx/core/tensor.h"
#include "dgx/kernels/by_value.h"
#include "dgx/kernels/scalar_op.h"

namespace dgx::kernels {

/// One line of a step program (dgx-program(5)), as plain data: text form, checks and costs are in
/// dgx/program, the meaning of one element in evaluate.h, fast forms in kernels/cpu.
///
/// Every element of every value is defined alone, from elements of earlier values. That is what lets an
/// executor fuse, reorder and drop whole values without changing a bit, and lets a referee recompute one
/// element from a few leaves.

[[nodiscard]] std::string_view name_of(ScalarOp op);
[[nodiscard]] std::optional<ScalarOp> scalar_op_from_name(std::string_view name);
/// 1, 2 or 3 operands.
[[nodiscard]] int arity_of(ScalarOp op);

struct Operand {
  enum class Kind : std::uint8_t {
    kAccess,       ///< xN: element that access `index` reads
    kStep,         ///< tN: result of step `index` of the same list
    kIndex,        ///< iN: iteration index, an integer
    kFold,         ///< kN: fold index, an integer
    kAccumulator,  ///< acc, in a chain
    kFloat,        ///< literal `real`
    kInteger,      ///< literal `integer`
  };
  Kind kind = Kind::kInteger;
  std::int32_t index = 0;
  float real = 0;
  std::int64_t integer = 0;

  [[nodiscard]] static Operand access(int n) { return {Kind::kAccess, n, 0, 0}; }
  [[nodiscard]] static Operand step(int n) { return {Kind::kStep, n, 0, 0}; }
  [[nodiscard]] static Operand iteration(int n) { return {Kind::kIndex, n, 0, 0}; }
  [[nodiscard]] static Operand fold(int n) { return {Kind::kFold, n, 0, 0}; }
  [[nodiscard]] static Operand accumulator() { return {Kind::kAccumulator, 0, 0, 0}; }
  [[nodiscard]] static Operand literal(float value) { return {Kind::kFloat, 0, value, 0}; }
  [[nodiscard]] static Operand literal(std::int64_t value) { return {Kind::kInteger, 0, 0, value}; }
  bool operator==(const Operand&) const = default;
};

struct Step {
  ScalarOp op = ScalarOp::kAdd;
  std::array<Operand, 3> operands{};  ///< the first arity_of(op) count
  bool operator==(const Step&) const = default;
};

/// coefficient · symbol, where the symbol is an iteration index, a fold index, or the integer another access
/// reads.
struct Term {
  enum class Symbol : std::uint8_t { kIndex, kFold, kAccess };
  Symbol symbol = Symbol::kIndex;
  std::int32_t index = 0;
  std::int64_t coefficient = 1;
  bool operator==(const Term&) const = default;
};

/// One coordinate of an access: (Σ terms + constant), then divided. kExact misses (the access gives its fill)
/// unless the division is exact; kFloor rounds towards minus infinity.
struct Coordinate {
  enum class Division : std::uint8_t { kNone, kExact, kFloor };
  std::vector<Term> terms;
  std::int64_t constant = 0;
  Division division = Division::kNone;
  std::int64_t divisor = 1;
  bool operator==(const Coordinate&) const = default;
};

/// A number as it stands in the text: float or integer.
using Literal = std::variant<float, std::int64_t>;

/// One element of an earlier value. Total: a coordinate outside [0, dim) or an inexact division gives `fill`;
/// an access without fill has been proved inside (dgx/program/check.h).
struct Access {
  ValueIndex value{};
  std::optional<Shape> view;  ///< another shape of the same count, row-major
  std::vector<Coordinate> coordinates;
  std::optional<Literal> fill;
  bool operator==(const Access&) const = default;
};

enum class Kind : std::uint8_t { kInput, kMap, kDot, kSum, kMax, kArgmax, kChain };
[[nodiscard]] std::string_view name_of(Kind kind);

/// The source of an input (dgx-program(5), "Inputs").
struct Source {
  enum class Kind : std::uint8_t {
    kState,     ///< `state NAME`: the entry NAME of the state the step starts from
    kBatch,     ///< `batch NAME`: the rows of this step's batch of the dataset's field NAME
    kSchedule,  ///< `schedule`: one scalar per name in `of`, functions of the step number and the task
    kConstant,  ///< `constant`: the numbers in `of`
    kUniform,   ///< `uniform N`: random numbers in [0,1) of dropout stream N
  };
  Kind kind = Kind::kState;
  std::string name;             ///< NAME; the stream's decimal ordinal; empty otherwise
  std::vector<std::string> of;  ///< schedule names, or constants in text form
  bool operator==(const Source&) const = default;
};

/// One line: a value and how each of its elements is made.
struct Primitive {
  Kind kind = Kind::kMap;
  DType dtype = DType::kF32;
  Shape shape;  ///< the value's
  /// `i`: same count and order as `shape`, split where an access needs it.
  std::optional<Shape> iteration;
  Shape fold;                    ///< `f`: folds only
  std::vector<Access> accesses;  ///< `x`
  std::vector<Step> steps;       ///< `do`; empty: access 0
  std::vector<Step> when;        ///< chain only: integer condition, its last step; empty: always
  std::optional<Operand> init;   ///< chain only: a literal, or an access without fold indices
  Source source;                 ///< inputs only
  /// State inputs only: the value that becomes the entry when the step ends.
  std::optional<ValueIndex> next;
  std::string provenance;  ///< `g`: the ATen call, for people; no program reads it

  [[nodiscard]] const Shape& iteration_shape() const { return iteration ? *iteration : shape; }
  bool operator==(const Primitive&) const = default;
};

}  // namespace dgx::kernels
