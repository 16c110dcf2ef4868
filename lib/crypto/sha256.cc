#include "dgx/crypto/sha256.h"

// The low-level functions are deprecated in favour of EVP, but only they neither allocate a context per
// digest, nor look up a provider, nor read openssl.cnf at the first call: most of what dgx hashes is 1 KiB
// leaves, and programs start fast.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <algorithm>
#include <new>

namespace dgx::crypto {
namespace {

static_assert(sizeof(SHA256_CTX) == 112 && alignof(SHA256_CTX) <= 8);

SHA256_CTX* context(std::array<std::byte, 112>& state) {
  return std::launder(reinterpret_cast<SHA256_CTX*>(state.data()));
}

}  // namespace

Sha256::Sha256() { SHA256_Init(new (state_.data()) SHA256_CTX); }

Sha256& Sha256::update(ByteView bytes) {
  SHA256_Update(context(state_), bytes.data(), bytes.size());
  return *this;
}

Digest Sha256::finish() {
  Digest out;
  SHA256_Final(out.bytes.data(), context(state_));
  return out;
}

Digest sha256(ByteView bytes) { return Sha256().update(bytes).finish(); }

Digest sha256_chain(const Digest& from, std::int64_t steps) {
  // The block of a 32-byte message, padded as FIPS 180-4 says: only its first half ever changes.
  std::array<std::uint8_t, SHA256_CBLOCK> block{};
  std::copy(from.bytes.begin(), from.bytes.end(), block.begin());
  block[32] = 0x80;
  block[62] = 0x01;  // 256 bits
  SHA256_CTX start;
  SHA256_Init(&start);
  for (std::int64_t i = 0; i < steps; ++i) {
    SHA256_CTX step = start;
    SHA256_Transform(&step, block.data());
    for (std::size_t word = 0; word < 8; ++word) {
      for (std::size_t byte = 0; byte < 4; ++byte)
        block[4 * word + byte] = static_cast<std::uint8_t>(step.h[word] >> (24 - 8 * byte));
    }
  }
  Digest out;
  std::copy_n(block.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

Digest sha256(ByteView first, ByteView second) { return Sha256().update(first).update(second).finish(); }

}  // namespace dgx::crypto
