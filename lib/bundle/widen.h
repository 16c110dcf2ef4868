#pragma once

#include <cstdint>
#include <string>

#include "dgx/core/bulk.h"
#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

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

/// Puts all numbers of `bytes` into a tensor of widened(type), from element `first` on, where they must fit.
void widen_piece(const NumberType& type, ByteView bytes, BulkTensor& tensor, std::size_t first);

/// The numbers, without changing any: those of `source`, bytes, from byte `begin` on to the end, which must
/// be exactly those of the shape: asserted. From `bulk_bytes` on they lie in a file (core/bulk.h).
[[nodiscard]] Result<BulkTensor> widen(const NumberType& type, const Shape& shape, const BulkView& source,
                                       std::size_t begin, std::uint64_t bulk_bytes);

}  // namespace dgx::bundle
