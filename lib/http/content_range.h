#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dgx::http {

/// The part of a file that an answer has: bytes `first` to `last` of `size`; first ≤ last < size.
struct ContentRange {
  std::uint64_t first = 0, last = 0, size = 0;
};
/// Parses the header's value, "bytes FIRST-LAST/SIZE" (RFC 9110, 14.4), with a size that is known; nullopt
/// for anything else.
[[nodiscard]] std::optional<ContentRange> parse_content_range(std::string_view text);

}  // namespace dgx::http
