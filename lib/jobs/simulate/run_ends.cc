// The settlement of a task, and what is counted of it.
#include <algorithm>

#include "dgx/protocol/settlement.h"
#include "simulate/run.h"

namespace dgx::jobs {
namespace {

using manifest::Reason;
using protocol::TaskRecord;

/// A market's jackpot account is kept at so many points.
constexpr std::int64_t kPoolPoints = 100;

/// The sum that an account is paid.
std::int64_t paid_to(const manifest::Settlement& settlement, const std::string& account) {
  for (const manifest::Payout& payout : settlement.payouts) {
    if (payout.account == account) return payout.amount;
  }
  return 0;
}

}  // namespace

Status MarketRun::settle(Life& life, std::int64_t number) {
  const protocol::Standing stands = protocol::standing(record(life), world_.now());
  if (!stands.settlement) {
    schedule(*stands.deadline_ms + 1, Step::kSettle, number);
    return {};
  }
  count(life, *stands.settlement);
  count_gains(life, *stands.settlement);
  DGX_CHECK(world_.say(*stands.settlement, world_.operator_id(), life.chance.digest()));
  count_pool();
  return {};
}

void MarketRun::count(const Life& life, const manifest::Settlement& settlement) {
  const TaskRecord& now = record(life);
  const Reason reason = settlement.reason;
  ++tally_.reasons[std::string(manifest::name_of(reason))];
  if (!life.faked.empty())
    tally_.of(Counted::kFalseCaught).add(reason == Reason::kRefuted || reason == Reason::kConvicted);
  if (life.unseen) {
    const Person& verifier = person(people_.of_key(*now.verifier));
    tally_.of(Counted::kUnseenCaught).add(paid_to(settlement, verifier.account) < verifier.bond);
  }
  if (reason == Reason::kAccepted || reason == Reason::kUnverified || reason == Reason::kOverturned) {
    ++tally_.paid;
    tally_.paid_by_submitters +=
        plan_.task.estimate.escrow - paid_to(settlement, person(life.submitter).account);
  }
  if (now.audit && now.audit->auditor) count_auditor(life, settlement);
  if (protocol::owes_secret(now)) count_forced(life);
}

/// Counts the pay of an auditor, and whether one who did not look has lost the bond.
void MarketRun::count_auditor(const Life& life, const manifest::Settlement& settlement) {
  const protocol::AuditDraw& audit = *record(life).audit;
  const std::size_t who = people_.of_key(audit.auditor->drawn.verifier);
  const std::int64_t paid = paid_to(settlement, person(who).account);
  if (paid >= person(who).bond + audit.fee) tally_.paid_to_auditors += audit.fee;
  const AgentKind kind = person(who).kind;
  const bool lost = paid < person(who).bond;
  if (kind == AgentKind::kLazy || kind == AgentKind::kSybil) tally_.of(Counted::kUnseenAudit).add(lost);
  if (kind == AgentKind::kGuesser) tally_.of(Counted::kGuessedAudit).add(lost);
}

/// The lots of forced errors, and what is paid for them. The first who was drawn is the only one who has a
/// jackpot, and not if the secret came before its time.
void MarketRun::count_forced(const Life& life) {
  const TaskRecord& now = record(life);
  if (!now.secret) return;
  tally_.of(Counted::kForced).add(protocol::forced_segment(now).has_value());
  const auto claims = std::count_if(now.rechecks.begin(), now.rechecks.end(),
                                    [&](const auto& one) { return protocol::claims_jackpot(now, one); });
  const bool first = now.round->drawn.front().drawn.verifier == now.verdict->key_id;
  if (claims == 0 || !first || now.secret->early) return;
  tally_.of(Counted::kJackpot).add(now.jackpot == plan_.policy.jackpot);
  if (!protocol::has_fallen(now, now.verdict->id, world_.now()))
    tally_.paid_to_claimants += claims * (now.jackpot >> (claims - 1));
}

/// Gains: what each party is paid, less the stakes that are in the settlement, less their work. Bonds that
/// nobody lost go back beside it, and are nobody's gain.
void MarketRun::count_gains(const Life& life, const manifest::Settlement& settlement) {
  const TaskRecord& now = record(life);
  std::map<std::size_t, std::pair<Role, std::int64_t>> gains;
  const auto add = [&](std::size_t who, Role role, std::int64_t amount) {
    gains.try_emplace(who, role, 0).first->second.second += amount;
  };
  add(life.submitter, Role::kSubmitter, -plan_.task.estimate.escrow);
  if (now.solver) add(life.solver, Role::kSolver, -plan_.bonds.solver);
  for (const Digest& id : protocol::staked_offers(now)) {
    const protocol::OfferRecord& offer = now.offers.at(id);
    const Digest& key = offer.statement.key_id;
    const bool audits = protocol::is_auditor(now, key);
    add(people_.of_key(key), audits ? Role::kAuditor : Role::kVerifier, -offer.bond);
  }
  for (const protocol::Recheck& one : now.rechecks) {
    if (!protocol::is_auditor(now, one.who)) add(people_.of_key(one.who), Role::kVolunteer, -one.bond);
  }
  const auto ends = protocol::ends_of(now, world_.now());
  for (std::size_t n = 0; n < ends.size(); ++n) {
    const bool lost = ends[n] && ends[n]->result == protocol::GameResult::kStands;
    add(people_.of_key(now.games[n].game.dispute().challenger()), Role::kChallenger,
        lost ? -now.games[n].bond : 0);
  }
  for (const manifest::Payout& payout : settlement.payouts) {
    const auto who = people_.by_account.find(payout.account);
    if (who != people_.by_account.end()) add(who->second, Role::kChallenger, payout.amount);
  }
  for (const auto& [who, gain] : gains) gained_ += gain.second;
  for (const auto& [who, price] : life.work) add(who, Role::kVerifier, -price);
  for (const auto& [who, gain] : gains) tally_.gain(person(who).kind, gain.first).add(gain.second);
}

Status MarketRun::check_gains() const {
  __int128 sum = gained_;
  for (const char* const account : {"bonds", "escrow", "jackpot", "treasury"})
    sum += world_.market().balance(account);
  if (sum == 0) return {};
  return Error{ErrorCode::kInternal, "the gains that were counted are not what the market paid", {}};
}

void MarketRun::count_pool() {
  ++settled_;
  const std::int64_t balance = world_.market().balance("jackpot");
  least_ = least_ < 0 ? balance : std::min(least_, balance);
  if (is_full_ && (tally_.pool_least < 0 || balance < tally_.pool_least)) tally_.pool_least = balance;
  const std::int64_t part = settled_ * kPoolPoints / tasks_;
  if (part == (settled_ - 1) * kPoolPoints / tasks_) return;
  tally_.pool.push_back({part, balance, least_});
  least_ = -1;
}

}  // namespace dgx::jobs
