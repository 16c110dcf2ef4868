#pragma once

#include <array>
#include <cstddef>

#include "dgx/core/bytes.h"

namespace dgx::crypto {

/// SHA-256 (FIPS 180-4) of bytes given in parts. Without allocation or set-up cost: made for a million 1 KiB
/// leaves.
class Sha256 {
 public:
  Sha256();
  Sha256& update(ByteView bytes);
  Sha256& update(const Digest& digest) { return update(digest.view()); }
  /// The digest of all bytes given. The object must not be used afterwards.
  [[nodiscard]] Digest finish();

 private:
  // libcrypto's state; its type stays in the source file
  alignas(8) std::array<std::byte, 112> state_;
};

[[nodiscard]] Digest sha256(ByteView bytes);
/// The digest of `first ‖ second`, without joining them.
[[nodiscard]] Digest sha256(ByteView first, ByteView second);

}  // namespace dgx::crypto
