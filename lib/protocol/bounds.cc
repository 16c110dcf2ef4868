#include "dgx/protocol/bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/protocol/admission.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kOne = 1'000'000'000'000;  ///< probabilities in parts per 10^12

using Wide = __int128;

/// The quantities of the closed forms, in base units.
struct Costs {
  std::int64_t n = 100;            ///< N
  std::int64_t k = 1;              ///< q
  std::int64_t cost = kMillion;    ///< C: cost of the training, taken to be the reward
  std::int64_t reward = kMillion;  ///< R
  std::int64_t segment = 0;        ///< replay of one segment
  std::int64_t tax = 0;
  std::int64_t solver_bond = 0;      ///< D_s
  std::int64_t challenger_bond = 0;  ///< D_w
};

Result<Costs> costs_of(const manifest::Policy& policy, const manifest::Task* task) {
  Costs out;
  if (task != nullptr) {
    DGX_TRY(const Segments segments, Segments::of(task->steps, task->checkpoint_every));
    out.n = segments.count();
    out.reward = task->estimate.reward;
    DGX_TRY(out.cost, mul_div(task->estimate.train, task->price, kPriceUnit));
  }
  out.k = sample_count(policy, out.n, out.n);
  out.segment = ceil_div(out.cost, out.n);
  DGX_TRY(out.tax, mul_div(out.reward, policy.jackpot_tax_ppm, kMillion));
  DGX_TRY(const std::int64_t solver_part, mul_div(out.reward, policy.solver_bond_ppm, kMillion));
  DGX_TRY(const std::int64_t challenger_part, mul_div(out.reward, policy.challenger_bond_ppm, kMillion));
  out.solver_bond = policy.solver_bond + solver_part;
  out.challenger_bond = policy.challenger_bond + challenger_part;
  return out;
}

/// (1 − 1/n)^k in parts per 10^12, rounded down.
std::int64_t survival(std::int64_t n, std::int64_t k) {
  Wide out = kOne;
  for (std::int64_t i = 0; i < k && out > 0; ++i) out = out * (n - 1) / n;
  return static_cast<std::int64_t>(out);
}

std::string text(Wide value) {
  constexpr Wide kMost = Wide{1} << 62;
  return fmt::format("{}", static_cast<std::int64_t>(std::clamp(value, -kMost, kMost)));
}

/// D_s ≥ C − R: then no cheat without an outside benefit pays. The binding case is a wholly faked run (f =
/// 1), which every draw finds.
Bound solver_bond(const Costs& costs) {
  const std::int64_t least = least_solver_bond(costs.cost, costs.reward);
  return {"solver_bond", "D_s >= C - R", text(least), text(costs.solver_bond), costs.solver_bond >= least};
}

/// The outside benefit B of one bad segment (f = 1/N) that the bond still deters: B ≤ (p (D_s + R) − C/N) /
/// (1 − p).
Bound undeterred(const Costs& costs) {
  const Wide p = kOne - survival(costs.n, costs.k);
  const std::string formula = "B <= (p (D_s + R) - C/N) / (1 - p), p = 1 - (1 - 1/N)^q";
  if (p >= kOne) return {"benefit_deterred", formula, "any", "", true};
  const Wide gain =
      p * (static_cast<Wide>(costs.solver_bond) + costs.reward) - static_cast<Wide>(costs.segment) * kOne;
  return {"benefit_deterred", formula, text(std::max<Wide>(0, gain / (kOne - p))), "", gain >= 0};
}

/// D_w ≥ (C_v + arbitration) / (1 − p_win), for a frivolous challenge (p_win = 0) of one segment.
Bound challenger_bond(const Costs& costs) {
  return {"challenger_bond", "D_w >= (C_v + arbitration) / (1 - p_win), p_win = 0", text(costs.segment),
          text(costs.challenger_bond), costs.challenger_bond >= costs.segment};
}

/// F: the most that the finders of a false proof share.
Wide finders_sum(const manifest::Policy& policy, const Costs& costs) {
  return static_cast<Wide>(costs.solver_bond) * policy.split_verifier_ppm / kMillion;
}

/// A cheat plants a game, that is, opens one against themselves before anybody else does: they have the first
/// share, F / 2, if they are caught, and lose half of the bond if not (the other half is theirs, as the
/// defender's). So D_w ≥ F p / (1 − p), with p = C / (D_s + R) where cheating breaks even. More games at once
/// cost more: the second its whole bond or more, and it takes F / 4.
Bound planting(const manifest::Policy& policy, const Costs& costs) {
  const std::string formula = "D_w >= F p / (1 - p), p = C / (D_s + R)";
  const Wide stake = static_cast<Wide>(costs.solver_bond) + costs.reward;
  if (stake <= costs.cost)
    return {"planting", formula, "none: cheating pays", text(costs.challenger_bond), false};
  const Wide least = finders_sum(policy, costs) * costs.cost / (stake - costs.cost);
  return {"planting", formula, text(least), text(costs.challenger_bond), costs.challenger_bond >= least};
}

