#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dgx/core/bytes.h"
#include "dgx/crypto/random.h"

namespace dgx::crypto {

/// Bytes that hold a key or a passphrase, erased when they are destroyed or replaced. They cannot be copied.
/// Growing them would leave copies behind, so they are made at their final size.
class SecretBytes {
 public:
  explicit SecretBytes(Bytes bytes) : bytes_(std::move(bytes)) {}
  explicit SecretBytes(std::size_t size) : bytes_(size) {}
  explicit SecretBytes(std::string_view text) : bytes_(text.begin(), text.end()) {}
  SecretBytes(SecretBytes&&) noexcept = default;
  SecretBytes& operator=(SecretBytes&& other) noexcept { return std::swap(bytes_, other.bytes_), *this; }
  ~SecretBytes() { erase(bytes_); }

  [[nodiscard]] const Bytes& get() const { return bytes_; }
  [[nodiscard]] Bytes& get() { return bytes_; }
  [[nodiscard]] std::string_view text() const { return as_text(bytes_); }

 private:
  Bytes bytes_;
};

}  // namespace dgx::crypto
