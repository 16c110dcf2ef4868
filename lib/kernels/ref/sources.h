#pragma once

#include <cassert>
#include <span>
#include <vector>

#include "dgx/kernels/evaluate.h"
#include "plain_numbers.h"

namespace dgx::kernels {

/// A source of elements in memory: one pointer per access.
class TensorSource {
 public:
  /// kMalformed unless every value accessed is there with the dtype and count compiled for.
  static Result<TensorSource> bind(const CompiledPrimitive& primitive, std::span<const TensorView> values);

  void located(ValueIndex /*value*/) const {}
  [[nodiscard]] Slot read(std::size_t access, std::int64_t element) const {
    return read_element(bound_[access], element);
  }

 private:
  std::vector<BoundAccess> bound_;
};

/// A source of elements that asks a ValueSource.
class LookupSource {
 public:
  LookupSource(const CompiledPrimitive& primitive, ValueSource& source)
      : primitive_(primitive), source_(source) {}

  void located(ValueIndex value) { source_.located(value); }
  [[nodiscard]] Slot read(std::size_t access, std::int64_t element) {
    const Number number = source_.element(primitive_.accesses[access].value, element);
    Slot slot;
    slot.integer = number.integer;
    if (number.type == NumberType::kFloat) slot.real = number.real;
    return slot;
  }

 private:
  const CompiledPrimitive& primitive_;
  ValueSource& source_;
};

/// A number as it is stored in a value of `dtype`.
[[nodiscard]] Number stored(DType dtype, Slot slot);

}  // namespace dgx::kernels
