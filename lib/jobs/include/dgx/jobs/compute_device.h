#pragma once

#include <string_view>

#include "dgx/core/result.h"

namespace dgx::jobs {

/// Where steps are computed (`--device`).
enum class ComputeDevice { kCpu, kCuda };

/// The device of that name, "cpu" or "cuda"; kUsage if there is none.
[[nodiscard]] Result<ComputeDevice> device_from_name(std::string_view name);

}  // namespace dgx::jobs
