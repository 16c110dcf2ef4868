#pragma once

#include <cstdint>

#include "dgx/core/result.h"

namespace dgx::exec {

/// Bytes that this process may use: the machine's memory, or less if its control groups (versions 1 and 2) or
/// its address space limit say so.
[[nodiscard]] std::int64_t memory_limit();

/// kUsage, with both numbers, if a plan needs more bytes than memory_limit().
[[nodiscard]] Status check_memory(std::int64_t planned_bytes);

}  // namespace dgx::exec
