#include "widen.h"

#include <fmt/format.h>

#include <bit>
#include <cassert>
#include <concepts>
#include <cstring>

#include "dgx/core/bulk.h"

namespace dgx::bundle {
namespace {

template <std::unsigned_integral Raw>
Raw load(const std::uint8_t* from, NumberType::Order order) {
  Raw value = 0;
  std::memcpy(&value, from, sizeof value);
  if (order == NumberType::Order::kLittle) return value;
  Raw swapped = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    swapped = static_cast<Raw>(swapped << 8 | (value >> (8 * i) & 0xff));
  }
  return swapped;
}

template <std::unsigned_integral Raw, class Number, class Out>
void convert(ByteView bytes, NumberType::Order order, std::span<Out> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Raw raw = load<Raw>(bytes.data() + i * sizeof(Raw), order);
    out[i] = static_cast<Out>(std::bit_cast<Number>(raw));
  }
}

void convert_integers(const NumberType& type, ByteView bytes, std::span<std::int64_t> out) {
  const bool has_sign = type.kind == NumberType::Kind::kSigned;
  if (type.bytes == 1) return convert<std::uint8_t, std::int8_t>(bytes, type.order, out);
  if (type.bytes == 2 && has_sign) return convert<std::uint16_t, std::int16_t>(bytes, type.order, out);
  if (type.bytes == 2) return convert<std::uint16_t, std::uint16_t>(bytes, type.order, out);
  if (type.bytes == 4 && has_sign) return convert<std::uint32_t, std::int32_t>(bytes, type.order, out);
  if (type.bytes == 4) return convert<std::uint32_t, std::uint32_t>(bytes, type.order, out);
  convert<std::uint64_t, std::int64_t>(bytes, type.order, out);
}

}  // namespace

std::string name_of(const NumberType& type) {
  constexpr std::string_view kLetters = "uif";
  return fmt::format("{}{}", kLetters[static_cast<std::size_t>(type.kind)], 8 * type.bytes);
}

Result<DType> widened(const NumberType& type) {
  if (type.kind == NumberType::Kind::kFloat) {
    if (type.bytes == 4) return DType::kF32;
    return malformed(fmt::format("numbers are {}, which cannot be packed", name_of(type)),
                     "convert them to f32 first, so that the rounding is yours");
  }
  if (type.kind == NumberType::Kind::kUnsigned && type.bytes == 1) return DType::kU8;
  if (type.kind == NumberType::Kind::kUnsigned && type.bytes == 8) {
    return malformed("numbers are u64, which may not fit an i64", "convert them to i64 first");
  }
  return DType::kI64;
}

void widen_piece(const NumberType& type, ByteView bytes, BulkTensor& tensor, std::size_t first) {
  const std::size_t count = bytes.size() / type.bytes;
  switch (tensor.dtype()) {
    case DType::kF32:
      return convert<std::uint32_t, float>(bytes, type.order, tensor.as<float>().subspan(first, count));
    case DType::kI64: return convert_integers(type, bytes, tensor.as<std::int64_t>().subspan(first, count));
    case DType::kU8: std::memcpy(tensor.bytes().data() + first, bytes.data(), count);
  }
}

Result<BulkTensor> widen(const NumberType& type, const Shape& shape, const BulkView& source,
                         std::size_t begin, std::uint64_t bulk_bytes) {
  DGX_TRY(const DType dtype, widened(type));
  DGX_TRY(BulkTensor tensor, BulkTensor::create(dtype, shape, bulk_bytes));
  const auto count = static_cast<std::size_t>(tensor.count());
  assert(source.bytes.size() - begin == count * type.bytes);
  Bytes piece;
  DGX_CHECK(for_each_piece(count, [&](std::size_t first, std::size_t numbers) -> Status {
    piece.resize(numbers * type.bytes);
    DGX_CHECK(copy_bytes(source, begin + first * type.bytes, piece));
    widen_piece(type, piece, tensor, first);
    release(tensor.view(), first * size_of(dtype), numbers * size_of(dtype));
    return {};
  }));
  return tensor;
}

}  // namespace dgx::bundle
