#pragma once

// Element by element, as kernels/ref defines it: a thread an element, which interprets the flattened
// primitives one after another. All threads of a warp take the same way through an interpreter but where a
// select or a chain's condition parts them. It covers every primitive that there is; what matters for speed
// has kernels of its own.

#include "words.h"

#include <array>

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/element.h"
#include "dgx/kernels/primitive_view.h"
#include "dgx/kernels/scalar.h"
#include "finite.cuh"
#include "functions.cuh"

namespace dgx::kernels::cuda {

inline constexpr unsigned kElementThreads = 128;

/// The members' results at this thread's element, as stored.
using MadeNumbers = std::array<Slot, static_cast<std::size_t>(kMostMembers)>;

/// Locates the elements of ElementEvaluator's accesses.
class DeviceSource {
 public:
  __device__ DeviceSource(const Binding* bindings, const MadeNumbers& made)
      : bindings_(bindings), made_(made) {}

  __device__ void located(ValueIndex) const {}

  [[nodiscard]] __device__ Slot read(std::size_t access, std::int64_t element) const {
    const Binding& from = bindings_[access];
    if (from.member >= 0) return made_[static_cast<std::size_t>(from.member)];
    Slot slot;
    slot.integer = 0;
    switch (from.dtype) {
      case DType::kF32: slot.real = static_cast<const float*>(from.data)[element]; break;
      case DType::kI64: slot.integer = static_cast<const std::int64_t*>(from.data)[element]; break;
      case DType::kU8: slot.integer = static_cast<const std::uint8_t*>(from.data)[element]; break;
    }
    return slot;
  }

 private:
  const Binding* bindings_;
  const MadeNumbers& made_;
};

/// A number as a value of `dtype` holds it.
__device__ inline Slot as_stored(DType dtype, Slot slot) {
  if (dtype == DType::kF32) slot.real = canonical_nan(slot.real);
  if (dtype == DType::kU8) slot.integer = to_u8(slot.integer);
  return slot;
}

__device__ inline void store(const ElementMember& member, DType dtype, std::int64_t element, Slot slot) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(member.out)[element] = slot.real;
      if (member.not_finite != nullptr && !is_finite(slot.real)) *member.not_finite = 1;
      break;
    case DType::kI64: static_cast<std::int64_t*>(member.out)[element] = slot.integer; break;
    case DType::kU8:
      static_cast<std::uint8_t*>(member.out)[element] = static_cast<std::uint8_t>(slot.integer);
      break;
  }
}

/// For element programs whose members have at most kSteps steps and, if one is a sum, at most 2,048 to the
/// power of kLevels positions: the fewer, the less local memory a thread takes.
template <std::size_t kLevels, std::size_t kSteps>
__global__ void run_elements(ElementProgram program) {
  const std::int64_t element = global_thread();
  if (element >= program.count) return;
  MadeNumbers made;
  for (std::int32_t m = 0; m < program.member_count; ++m) {
    const ElementMember& member = program.members[m];
    const PrimitiveView& primitive = view_of(member.primitive);
    DeviceSource source(member.bindings, made);
    DeviceNumbers numbers;
    ElementEvaluator<PrimitiveView, DeviceNumbers, DeviceSource, kLevels, kSteps> evaluator(primitive, source,
                                                                                            numbers);
    evaluator.seek(element);
    made[static_cast<std::size_t>(m)] = as_stored(primitive.dtype, evaluator.evaluate());
  }
  for (std::int32_t m = 0; m < program.member_count; ++m) {
    const ElementMember& member = program.members[m];
    if (member.out != nullptr)
      store(member, view_of(member.primitive).dtype, element, made[static_cast<std::size_t>(m)]);
  }
}

/// The form of run_elements that is enough.
[[nodiscard]] inline auto elements_kernel(const ElementProgram& program) {
  if (program.sum_levels > 1) return run_elements<kMostSumLevels, kMaxSteps>;
  return program.most_steps > 8 ? run_elements<1, kMaxSteps> : run_elements<1, 8>;
}

}  // namespace dgx::kernels::cuda
