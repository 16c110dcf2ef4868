#pragma once

#include <string>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/manifest/statement.h"

namespace dgx::jobs {

/// The run is this task's, begins where it must, and is finished.
[[nodiscard]] Status check_run(const std::string& path, const bundle::RunIndex& index,
                               const manifest::Signed<manifest::Task>& task);

/// The committed states of a run, in order.
[[nodiscard]] std::vector<Digest> digests_in(const bundle::RunIndex& index);

}  // namespace dgx::jobs
