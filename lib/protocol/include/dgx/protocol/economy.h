#pragma once

#include <cstdint>

#include "dgx/core/result.h"
#include "dgx/manifest/task.h"

namespace dgx::protocol {

/// A cheat's gain, and a market's overhead, as multiples of the cost of the training: for pictures, where a
/// rounding does no harm.
struct Economy {
  std::int64_t segments = 0;  ///< N
  std::int64_t drawn = 0;     ///< q
  double audits = 0;          ///< c
  double stake = 0;           ///< R + D_s
  double fee = 0;
  double jackpots = 0;  ///< rho J
  double fixed = 0;     ///< proving, fee and treasury
  double overhead = 0;  ///< everything besides the training, with the policy's tax
  /// The gain of a cheat who fakes `faked` of the N segments, without outside benefit, with accomplices who
  /// hold `alpha` of all bonds; negative if they lose.
  [[nodiscard]] double gain(std::int64_t faked, double alpha) const;
  /// Everything besides the training if a part `audits` of the verdicts are audited and the tax is what that
  /// needs.
  [[nodiscard]] double overhead_of(double audits) const;
};
/// kUsage if the training costs nothing.
[[nodiscard]] Result<Economy> economy_of(const manifest::Policy& policy, const manifest::Task* task);

}  // namespace dgx::protocol
