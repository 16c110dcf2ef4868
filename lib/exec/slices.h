#pragma once

#include <optional>
#include <vector>

#include "plan.h"

namespace dgx::exec {

/// What cut_slices() needs to know beside the tasks. By task: the values it makes; by value: its accesses.
struct SliceQuestion {
  const program::Program& program;
  const Plan& plan;  ///< tasks, compiled primitives and layouts
  const std::vector<std::vector<kernels::ValueIndex>>& members;
  const std::vector<std::optional<std::vector<StripAccess>>>& accesses;
  const std::vector<kernels::ValueIndex>& keep;
  int threads;
};

/// Neighbouring tasks that can run slice by slice: all outputs fall into the same number of slices along their first dimensions, and of
/// each other they read the same slice only, as heads of attention and rows of a normalisation do. A thread takes a slice through all of
/// them while it is in the nearest caches, and what only they read needs no more memory than a few slices.
[[nodiscard]] std::vector<SlicedTasks> cut_slices(const SliceQuestion& question);

}  // namespace dgx::exec
