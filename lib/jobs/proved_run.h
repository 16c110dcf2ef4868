#pragma once

#include <string>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/manifest/statement.h"
#include "dgx/protocol/segments.h"

namespace dgx::jobs {

/// How the steps of a run are cut: as the task's, or, if it diverged, up to there.
[[nodiscard]] Result<protocol::Segments> segments_of_run(const bundle::RunIndex& index, const manifest::Task& task);

/// The run is this task's, begins where it must, and is finished or diverged.
[[nodiscard]] Status check_run(const std::string& path, const bundle::RunIndex& index,
                               const manifest::Signed<manifest::Task>& task);

/// The committed states of a run, in order.
[[nodiscard]] std::vector<Digest> digests_in(const bundle::RunIndex& index);

}  // namespace dgx::jobs
