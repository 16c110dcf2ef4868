#include "bound_rules.h"

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/manifest/policy.h"
#include "dgx/protocol/rounds.h"

namespace dgx::protocol {
namespace {

using Mends = std::vector<Mend>;

/// A delay takes at least as long as so many slots.
constexpr std::int64_t kLeastSlots = 10;
/// 10^12, and 10^18, of parts per million that are multiplied.
constexpr Wide kTwice = Wide{kMillion} * kMillion;
constexpr Wide kThrice = kTwice * kMillion;
/// The most that a policy's bonds can be.
constexpr std::int64_t kMostBond = std::int64_t{1} << 43;

std::int64_t narrow(Wide number) {
  constexpr Wide kMost = Wide{1} << 62;
  return static_cast<std::int64_t>(std::clamp(number, -kMost, kMost));
}

/// A number that the policy's own has to reach.
Bound at_least(std::string name, std::string formula, Wide least, Wide own) {
  return {std::move(name), std::move(formula), text_of(least), text_of(own), own >= least};
}

/// A row that no number of the policy's key can make true.
Bound hopeless(std::string name, std::string formula, std::string why, Wide own) {
  return {std::move(name), std::move(formula), std::move(why), text_of(own), false};
}

/// The part of a bond that follows from the reward.
std::int64_t part(std::int64_t bond, std::int64_t base) { return bond - base; }

/// A solver is not who names the verifier.
Bound named_verifier(const Terms& t) {
  Bound out = at_least("named_verifier", "beacon_source >= 1", 1, t.policy.beacon_source);
  out.warning = "cheating pays with an accomplice: the solver names the verifier";
  return out;
}
Mends mend_named_verifier(const Terms&) { return {{"beacon_source", 1}}; }

/// 10^18 (1 − alpha) (1 + alpha c).
Wide honest_part(const Terms& t) {
  const Wide alpha = t.input.alpha_ppm;
  return (kMillion - alpha) * (kTwice + alpha * t.policy.audit_ppm);
}

Bound solver_bond(const Terms& t) {
  Bound out = at_least("solver_bond", "D_s >= C / ((1 - alpha) (1 + alpha c)) - R", least_solver_bond_with(t),
                       t.solver_bond);
  out.inputs = {{"C", text_of(t.cost)},
                {"R", text_of(t.reward)},
                {"alpha_ppm", text_of(t.input.alpha_ppm)},
                {"c_ppm", text_of(t.policy.audit_ppm)}};
  out.warning = "cheating pays: a solver who is caught loses less than the training costs";
  return out;
}
Mends mend_solver_bond(const Terms& t) {
  return {{"solver_bond", narrow(least_solver_bond_with(t)) - part(t.solver_bond, t.policy.solver_bond)}};
}

/// All that a solver and a verifier who are one lose if they are audited.
Wide stakes(const Terms& t) { return Wide{t.reward} + t.solver_bond + t.verifier_bond; }
Bound bribed_verifier(const Terms& t) {
  const std::string name = "bribed_verifier", formula = "c >= (C + C_w) / (R + D_s + D_v)";
  const Wide saved = Wide{t.cost} + t.recheck;
  Bound out = saved > 0 && stakes(t) == 0
                  ? hopeless(name, formula, "none: they have nothing to lose", t.policy.audit_ppm)
                  : at_least(name, formula, saved > 0 ? wide_ceil(saved * kMillion, stakes(t)) : 0,
                             t.policy.audit_ppm);
  out.inputs = {{"C", text_of(t.cost)},
                {"C_w", text_of(t.recheck)},
                {"R", text_of(t.reward)},
                {"D_s", text_of(t.solver_bond)},
                {"D_v", text_of(t.verifier_bond)}};
  out.warning = "cheating pays if the verifier can be bribed: too few verdicts are audited";
  return out;
}
Mends mend_bribed_verifier(const Terms& t) {
  const Wide saved = Wide{t.cost} + t.recheck;
  if (saved <= stakes(t)) return {{"audit_ppm", narrow(wide_ceil(saved * kMillion, stakes(t)))}};
  // Not even if all are audited: the least bond with which that suffices.
  return {{"audit_ppm", kMillion}, {"verifier_bond", t.policy.verifier_bond + narrow(saved - stakes(t))}};
}

Bound delay_steps(const Terms& t) {
  const std::string formula = "beacon_steps >= 10 slots of beacon_slot_ms 12700 steps";
  const bool delays = t.policy.beacon_source == 1;
  const Wide least = delays ? Wide{kLeastSlots} * t.policy.beacon_slot_ms * kDelayStepsPerMillisecond : 0;
  Bound out = at_least("delay_steps", formula, least, t.policy.beacon_steps);
  if (!delays) out.value = "none: no delay", out.policy.clear(), out.holds = true;
  out.inputs = {{"beacon_slot_ms", text_of(t.policy.beacon_slot_ms)}};
  out.warning = "cheating pays for an operator: a fast machine may know a round before its slot ends";
  return out;
}
Mends mend_delay_steps(const Terms& t) {
  constexpr std::int64_t kMostSlot = manifest::kMostDelaySteps / kDelayStepsPerMillisecond / kLeastSlots;
  const std::int64_t slot = std::min(t.policy.beacon_slot_ms, kMostSlot);
  Mends out{{"beacon_steps", kLeastSlots * slot * kDelayStepsPerMillisecond}};
  if (slot < t.policy.beacon_slot_ms) out.push_back({"beacon_slot_ms", slot});
  return out;
}

/// The time from the end of a slot to its round, in milliseconds: that of the delay, or until a pulse of
/// drand comes. 0 without rounds.
std::int64_t round_wait(const Terms& t) {
  constexpr std::int64_t kPulse = 3'000;
  if (t.policy.beacon_source == 0) return 0;
  if (t.policy.beacon_source == 1) return ceil_div(t.policy.beacon_steps, kDelayStepsPerMillisecond);
  return t.policy.beacon_slot_ms + kPulse;
}

/// The round of a proof is awaited for a slot and window_reveal_ms.
Bound proof_round(const Terms& t) {
  Bound out = at_least("proof_round", "window_reveal_ms >= delay", round_wait(t), t.policy.window_reveal_ms);
  out.inputs = {{"delay", text_of(round_wait(t))}};
  out.warning = "cheating pays: the round of a proof may come too late to draw a verifier";
  return out;
}
Mends mend_proof_round(const Terms& t) { return {{"window_reveal_ms", round_wait(t)}}; }

/// The round of a verdict is awaited for window_challenge_ms, however early in its slot the verdict came.
std::int64_t verdict_wait(const Terms& t) {
  const bool audits = t.policy.audit_ppm > 0 && t.policy.beacon_source != 0;
  return audits ? t.policy.beacon_slot_ms + round_wait(t) : 0;
}
Bound verdict_round(const Terms& t) {
  Bound out = at_least("verdict_round", "window_challenge_ms >= beacon_slot_ms + delay, if c > 0",
                       verdict_wait(t), t.policy.window_challenge_ms);
  out.inputs = {{"beacon_slot_ms", text_of(t.policy.beacon_slot_ms)}, {"delay", text_of(round_wait(t))}};
  out.warning = "lazy verifying pays: the round of a verdict may come too late to draw an auditor";
  return out;
}
Mends mend_verdict_round(const Terms& t) { return {{"window_challenge_ms", verdict_wait(t)}}; }

/// The reward, of which the tax is a part, covers the fees of auditors.
Bound audit_fee(const Terms& t) {
  const Wide least = wide_ceil(t.audits(), kMillion);
  Bound out = at_least("audit_fee", "R >= c fee", least, t.reward);
  out.inputs = {{"c_ppm", text_of(t.policy.audit_ppm)}, {"fee", text_of(t.fee)}};
  out.warning = "farming pays: no tax can pay for the audits";
  return out;
}
Mends mend_audit_fee(const Terms& t) {
  return {{"verifier_fee", narrow(Wide{t.reward} * kMillion / t.policy.audit_ppm - t.replay_price)}};
}

/// A chance, as a fraction: parts of `of`, which is 10^6 or q 10^6.
struct Chance {
  Wide parts = 0;
  Wide of = kMillion;
};

/// C_w / (chance (1 − alpha)), times `factor` and rounded up: what has to be at stake for one who saves C_w,
/// and is found with this chance, above 0, unless an accomplice is drawn.
Wide least_stake(const Terms& t, const Chance& chance, std::int64_t factor = 1) {
  return wide_ceil(factor * Wide{t.recheck} * kMillion * chance.of,
                   chance.parts * (kMillion - t.input.alpha_ppm));
}
/// The bond that has this stake together with the fee.
Wide least_verifier_bond(const Terms& t, const Chance& chance) {
  return std::max<Wide>(0, least_stake(t, chance) - t.fee);
}
/// The least rate with which the bond suffices.
std::int64_t least_rate(const Terms& t) {
  const Wide lost = (Wide{t.verifier_bond} + t.fee) * (kMillion - t.input.alpha_ppm);
  return lost == 0 ? kMillion + 1 : narrow(wide_ceil(t.recheck * kTwice, lost));
}
/// The policy's key with which a verifier stakes so much.
Mend verifier_mend(const Terms& t, Wide bond) {
  return {"verifier_bond", narrow(bond) - part(t.verifier_bond, t.policy.verifier_bond)};
}

Bound lazy_verifier(const Terms& t) {
  const std::string name = "lazy_verifier", formula = "D_v >= C_w / (c (1 - alpha)) - fee";
  const std::int64_t rate = t.policy.audit_ppm;
  Bound out =
      rate == 0 && t.recheck > 0
          ? hopeless(name, formula, "none: no verdict is audited", t.verifier_bond)
          : at_least(name, formula, t.recheck > 0 ? least_verifier_bond(t, {rate}) : 0, t.verifier_bond);
  out.inputs = {{"C_w", text_of(t.recheck)},
                {"c_ppm", text_of(rate)},
                {"alpha_ppm", text_of(t.input.alpha_ppm)},
                {"fee", text_of(t.fee)}};
  out.warning = "lazy verifying pays: too few verdicts are audited, or the bond is too small";
  return out;
}
Mends mend_lazy_verifier(const Terms& t) {
  if (t.policy.audit_ppm == 0) return {{"audit_ppm", least_rate(t)}};
  return {verifier_mend(t, least_verifier_bond(t, {t.policy.audit_ppm}))};
}

/// The chances with which auditors who did not look are wrong about an honest verifier's verdict: if they
/// confirm, with rho; if they deny one of the q rows, with 1 − rho / q.
Chance confirming(const Terms& t) { return {t.policy.forced_error_ppm}; }
Chance denying(const Terms& t) {
  const Wide rows = Wide{t.sampled} * kMillion;
  return {rows - t.policy.forced_error_ppm, rows};
}
/// The smaller one.
Chance least_caught(const Terms& t) {
  const Chance confirm = confirming(t), deny = denying(t);
  return confirm.parts * t.sampled <= deny.parts ? confirm : deny;
}
/// The rate at which they are equal, and so the smaller one is greatest, rounded down.
std::int64_t best_forced_rate(const Terms& t) { return kMillion * t.sampled / (t.sampled + 1); }

/// True if a lazy auditor saves something.
bool saves_by_audit(const Terms& t) { return t.policy.audit_ppm > 0 && t.recheck > 0; }
/// A row about auditors: `least` is asked if any can be caught at all.
Bound auditor_row(const Terms& t, const std::string& name, const std::string& formula,
                  Wide (*least)(const Terms&)) {
  const bool audits = saves_by_audit(t);
  const bool hopes = least_caught(t).parts > 0;
  const std::string why =
      t.policy.forced_error_ppm == 0 ? "none: nobody watches the auditors" : "none: every guess is right";
  Bound out = audits && !hopes ? hopeless(name, formula, why, t.verifier_bond)
                               : at_least(name, formula, audits ? least(t) : 0, t.verifier_bond);
  if (t.policy.audit_ppm == 0) out.value = "none: no audits";
  out.inputs = {{"C_w", text_of(t.recheck)},
                {"rho_ppm", text_of(t.policy.forced_error_ppm)},
                {"q", text_of(t.sampled)},
                {"alpha_ppm", text_of(t.input.alpha_ppm)},
                {"fee", text_of(t.fee)}};
  return out;
}

Wide least_for_lazy_auditor(const Terms& t) { return least_verifier_bond(t, least_caught(t)); }
Bound lazy_auditor(const Terms& t) {
  Bound out =
      auditor_row(t, "lazy_auditor", "D_v >= C_w / ((1 - alpha) min(rho, 1 - rho / q)) - fee, if c > 0",
                  least_for_lazy_auditor);
  out.warning = "lazy auditing pays: too few errors are forced, or too many, or the bond is too small";
  return out;
}
Mends mend_lazy_auditor(const Terms& t) {
  if (least_caught(t).parts > 0) {
    const Mend bond = verifier_mend(t, least_for_lazy_auditor(t));
    if (bond.value <= kMostBond) return {bond};
  }
  // The rates with which the bond suffices: those at which confirming is found, and denying is.
  const std::int64_t least = least_rate(t);
  const Wide lost = (Wide{t.verifier_bond} + t.fee) * (kMillion - t.input.alpha_ppm);
  const Wide rows = Wide{t.sampled} * kMillion;
  const Wide most = lost == 0 ? -1 : rows - wide_ceil(t.recheck * kTwice * t.sampled, lost);
  if (least <= most)
    return {{"forced_error_ppm", narrow(std::clamp<Wide>(t.policy.forced_error_ppm, least, most))}};
  Terms best = t;
  best.policy.forced_error_ppm = best_forced_rate(t);
  return {{"forced_error_ppm", best.policy.forced_error_ppm},
          verifier_mend(best, least_for_lazy_auditor(best))};
}

/// A verifier who loses a game on purpose saves an auditor: the two lose D_v / 2 and the verifier's fee, and
/// the auditor's if it is not about what they denied.
Wide least_for_saved_auditor(const Terms& t) {
  const Wide confirm = least_stake(t, confirming(t), 2) - 4 * Wide{t.fee};
  const Wide deny = least_stake(t, denying(t), 2) - 2 * Wide{t.fee};
  return std::max({Wide{0}, confirm, deny});
}
Bound saved_auditor(const Terms& t) {
  Bound out = auditor_row(t, "saved_auditor",
                          "D_v >= 2 A / rho - 4 fee, 2 A / (1 - rho / q) - 2 fee, A = C_w / (1 - alpha)",
                          least_for_saved_auditor);
  out.warning = "lazy auditing pays if the verifier can be bribed: to lose a game costs too little";
  return out;
}
Mends mend_saved_auditor(const Terms& t) {
  if (least_caught(t).parts == 0) return {};
  return {verifier_mend(t, least_for_saved_auditor(t))};
}

Wide least_tax(const Terms& t) { return wide_ceil(t.audits() + t.jackpots(), kMillion); }
Bound farming(const Terms& t) {
  Bound out = at_least("farming", "tax >= c fee + rho J", least_tax(t), t.tax);
  out.inputs = {{"c_ppm", text_of(t.policy.audit_ppm)},
                {"fee", text_of(t.fee)},
                {"rho_ppm", text_of(t.policy.forced_error_ppm)},
                {"J", text_of(t.policy.jackpot)}};
  out.warning = "farming pays: audits and jackpots pay out more than the tax brings in";
  return out;
}
Mends mend_farming(const Terms& t) {
  if (least_tax(t) <= t.reward)
    return {{"jackpot_tax_ppm", narrow(wide_ceil(least_tax(t) * kMillion, t.reward))}};
  // The whole reward again does not suffice: the greatest jackpot with which it does.
  const Wide left = Wide{t.reward} * kMillion - t.audits();
  if (t.policy.forced_error_ppm == 0 || left < 0) return {};
  return {{"jackpot", narrow(left / t.policy.forced_error_ppm)}, {"jackpot_tax_ppm", kMillion}};
}

/// 10^6 (q − rho).
Wide wrong_rows(const Terms& t) { return Wide{t.sampled} * kMillion - t.policy.forced_error_ppm; }
Bound guessing(const Terms& t) {
  const std::string name = "guessing", formula = "D_w >= rho J / (q - rho)";
  Bound out = t.jackpots() > 0 && wrong_rows(t) == 0
                  ? hopeless(name, formula, "none: every guess is right", t.challenger_bond)
                  : at_least(name, formula, t.jackpots() > 0 ? wide_ceil(t.jackpots(), wrong_rows(t)) : 0,
                             t.challenger_bond);
  out.inputs = {{"rho_ppm", text_of(t.policy.forced_error_ppm)},
                {"J", text_of(t.policy.jackpot)},
                {"q", text_of(t.sampled)}};
  out.warning = "guessing pays: a denial that is wrong costs less than one that is right wins";
  return out;
}
Mends mend_guessing(const Terms& t) {
  if (wrong_rows(t) > 0) {
    const Wide least =
        wide_ceil(t.jackpots(), wrong_rows(t)) - part(t.challenger_bond, t.policy.challenger_bond);
    if (least <= kMostBond) return {{"challenger_bond", narrow(least)}};
  }
  return {{"jackpot", narrow(t.challenger_bond * wrong_rows(t) / t.policy.forced_error_ppm)}};
}

/// A verifier saves who guessed wrong as they save an auditor.
Wide least_for_saved_guesser(const Terms& t) {
  return std::max<Wide>(0, wide_ceil(2 * t.jackpots(), wrong_rows(t)) - 2 * Wide{t.fee});
}
Bound saved_guesser(const Terms& t) {
  const std::string name = "saved_guesser", formula = "D_v >= 2 rho J / (q - rho) - 2 fee";
  Bound out =
      t.jackpots() > 0 && wrong_rows(t) == 0
          ? hopeless(name, formula, "none: every guess is right", t.verifier_bond)
          : at_least(name, formula, t.jackpots() > 0 ? least_for_saved_guesser(t) : 0, t.verifier_bond);
  out.inputs = {{"rho_ppm", text_of(t.policy.forced_error_ppm)},
                {"J", text_of(t.policy.jackpot)},
                {"q", text_of(t.sampled)},
                {"fee", text_of(t.fee)}};
  out.warning = "guessing pays if the verifier can be bribed: to lose a game costs too little";
  return out;
}
Mends mend_saved_guesser(const Terms& t) {
  if (wrong_rows(t) == 0) return {{"jackpot", 0}};
  const Mend bond = verifier_mend(t, least_for_saved_guesser(t));
  if (bond.value <= kMostBond) return {bond};
  const Wide lost = Wide{t.verifier_bond} + 2 * Wide{t.fee};
  return {{"jackpot", narrow(lost * wrong_rows(t) / (2 * Wide{t.policy.forced_error_ppm}))}};
}

Bound challenger_bond(const Terms& t) {
  Bound out = at_least("challenger_bond", "D_w >= (C_v + arbitration) / (1 - p_win), p_win = 0", t.segment,
                       t.challenger_bond);
  out.inputs = {{"C_v", text_of(t.segment)}};
  return out;
}
Mends mend_challenger_bond(const Terms& t) {
  return {{"challenger_bond", t.segment - part(t.challenger_bond, t.policy.challenger_bond)}};
}

/// A cheat plants a game, that is, opens one against themselves before anybody else does: they have the first
/// share, F / 2, if they are caught, and lose half of the bond if not (the other half is theirs, as the
/// defender's). More games at once cost more: the second its whole bond or more, and it takes F / 4.
Wide least_for_planting(const Terms& t) {
  return finders_sum(t) * t.cost / (Wide{t.solver_bond} + t.reward - t.cost);
}
Bound planting(const Terms& t) {
  const std::string name = "planting", formula = "D_w >= F p / (1 - p), p = C / (D_s + R)";
  Bound out = Wide{t.solver_bond} + t.reward <= t.cost
                  ? hopeless(name, formula, "none: cheating breaks even or pays", t.challenger_bond)
                  : at_least(name, formula, least_for_planting(t), t.challenger_bond);
  out.inputs = {{"F", text_of(finders_sum(t))},
                {"C", text_of(t.cost)},
                {"D_s", text_of(t.solver_bond)},
                {"R", text_of(t.reward)}};
  return out;
}
Mends mend_planting(const Terms& t) {
  if (Wide{t.solver_bond} + t.reward <= t.cost) return {};
  return {
      {"challenger_bond", narrow(least_for_planting(t) - part(t.challenger_bond, t.policy.challenger_bond))}};
}

constexpr BoundRule kRules[] = {{named_verifier, mend_named_verifier},
                                {solver_bond, mend_solver_bond},
                                {bribed_verifier, mend_bribed_verifier},
                                {delay_steps, mend_delay_steps},
                                {proof_round, mend_proof_round},
                                {verdict_round, mend_verdict_round},
                                {audit_fee, mend_audit_fee},
                                {lazy_verifier, mend_lazy_verifier},
                                {lazy_auditor, mend_lazy_auditor},
                                {saved_auditor, mend_saved_auditor},
                                {farming, mend_farming},
                                {guessing, mend_guessing},
                                {saved_guesser, mend_saved_guesser},
                                {challenger_bond, mend_challenger_bond},
                                {planting, mend_planting}};

}  // namespace

Wide least_solver_bond_with(const Terms& terms) {
  return std::max<Wide>(0, wide_ceil(terms.cost * kThrice, honest_part(terms)) - terms.reward);
}

std::span<const BoundRule> bound_rules() { return kRules; }

}  // namespace dgx::protocol
