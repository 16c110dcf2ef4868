#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/place.h"
#include "scalar_formulas.h"

namespace dgx::kernels {

/// The policy of ElementEvaluator (element.h) for numbers that are only values.
struct PlainNumbers {
  using Value = Slot;

  static Slot element(std::int32_t, const CompiledAccess&, std::int64_t, Slot slot) { return slot; }
  static Slot fill(std::int32_t, const CompiledAccess& access) { return access.fill; }
  static Slot index(const CompiledOperand&, std::int64_t value) {
    Slot slot;
    slot.integer = value;
    return slot;
  }
  static Slot literal(const CompiledOperand& from) { return from.literal; }
  static Slot start(NumberType, Slot slot) { return slot; }
  static std::int64_t integer(Slot slot) { return slot.integer; }
  static Slot step(Place, int, std::int64_t, const CompiledStep& step, const std::array<Slot, 3>& operands) {
    return formula::apply_step(step, operands);
  }
  static Slot fold(Place, int, std::int64_t, ScalarOp op, NumberType type, Slot a, Slot b, Slot c) {
    if (op == ScalarOp::kFma) {
      a.real = std::fma(a.real, b.real, c.real);
    } else if (type == NumberType::kFloat) {
      a.real = a.real + b.real;
    } else {
      a.integer = wrapping_add(a.integer, b.integer);
    }
    return a;
  }
  static Slot best(Place, std::int64_t position, NumberType type, Slot candidate, Slot best, Slot& where) {
    if (!formula::is_better(type, candidate, best)) return best;
    where.integer = position;
    return candidate;
  }
  static Slot partial(Slot slot, int) { return slot; }
  static Slot accumulator(Slot slot) { return slot; }
  static void end_list() {}
};

/// The elements of one access: row-major numbers of `dtype`.
struct BoundAccess {
  DType dtype = DType::kF32;
  const void* data = nullptr;
};

inline Slot read_element(const BoundAccess& bound, std::int64_t element) {
  Slot slot;
  slot.integer = 0;
  switch (bound.dtype) {
    case DType::kF32: slot.real = static_cast<const float*>(bound.data)[element]; break;
    case DType::kI64: slot.integer = static_cast<const std::int64_t*>(bound.data)[element]; break;
    case DType::kU8: slot.integer = static_cast<const std::uint8_t*>(bound.data)[element]; break;
  }
  return slot;
}

}  // namespace dgx::kernels
