#pragma once

#include <cstdint>
#include <string>

#include "dgx/bundle/sources.h"
#include "dgx/core/bulk.h"
#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

/// The type of a number in a source file.
struct NumberType {
  /// kBrain is bfloat16: binary32's upper half.
  enum class Kind { kUnsigned, kSigned, kFloat, kBool, kBrain };
  enum class Order { kLittle, kBig };
  Kind kind = Kind::kUnsigned;
  std::size_t bytes = 1;
  Order order = Order::kLittle;
};

/// "u8", "i16", "f32", "bf16", "bool".
[[nodiscard]] std::string name_of(const NumberType& type);

/// The element type that holds every number of this type: u8 and f32 stay, bool becomes u8, other floats
/// become f32, other integers that fit i64. kMalformed with a hint for u64, and for f64 that may not be
/// rounded.
[[nodiscard]] Result<DType> widened(const NumberType& type, Rounding rounding);

/// Puts all numbers of `bytes` into a tensor of type widened(type), from element `first` on; they must fit.
void widen_piece(const NumberType& type, ByteView bytes, BulkTensor& tensor, std::size_t first);

/// Converts the numbers of a tensor that begins at byte `begin` of `source`, which has all of them
/// (asserted). kIo if the source's file has been cut off.
[[nodiscard]] Result<BulkTensor> widen(const NumberType& type, const Shape& shape, const BulkView& source,
                                       std::size_t begin, const Reading& reading);

}  // namespace dgx::bundle
