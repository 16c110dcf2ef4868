#pragma once

#include <string>

#include "dgx/jobs/proof_files.h"
#include "dgx/protocol/verify.h"

namespace dgx::jobs {

/// Checks an opening's folder: the committed states, and the drawn start states against their committed
/// digests. kMissing; kMalformed for anything that is not what the proof commits to.
[[nodiscard]] Status check_opening(const std::string& folder, const manifest::Signed<manifest::Task>& task,
                                   const manifest::Signed<manifest::Proof>& proof,
                                   const protocol::OpeningDraw& draw, int threads);

}  // namespace dgx::jobs
