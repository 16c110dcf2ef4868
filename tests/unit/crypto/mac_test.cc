#include "dgx/crypto/mac.h"

#include <catch2/catch.hpp>

namespace dgx::crypto {
namespace {

MacKey counting_key() {
  Digest key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<std::uint8_t>(i);
  return MacKey::from_bytes(key.bytes);
}

// From Python: hashlib.blake2b(message, key=bytes(range(32)), digest_size=32).
TEST_CASE("a code is that of keyed BLAKE2b") {
  CHECK(counting_key().mac(as_bytes("abc")).hex() ==
        "d63a32d3e44738d7907f964316c241adaba0abfeabc32349677578a15a203f7f");
  CHECK(counting_key().mac({}).hex() == "4e51e7a913fc80137da52880fecca175bf81e117d5c68126dc2774033517ea0d");
}

// From Python: the key is blake2b(b"dgx-work", key=bytes([1]*32), digest_size=32).
TEST_CASE("a derived key is the code of its purpose under the seed") {
  Seed seed;
  seed.fill(1);
  const SecretKey key = SecretKey::from_seed(seed);
  CHECK(MacKey::derived(key, "dgx-work").mac(as_bytes("abc")).hex() ==
        "f31801f581f27e2b4927ae8c153e1a9e75732886e14f9087af02ba023a5598bf");
  CHECK(MacKey::derived(key, "dgx-play").mac(as_bytes("abc")) !=
        MacKey::derived(key, "dgx-work").mac(as_bytes("abc")));
}

TEST_CASE("a code is made by its key for its message alone") {
  const MacKey key = counting_key();
  Digest code = key.mac(as_bytes("abc"));
  CHECK(key.made(as_bytes("abc"), code));
  CHECK_FALSE(key.made(as_bytes("abd"), code));
  for (std::uint8_t& byte : code.bytes) {
    byte ^= 1;
    CHECK_FALSE(key.made(as_bytes("abc"), code));
    byte ^= 1;
  }
}

TEST_CASE("a key that was moved from makes other codes") {
  MacKey key = counting_key();
  const Digest code = key.mac(as_bytes("abc"));
  const MacKey moved = std::move(key);
  CHECK(moved.made(as_bytes("abc"), code));
  CHECK_FALSE(key.made(as_bytes("abc"), code));  // NOLINT: the moved-from key's bytes are erased
}

}  // namespace
}  // namespace dgx::crypto
