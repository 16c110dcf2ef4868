#pragma once

#include <cstdint>

#include "dgx/core/result.h"

namespace dgx::exec {

/// Bytes that this process may have: the machine's memory, or less where its control groups (versions 1 and 2) or its limit
/// of address space say so.
[[nodiscard]] std::int64_t memory_limit();

/// kUsage, with both numbers, if a plan needs more bytes than memory_limit().
[[nodiscard]] Status check_memory(std::int64_t planned_bytes);

}  // namespace dgx::exec
