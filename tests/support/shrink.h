#pragma once

#include <cstddef>
#include <vector>

namespace dgx::test {

/// A list that still fails and is as short as removing pieces of it can make it: no single element of what is
/// returned can be left out. `fails` must hold for `list`. Cost: calls of `fails` in proportion to n log n,
/// or to n squared in the worst case.
template <class T, class Fails>
[[nodiscard]] std::vector<T> shrink(std::vector<T> list, const Fails& fails) {
  std::size_t piece = list.size();
  while (piece > 0) {
    bool removed = false;
    for (std::size_t at = 0; at < list.size();) {
      std::vector<T> shorter(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t after = at + piece < list.size() ? at + piece : list.size();
      shorter.insert(shorter.end(), list.begin() + static_cast<std::ptrdiff_t>(after), list.end());
      if (fails(shorter)) {
        list = std::move(shorter);
        removed = true;
      } else {
        at = after;
      }
    }
    if (!removed || piece > 1) piece /= 2;
  }
  return list;
}

}  // namespace dgx::test
