#pragma once

#include "plan.h"

namespace dgx::exec {

/// Decides where every value lies: fills plan.placements, plan.entries and plan.arena_bytes from plan.tasks. A value's
/// place in the arena is free again after the last task that reads it, but for those of `keep`. `in_place`: an update may overwrite the entry it
/// becomes when no later task reads the entry's old value.
void plan_memory(const program::Program& program, bool in_place, const std::vector<kernels::ValueIndex>& keep,
                 Plan& plan);

/// The tasks in an order that frees memory sooner, by their old numbers: of two neighbours that do not wait for each other, one that frees much
/// goes before one that takes much. Tasks that make what
/// state becomes stay behind the readers of what they replace.
[[nodiscard]] std::vector<std::size_t> freeing_order(const program::Program& program, const Plan& plan,
                                                     const std::vector<kernels::ValueIndex>& keep);

}  // namespace dgx::exec
