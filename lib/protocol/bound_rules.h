#pragma once

#include <span>
#include <vector>

#include "bound_terms.h"

namespace dgx::protocol {

/// A closed form that a policy keeps or not: its row, and what would mend a policy that does not keep it.
/// `mend` is asked only where the row does not hold; a mend outside of a key's range is for the caller to
/// drop.
struct BoundRule {
  Bound (*row)(const Terms&);
  std::vector<Mend> (*mend)(const Terms&);
};

/// The rules in the order in which they are mended: a mend breaks no rule before it.
///
/// Later rules follow from earlier ones. Rounds first, since without them nothing is drawn or audited; then
/// the solver's bond, and the rate of audits, which may raise the verifier's; delays, and the windows in
/// which rounds are awaited. The fee must leave a tax that can pay for audits, and the bonds of verifiers
/// follow from fee and rates, with a rate of forced errors that finds auditors who confirm, and those who
/// guess. Tax and jackpot follow from the rates, the challenger's bond and once more the verifier's from the
/// jackpot.
[[nodiscard]] std::span<const BoundRule> bound_rules();

/// D_s ≥ C / ((1 − alpha) (1 + alpha c)) − R, at least 0.
[[nodiscard]] Wide least_solver_bond_with(const Terms& terms);

}  // namespace dgx::protocol
