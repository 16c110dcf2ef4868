#pragma once

#include <cstdint>

#include "dgx/core/progress.h"
#include "dgx/manifest/task.h"

namespace dgx::jobs {

/// Reports how long a dispute about the task's longest segment, which takes `milliseconds` here, may take
/// compared with the window of a move; warns if no offer or assign with that time would be admitted. Silent
/// for a task that names no ledger.
void tell_segment_time(Progress& progress, const manifest::Task& task, std::int64_t milliseconds);

}  // namespace dgx::jobs
