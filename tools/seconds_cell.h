#pragma once

#include <cmath>

#include "dgx/cli/out.h"

namespace dgx::tools {

/// Seconds that a clock told or that were estimated, without what is below a millisecond.
[[nodiscard]] inline cli::Cell seconds_cell(double seconds) { return std::trunc(seconds * 1000) / 1000; }

}  // namespace dgx::tools
