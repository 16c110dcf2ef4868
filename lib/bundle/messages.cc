#include "messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "container.h"
#include "cursor.h"
#include "dgx/bundle/format.h"

namespace dgx::bundle {
namespace {

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

bool starts_with(ByteView bytes, ByteView prefix) {
  return bytes.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), bytes.begin());
}

/// Datatype messages of our numbers, without the version (1 or 3) in the first byte's upper half.
constexpr std::array<std::uint8_t, 19> kF32{0x20, 0x1f, 0, 4, 0,  0,   0, 0, 0, 32,
                                            0,    23,   8, 0, 23, 127, 0, 0, 0};
constexpr std::array<std::uint8_t, 11> kI64{0x08, 0, 0, 8, 0, 0, 0, 0, 0, 64, 0};
constexpr std::array<std::uint8_t, 11> kU8{0x00, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0};
constexpr unsigned kIntegerClass = 0;
constexpr unsigned kFloatClass = 1;
constexpr unsigned kStringClass = 3;

std::optional<DType> dtype_from(ByteView body) {
  if (body.empty() || (body[0] >> 4 != 1 && body[0] >> 4 != 3)) return std::nullopt;
  const unsigned kind = body[0] & 0x0fU;
  const ByteView rest = body.subspan(1);
  const auto is = [&](ByteView ours) { return rest.size() == ours.size() && starts_with(rest, ours); };
  if (kind == kFloatClass && is(kF32)) return DType::kF32;
  if (kind == kIntegerClass && is(kI64)) return DType::kI64;
  if (kind == kIntegerClass && is(kU8)) return DType::kU8;
  return std::nullopt;
}

/// The bytes of a fixed-length ASCII string, null-padded or null-terminated.
std::optional<std::uint64_t> text_size_from(ByteView body) {
  Cursor in(body);
  const unsigned kind = in.u8();
  const std::uint64_t bits = in.number(3);
  const std::uint64_t size = in.u32();
  const bool ours = kind == (0x10 | kStringClass) || kind == (0x30 | kStringClass);
  if (!in.done() || !ours || bits > 1 || size == 0 || size > kMaxAttributeBytes) return std::nullopt;
  return size;
}

/// Bytes up to the first null: the content of a string as HDF5 pads it.
std::string text_from(ByteView data) {
  const std::string_view text = as_text(data);
  return std::string(text.substr(0, text.find('\0')));
}

Error cut_off(std::string_view what) {
  return malformed(fmt::format("has a {} of a kind that dgx does not write", what));
}

}  // namespace

Result<Attribute> decode_attribute(ByteView body) {
  Cursor in(body);
  const bool known = in.u8() == 3 && in.u8() == 0;
  const std::uint64_t name_bytes = in.u16();
  const std::uint64_t type_bytes = in.u16();
  const std::uint64_t space_bytes = in.u16();
  const unsigned charset = in.u8();
  const std::string name = text_from(in.bytes(name_bytes));
  const ByteView type = in.bytes(type_bytes);
  const ByteView space = in.bytes(space_bytes);
  if (!known || !in.ok() || charset > 1 || name.size() + 1 != name_bytes || name.empty() ||
      !is_printable(name))
    return cut_off("attribute");
  const ByteView data = in.bytes(in.left());
  Attribute out{name, Attribute::Type::kOther, false, {}, 0};
  const auto shape = decode_dataspace(space);
  out.scalar = shape.ok() && shape->empty();
  if (!out.scalar) return out;
  if (dtype_from(type) == DType::kI64 && data.size() == 8) {
    out.type = Attribute::Type::kInteger;
    out.integer = static_cast<std::int64_t>(Cursor(data).u64());
  } else if (text_size_from(type) == data.size()) {
    out.type = Attribute::Type::kText;
    out.text = text_from(data);
  }
  return out;
}

Result<Link> decode_link(ByteView body) {
  constexpr unsigned kHasType = 8;
  constexpr unsigned kHasCharset = 16;
  Cursor in(body);
  const unsigned version = in.u8();
  const unsigned flags = in.u8();
  const unsigned type = (flags & kHasType) != 0 ? in.u8() : 0;
  if ((flags & kHasCharset) != 0) in.u8();
  const std::string_view name = as_text(in.bytes(in.number(std::size_t{1} << (flags & 3U))));
  if (!in.ok() || version != 1 || (flags & ~(kHasType | kHasCharset | 3U)) != 0) return cut_off("link");
  DGX_CHECK(check_name(name));
  if (name.find('/') != std::string_view::npos) return cut_off("link");
  if (type != 0) return malformed(fmt::format("\"{}\" is a soft or external link", name));
  const Link link{std::string(name), in.u64()};
  if (!in.done()) return cut_off("link");
  return link;
}

