#include "dgx/crypto/ed25519.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "dgx/crypto/random.h"
#include "dgx/crypto/sha256.h"

namespace dgx::crypto {

Result<SecretKey> SecretKey::generate() {
  Seed seed{};
  DGX_CHECK(random_bytes(seed));
  SecretKey key = from_seed(seed);
  erase(seed);
  return key;
}

SecretKey SecretKey::from_seed(std::span<const std::uint8_t, 32> seed) {
  SecretKey key;
  ::crypto_sign_ed25519_seed_keypair(key.public_key_.bytes.data(), key.expanded_.data(), seed.data());
  return key;
}

SecretKey::SecretKey(SecretKey&& other) noexcept
    : expanded_(other.expanded_), public_key_(other.public_key_) {
  erase(other.expanded_);
}

SecretKey& SecretKey::operator=(SecretKey&& other) noexcept {
  if (this == &other) return *this;
  expanded_ = other.expanded_;
  public_key_ = other.public_key_;
  erase(other.expanded_);
  return *this;
}

SecretKey::~SecretKey() { erase(expanded_); }

Signature SecretKey::sign(ByteView message) const {
  Signature signature;
  ::crypto_sign_ed25519_detached(signature.bytes.data(), nullptr, message.data(), message.size(),
                                 expanded_.data());
  return signature;
}

bool verify(const PublicKey& key, ByteView message, const Signature& signature) {
  return ::crypto_sign_ed25519_verify_detached(signature.bytes.data(), message.data(), message.size(),
                                               key.bytes.data()) == 0;
}

// Finding that a point is in the main subgroup costs as much as checking a signature, and most statements
// that one process reads are signed by few keys: each thread remembers some that it has found valid.
bool valid_public_key(const PublicKey& key) {
  thread_local std::array<PublicKey, 256> known{};  // by the first byte; the key of zeros is not valid
  PublicKey& slot = known[key.bytes[0]];
  if (slot == key && key != PublicKey{}) return true;
  const bool valid = ::crypto_core_ed25519_is_valid_point(key.bytes.data()) == 1;
  if (valid) slot = key;
  return valid;
}

Result<PublicKey> public_key_from_hex(std::string_view text) {
  if (text.size() != 64)
    return malformed(fmt::format("public key: {} characters, expected 64 hex digits", text.size()));
  DGX_TRY(const Bytes bytes, from_hex(text));
  PublicKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  if (!valid_public_key(key)) return malformed(fmt::format("public key {}: not a valid Ed25519 key", text));
  return key;
}

Result<Signature> signature_from_bytes(ByteView bytes) {
  Signature signature;
  if (bytes.size() != signature.bytes.size()) {
    return malformed(fmt::format("signature: {} bytes, expected 64", bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), signature.bytes.begin());
  return signature;
}

Digest key_id(const PublicKey& key) {
  const std::string text =
      fmt::format(R"({{"keytype":"ed25519","keyval":{{"public":"{}"}},"scheme":"ed25519"}})", key.hex());
  return sha256(as_bytes(text));
}

}  // namespace dgx::crypto
