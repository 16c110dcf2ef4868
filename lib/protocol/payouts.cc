#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "dgx/core/checked.h"
#include "dgx/protocol/settlement.h"

namespace dgx::protocol {
namespace {

using manifest::Payout;
using manifest::Reason;
using manifest::Task;

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kPriceUnit = 1'000'000'000;

/// Money on its way: what is given is taken from `left`, and what is left in the end goes to the submitter.
/// So the sum is right by construction, and so is the rule that rounding is his.
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

/// floor(amount · ppm / 10^6). Both are checked fields of a policy or below 2^53, so nothing can overflow.
std::int64_t part(std::int64_t amount, std::int64_t ppm) {
  const auto out = mul_div(amount, ppm, kMillion);
  assert(out.ok());
  return *out;
}

/// What the verifier's work earned: its price and his fee, at most what was locked for it.
std::int64_t fee_of(const Task& task, std::int64_t replayed_steps) {
  const auto operations = checked_mul(replayed_steps, task.estimate.step_operations);
  if (!operations) return task.estimate.fee;
  const auto price = mul_div(*operations, task.price, kPriceUnit);
  if (!price.ok() || *price > task.estimate.fee) return task.estimate.fee;
  return std::min(*price + task.policy.verifier_fee, task.estimate.fee);
}

void pay_solver(Purse& purse, const Task& task, const Stakes& stakes) {
  purse.give(stakes.solver, task.estimate.reward + task.policy.solver_bond);
  purse.give("jackpot", task.estimate.tax);
  purse.give("treasury", task.estimate.treasury);
}

/// The challengers who won against a statement, each once.
std::set<std::string> winners(const Stakes& stakes, Challenged statement) {
  std::set<std::string> out;
  for (const DecidedGame& game : stakes.games) {
    if (game.falls && game.statement == statement) out.insert(game.challenger);
  }
  return out;
}

bool verdict_fell(const Stakes& stakes) { return !winners(stakes, Challenged::kVerdict).empty(); }

/// The k who found a fault get 2^-(k-1) of the amount each, so that nobody gains by appearing as several; the
/// rest is the jackpot's.
void share(Purse& purse, std::int64_t amount, const std::set<std::string>& finders) {
  const std::int64_t each = amount >> std::min<std::size_t>(finders.size() - 1, 62);
  for (const std::string& finder : finders) purse.give(finder, each);
  purse.give("jackpot", amount - each * static_cast<std::int64_t>(finders.size()));
}

/// The cheat pays the check that caught him; then his bond is split. The escrow goes back whole, unless the
/// bond is smaller than the fee. A verifier whose refutation stands found the fault as well.
void slash_solver(Purse& purse, const Task& task, const Stakes& stakes, std::int64_t fee) {
  std::set<std::string> finders = winners(stakes, Challenged::kProof);
  const bool found = stakes.refuted && !verdict_fell(stakes);
  if (found) finders.insert(stakes.verifier);
  const std::int64_t rest = std::max<std::int64_t>(0, task.policy.solver_bond - (found ? fee : 0));
  share(purse, part(rest, task.policy.split_verifier_ppm), finders);
  purse.give("jackpot", part(rest, task.policy.split_jackpot_ppm));
}

/// The verifier's bond: back to him with his fee if he gave a verdict; to the jackpot if not; split between
/// finders and jackpot if the verdict fell.
void end_verifier(Purse& purse, const Task& task, const Stakes& stakes, std::optional<std::int64_t> fee) {
  const std::int64_t bond = task.policy.verifier_bond;
  if (verdict_fell(stakes)) {
    share(purse, bond / 2, winners(stakes, Challenged::kVerdict));
    purse.give("jackpot", bond - bond / 2);
  } else if (fee) {
    purse.give(stakes.verifier, *fee + bond);
  } else {
    purse.give("jackpot", bond);
  }
}

/// A challenger who won has his bond back. That of one who lost pays the defender for his answers; the other
/// half is the jackpot's, so that nobody plays against himself for nothing.
void end_games(Purse& purse, const Task& task, const Stakes& stakes) {
  const std::int64_t bond = task.policy.challenger_bond;
  for (const DecidedGame& game : stakes.games) {
    if (game.falls) {
      purse.give(game.challenger, bond);
      continue;
    }
    purse.give(game.statement == Challenged::kProof ? stakes.solver : stakes.verifier, bond / 2);
    purse.give("jackpot", bond - bond / 2);
  }
}

}  // namespace

std::vector<Payout> payouts(const Task& task, Reason reason, const Stakes& stakes,
                            std::optional<std::int64_t> replayed_steps) {
  const manifest::Policy& policy = task.policy;
  const bool assigned = reason != Reason::kNoAssignment;
  const auto games = static_cast<std::int64_t>(stakes.games.size());
  Purse purse(task.estimate.escrow + (assigned ? policy.solver_bond + policy.verifier_bond : 0) +
              games * policy.challenger_bond);
  std::optional<std::int64_t> fee;
  if (replayed_steps) fee = fee_of(task, *replayed_steps);
  switch (reason) {
    case Reason::kAccepted:
    case Reason::kUnverified:
    case Reason::kOverturned:
      pay_solver(purse, task, stakes);
      end_verifier(purse, task, stakes, fee);
      break;
    case Reason::kRefuted:
    case Reason::kConvicted:
      slash_solver(purse, task, stakes, fee.value_or(0));
      // An acceptance of what fell is honest bad luck, and no merit.
      end_verifier(purse, task, stakes, stakes.refuted || !fee ? fee : 0);
      break;
    case Reason::kInconclusive:
      purse.give(stakes.solver, policy.solver_bond);
      purse.give(stakes.verifier, policy.verifier_bond);
      break;
    case Reason::kNoAssignment:
      break;
    case Reason::kNoProof:
      purse.give("jackpot", policy.solver_bond);
      purse.give(stakes.verifier, policy.verifier_bond);
      break;
    case Reason::kNoDelivery:
      purse.give("jackpot", policy.solver_bond);
      end_verifier(purse, task, stakes, fee);
      break;
  }
  end_games(purse, task, stakes);
  return purse.close(stakes.submitter);
}

}  // namespace dgx::protocol
