#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/manifest/task.h"

namespace dgx::protocol {

/// One line of `dgx-settle bounds`: a number that the closed forms give, next to the policy's own.
struct Bound {
  std::string name;     ///< "solver_bond", …
  std::string formula;  ///< as in dgx-money(7), "Closed forms"
  std::string value;    ///< decimal
  std::string policy;   ///< the policy's own number, or empty
  bool holds = true;    ///< true if the policy's number satisfies it
};

/// Deposits, jackpot and thresholds from the closed forms, in integer arithmetic: the same text on every
/// machine. `task` may be null: costs are then those of a task of 10^6 base units in 100 segments.
[[nodiscard]] Result<std::vector<Bound>> bounds(const manifest::Policy& policy, const manifest::Task* task);

}  // namespace dgx::protocol
