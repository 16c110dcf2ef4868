#pragma once

#include "dgx/jobs/submit.h"
#include "dgx/program/program.h"
#include "dgx/program/update_spec.h"

namespace dgx::jobs {

/// Reads --group and --freeze. kUsage, naming the option.
[[nodiscard]] Result<program::UpdateSpec> parse_update(const SubmitOptions& options);

/// Counts what the program does with the model's entries, so that a task is told the same whether it is made
/// or read.
void count_updates(const program::Program& program, const program::UpdateSpec& update, SubmitResult& out);

}  // namespace dgx::jobs
