#pragma once

#include <cstdint>
#include <string>

#include "dgx/core/bulk.h"
#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

/// The type of a number in a source file.
struct NumberType {
  enum class Kind { kUnsigned, kSigned, kFloat };
  enum class Order { kLittle, kBig };
  Kind kind = Kind::kUnsigned;
  std::size_t bytes = 1;
  Order order = Order::kLittle;
};

/// "u8", "i16", "f32".
[[nodiscard]] std::string name_of(const NumberType& type);

/// The element type that holds every number of this type: u8 and f32 stay, other integers that fit become
/// i64. kMalformed with a hint for f16, f64, u64.
[[nodiscard]] Result<DType> widened(const NumberType& type);

/// Puts all numbers of `bytes` into a tensor of type widened(type), from element `first` on; they must fit.
void widen_piece(const NumberType& type, ByteView bytes, BulkTensor& tensor, std::size_t first);

/// Converts the bytes of `source` from byte `begin` to the end, changing no number; they must be exactly as
/// many as the shape needs (asserted). From `bulk_bytes` on the result is kept in a file (core/bulk.h). kIo
/// if the source's file has been cut off.
[[nodiscard]] Result<BulkTensor> widen(const NumberType& type, const Shape& shape, const BulkView& source,
                                       std::size_t begin, std::uint64_t bulk_bytes);

}  // namespace dgx::bundle
