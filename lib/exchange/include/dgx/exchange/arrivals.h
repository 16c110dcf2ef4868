#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "dgx/exchange/delayed.h"

namespace dgx::exchange {

/// Nanoseconds of the clock that all processes of a machine share (CLOCK_MONOTONIC).
using Nanoseconds = std::int64_t;

/// The end of what begins at a time of 0 to kNever and takes so long, at least 0: kNever if that is later.
inline constexpr Nanoseconds kNever = Nanoseconds{1} << 61;
[[nodiscard]] inline Nanoseconds later(Nanoseconds begin, double nanoseconds) {
  return nanoseconds < static_cast<double>(kNever - begin) ? begin + std::llround(nanoseconds) : kNever;
}

/// The times at which bytes arrive that one rank gives away over a network, as make_delayed() says.
class Arrivals {
 public:
  /// Borrows the network.
  Arrivals(const Network& network, int rank);

  /// The time at which bytes that are sent now are at `to`, behind all that went there before.
  Nanoseconds by_link(int to, std::int64_t bytes, Nanoseconds now);
  /// The times at which a broadcast of this rank that starts now is at each rank.
  std::vector<Nanoseconds> by_tree(std::int64_t bytes, Nanoseconds now);

 private:
  const Network& network_;
  int rank_;
  std::vector<Nanoseconds> free_;  ///< from then on the link to each rank is idle
};

}  // namespace dgx::exchange
