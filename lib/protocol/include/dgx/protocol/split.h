#pragma once

#include <cstdint>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/manifest/task.h"

namespace dgx::protocol {

/// The cost of a task that is cut into consecutive parts (dgx-submit(1), "The parts of a task").
struct Split {
  struct Part {
    std::int64_t steps = 0;
    std::int64_t segments = 0;
    std::int64_t sampled = 0;  ///< segments of the policy's draw
    manifest::Estimate estimate;
  };
  std::vector<Part> parts;  ///< each estimated as a task of its own
  Part sum;                 ///< of all parts; step_operations is that of each
  /// By how much the sum is more than the whole task's number. Money may be a little less: each part's is
  /// rounded down. step_operations is 0.
  Part more;
};

/// Cuts a task at committed states: of N segments the first N mod `parts` parts have one more than the
/// others. Asserted: the task passes check_estimate(). kUsage unless there are 2 to N parts, and if a sum
/// exceeds 2^53.
[[nodiscard]] Result<Split> split(const manifest::Task& task, std::int64_t parts);

}  // namespace dgx::protocol
