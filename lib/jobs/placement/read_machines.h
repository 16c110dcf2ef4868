#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dgx/core/result.h"
#include "dgx/exchange/exchange.h"
#include "dgx/jobs/task_files.h"
#include "dgx/placement/plan.h"

namespace dgx::jobs {

/// Reads a file of machines. kMissing, and kMalformed with the file.
[[nodiscard]] Result<placement::Machines> read_machines(const std::string& path);

/// A step by the plan, played on machines that make so many operations a second, each a rank. Errors of
/// program::stages_of().
[[nodiscard]] Result<placement::Forecast> forecast_of(const placement::Plan& plan, const TaskFiles& files,
                                                      std::span<const std::int64_t> operations_per_second,
                                                      const exchange::Network& network);

/// A host's name as a machine's: without what a name may not have.
[[nodiscard]] std::string machine_of_host(const std::string& host);

/// The first rank that runs on another host than the plan's machine for it, in words, if the plan's machines
/// are named as hosts are, a colon and what follows it left out: one of them as a host of the ranks. Empty if
/// there is none.
[[nodiscard]] std::string misplaced_rank(const placement::Plan& plan, const exchange::Exchange& ranks);

}  // namespace dgx::jobs
