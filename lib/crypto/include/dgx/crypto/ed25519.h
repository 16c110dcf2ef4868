#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::crypto {

/// An Ed25519 public key (RFC 8032), which identifies a signer. It need not be valid (valid_public_key).
struct PublicKey {
  std::array<std::uint8_t, 32> bytes{};

  auto operator<=>(const PublicKey&) const = default;
  [[nodiscard]] std::string hex() const { return to_hex(bytes); }
};

struct Signature {
  std::array<std::uint8_t, 64> bytes{};

  auto operator<=>(const Signature&) const = default;
};

using Seed = std::array<std::uint8_t, 32>;

/// An Ed25519 private key. Its bytes are erased when it is destroyed or moved from; it cannot be copied.
class SecretKey {
 public:
  /// A new key, from the system's random numbers; kInternal if there are none.
  [[nodiscard]] static Result<SecretKey> generate();
  [[nodiscard]] static SecretKey from_seed(std::span<const std::uint8_t, 32> seed);
  SecretKey(SecretKey&& other) noexcept;
  SecretKey& operator=(SecretKey&& other) noexcept;
  ~SecretKey();

  [[nodiscard]] const PublicKey& public_key() const { return public_key_; }
  /// The 32 bytes that RFC 8032 calls the private key, and that a key file holds.
  [[nodiscard]] std::span<const std::uint8_t, 32> seed() const { return std::span(expanded_).first<32>(); }
  /// Deterministic: the same message gives the same signature.
  [[nodiscard]] Signature sign(ByteView message) const;

 private:
  SecretKey() = default;
  std::array<std::uint8_t, 64> expanded_{};  // seed ‖ public key, libsodium's form
  PublicKey public_key_;
};

/// True if libsodium accepts the signature, whose verdict is normative (dgx-manifest(5), "Signatures"):
/// OpenSSL accepts a forged signature under the identity point for any message, libsodium does not.
[[nodiscard]] bool verify(const PublicKey& key, ByteView message, const Signature& signature);

/// False for keys of small order, non-canonical encodings and bytes that are no curve point: no one holds
/// such a key.
[[nodiscard]] bool valid_public_key(const PublicKey& key);

/// 64 lower-case hex digits of a valid key, else kMalformed.
[[nodiscard]] Result<PublicKey> public_key_from_hex(std::string_view text);
/// Exactly 64 bytes, else kMalformed.
[[nodiscard]] Result<Signature> signature_from_bytes(ByteView bytes);

/// SHA-256 of `{"keytype":"ed25519","keyval":{"public":"<hex>"},"scheme":"ed25519"}`: securesystemslib's
/// default keyid.
[[nodiscard]] Digest key_id(const PublicKey& key);

}  // namespace dgx::crypto
