#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/kernels/primitive.h"
#include "dgx/kernels/scalar.h"

namespace dgx::kernels {

/// Type and shape of a value of the program.
struct ValueType {
  DType dtype = DType::kF32;
  Shape shape;
};

/// Returns the type of an earlier value, or nullopt if there is no such value. It may know the whole table,
/// or only the one line that a referee has opened.
using TypeOf = std::function<std::optional<ValueType>(ValueIndex)>;

/// A number without its type, which is known statically wherever a Slot is used.
union Slot {
  float real;
  std::int64_t integer;

  [[nodiscard]] static Slot of(std::int64_t value) {
    Slot slot;
    slot.integer = value;
    return slot;
  }
  [[nodiscard]] static Slot of(float value) {
    Slot slot = of(std::int64_t{0});
    slot.real = value;
    return slot;
  }
};

/// Slots of the index symbols: i0 … i7, then k0 … k7.
inline constexpr int kIndexSlots = 16;
inline constexpr int kFirstFoldSlot = 8;
/// The most steps of `do`, and of `when` (dgx-program(5), "Kinds").
inline constexpr std::size_t kMaxSteps = 64;

struct CompiledTerm {
  std::int32_t slot = 0;     ///< index symbol; unused when access >= 0
  std::int32_t access = -1;  ///< the access whose integer this is, or -1
  std::int64_t coefficient = 1;
};

struct CompiledCoordinate {
  std::vector<CompiledTerm> terms;
  std::int64_t constant = 0;
  Coordinate::Division division = Coordinate::Division::kNone;
  std::int64_t divisor = 1;
  std::int64_t size = 0;    ///< extent of the operand's dimension
  std::int64_t stride = 0;  ///< in elements
};

struct CompiledAccess {
  ValueIndex value{};
  DType dtype = DType::kF32;
  std::int64_t count = 0;  ///< elements of the value
  Slot fill{};
  /// True if for every index in range all coordinates are inside, without division or `$`: the element is
  /// then `offset` plus the sum of coefficient · index over `linear`.
  bool is_linear = false;
  std::int64_t offset = 0;
  std::vector<CompiledTerm> linear;
  std::vector<CompiledCoordinate> coordinates;
};

struct CompiledOperand {
  Operand::Kind kind = Operand::Kind::kInteger;
  std::int32_t index = 0;  ///< access, step, or index slot
  NumberType type = NumberType::kInteger;
  Slot literal{};
};

struct CompiledStep {
  ScalarOp op = ScalarOp::kAdd;
  std::int32_t arity = 2;
  NumberType operand_type = NumberType::kFloat;  ///< type of all operands but a select's condition
  NumberType type = NumberType::kFloat;          ///< type of the result
  std::array<CompiledOperand, 3> operands{};
};

/// `do` or `when`. Bit n of `always` is set if step n is needed whatever the selects choose.
struct CompiledSteps {
  std::vector<CompiledStep> steps;
  std::uint64_t always = 0;
  CompiledOperand result;  ///< the last step; access 0 if there are no steps
};

/// A primitive with its types resolved and its strides computed, so that an element costs little. Made once
/// per program; immutable, so threads may share it.
///
/// compile() establishes everything memory safety needs (operand and access indices, ranks, counts, types);
/// evaluation checks every coordinate that is not proved inside, so no primitive that compiles can read
/// outside its values.
struct CompiledPrimitive {
  Kind kind = Kind::kMap;
  DType dtype = DType::kF32;
  Shape shape;
  Shape iteration;
  Shape fold;
  std::int64_t count = 0;       ///< elements of the value
  std::int64_t fold_count = 1;  ///< positions of the fold; 1 for a map
  std::vector<CompiledAccess> accesses;
  CompiledSteps steps;
  CompiledSteps when;
  bool has_when = false;
  CompiledOperand init;
};

/// Resolves types and strides. kMalformed, naming the access, coordinate or step, if the primitive does not
/// fit its values or its kind. The rules:
/// - inputs cannot be compiled (they have no elements to compute);
/// - iteration and shape have the same count; maps have no fold; dot has no steps, and at least two f32
///   accesses;
/// - one coordinate per dimension of the value or of its view; views have the value's count; divisors are at
///   least 1;
/// - `$j` names an integer access without `$` of its own; steps name earlier steps; indices exist;
/// - acc occurs in the `do` of chains only; init is a literal or an access without fold indices and of the
///   value's number type;
/// - steps' types satisfy result_type; the result is a float for f32 and an integer for i64 and u8; argmax
///   gives i64;
/// - fills are of the accessed value's number type, of a u8 value 0 to 255, since a fast copy stores them
///   unchanged.
[[nodiscard]] Result<CompiledPrimitive> compile(const Primitive& primitive, const TypeOf& type_of);
/// compile() with a table of types, indexed by value; there are no values beyond its end.
[[nodiscard]] Result<CompiledPrimitive> compile(const Primitive& primitive, const ByValue<ValueType>& table);

}  // namespace dgx::kernels
