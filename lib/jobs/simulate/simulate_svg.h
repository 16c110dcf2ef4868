#pragma once

#include <string>

#include "dgx/jobs/simulate.h"

namespace dgx::jobs {

/// Two pictures, one below the other: the jackpot account over the tasks, and the gains of each kind of
/// people in each role with their intervals.
[[nodiscard]] std::string simulation_svg(const Simulation& simulation);

}  // namespace dgx::jobs
