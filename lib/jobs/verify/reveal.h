#pragma once

#include "dgx/core/files.h"
#include "dgx/jobs/beacon.h"

namespace dgx::jobs {

/// reveal_beacon(), into an output that was claimed before anything was read.
[[nodiscard]] Result<RevealBeaconResult> reveal_into(Output& output, const RevealBeaconOptions& options,
                                                     const JobContext& context);

}  // namespace dgx::jobs
