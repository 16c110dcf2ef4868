#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

namespace dgx::test {

/// `text` with the first `from`, which it must have, replaced by `to`.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string_view::npos);
  return std::string(text).replace(at, from.size(), to);
}

}  // namespace dgx::test
