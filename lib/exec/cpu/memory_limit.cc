#include "cpu/memory_limit.h"

#include <string>

#include "dgx/core/process_limits.h"

namespace dgx::exec {

Status check_memory(std::int64_t planned_bytes) {
  const std::int64_t limit = memory_limit();
  if (planned_bytes <= limit) return {};
  return usage_error("a step needs " + std::to_string(planned_bytes) +
                         " bytes of memory, this process may have " + std::to_string(limit),
                     "use a smaller batch, or a machine with more memory");
}

}  // namespace dgx::exec
