#include "dgx/protocol/bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "bound_rules.h"
#include "dgx/protocol/admission.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/rounds.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {
namespace {

using Rows = std::vector<Bound>;

constexpr Wide kPerTrillion = Wide{kMillion} * kMillion;

/// A row that asks nothing of the policy.
Bound told(std::string name, std::string formula, std::string value) {
  return {std::move(name), std::move(formula), std::move(value), {}, true};
}

const manifest::PolicyKey* key_named(std::string_view name) {
  const auto keys = manifest::policy_keys();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

bool is_in_range(const Mend& mend) {
  const manifest::PolicyKey* const key = key_named(mend.key);
  return key != nullptr && mend.value >= key->low && mend.value <= key->high;
}

void make(const std::vector<Mend>& mends, manifest::Policy& policy) {
  for (const Mend& mend : mends) policy.*key_named(mend.key)->member = mend.value;
}

/// The rules' rows for the policy, each with the mend that it needs after those before it.
Result<Rows> rule_rows(const Terms& terms, const manifest::Task* task) {
  Rows out;
  Terms better = terms;
  for (const BoundRule& rule : bound_rules()) {
    Bound& row = out.emplace_back(rule.row(terms));
    if (row.holds) row.warning.clear();
    if (rule.row(better).holds) continue;
    std::vector<Mend> mend = rule.mend(better);
    if (mend.empty() || !std::all_of(mend.begin(), mend.end(), is_in_range)) continue;
    make(mend, better.policy);
    DGX_TRY(better, terms_of(better.policy, task, terms.input));
    row.mend = std::move(mend);
  }
  return out;
}

/// The greatest alpha with which the solver's bond still deters: (1 − alpha) (1 + alpha c) only falls.
Bound alpha_tolerated(const Terms& terms) {
  Terms tried = terms;
  std::int64_t low = -1, high = kMillion;  // the greatest that deters is from `low` to below `high`
  while (high - low > 1) {
    tried.input.alpha_ppm = (low + high) / 2;
    (terms.solver_bond >= least_solver_bond_with(tried) ? low : high) = tried.input.alpha_ppm;
  }
  Bound out = told("alpha_tolerated", "the greatest alpha with solver_bond", text_of(low));
  if (low < 0) out.value = "none: cheating pays alone";
  out.inputs = {{"C", text_of(terms.cost)},
                {"R", text_of(terms.reward)},
                {"D_s", text_of(terms.solver_bond)},
                {"c_ppm", text_of(terms.policy.audit_ppm)}};
  return out;
}

/// The outside benefit that the solver's bond deters, of one false segment or of nothing but false ones.
Bound benefit_deterred(const Terms& terms) {
  const Wide alpha = terms.input.alpha_ppm;
  const Wide honest =
      (kMillion - alpha) * (kPerTrillion + alpha * terms.policy.audit_ppm) / kMillion;  // per 10^12
  const Wide stake = Wide{terms.reward} + terms.solver_bond;
  // p in parts per 10^12, and f C as a multiple of 1 / 10^12.
  const auto most = [&](Wide caught, Wide saved) {
    return std::max<Wide>(0, caught * stake - saved) / (kPerTrillion - caught);
  };
  const Wide one = honest * terms.sampled / terms.segments;
  Bound out = told("benefit_deterred", "B <= (p (R + D_s) - f C) / (1 - p), f = 1/N and f = 1", "any");
  if (one < kPerTrillion) {
    Wide benefit = most(one, wide_ceil(terms.cost * kPerTrillion, terms.segments));
    if (honest < kPerTrillion) benefit = std::min(benefit, most(honest, terms.cost * kPerTrillion));
    out.value = text_of(benefit);
  }
  out.inputs = {{"C", text_of(terms.cost)},          {"R", text_of(terms.reward)},
                {"D_s", text_of(terms.solver_bond)}, {"q", text_of(terms.sampled)},
                {"N", text_of(terms.segments)},      {"alpha_ppm", text_of(alpha)}};
  return out;
}

/// The cores that the delays of all slots keep busy, one of which begins with each slot.
Bound delay_cores(const Terms& terms) {
  const bool delays = terms.policy.beacon_source == 1;
  const Wide slot = Wide{terms.policy.beacon_slot_ms} * kDelayStepsPerMillisecond;
  return told("delay_cores", "beacon_steps / (beacon_slot_ms 12700)",
              delays ? text_of(wide_ceil(terms.policy.beacon_steps, slot)) : "none: no delay");
}

/// The greatest n with (rho J / 2) (1 − 1/(2T))^(n−1) ≥ C_w.
Bound volunteers(const Terms& terms) {
  constexpr Wide kOne = Wide{1'000'000'000} * kMillion;  // the power is in parts per 10^15
  const Wide need = 2 * kMillion * kOne * terms.recheck;
  const std::int64_t doubled = 2 * terms.input.tasks;
  std::int64_t n = 0;
  for (Wide power = kOne; n < kMillion && terms.jackpots() * power >= need; ++n)
    power = power * (doubled - 1) / doubled;
  Bound out = told("volunteers", "n = 1 + ln(2 C_w / (rho J)) / ln(1 - 1/(2T))", text_of(n));
  if (terms.recheck == 0) out.value = "any";
  out.inputs = {{"C_w", text_of(terms.recheck)},
                {"rho_ppm", text_of(terms.policy.forced_error_ppm)},
                {"J", text_of(terms.policy.jackpot)},
                {"T", text_of(terms.input.tasks)}};
  return out;
}

Bound full_rechecking(const Terms& terms, int people) {
  return told(fmt::format("full_rechecking_{}", people), fmt::format("2^{} C", people - 1),
              text_of(Wide{terms.cost} << (people - 1)));
}

Bound rechecking(const Terms& terms) {
  Bound out =
      told("rechecking", "c fee + rho J", text_of(wide_ceil(terms.audits() + terms.jackpots(), kMillion)));
  out.inputs = {{"c_ppm", text_of(terms.policy.audit_ppm)},
                {"fee", text_of(terms.fee)},
                {"rho_ppm", text_of(terms.policy.forced_error_ppm)},
                {"J", text_of(terms.policy.jackpot)}};
  return out;
}

Bound overhead(const Terms& terms) {
  const Wide more = Wide{terms.reward} - terms.cost + terms.fee + terms.tax + terms.treasury;
  Bound out =
      told("overhead_ppm", "10^6 (R - C + fee + tax + treasury) / C", "none: the training costs nothing");
  if (terms.cost > 0) out.value = text_of(wide_ceil(std::max<Wide>(0, more) * kMillion, terms.cost));
  out.inputs = {{"R", text_of(terms.reward)},
                {"C", text_of(terms.cost)},
                {"fee", text_of(terms.fee)},
                {"tax", text_of(terms.tax)},
                {"treasury", text_of(terms.treasury)}};
  return out;
}

/// An honest finder's share after k games that a cheat has planted: F / 2^(k + 1).
Bound finder_behind(const Terms& terms, int planted) {
  return told(fmt::format("finder_behind_{}", planted), fmt::format("F / 2^{}", planted + 1),
              text_of(finders_sum(terms) >> (planted + 1)));
}

/// To keep out a challenger who has a thousand bonds, games have to be held open until the next would cost
/// more: the k-th costs 2^k bonds, and at least half of each is lost.
Bound shutting_out(const Terms& terms) {
  return told("shutting_out_1000_bonds", "D_w (2^10 - 1)", text_of(Wide{terms.challenger_bond} * 1023));
}

/// The chance that the draw misses a cheat on the policy's share, which miss_ppm bounds.
Bound missed_share(const Terms& terms) {
  const auto bad = static_cast<std::int64_t>(Wide{terms.segments} * terms.policy.miss_share_ppm / kMillion);
  Bound out = told("miss_share", "C(N-m,q)/C(N,q), m = max(1, floor(N miss_share_ppm / 10^6))",
                   miss_probability(terms.segments, std::max<std::int64_t>(1, bad), terms.sampled));
  out.policy = fmt::format("{}", static_cast<double>(terms.policy.miss_ppm) / kMillion);
  return out;
}

/// The longest segment that a task may have, in time and in work, and the speed that a machine needs for
/// both.
void add_segments(const Terms& terms, const manifest::Task* task, Rows& out) {
  const std::int64_t most = most_segment_milliseconds(terms.policy);
  out.push_back({"segment_milliseconds", "T <= window_move_ms / 8", text_of(most), "", most > 0});
  const std::string rate =
      most > 0 ? text_of(Wide{terms.policy.segment_operations} * 1000 / most) : "none: no time at all";
  out.push_back({"segment_rate", "segment_operations / T, a second", rate, "", most > 0});
  if (task == nullptr) return;
  const Wide work =
      Wide{Segments::of(task->steps, task->checkpoint_every)->longest()} * task->estimate.step_operations;
  out.push_back({"segment_operations", "U (length of the longest segment)", text_of(work),
                 text_of(terms.policy.segment_operations), work <= terms.policy.segment_operations});
}

/// The numbers that the rows are about.
Rows given(const Terms& terms) {
  const std::string draw = terms.policy.miss_ppm == 0 ? "q = max(1, ceil(N sample_ppm / 10^6))"
                                                      : "q = max(1, ceil(N sample_ppm / 10^6), k)";
  return {told("segments", "N", text_of(terms.segments)), told("sampled", draw, text_of(terms.sampled)),
          told("reward", "R", text_of(terms.reward)),     told("cost", "C", text_of(terms.cost)),
          told("recheck", "C_w", text_of(terms.recheck)), told("fee", "fee", text_of(terms.fee))};
}

}  // namespace

Result<Rows> bounds(const manifest::Policy& policy, const manifest::Task* task, const BoundsInput& input) {
  DGX_TRY(const Terms terms, terms_of(policy, task, input));
  DGX_TRY(Rows rules, rule_rows(terms, task));
  Rows out = given(terms);
  std::move(rules.begin(), rules.end(), std::back_inserter(out));
  const manifest::MissProbability miss = miss_probabilities(terms.segments, terms.sampled);
  for (Bound& row :
       Rows{alpha_tolerated(terms), benefit_deterred(terms), delay_cores(terms), volunteers(terms),
            full_rechecking(terms, 3), full_rechecking(terms, 6), rechecking(terms), overhead(terms),
            finder_behind(terms, 0), finder_behind(terms, 1), finder_behind(terms, 4), shutting_out(terms),
            told("miss_one_segment", "C(N-1,q)/C(N,q)", miss.one_segment),
            told("miss_one_percent", "C(N-m,q)/C(N,q), m = max(1, N/100)", miss.one_percent),
            told("miss_ten_percent", "C(N-m,q)/C(N,q), m = max(1, N/10)", miss.ten_percent),
            told("false_alarm", "a = 0: exact replays have no tolerance", "0")})
    out.push_back(std::move(row));
  if (policy.miss_ppm > 0) out.push_back(missed_share(terms));
  add_segments(terms, task, out);
  return out;
}

manifest::Policy mended(manifest::Policy policy, const std::vector<Bound>& rows) {
  for (const Bound& row : rows) make(row.mend, policy);
  return policy;
}

}  // namespace dgx::protocol
