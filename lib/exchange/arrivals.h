#pragma once

#include <cstdint>
#include <vector>

#include "dgx/exchange/delayed.h"

namespace dgx::exchange {

/// Nanoseconds of the clock that all processes of a machine share (CLOCK_MONOTONIC).
using Nanoseconds = std::int64_t;

/// The times at which bytes arrive that one rank gives away over a network.
class Arrivals {
 public:
  Arrivals(Network network, int rank);

  [[nodiscard]] const Network& network() const { return network_; }

  /// The time at which bytes that are sent now are at `to`, behind all that went there before.
  Nanoseconds by_link(int to, std::int64_t bytes, Nanoseconds now);
  /// The times at which a broadcast of this rank that starts now is at each rank.
  std::vector<Nanoseconds> by_tree(std::int64_t bytes, Nanoseconds now);

 private:
  Network network_;
  int rank_;
  std::vector<Nanoseconds> free_;  ///< from then on the link to each rank is idle
};

}  // namespace dgx::exchange
