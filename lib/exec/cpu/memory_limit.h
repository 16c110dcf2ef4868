#pragma once

#include <cstdint>

#include "dgx/core/result.h"

namespace dgx::exec {

/// kUsage, with both numbers, if a plan needs more bytes than memory_limit() of core/process_limits.h, which
/// `processes` share.
[[nodiscard]] Status check_memory(std::int64_t planned_bytes, int processes = 1);

}  // namespace dgx::exec
