#include "dgx/crypto/mac.h"

#include <sodium.h>

#include <algorithm>

#include "dgx/crypto/random.h"

namespace dgx::crypto {
namespace {

Digest keyed_hash(std::span<const std::uint8_t, 32> key, ByteView message) {
  Digest out;
  ::crypto_generichash_blake2b(out.bytes.data(), out.bytes.size(), message.data(), message.size(), key.data(),
                               key.size());
  return out;
}

}  // namespace

MacKey MacKey::from_bytes(std::span<const std::uint8_t, 32> bytes) {
  MacKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes_.begin());
  return key;
}

MacKey MacKey::derived(const SecretKey& key, std::string_view purpose) {
  Digest code = keyed_hash(key.seed(), as_bytes(purpose));
  MacKey out = from_bytes(code.bytes);
  erase(code.bytes);
  return out;
}

MacKey::MacKey(MacKey&& other) noexcept : bytes_(other.bytes_) { erase(other.bytes_); }

MacKey::~MacKey() { erase(bytes_); }

Digest MacKey::mac(ByteView message) const { return keyed_hash(bytes_, message); }

bool MacKey::made(ByteView message, const Digest& code) const {
  const Digest right = mac(message);
  return ::sodium_memcmp(right.bytes.data(), code.bytes.data(), right.bytes.size()) == 0;
}

}  // namespace dgx::crypto
