#pragma once

#include <cassert>
#include <vector>

#include "dgx/kernels/evaluate.h"
#include "scalar_formulas.h"

namespace dgx::kernels {

/// A source of elements in memory: one pointer per access.
class TensorSource {
 public:
  /// kMalformed unless every value accessed is there with the dtype and count compiled for.
  static Result<TensorSource> bind(const CompiledPrimitive& primitive, const ByValue<TensorView>& values);

  void located(ValueIndex /*value*/) const {}
  [[nodiscard]] Slot read(std::size_t access, std::int64_t element) const {
    const Bound& bound = bound_[access];
    switch (bound.dtype) {
      case DType::kF32: return Slot::of(static_cast<const float*>(bound.data)[element]);
      case DType::kI64: return Slot::of(static_cast<const std::int64_t*>(bound.data)[element]);
      case DType::kU8: return Slot::of(std::int64_t{static_cast<const std::uint8_t*>(bound.data)[element]});
    }
    return {};
  }

 private:
  struct Bound {
    DType dtype;
    const void* data;
  };
  std::vector<Bound> bound_;
};

/// A source of elements that asks a ValueSource.
class LookupSource {
 public:
  LookupSource(const CompiledPrimitive& primitive, ValueSource& source)
      : primitive_(primitive), source_(source) {}

  void located(ValueIndex value) { source_.located(value); }
  [[nodiscard]] Slot read(std::size_t access, std::int64_t element) {
    return slot_of(source_.element(primitive_.accesses[access].value, element));
  }

 private:
  const CompiledPrimitive& primitive_;
  ValueSource& source_;
};

/// A number as it is stored in a value of `dtype`.
[[nodiscard]] Number stored(DType dtype, Slot slot);

}  // namespace dgx::kernels
