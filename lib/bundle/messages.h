#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "layout.h"

/// Decoders of an HDF5 object's header messages, in the versions that bundles have: dgx-bundle(5),
/// "STRUCTURE". Each takes one message's whole body, and refuses leftover bytes.
namespace dgx::bundle {

/// HDF5's "undefined address": the object it would point to does not exist.
inline constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

/// An attribute. If it is neither a fixed-length string nor an i64, only the name is decoded.
struct Attribute {
  enum class Type { kText, kInteger, kOther };
  std::string name;
  Type type = Type::kOther;
  bool scalar = false;
  std::string text;
  std::int64_t integer = 0;
};
[[nodiscard]] Result<Attribute> decode_attribute(ByteView body);

/// A name in a group and the address of its object's header. kMalformed unless it is a hard link.
struct Link {
  std::string name;
  std::uint64_t address = 0;
};
[[nodiscard]] Result<Link> decode_link(ByteView body);

/// The place of a group's links that do not fit its header: a fractal heap, and the B-tree over their names.
struct DenseLinks {
  std::uint64_t heap = kNowhere;
  std::uint64_t names = kNowhere;
};
[[nodiscard]] Result<DenseLinks> decode_link_info(ByteView body);
/// kMalformed if the object keeps attributes outside its header.
[[nodiscard]] Status check_attribute_info(ByteView body);

[[nodiscard]] Result<Shape> decode_dataspace(ByteView body);
[[nodiscard]] Result<DType> decode_datatype(ByteView body);
/// Filter numbers, in the order of writing.
[[nodiscard]] Result<std::vector<unsigned>> decode_filters(ByteView body);
/// kMalformed if the message defines a fill value.
[[nodiscard]] Status check_fill_value(ByteView body);

/// The place of a dataset's numbers, or of the index of their chunks.
struct StoredLayout {
  enum class Kind { kContiguous, kSingleChunk, kFixedArray };
  Kind kind = Kind::kContiguous;
  std::uint64_t address = kNowhere;  ///< address of the numbers, the chunk, or the fixed array
  std::uint64_t size_bytes = 0;      ///< size of the numbers or the chunk
  std::uint32_t filter_mask = 0;     ///< the chunk's
  std::vector<std::uint64_t> chunk;  ///< numbers in each dimension; empty if contiguous
};
/// `number_bytes` is the size of one number.
[[nodiscard]] Result<StoredLayout> decode_layout(ByteView body, std::size_t number_bytes);

}  // namespace dgx::bundle
