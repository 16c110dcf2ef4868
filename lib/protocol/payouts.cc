#include "dgx/protocol/payouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>

#include "dgx/core/checked.h"
#include "dgx/manifest/fields.h"

namespace dgx::protocol {
namespace {

using manifest::Payout;
using manifest::Reason;
using manifest::Task;

constexpr std::int64_t kMillion = 1'000'000;

/// Money to be paid out: give() takes from what is left, and what remains in the end goes to the submitter.
/// So the sum is right by construction, and rounding goes to the submitter.
class Purse {
 public:
  explicit Purse(std::int64_t amount) : left_(amount) {}

  void give(const std::string& account, std::int64_t amount) {
    assert(amount >= 0 && amount <= left_);
    left_ -= amount;
    accounts_[account] += amount;
  }
  [[nodiscard]] std::vector<Payout> close(const std::string& submitter) {
    give(submitter, left_);
    std::vector<Payout> out;
    for (const auto& [account, amount] : accounts_) {
      if (amount > 0) out.push_back({account, amount});
    }
    return out;
  }

 private:
  std::int64_t left_;
  std::map<std::string, std::int64_t> accounts_;
};

void pay_solver(Purse& purse, const Stakes& stakes, const Bonds& bonds) {
  purse.give(stakes.solver, stakes.earned.reward + bonds.solver);
  purse.give("jackpot", stakes.earned.tax);
  purse.give("treasury", stakes.earned.treasury);
}

/// The challengers who won against a statement, in the order in which their games were logged, each once.
/// `auditor` is the signer of the audit, if it is one.
std::vector<std::string> winners(const Stakes& stakes, Challenged statement,
                                 const std::string& auditor = "") {
  std::vector<std::string> out;
  for (const DecidedGame& game : stakes.games) {
    if (game.result != GameResult::kFalls || game.statement != statement || game.auditor != auditor) continue;
    if (std::find(out.begin(), out.end(), game.challenger) == out.end()) out.push_back(game.challenger);
  }
  return out;
}

bool audit_fell(const Stakes& stakes, const RecheckStake& one) {
  return !winners(stakes, Challenged::kAudit, one.who).empty();
}

/// The drawn auditor whose refutation of the proof stands; null if there is none. A volunteer's refutes
/// nothing by itself, and one that was committed to after a challenge that won counts as none: a solver whose
/// proof has fallen has no reason to answer it, and the verifier would pay for a lie.
const RecheckStake* refuting_auditor(const Stakes& stakes) {
  for (const RecheckStake& one : stakes.rechecks) {
    if (one.drawn && one.shown && one.refutes && one.is_early && !audit_fell(stakes, one)) return &one;
  }
  return nullptr;
}

/// True if the task's verdict fell: in a game, or as an acceptance of what a drawn auditor refutes, since
/// both replay the same segments.
bool verdict_fell(const Stakes& stakes) {
  return !winners(stakes, Challenged::kVerdict).empty() ||
         (!stakes.refuted && refuting_auditor(stakes) != nullptr);
}
bool proof_fell(const Stakes& stakes) { return !winners(stakes, Challenged::kProof).empty(); }
bool refutation_stands(const Stakes& stakes) { return stakes.refuted && !verdict_fell(stakes); }

/// True if the statement that a game was about fell.
bool fell(const Stakes& stakes, const DecidedGame& game) {
  if (game.statement == Challenged::kProof) return proof_fell(stakes);
  if (game.statement == Challenged::kVerdict) return verdict_fell(stakes);
  return !winners(stakes, Challenged::kAudit, game.auditor).empty();
}

/// Puts `who` before all others.
void put_first(std::vector<std::string>& finders, const std::string& who) {
  std::erase(finders, who);
  finders.insert(finders.begin(), who);
}

/// The finders of a fault of proof or verdict: an auditor whose refutation stands; those who won games, first
/// of them those who had committed to saying so before anybody else had said it, in the order of their
/// commitments.
std::vector<std::string> finders_of(const Stakes& stakes, Challenged statement) {
  const bool of_proof = statement == Challenged::kProof;
  std::vector<std::string> out = winners(stakes, statement);
  for (auto one = stakes.rechecks.rbegin(); one != stakes.rechecks.rend(); ++one) {
    const bool said = one->shown && (one->refutes || (!of_proof && one->denies));
    const bool committed = said && (!of_proof || one->is_early);
    const bool won = std::find(out.begin(), out.end(), one->who) != out.end();
    if (committed && won) put_first(out, one->who);
  }
  if (const RecheckStake* const auditor = refuting_auditor(stakes)) put_first(out, auditor->who);
  if (of_proof && refutation_stands(stakes)) put_first(out, stakes.verifier);
  return out;
}

/// The first finder gets half of the amount, the next half of the rest, and so on; what is left is the
/// jackpot's. Later finders take nothing from earlier ones, so a cheat who also finds themselves gains
/// nothing by it.
void share(Purse& purse, std::int64_t amount, const std::vector<std::string>& finders,
           std::size_t most = kMaxFinders) {
  std::int64_t left = amount;
  for (std::size_t i = 0; i < std::min(finders.size(), most); ++i) {
    const std::int64_t share = amount >> (i + 1);
    purse.give(finders[i], share);
    left -= share;
  }
  purse.give("jackpot", left);
}

/// The solver's bond when it is lost. Before anything else it pays tax and treasury, which are due from the
/// logged proof on.
class LostBond {
 public:
  LostBond(Purse& purse, const Stakes& stakes, std::int64_t bond) : purse_(purse), left_(bond) {
    if (!stakes.proved) return;
    pay("jackpot", stakes.earned.tax);
    pay("treasury", stakes.earned.treasury);
  }
  void pay(const std::string& account, std::int64_t amount) {
    const std::int64_t paid = std::min(amount, left_);
    purse_.give(account, paid);
    left_ -= paid;
  }
  [[nodiscard]] std::int64_t left() const { return left_; }

