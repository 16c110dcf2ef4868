#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "dgx/core/host_device.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/place.h"
#include "dgx/kernels/scalar_formulas.h"

namespace dgx::kernels {

/// The policy of ElementEvaluator (element.h) for numbers that are only values, on a CPU and on a GPU.
struct PlainNumbers {
  using Value = Slot;

  template <class Access>
  DGX_HOST_DEVICE static Slot element(std::int32_t, const Access&, std::int64_t, Slot slot) {
    return slot;
  }
  template <class Access>
  DGX_HOST_DEVICE static Slot fill(std::int32_t, const Access& access) {
    return access.fill;
  }
  DGX_HOST_DEVICE static Slot index(const CompiledOperand&, std::int64_t value) {
    Slot slot;
    slot.integer = value;
    return slot;
  }
  DGX_HOST_DEVICE static Slot literal(const CompiledOperand& from) { return from.literal; }
  DGX_HOST_DEVICE static Slot start(NumberType, Slot slot) { return slot; }
  DGX_HOST_DEVICE static std::int64_t integer(Slot slot) { return slot.integer; }
  DGX_HOST_DEVICE static Slot step(Place, int, std::int64_t, const CompiledStep& step,
                                   const std::array<Slot, 3>& operands) {
    return formula::apply_step(step, operands);
  }
  DGX_HOST_DEVICE static Slot fold(Place, int, std::int64_t, ScalarOp op, NumberType type, Slot a, Slot b,
                                   Slot c) {
    if (op == ScalarOp::kFma) {
      a.real = std::fma(a.real, b.real, c.real);
    } else if (type == NumberType::kFloat) {
      a.real = a.real + b.real;
    } else {
      a.integer = wrapping_add(a.integer, b.integer);
    }
    return a;
  }
  DGX_HOST_DEVICE static Slot best(Place, std::int64_t position, NumberType type, Slot candidate, Slot best,
                                   Slot& where) {
    if (!formula::is_better(type, candidate, best)) return best;
    where.integer = position;
    return candidate;
  }
  DGX_HOST_DEVICE static Slot partial(Slot slot, int) { return slot; }
  DGX_HOST_DEVICE static Slot accumulator(Slot slot) { return slot; }
  DGX_HOST_DEVICE static void end_list() {}
};

/// The elements of one access: row-major numbers of `dtype`, in memory of the side, host or device, that
/// reads them.
struct BoundAccess {
  DType dtype = DType::kF32;
  const void* data = nullptr;
};

DGX_HOST_DEVICE inline Slot read_element(const BoundAccess& bound, std::int64_t element) {
  Slot slot;
  slot.integer = 0;
  switch (bound.dtype) {
    case DType::kF32: slot.real = static_cast<const float*>(bound.data)[element]; break;
    case DType::kI64: slot.integer = static_cast<const std::int64_t*>(bound.data)[element]; break;
    case DType::kU8: slot.integer = static_cast<const std::uint8_t*>(bound.data)[element]; break;
  }
  return slot;
}

/// A source of elements in memory: one BoundAccess per access of the primitive, in order. Keeps the pointer.
/// The caller must have checked that the values have the dtypes and counts compiled for; then nothing outside
/// them is read.
class BoundSource {
 public:
  DGX_HOST_DEVICE explicit BoundSource(const BoundAccess* accesses) : accesses_(accesses) {}

  DGX_HOST_DEVICE void located(ValueIndex) const {}
  [[nodiscard]] DGX_HOST_DEVICE Slot read(std::size_t access, std::int64_t element) const {
    return read_element(accesses_[access], element);
  }

 private:
  const BoundAccess* accesses_;
};

/// Stores a number as element `element` of a value of `dtype` at `out`: NaN canonical, u8 saturated.
DGX_HOST_DEVICE inline void store_element(DType dtype, void* out, std::int64_t element, Slot slot) {
  switch (dtype) {
    case DType::kF32: static_cast<float*>(out)[element] = canonical_nan(slot.real); break;
    case DType::kI64: static_cast<std::int64_t*>(out)[element] = slot.integer; break;
    case DType::kU8:
      static_cast<std::uint8_t*>(out)[element] = static_cast<std::uint8_t>(to_u8(slot.integer));
      break;
  }
}

}  // namespace dgx::kernels
