#pragma once

#include <cstdint>

#include "dgx/core/job_context.h"
#include "dgx/jobs/verify.h"

namespace dgx::jobs {

/// The witness that a verdict states for a segment, against that of a replay.
enum class StatedWitness : std::uint8_t {
  kTrue,
  kFalseByRule,  ///< H("dgx-false-witness" | the true one): dgx-protocol(7), "FORCED ERRORS"
  kInvented,     ///< any other: whoever states it need not have replayed the segment
};

/// Replays one of the segments drawn, and compares its witness in the verdict `options.audits`. Asserted: it
/// is drawn. Errors of verify(); kInternal if the replay does not give the proof's end.
[[nodiscard]] Result<StatedWitness> compare_witness(const VerifyOptions& options, std::int64_t segment,
                                                    const JobContext& context);

}  // namespace dgx::jobs
