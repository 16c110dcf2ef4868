#pragma once

#include <cstdint>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

namespace dgx::bundle {

/// A number as a source file has it.
struct NumberType {
  enum class Kind { kUnsigned, kSigned, kFloat };
  enum class Order { kLittle, kBig };
  Kind kind = Kind::kUnsigned;
  std::size_t bytes = 1;
  Order order = Order::kLittle;
};

/// "u8", "i16", "f32".
[[nodiscard]] std::string name_of(const NumberType& type);

/// The element type that holds every number of this type: u8 and f32 stay, integers that fit become i64.
/// kMalformed with a hint for f16, f64, u64.
[[nodiscard]] Result<DType> widened(const NumberType& type);

/// The numbers, without changing any. `bytes` must be exactly those of the shape: asserted.
[[nodiscard]] Result<Tensor> widen(const NumberType& type, const Shape& shape, ByteView bytes);

}  // namespace dgx::bundle
