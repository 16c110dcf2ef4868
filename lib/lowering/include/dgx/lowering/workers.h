#pragma once

#include <cstdint>

#include "dgx/core/result.h"
#include "dgx/program/program.h"

namespace dgx::lowering {

/// Divides a finished step program's folds over samples among `workers` workers (dgx-lowerings(7),
/// "Workers"): each dot, and each chain that only adds, of class C becomes the workers' folds, each over its
/// own share of the batch, and a dot that adds these up in order. Values are renumbered. kUsage if the
/// program has no batch that they divide.
[[nodiscard]] Result<program::Program> divide_among_workers(const program::Program& program,
                                                            std::int64_t workers);

}  // namespace dgx::lowering