/// An honest finder's share after k games that a cheat has planted: F / 2^(k + 1).
Bound finder_behind(const manifest::Policy& policy, const Costs& costs, int planted) {
  return {fmt::format("finder_behind_{}", planted), fmt::format("F / 2^{}", planted + 1),
          text(finders_sum(policy, costs) >> (planted + 1)), "", true};
}

/// To keep out a challenger who has a thousand bonds, games have to be held open until the next would cost
/// more: the k-th costs 2^k bonds, and at least half of each is lost.
Bound shutting_out(const Costs& costs) {
  return {"shutting_out_1000_bonds", "D_w (2^10 - 1)", text(static_cast<Wide>(costs.challenger_bond) * 1023),
          "", true};
}

/// The jackpot that the tax sustains: tax ≥ rho · J · E[k / 2^(k−1)], whose largest value is 1.
Bound jackpot_sustained(const manifest::Policy& policy, const Costs& costs) {
  const std::string formula = "J <= tax / rho";
  if (policy.forced_error_ppm == 0) return {"jackpot_sustained", formula, "any", "", true};
  return {"jackpot_sustained", formula,
          text(static_cast<Wide>(costs.tax) * kMillion / policy.forced_error_ppm), "", true};
}

/// The jackpot needed: rho · J ≥ 2^(k−1) · C_w for k = 2 re-checkers who replay what the verifier replays.
Bound jackpot_needed(const manifest::Policy& policy, const Costs& costs) {
  const std::string formula = "J >= 2 C_w / rho";
  if (policy.forced_error_ppm == 0) return {"jackpot_needed", formula, "none: no forced errors", "", true};
  const Wide recheck = static_cast<Wide>(costs.segment) * costs.k;
  const Wide needed = 2 * recheck * kMillion / policy.forced_error_ppm;
  const Wide sustained = static_cast<Wide>(costs.tax) * kMillion / policy.forced_error_ppm;
  return {"jackpot_needed", formula, text(needed), "", sustained >= needed};
}

/// The chance that the draw misses a cheat on the policy's share, which miss_ppm bounds.
Bound missed_share(const manifest::Policy& policy, const Costs& costs) {
  const auto bad = static_cast<std::int64_t>(static_cast<Wide>(costs.n) * policy.miss_share_ppm / kMillion);
  return {"miss_share", "C(N-m,q)/C(N,q), m = max(1, floor(N miss_share_ppm / 10^6))",
          miss_probability(costs.n, std::max<std::int64_t>(1, bad), costs.k),
          fmt::format("{}", static_cast<double>(policy.miss_ppm) / kMillion), true};
}

/// The longest segment that a task may have, in time and in work, and the speed that a machine needs for
/// both.
void add_segment_bounds(const manifest::Policy& policy, const manifest::Task* task, std::vector<Bound>& out) {
  const std::int64_t most = most_segment_milliseconds(policy);
  out.push_back({"segment_milliseconds", "T <= window_move_ms / 8", text(most), "", most > 0});
  const std::string rate =
      most > 0 ? text(Wide{policy.segment_operations} * 1000 / most) : "none: no time at all";
  out.push_back({"segment_rate", "segment_operations / T, a second", rate, "", most > 0});
  if (task == nullptr) return;
  const Wide work =
      Wide{Segments::of(task->steps, task->checkpoint_every)->longest()} * task->estimate.step_operations;
  out.push_back({"segment_operations", "U (length of the longest segment)", text(work),
                 text(policy.segment_operations), work <= policy.segment_operations});
}

}  // namespace

Result<std::vector<Bound>> bounds(const manifest::Policy& policy, const manifest::Task* task) {
  DGX_TRY(const Costs costs, costs_of(policy, task));
  const manifest::MissProbability miss = miss_probabilities(costs.n, costs.k);
  std::vector<Bound> out{
      {"segments", "N", text(costs.n), "", true},
      {"sampled",
       policy.miss_ppm == 0 ? "q = max(1, ceil(N sample_ppm / 10^6))"
                            : "q = max(1, ceil(N sample_ppm / 10^6), k)",
       text(costs.k), "", true},
      {"reward", "R", text(costs.reward), "", true},
      {"cost", "C", text(costs.cost), "", true},
      solver_bond(costs),
      undeterred(costs),
      challenger_bond(costs),
      planting(policy, costs),
      finder_behind(policy, costs, 0),
      finder_behind(policy, costs, 1),
      finder_behind(policy, costs, 4),
      shutting_out(costs),
      jackpot_sustained(policy, costs),
      jackpot_needed(policy, costs),
      {"miss_one_segment", "C(N-1,q)/C(N,q)", miss.one_segment, "", true},
      {"miss_one_percent", "C(N-m,q)/C(N,q), m = max(1, N/100)", miss.one_percent, "", true},
      {"miss_ten_percent", "C(N-m,q)/C(N,q), m = max(1, N/10)", miss.ten_percent, "", true},
      {"false_alarm", "a = 0: exact replays have no tolerance", "0", "", true}};
  if (policy.miss_ppm > 0) out.push_back(missed_share(policy, costs));
  add_segment_bounds(policy, task, out);
  return out;
}

}  // namespace dgx::protocol
