#pragma once

#include <algorithm>
#include <cstdint>

#include "dgx/core/bytes.h"

namespace dgx::bundle {

/// Takes little-endian fields from the front of some bytes. Past the end every field is zero and ok() turns
/// false, so a decoder can read all its fields and check once.
class Cursor {
 public:
  explicit Cursor(ByteView bytes) : rest_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  /// True if all bytes were taken, and none past the end.
  [[nodiscard]] bool done() const { return ok_ && rest_.empty(); }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

  ByteView bytes(std::uint64_t size) {
    ok_ = ok_ && size <= rest_.size();
    if (!ok_) return {};
    const ByteView taken = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  /// A little-endian number of at most 8 bytes.
  std::uint64_t number(std::size_t width) {
    const ByteView taken = bytes(width);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < taken.size(); ++i) value |= std::uint64_t{taken[i]} << (8 * i);
    return value;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }

 private:
  ByteView rest_;
  bool ok_ = true;
};

}  // namespace dgx::bundle
