#include "dgx/crypto/random.h"

#include <sodium.h>

#include "sodium_ready.h"

namespace dgx::crypto {

bool sodium_ready() {
  static const bool ready = ::sodium_init() >= 0;
  return ready;
}

Status random_bytes(std::span<std::uint8_t> out) {
  if (!sodium_ready()) return internal_error("the system provides no random bytes");
  if (!out.empty()) ::randombytes_buf(out.data(), out.size());
  return {};
}

void erase(std::span<std::uint8_t> bytes) {
  if (!bytes.empty()) ::sodium_memzero(bytes.data(), bytes.size());
}

void erase(std::string& text) { erase({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}); }

}  // namespace dgx::crypto
