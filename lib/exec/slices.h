#pragma once

#include <optional>
#include <vector>

#include "plan.h"

namespace dgx::exec {

/// The input of cut_slices(). `members` by task: the values it makes; `accesses` by value.
struct SliceQuestion {
  const program::Program& program;
  const Plan& plan;  ///< tasks, compiled primitives and layouts
  const std::vector<std::vector<kernels::ValueIndex>>& members;
  const std::vector<std::optional<std::vector<StripAccess>>>& accesses;
  const std::vector<kernels::ValueIndex>& keep;
  int threads;
};

/// Finds neighbouring tasks that can run slice by slice: their outputs divide into the same number of slices
/// along the leading dimensions, and a slice of one reads only the same slice of the others, as with
/// attention heads and the rows of a normalisation. A thread takes a slice through all of them while it is in
/// the nearest caches, and values that only they read take the memory of a few slices.
[[nodiscard]] std::vector<SlicedTasks> cut_slices(const SliceQuestion& question);

}  // namespace dgx::exec