Result<DenseLinks> decode_link_info(ByteView body) {
  Cursor in(body);
  const bool known = in.u8() == 0 && in.u8() == 0;
  const DenseLinks links{in.u64(), in.u64()};
  if (!known || !in.done() || (links.heap == kNowhere) != (links.names == kNowhere))
    return cut_off("table of links");
  return links;
}

Status check_attribute_info(ByteView body) {
  Cursor in(body);
  const bool known = in.u8() == 0 && in.u8() == 0;
  const std::uint64_t heap = in.u64();
  const std::uint64_t names = in.u64();
  if (!known || !in.done()) return cut_off("table of attributes");
  if (heap != kNowhere || names != kNowhere) return malformed("has more attributes than fit its header");
  return {};
}

Result<Shape> decode_dataspace(ByteView body) {
  Cursor in(body);
  const unsigned version = in.u8();
  const std::size_t rank = in.u8();
  const unsigned flags = in.u8();
  const unsigned type = in.u8();
  if (!in.ok() || version != 2 || flags > 1 || type > 1 || (type == 0) != (rank == 0) || rank > kMaxRank)
    return malformed(fmt::format("is not an array of at most {} dimensions", kMaxRank));
  Shape shape;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t size = in.u64();
    shape.push_back(size > (std::uint64_t{1} << 53) ? -1 : static_cast<std::int64_t>(size));
  }
  for (std::size_t i = 0; flags == 1 && i < rank; ++i) {
    if (in.u64() != static_cast<std::uint64_t>(shape[i])) return malformed("has dimensions that may grow");
  }
  if (!in.done()) return cut_off("shape");
  DGX_CHECK(element_count(shape));
  return shape;
}

Result<DType> decode_datatype(ByteView body) {
  const auto dtype = dtype_from(body);
  if (!dtype) return malformed("is not f32, i64 or u8, little-endian");
  return *dtype;
}

Result<std::vector<unsigned>> decode_filters(ByteView body) {
  constexpr unsigned kFirstNamed = 256;
  Cursor in(body);
  const unsigned version = in.u8();
  const unsigned count = in.u8();
  std::vector<unsigned> filters;
  for (unsigned i = 0; i < count && in.ok(); ++i) {
    filters.push_back(in.u16());
    const std::size_t name_bytes = filters.back() >= kFirstNamed ? in.u16() : 0;
    in.u16();  // flags
    const std::size_t values = in.u16();
    in.bytes(name_bytes);
    in.bytes(4 * values);
  }
  if (!in.done() || version != 2) return cut_off("list of filters");
  return filters;
}

Status check_fill_value(ByteView body) {
  constexpr unsigned kHasValue = 0x20;
  Cursor in(body);
  const unsigned version = in.u8();
  const unsigned flags = in.u8();
  if (version != 3 || (flags & ~0x1fU & ~kHasValue) != 0) return cut_off("fill value");
  if ((flags & kHasValue) != 0 && in.u32() != 0) return malformed("has a fill value");
  if (!in.done()) return cut_off("fill value");
  return {};
}

Result<StoredLayout> decode_layout(ByteView body, std::size_t number_bytes) {
  constexpr unsigned kContiguous = 1;
  constexpr unsigned kChunked = 2;
  constexpr unsigned kSingleFiltered = 2;
  Cursor in(body);
  const unsigned version = in.u8();
  const unsigned kind = in.u8();
  StoredLayout out;
  if ((version == 3 || version == 4) && kind == kContiguous) {
    out.address = in.u64();
    out.size_bytes = in.u64();
    if (!in.done()) return cut_off("layout");
    return out;
  }
  if (version != 4 || kind != kChunked)
    return malformed("is neither contiguous nor chunked", "virtual and compact datasets are not supported");
  const unsigned flags = in.u8();
  const std::size_t rank = in.u8();
  const std::size_t width = in.u8();
  if (rank < 2 || rank > kMaxRank + 1 || width < 1 || width > 8)
    return malformed("has chunks whose rank is not the dataset's");
  for (std::size_t i = 0; i + 1 < rank; ++i) out.chunk.push_back(in.number(width));
  const bool sized = in.number(width) == number_bytes;
  const unsigned index = in.u8();
  if (index == 1 && flags == kSingleFiltered) {
    out.kind = StoredLayout::Kind::kSingleChunk;
    out.size_bytes = in.u64();
    out.filter_mask = in.u32();
  } else if (index == 3 && flags == 0) {
    out.kind = StoredLayout::Kind::kFixedArray;
    in.u8();  // bits of a page's element count, repeated in the array itself
  } else {
    return malformed(fmt::format("finds its chunks by index {}, flags {}", index, flags));
  }
  out.address = in.u64();
  if (!sized || !in.done()) return cut_off("layout");
  return out;
}

}  // namespace dgx::bundle
