#pragma once

#include <string_view>

#include "dgx/core/result.h"

namespace dgx::jobs {

/// The device that computes steps (`--device`).
enum class ComputeDevice { kCpu, kCuda };

/// The device of that name, "cpu" or "cuda"; kUsage for any other.
[[nodiscard]] Result<ComputeDevice> device_from_name(std::string_view name);

}  // namespace dgx::jobs
