#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/exchange/exchange.h"

namespace dgx::exchange {

/// One way of a connection, from one rank to another.
struct Link {
  std::int64_t microseconds = 0;     ///< until the first bit is there
  std::int64_t bits_per_second = 0;  ///< 0: as many as you like
};

/// A network between ranks.
struct Network {
  int ranks = 0;
  std::vector<Link> links;  ///< from rank a to rank b at a * ranks + b; those to oneself are ignored

  [[nodiscard]] const Link& link(int from, int to) const {
    return links[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
                 static_cast<std::size_t>(to)];
  }
};

/// The Exchange `inner`, over this network: what a rank receives arrives no earlier than it would there. All
/// ranks must be given the same network. kUsage if it is for another number of ranks, or if the ranks are on
/// several machines, which have no common clock.
///
/// A link carries one message after the other. A share of a gather goes to each rank by the link there. A
/// broadcast goes along a binomial tree: who has it sends it to one rank after the other; of the links of the
/// tree only those of the root are taken to be busy with what went there before. Sends end as in `inner`.
/// Each operation becomes two of `inner`, as the times of arrival travel before the bytes.
[[nodiscard]] Result<std::unique_ptr<Exchange>> make_delayed(std::unique_ptr<Exchange> inner,
                                                             Network network);

}  // namespace dgx::exchange
