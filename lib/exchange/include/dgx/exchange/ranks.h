#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/exchange/exchange.h"

namespace dgx::exchange {

/// A rank as errors name it: "rank 3 (host)".
[[nodiscard]] inline std::string name_of(const Exchange& ranks, int rank) {
  return "rank " + std::to_string(rank) + " (" + ranks.host_of(rank) + ")";
}

/// Gathers equally many items from each rank: all of rank 0's, then rank 1's. Errors of Exchange::wait().
template <class Item>
[[nodiscard]] Result<std::vector<Item>> gather_items(Exchange& ranks, std::span<const Item> own) {
  static_assert(std::is_trivially_copyable_v<Item>);
  const auto count = static_cast<std::size_t>(ranks.ranks());
  std::vector<Item> all(count * own.size());
  const std::vector<std::int64_t> sizes(count, static_cast<std::int64_t>(own.size_bytes()));
  const ByteView mine{reinterpret_cast<const std::uint8_t*>(own.data()), own.size_bytes()};
  const std::span<std::uint8_t> into{reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof(Item)};
  DGX_CHECK(ranks.wait(ranks.gather(mine, into, sizes)));
  return all;
}

}  // namespace dgx::exchange
