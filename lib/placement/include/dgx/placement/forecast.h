#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dgx/exchange/delayed.h"
#include "dgx/placement/step_work.h"

namespace dgx::placement {

/// A rank's time in a step, in seconds, and the bytes that it gives away.
struct RankForecast {
  double computes = 0;
  double waits = 0;                                    ///< for messages
  std::int64_t sent = 0, broadcast = 0, gathered = 0;  ///< bytes, as exchange::Traffic counts them
};

/// A step of several ranks as it would go.
struct Forecast {
  double seconds = 0;
  std::vector<RankForecast> ranks;
};

/// Plays one step through, message by message, on the ranks of a network: rank n has slices bounds[n] …
/// bounds[n+1]−1, and makes operations_per_second[n]; the work is for as many. What the ranks tell each
/// other between two steps is counted. Networks carry messages as exchange::make_delayed() says. Cost: the
/// stretches of all ranks, and of a gather the square of their number.
[[nodiscard]] Forecast forecast(const StepWork& work, std::span<const std::int64_t> bounds,
                                std::span<const std::int64_t> operations_per_second,
                                const exchange::Network& network);

}  // namespace dgx::placement
