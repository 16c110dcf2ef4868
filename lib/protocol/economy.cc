#include "dgx/protocol/economy.h"

#include <algorithm>

#include "bound_terms.h"

namespace dgx::protocol {
namespace {

/// The chance that q drawn of n segments miss `bad` of them.
double missed(std::int64_t n, std::int64_t q, std::int64_t bad) {
  double out = 1;
  for (std::int64_t i = 0; i < q && out > 0; ++i) {
    out *= std::max(0.0, static_cast<double>(n - bad - i)) / static_cast<double>(n - i);
  }
  return out;
}

}  // namespace

double Economy::gain(std::int64_t faked, double alpha) const {
  const double caught = (1 - missed(segments, drawn, faked)) * (1 - alpha) * (1 + alpha * audits);
  return static_cast<double>(faked) / static_cast<double>(segments) - caught * stake;
}

double Economy::overhead_of(double share) const { return fixed + share * fee + jackpots; }

Result<Economy> economy_of(const manifest::Policy& policy, const manifest::Task* task) {
  DGX_TRY(const Terms terms, terms_of(policy, task, {}));
  if (terms.cost == 0) return usage_error("no picture: the training costs nothing");
  const auto of_cost = [&](Wide amount) {
    return static_cast<double>(amount) / static_cast<double>(terms.cost);
  };
  Economy out;
  out.segments = terms.segments;
  out.drawn = terms.sampled;
  out.audits = static_cast<double>(policy.audit_ppm) / kMillion;
  out.stake = of_cost(Wide{terms.reward} + terms.solver_bond);
  out.fee = of_cost(terms.fee);
  out.jackpots = of_cost(terms.jackpots()) / kMillion;
  out.fixed = of_cost(Wide{terms.reward} - terms.cost + terms.fee + terms.treasury);
  out.overhead = out.fixed + of_cost(terms.tax);
  return out;
}

}  // namespace dgx::protocol
