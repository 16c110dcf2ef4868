#pragma once

#include "plan.h"

namespace dgx::exec {

/// Decides where every value lies: fills plan.placements, plan.entries, plan.arena_bytes and plan.slice_bytes
/// from plan.tasks. A value's place in the arena is reused after the last task that reads it, except for
/// values in `keep`. `in_place`: an update may overwrite the entry that it becomes if no later task reads the
/// old value, and a map a value that it is the last to read.
void plan_memory(const program::Program& program, bool in_place, const std::vector<kernels::ValueIndex>& keep,
                 Plan& plan);

/// Sizes the scratch memory of one of `threads` threads: fills plan.most_registers, plan.longest_fold and
/// plan.window_floats.
void plan_scratch(int threads, Plan& plan);

/// The tasks' old numbers, in an order that frees memory sooner: of two neighbours of which the second does
/// not wait for the first, one that frees much (1 MiB) goes before one that takes much. Tasks that make next
/// state stay after the readers of what they replace.
[[nodiscard]] std::vector<std::size_t> freeing_order(const program::Program& program, const Plan& plan,
                                                     const std::vector<kernels::ValueIndex>& keep);

}  // namespace dgx::exec
