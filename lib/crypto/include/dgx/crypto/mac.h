#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/crypto/ed25519.h"

namespace dgx::crypto {

/// A key for message authentication codes: keyed BLAKE2b with 32 bytes of key and of code (RFC 7693). Only a
/// holder of the key makes a code, and only a holder can check one. Its bytes are erased when it is destroyed
/// or moved from; it cannot be copied.
class MacKey {
 public:
  [[nodiscard]] static MacKey from_bytes(std::span<const std::uint8_t, 32> bytes);
  /// The key derived from a private key for one purpose: the code of `purpose` under its seed. Different
  /// purposes give independent keys.
  [[nodiscard]] static MacKey derived(const SecretKey& key, std::string_view purpose);
  MacKey(MacKey&& other) noexcept;
  ~MacKey();

  [[nodiscard]] Digest mac(ByteView message) const;
  /// True if `code` is the message's code; compares in constant time.
  [[nodiscard]] bool made(ByteView message, const Digest& code) const;

 private:
  MacKey() = default;
  std::array<std::uint8_t, 32> bytes_{};
};

}  // namespace dgx::crypto
