#pragma once

#include <cstdint>

namespace dgx {

/// The indices begin, begin + 1, … end - 1.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] constexpr std::int64_t size() const { return end - begin; }
};

}  // namespace dgx
