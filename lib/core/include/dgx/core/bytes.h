#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"

namespace dgx {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

/// The bytes of a string, not copied.
[[nodiscard]] inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
[[nodiscard]] inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A SHA-256 value: of bytes, a tree, a tensor, a state, a statement or a key. 32 raw bytes wherever it is
/// hashed.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  auto operator<=>(const Digest&) const = default;
  [[nodiscard]] ByteView view() const { return bytes; }
  [[nodiscard]] std::string hex() const;
  /// The first twelve hex digits: for display, never for comparing.
  [[nodiscard]] std::string brief() const { return hex().substr(0, 12); }
};

[[nodiscard]] std::string to_hex(ByteView bytes);
/// Lower-case hex of even length only; kMalformed otherwise.
[[nodiscard]] Result<Bytes> from_hex(std::string_view text);
/// Exactly 64 lower-case hex digits.
[[nodiscard]] Result<Digest> digest_from_hex(std::string_view text);
/// Exactly 32 bytes.
[[nodiscard]] Result<Digest> digest_from_bytes(ByteView bytes);

/// Standard alphabet with padding (RFC 4648 section 4).
[[nodiscard]] std::string to_base64(ByteView bytes);
/// Accepts only what to_base64 writes: no spaces, full padding, zero trailing bits; kMalformed with the
/// position.
[[nodiscard]] Result<Bytes> from_base64(std::string_view text);

/// Appends big-endian integers and raw bytes, the layout of everything that is hashed (dgx-bundle(5),
/// "Digests").
class ByteWriter {
 public:
  ByteWriter& u8(std::uint8_t value);
  ByteWriter& u16(std::uint16_t value);
  ByteWriter& u32(std::uint32_t value);
  ByteWriter& u64(std::uint64_t value);
  ByteWriter& raw(ByteView bytes);
  ByteWriter& text(std::string_view text) { return raw(as_bytes(text)); }
  ByteWriter& digest(const Digest& digest) { return raw(digest.view()); }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

}  // namespace dgx
