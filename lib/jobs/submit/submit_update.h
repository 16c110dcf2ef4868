#pragma once

#include "dgx/jobs/submit.h"
#include "dgx/program/program.h"
#include "dgx/program/update_spec.h"

namespace dgx::jobs {

/// Reads --group, --freeze, --accumulate, --workers and --ema. kUsage, naming the option.
[[nodiscard]] Result<program::UpdateSpec> parse_update(const SubmitOptions& options);

/// The steps of a task that would have so many but for --accumulate: those of whole updates. Epochs are cut
/// to them; kUsage if --steps is another number, or nothing is left.
[[nodiscard]] Result<std::int64_t> whole_updates(const SubmitOptions& options, std::int64_t steps);

/// Counts what the program does with the model's entries, so that a task is told the same whether it is made
/// or read.
void count_updates(const program::Program& program, const program::UpdateSpec& update, SubmitResult& out);

}  // namespace dgx::jobs
