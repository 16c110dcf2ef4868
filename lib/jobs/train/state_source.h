#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/bundle/state.h"
#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::jobs {

/// A state named by a user: a checkpoint of a run, or a state bundle.
struct StateSource {
  bundle::StoredState stored;
  std::optional<Digest> task;  ///< the run's; empty for a state bundle, which does not say
};

/// Reads a state and checks its digests. `from` is a run's folder, whose checkpoint at `step` is read
/// (without a step, the last), or a state bundle. kUsage if the run has no checkpoint at that step, or for a
/// step of a state bundle; kMissing for a checkpoint that was not kept; errors of bundle::read_state().
[[nodiscard]] Result<StateSource> read_source(const std::string& from, std::optional<std::int64_t> step,
                                              int threads);

}  // namespace dgx::jobs
