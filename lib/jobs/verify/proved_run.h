#pragma once

#include <string>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/manifest/statement.h"
#include "dgx/protocol/segments.h"

namespace dgx::jobs {

/// The segments of a run: the task's, cut off where the run diverged, if it did.
[[nodiscard]] Result<protocol::Segments> segments_of_run(const bundle::RunIndex& index,
                                                         const manifest::Task& task);

/// Checks that the run is this task's, begins where it must, and is finished or diverged.
[[nodiscard]] Status check_run(const std::string& path, const bundle::RunIndex& index,
                               const manifest::Signed<manifest::Task>& task);

/// The committed states of a run, in order.
[[nodiscard]] std::vector<Digest> digests_in(const bundle::RunIndex& index);

}  // namespace dgx::jobs
