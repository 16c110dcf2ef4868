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

template <std::unsigned_integral Raw, class Out, class Decode>
void decode(ByteView bytes, NumberType::Order order, std::span<Out> out, const Decode& decode_one) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = decode_one(load<Raw>(bytes.data() + i * sizeof(Raw), order));
}

template <std::unsigned_integral Raw, class Number, class Out>
void convert(ByteView bytes, NumberType::Order order, std::span<Out> out) {
  decode<Raw>(bytes, order, out, [](Raw raw) { return static_cast<Out>(std::bit_cast<Number>(raw)); });
}

/// IEEE 754 binary16, exactly: 1 sign, 5 exponent and 10 fraction bits.
float from_half(std::uint16_t half) {
  const std::uint32_t exponent = half >> 10 & 0x1fU;
  const std::uint32_t fraction = half & 0x3ffU;
  const float sign = (half & 0x8000U) == 0 ? 1.0F : -1.0F;
  if (exponent == 0) return sign * (static_cast<float>(fraction) * 0x1p-24F);
  if (exponent == 0x1f) return sign * std::bit_cast<float>(0x7f800000U | fraction << 13);
  return sign * std::bit_cast<float>((exponent + 112) << 23 | fraction << 13);
}

void convert_floats(const NumberType& type, ByteView bytes, std::span<float> out) {
  if (type.kind == NumberType::Kind::kBrain) {
    return decode<std::uint16_t>(bytes, type.order, out, [](std::uint16_t raw) {
      return std::bit_cast<float>(std::uint32_t{raw} << 16);
    });
  }
  if (type.bytes == 2) return decode<std::uint16_t>(bytes, type.order, out, from_half);
  if (type.bytes == 8) return convert<std::uint64_t, double>(bytes, type.order, out);
  convert<std::uint32_t, float>(bytes, type.order, out);
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
  if (type.kind == NumberType::Kind::kBool) return "bool";
  if (type.kind == NumberType::Kind::kBrain) return "bf16";
  return fmt::format("{}{}", kLetters[static_cast<std::size_t>(type.kind)], 8 * type.bytes);
}

Result<DType> widened(const NumberType& type, Rounding rounding) {
  if (type.kind == NumberType::Kind::kBrain) return DType::kF32;
  if (type.kind == NumberType::Kind::kFloat) {
    if (type.bytes < 8 || rounding == Rounding::kF32) return DType::kF32;
    return malformed("numbers are f64, which cannot be packed",
                     "--round f32 rounds each to the nearest f32, ties to even");
  }
  if (type.kind == NumberType::Kind::kBool) return DType::kU8;
  if (type.kind == NumberType::Kind::kUnsigned && type.bytes == 1) return DType::kU8;
  if (type.kind == NumberType::Kind::kUnsigned && type.bytes == 8) {
    return malformed("numbers are u64, which may not fit an i64", "convert them to i64 first");
  }
  return DType::kI64;
}

void widen_piece(const NumberType& type, ByteView bytes, BulkTensor& tensor, std::size_t first) {
  const std::size_t count = bytes.size() / type.bytes;
  switch (tensor.dtype()) {
    case DType::kF32: return convert_floats(type, bytes, tensor.as<float>().subspan(first, count));
    case DType::kI64: return convert_integers(type, bytes, tensor.as<std::int64_t>().subspan(first, count));
    case DType::kU8:
      if (type.kind != NumberType::Kind::kBool) {
        std::memcpy(tensor.bytes().data() + first, bytes.data(), count);
        return;
      }
      return decode<std::uint8_t>(bytes, type.order, tensor.bytes().subspan(first, count),
                                  [](std::uint8_t raw) { return std::uint8_t{raw != 0}; });
  }
}

Result<BulkTensor> widen(const NumberType& type, const Shape& shape, const BulkView& source,
                         std::size_t begin, const Reading& reading) {
  DGX_TRY(const DType dtype, widened(type, reading.rounding));
  DGX_TRY(BulkTensor tensor, BulkTensor::create(dtype, shape, reading.bulk_bytes));
  const auto count = static_cast<std::size_t>(tensor.count());
  assert(source.bytes.size() - begin >= count * type.bytes);
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