 private:
  Purse& purse_;
  std::int64_t left_;
};

/// True if what an audit says against others was borne out: a denial by the verdict's fall, unless the
/// witness was forced to be false, a volunteer's refutation by the proof's, or by an auditor's refutation
/// that stands. Without the verifier's secret nobody can tell about a denial.
bool is_borne_out(const Stakes& stakes, const RecheckStake& one) {
  const bool unknown = stakes.secret == SecretFate::kWithheld;
  if (one.denies_more && !unknown && !verdict_fell(stakes)) return false;
  if (!one.refutes || one.drawn) return true;
  return proof_fell(stakes) || refuting_auditor(stakes) != nullptr;
}

/// True if an auditor has confirmed a witness that was forced to be false, and loses the bond. Not if the
/// verdict fell: its verifier may have lost about another row on purpose, before the auditor could win about
/// one that was not misstated.
bool is_unseen(const Stakes& stakes, const RecheckStake& one) {
  return one.drawn && one.confirmed_forced && !verdict_fell(stakes);
}

/// True if the bond of an audit that did not fall goes back.
bool keeps_bond(const Stakes& stakes, const RecheckStake& one) {
  return one.shown && !is_unseen(stakes, one) && is_borne_out(stakes, one);
}

/// True if an audit, whose bond is not lost, is worth a fee: nothing that it confirms fell, and of what it
/// denies something did, or had to be denied; or it refutes, and nobody had said so before. Who commits once
/// the secret was given away can see what to deny, and has a fee for what fell alone.
bool is_worth_fee(const Stakes& stakes, const RecheckStake& one) {
  if (one.refutes) return one.is_early;
  if (one.overlooked) return false;
  const bool unknown = stakes.secret == SecretFate::kWithheld;
  return one.found || (!one.after_secret && (!one.denies_more || unknown));
}

/// True if the auditor's fee is paid for this audit, whose bond goes back.
bool earns_fee(const Stakes& stakes, const RecheckStake& one) {
  return one.drawn && keeps_bond(stakes, one) && !audit_fell(stakes, one) && is_worth_fee(stakes, one);
}

/// The part of the auditor's fee that is paid and comes out of the escrow.
std::int64_t audit_cost(const Stakes& stakes) {
  const bool paid = std::any_of(stakes.rechecks.begin(), stakes.rechecks.end(),
                                [&](const RecheckStake& one) { return earns_fee(stakes, one); });
  return paid ? stakes.audit_fee_of_task : 0;
}

/// The cheat pays for the check that caught them, then their bond is split. The escrow goes back whole, and
/// so does what it has paid an auditor, or the jackpot has paid one who refutes.
void split(Purse& purse, const Task& task, const Stakes& stakes, LostBond& lost) {
  if (refutation_stands(stakes)) lost.pay(stakes.verifier, stakes.fee.value_or(0));
  if (refuting_auditor(stakes) != nullptr) lost.pay("jackpot", stakes.audit_fee - stakes.audit_fee_of_task);
  lost.pay(stakes.submitter, audit_cost(stakes));
  const std::vector<std::string> finders = finders_of(stakes, Challenged::kProof);
  share(purse, part_of(lost.left(), task.policy.split_verifier_ppm), finders);
  purse.give("jackpot", part_of(lost.left(), task.policy.split_jackpot_ppm));
}

/// The verifier's bond: split between finders and jackpot if the verdict fell, or somebody revealed the
/// secret before its time, who is the first finder in both cases; to the jackpot if the verifier was silent,
/// else back.
void end_verifier(Purse& purse, const Stakes& stakes, bool silent) {
  const std::int64_t bond = stakes.verifier_bond;
  const bool given_away = stakes.secret == SecretFate::kGivenAway;
  if (verdict_fell(stakes) || given_away) {
    std::vector<std::string> finders = finders_of(stakes, Challenged::kVerdict);
    if (given_away) put_first(finders, stakes.revealed_by);
    share(purse, bond / 2, finders);
    purse.give("jackpot", bond - bond / 2);
  } else {
    const bool lost = silent || stakes.secret == SecretFate::kWithheld;
    purse.give(lost ? "jackpot" : stakes.verifier, bond);
  }
  purse.give("jackpot", stakes.silent_bonds);
}

/// A verdict that fell earns nothing, nor does one whose secret was not kept until it was due, and shown.
std::int64_t fee_of(const Stakes& stakes) {
  const bool counts = !verdict_fell(stakes) && stakes.secret == SecretFate::kKept;
  return counts ? stakes.fee.value_or(0) : 0;
}

/// The jackpot of a forced error, to those who denied it and nothing else: one has it all, each of k has
/// 2^-(k-1) of it, so that more keys of one person never have more in all. A verdict that fell, or whose
/// secret was not kept, has none.
void pay_claimants(Purse& purse, const Stakes& stakes) {
  std::vector<std::string> claimants;
  for (const RecheckStake& one : stakes.rechecks) {
    if (one.claims && !one.overlooked && !audit_fell(stakes, one)) claimants.push_back(one.who);
  }
  std::int64_t left = stakes.jackpot;
  const bool counts = !verdict_fell(stakes) && stakes.secret == SecretFate::kKept;
  constexpr std::size_t kBits = 63;
  if (counts && !claimants.empty() && claimants.size() <= kBits) {
    const std::int64_t each = stakes.jackpot >> (claimants.size() - 1);
    for (const std::string& who : claimants) purse.give(who, each);
    left -= each * static_cast<std::int64_t>(claimants.size());
  }
  purse.give("jackpot", left);
}

/// The bonds of those who owed audits, and the auditor's fee. A silent one has lost the bond, and so has who
/// says what was not borne out, and an auditor who confirmed a witness that was forced to be false. Who
/// confirmed what fell keeps it: a party of a game can lose it on purpose. The few finders of a false audit
/// are those first in order, so that a settlement has room for all.
void end_rechecks(Purse& purse, const Stakes& stakes) {
  constexpr std::size_t kMostFinders = 2;
  bool paid = false;
  for (const RecheckStake& one : stakes.rechecks) {
    if (audit_fell(stakes, one)) {
      share(purse, one.bond / 2, winners(stakes, Challenged::kAudit, one.who), kMostFinders);
      purse.give("jackpot", one.bond - one.bond / 2);
      continue;
    }
    purse.give(keeps_bond(stakes, one) ? one.who : "jackpot", one.bond);
    if (!earns_fee(stakes, one)) continue;
    purse.give(one.who, stakes.audit_fee);
    paid = true;
  }
  if (!paid) purse.give("jackpot", stakes.audit_fee - stakes.audit_fee_of_task);
}

std::int64_t recheck_bonds(const Stakes& stakes) {
  std::int64_t out = 0;
  for (const RecheckStake& one : stakes.rechecks) out += one.bond;
  return out;
}

/// Half of the bond of a challenger who lost pays the defender for their answers; the other half is the
/// jackpot's, so that playing against oneself is not free. A defender whose statement fell gets none of it.
void end_games(Purse& purse, const Stakes& stakes) {
  for (const DecidedGame& game : stakes.games) {
    if (game.result != GameResult::kStands) continue;
    const std::string& defender = game.statement == Challenged::kProof     ? stakes.solver
                                  : game.statement == Challenged::kVerdict ? stakes.verifier
                                                                           : game.auditor;
    const std::int64_t half = fell(stakes, game) ? 0 : game.bond / 2;
    purse.give(defender, half);
    purse.give("jackpot", game.bond - half);
  }
}

std::int64_t lost_bonds(const Stakes& stakes) {
  std::int64_t out = 0;
  for (const DecidedGame& game : stakes.games) {
    if (game.result == GameResult::kStands) out += game.bond;
  }
  return out;
}

}  // namespace

std::string_view name_of(GameResult result) {
  if (result == GameResult::kFalls) return "falls";
  return result == GameResult::kStands ? "stands" : "returned";
}

std::int64_t part_of(std::int64_t amount, std::int64_t ppm) {
  const auto out = mul_div(amount, ppm, kMillion);
  assert(out.ok());
  return *out;
}

std::int64_t audit_fee(const manifest::Estimate& earned, const manifest::Policy& policy) {
  const auto most = mul_div(earned.tax, kMillion, policy.audit_ppm);
  return most.ok() ? std::min(earned.fee, *most) : earned.fee;
}

std::int64_t unused_escrow(const Task& task, const manifest::Estimate& worth) {
  return task.estimate.escrow - worth.reward - worth.fee - worth.tax - worth.treasury;
}

std::int64_t jackpot_of(const Task& task, const manifest::Estimate& earned, std::int64_t replayed,
                        std::int64_t pool) {
  using Wide = __int128;  // products have at most 113 bits
  const manifest::Policy& policy = task.policy;
  const Wide rate = policy.forced_error_ppm;
  const Bonds bonds = bonds_of(task);
  const Wide fee = policy.audit_ppm == 0 ? 0 : audit_fee(earned, policy);
  // The tax, less what audits take of it, pays for all jackpots that one task has on average.
  const Wide taxed = (Wide{earned.tax} * kMillion - Wide{policy.audit_ppm} * fee) / rate;
  // A guess is right with rate / replayed, and then an auditor's has the fee, too.
  const Wide bond = std::min(bonds.verifier, bonds.challenger);
  const Wide guessed = std::max(bond * (Wide{replayed} * kMillion - rate) / rate - fee, Wide{0});
  return static_cast<std::int64_t>(std::min({taxed, guessed, Wide{policy.jackpot}, Wide{pool / 3}}));
}

Bonds bonds_of(const Task& task) {
  const manifest::Policy& policy = task.policy;
  const auto bond = [&](std::int64_t fixed, std::int64_t ppm) {
    return std::min(fixed + part_of(task.estimate.reward, ppm), manifest::kMaxInteger);
  };
  return {bond(policy.solver_bond, policy.solver_bond_ppm),
          bond(policy.verifier_bond, policy.verifier_bond_ppm),
          bond(policy.challenger_bond, policy.challenger_bond_ppm)};
}

Status check_least(const manifest::Withdrawal& withdrawal, const manifest::Policy& policy,
                   std::int64_t balance) {
  if (withdrawal.amount >= policy.challenger_bond || withdrawal.amount == balance) return {};
  return not_allowed(fmt::format("a withdrawal must be at least {}, or all that the account has, which is {}",
                                 policy.challenger_bond, balance));
}

std::vector<Payout> payouts(const Task& task, Reason reason, const Stakes& stakes) {
  const Bonds bonds = bonds_of(task);
  const bool assigned = reason != Reason::kNoAssignment;
  Purse purse(task.estimate.escrow + (assigned ? bonds.solver : 0) + stakes.verifier_bond +
              stakes.silent_bonds + lost_bonds(stakes) + stakes.audit_fee - stakes.audit_fee_of_task +
              stakes.jackpot + recheck_bonds(stakes));
  const bool silent = stakes.proved && !stakes.fee;
  switch (reason) {
    case Reason::kAccepted:
    case Reason::kUnverified:
    case Reason::kOverturned:
      pay_solver(purse, stakes, bonds);
      purse.give(stakes.verifier, fee_of(stakes));
      end_verifier(purse, stakes, silent);
      break;
    case Reason::kRefuted:
    case Reason::kConvicted: {
      LostBond lost(purse, stakes, bonds.solver);
      split(purse, task, stakes, lost);
      // A verifier who accepted what fell may have drawn other segments: it costs no bond and earns nothing.
      end_verifier(purse, stakes, silent);
      break;
    }
    case Reason::kNoAssignment: break;
    case Reason::kNoProof: {
      // A verifier who revealed the draw could give no verdict because of the solver's silence.
      LostBond lost(purse, stakes, bonds.solver);
      const bool kept_waiting = stakes.drawn && !verdict_fell(stakes);
      if (kept_waiting) lost.pay(stakes.verifier, task.policy.verifier_fee);
      purse.give("jackpot", lost.left());
      end_verifier(purse, stakes, silent && !kept_waiting);
      break;
    }
    case Reason::kNoDelivery: {
      LostBond lost(purse, stakes, bonds.solver);
      lost.pay(stakes.verifier, fee_of(stakes));
      lost.pay(stakes.submitter, audit_cost(stakes));
      purse.give("jackpot", lost.left());
      end_verifier(purse, stakes, silent);
      break;
    }
  }
  end_games(purse, stakes);
  end_rechecks(purse, stakes);
  pay_claimants(purse, stakes);
  return purse.close(stakes.submitter);
}

}  // namespace dgx::protocol
