#pragma once

#include <string>

#include "dgx/protocol/economy.h"

namespace dgx::jobs {

/// Two pictures, one below the other: a cheat's gain over the part of the segments that is faked, without
/// accomplices and with some; and the overhead over the part of the verdicts that are audited.
[[nodiscard]] std::string bounds_svg(const protocol::Economy& economy);

}  // namespace dgx::jobs
