#include "dgx/core/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace dgx {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// 0 to 15, or -1; upper case is refused.
int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// The value of each character as a base64 digit; -1 for those that are none.
constexpr std::array<std::int8_t, 256> kBase64Values = [] {
  std::array<std::int8_t, 256> out{};
  out.fill(-1);
  for (std::size_t i = 0; i < kBase64Digits.size(); ++i)
    out[static_cast<unsigned char>(kBase64Digits[i])] = static_cast<std::int8_t>(i);
  return out;
}();

int base64_value(char c) { return kBase64Values[static_cast<unsigned char>(c)]; }

Error bad_base64(std::size_t position, std::string_view what) {
  return malformed(fmt::format("base64: {} at position {}", what, position));
}

template <class T>
void append_big_endian(Bytes& out, T value) {
  for (std::size_t i = sizeof(T); i-- > 0;) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

}  // namespace

std::string Digest::hex() const { return to_hex(bytes); }

std::string to_hex(ByteView bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    out.push_back(kHexDigits[byte >> 4]);
    out.push_back(kHexDigits[byte & 15]);
  }
  return out;
}

Result<Bytes> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return malformed(fmt::format("hex: odd length {}", text.size()));
  Bytes out(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int value = hex_value(text[i]);
    if (value < 0) return malformed(fmt::format("hex: not a lower-case hex digit at position {}", i));
    out[i / 2] = static_cast<std::uint8_t>(out[i / 2] << 4 | value);
  }
  return out;
}

Result<Digest> digest_from_hex(std::string_view text) {
  if (text.size() != 64)
    return malformed(fmt::format("digest: {} characters, expected 64 hex digits", text.size()));
  DGX_TRY(const Bytes bytes, from_hex(text));
  return digest_from_bytes(bytes);
}

Result<Digest> digest_from_bytes(ByteView bytes) {
  Digest out;
  if (bytes.size() != out.bytes.size())
    return malformed(fmt::format("digest: {} bytes, expected 32", bytes.size()));
  std::memcpy(out.bytes.data(), bytes.data(), bytes.size());
  return out;
}

std::string to_base64(ByteView bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) {
      out.push_back(k <= count ? kBase64Digits[group >> (18 - 6 * k) & 63] : '=');
    }
  }
  return out;
}

Result<Bytes> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return bad_base64(text.size(), "length is not a multiple of four");
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  const std::size_t digits = text.size() - padding;
  Bytes out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const int value = base64_value(text[i]);
    if (value < 0) return bad_base64(i, "not a digit");
    group = group << 6 | static_cast<std::uint32_t>(value);
    if (i % 4 != 0) out.push_back(static_cast<std::uint8_t>(group >> (6 - 2 * (i % 4))));
  }
  const std::uint32_t unused = padding == 0 ? 0 : (1u << (2 * padding)) - 1;
  if ((group & unused) != 0) return bad_base64(digits - 1, "trailing bits are not zero");
  return out;
}

ByteWriter& ByteWriter::u8(std::uint8_t value) {
  bytes_.push_back(value);
  return *this;
}
ByteWriter& ByteWriter::u16(std::uint16_t value) {
  append_big_endian(bytes_, value);
  return *this;
}
ByteWriter& ByteWriter::u32(std::uint32_t value) {
  append_big_endian(bytes_, value);
  return *this;
}
ByteWriter& ByteWriter::u64(std::uint64_t value) {
  append_big_endian(bytes_, value);
  return *this;
}
ByteWriter& ByteWriter::raw(ByteView bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

}  // namespace dgx
