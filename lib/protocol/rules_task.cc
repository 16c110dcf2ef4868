#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/admission.h"
#include "dgx/protocol/estimate.h"
#include "rules.h"

namespace dgx::protocol {
namespace {

/// Checks an offer or an assign: the task is open, its signer holds the task's dataset and initial state, and
/// replays a segment in time.
template <class T>
Status check_ready(const TaskRecord& record, const Entry& entry, const T& offer) {
  const manifest::Task& task = record.task.body;
  DGX_CHECK(check_state(record, entry.now, {TaskState::kOpen}));
  if (offer.dataset != task.dataset.digest) return malformed("dataset: is not the task's");
  if (offer.initial != task.initial.digest) return malformed("initial: is not the task's initial state");
  return check_segment_time(task, offer.segment_milliseconds);
}

/// Checks that the solver can pay their bond and, not locked, a challenger's: without it they could not
/// challenge a false refutation.
Status check_solver(const MarketState& market, const TaskRecord& record, const Entry& entry) {
  const Bonds bonds = bonds_of(record.task.body);
  return check_balance(market, entry.account(), bonds.solver + bonds.challenger,
                       "the solver's bond with that of a challenge");
}

/// The bond that an offer stakes: in a market with rounds what it says, else the policy's.
Result<std::int64_t> bond_offered(const manifest::Task& task, const manifest::BeaconCommitment& offer) {
  const std::int64_t least = bonds_of(task).verifier;
  if (task.policy.beacon_source == 0) {
    if (!offer.bond) return least;
    return malformed("bond: this market draws no verifiers: each stakes the policy's bond");
  }
  if (!offer.bond) return malformed("bond: is missing: in this market verifiers are drawn by their bonds");
  if (*offer.bond >= least) return *offer.bond;
  return not_allowed(fmt::format("bond: is {}, must be at least {}", *offer.bond, least));
}

/// The smallest offer, of equal ones that whose key id is the last.
std::map<Digest, OfferRecord>::iterator smallest_offer(TaskRecord& record) {
  return std::min_element(record.offers.begin(), record.offers.end(), [](const auto& a, const auto& b) {
    if (a.second.bond != b.second.bond) return a.second.bond < b.second.bond;
    return a.second.statement.key_id > b.second.statement.key_id;
  });
}

/// Checks that a verifier may join those among whom one is drawn: not the submitter, nobody twice, and if all
/// places are taken, only with more than the smallest bond.
Status check_place(TaskRecord& record, const Entry& entry, std::int64_t bond) {
  if (entry.signer() == record.task.key_id) return not_allowed("the submitter cannot verify their own task");
  for (const auto& [id, other] : record.offers) {
    if (other.statement.key_id == entry.signer())
      return not_allowed(fmt::format("its signer's offer {} stands already", id.brief()));
  }
  if (record.offers.size() < kMostOffers) return {};
  const std::int64_t smallest = smallest_offer(record)->second.bond;
  if (bond > smallest) return {};
  return not_allowed(
      fmt::format("bond: is {}: there are {} offers, the smallest of {}", bond, kMostOffers, smallest));
}

/// Chooses the one verifier whom the assign names. Their bond stays locked, those of all others do not.
Status choose_verifier(MarketState& market, TaskRecord& record, const Entry& entry,
                       const std::optional<Digest>& commitment) {
  if (!commitment) return malformed("commitment: is missing: the solver chooses a verifier");
  const auto offer = record.offers.find(*commitment);
  if (offer == record.offers.end()) {
    return not_allowed(
        fmt::format("beacon commitment {} is not in the ledger for this task", commitment->brief()));
  }
  const Digest verifier = offer->second.statement.key_id;
  if (verifier == entry.signer()) return unauthorised("solver and verifier are the same key");
  DGX_CHECK(check_solver(market, record, entry));
  record.verifier = verifier;
  release_offers(market, record, {*commitment});
  return {};
}

/// Leaves the verifiers of whom one will be drawn, without the solver. Whoever wants to verify has had the
/// time of a move to say so: else a solver could assign before anybody but accomplices has.
Status keep_offers(MarketState& market, TaskRecord& record, const Entry& entry,
                   const std::optional<Digest>& commitment) {
  if (commitment) return malformed("commitment: this market draws the verifier");
  const std::int64_t from = record.posted_ms + record.task.body.policy.window_move_ms;
  if (entry.now < from)
    return not_allowed(fmt::format("verifiers may offer themselves for another {} ms", from - entry.now));
  const auto own = std::find_if(record.offers.begin(), record.offers.end(), [&](const auto& offer) {
    return offer.second.statement.key_id == entry.signer();
  });
  if (record.offers.size() == (own == record.offers.end() ? 0U : 1U))
    return not_allowed("no verifier has offered");
  DGX_CHECK(check_solver(market, record, entry));
  if (own == record.offers.end()) return {};
  transfer(market, "bonds", entry.account(), own->second.bond);
  record.offers.erase(own);
  return {};
}

/// Pays out what the settlement lists, and unlocks the bonds that nobody has lost.
void pay(MarketState& market, TaskRecord& record, const manifest::Settlement& settlement, std::int64_t now) {
  const Bonds bonds = bonds_of(record.task.body);
  market.accounts["escrow"] -= record.task.body.estimate.escrow;
  if (record.solver) market.accounts["bonds"] -= bonds.solver;
  release_offers(market, record, staked_offers(record));
  for (const auto& [id, offer] : record.offers) market.accounts["bonds"] -= offer.bond;
  for (const Recheck& one : record.rechecks) market.accounts["bonds"] -= one.bond;
  if (record.audit) market.accounts["escrow"] -= record.audit->fee - record.audit->fee_of_task;
  market.accounts["escrow"] -= record.jackpot;
  const auto ends = ends_of(record, now);
  for (std::size_t i = 0; i < record.games.size(); ++i) {
    const GameRecord& game = record.games[i];
    if (ends[i]->result == GameResult::kStands) {
      market.accounts["bonds"] -= game.bond;
    } else {
      transfer(market, "bonds", game.game.dispute().challenger().hex(), game.bond);
    }
  }
  for (const manifest::Payout& payout : settlement.payouts) market.accounts[payout.account] += payout.amount;
}

}  // namespace

Status apply(MarketState& market, const Entry& entry, const manifest::Task& task) {
  if (!task.ledger)
    return malformed("the task names no ledger, so no ledger takes it", "submit it with dgx-submit --ledger");
  DGX_CHECK(check_ledger(market, *task.ledger));
  if (task.policy != *market.policy) return malformed("the task's policy is not the ledger's");
  DGX_CHECK(check_admission(task));
  DGX_CHECK(check_estimate(task));
  DGX_CHECK(check_balance(market, entry.account(), task.estimate.escrow, "the escrow"));
  DGX_CHECK(check_terms(task));
  TaskRecord record;
  record.task = entry.with(task);
  record.posted_ms = entry.now;
  market.tasks.emplace(entry.statement.id, std::move(record));
  market.unsettled.insert(entry.statement.id);
  transfer(market, entry.account(), "escrow", task.estimate.escrow);
  return {};
}

/// Profiles are for information: exact tasks need none. Each party of the task may log one, since it has up
/// to 256 KiB and is free.
Status apply(TaskRecord& record, const Entry& entry, const manifest::Profile&) {
  const Digest& who = entry.signer();
  if (who != record.task.key_id && who != record.solver && who != verifier_at(record, entry.now))
    return unauthorised("a profile must be signed by the task's submitter, solver or verifier");
  if (!record.profiles.insert(who).second)
    return not_allowed("its signer's profile is already in the ledger");
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::BeaconCommitment& offer) {
  DGX_TRY(TaskRecord* const record, record_of(market, offer.task));
  DGX_CHECK(check_ready(*record, entry, offer));
  DGX_TRY(const std::int64_t bond, bond_offered(record->task.body, offer));
  const bool drawn = record->task.body.policy.beacon_source != 0;
  if (drawn) DGX_CHECK(check_place(*record, entry, bond));
  DGX_CHECK(check_balance(market, entry.account(), bond, "the verifier's bond"));
  if (drawn && record->offers.size() == kMostOffers) {
    const auto last = smallest_offer(*record);
    transfer(market, "bonds", last->second.statement.key_id.hex(), last->second.bond);
    record->offers.erase(last);
  }
  record->offers.emplace(entry.statement.id, OfferRecord{entry.with(offer), entry.now, bond});
  transfer(market, entry.account(), "bonds", bond);
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::OfferEnd& end) {
  DGX_TRY(TaskRecord* const record, record_of(market, end.task));
  DGX_CHECK(check_state(*record, entry.now, {TaskState::kOpen}));
  const auto offer = record->offers.find(end.commitment);
  if (offer == record->offers.end())
    return not_allowed(fmt::format("offer {} is not in the ledger for this task", end.commitment.brief()));
  DGX_CHECK(check_signer(entry, offer->second.statement.key_id, "offer's verifier"));
  if (entry.now < offer->second.logged_ms + kLeastOfferMs)
    return not_allowed(fmt::format("an offer stands for at least {} ms", kLeastOfferMs));
  transfer(market, "bonds", entry.account(), offer->second.bond);
  record->offers.erase(offer);
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::Assign& assign) {
  DGX_TRY(TaskRecord* const record, record_of(market, assign.task));
  DGX_CHECK(check_ready(*record, entry, assign));
  DGX_CHECK(record->task.body.policy.beacon_source == 0
                ? choose_verifier(market, *record, entry, assign.commitment)
                : keep_offers(market, *record, entry, assign.commitment));
  record->solver = entry.signer();
  record->assigned_ms = entry.now;
  transfer(market, entry.account(), "bonds", bonds_of(record->task.body).solver);
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::Settlement& settlement) {
  DGX_CHECK(check_operator(entry));
  DGX_TRY(TaskRecord* const record, record_of(market, settlement.task));
  const Standing stands = standing(*record, entry.now);
  if (!stands.settlement) return check_state(*record, entry.now, {TaskState::kDue});
  const manifest::Settlement& follows = *stands.settlement;
  if (settlement != follows) {
    return malformed(fmt::format("is not the settlement that follows from the ledger, which is \"{}\"",
                                 manifest::name_of(follows.reason)));
  }
  pay(market, *record, settlement, entry.now);
  record->settlement = settlement;
  market.unsettled.erase(settlement.task);
  return {};
}

}  // namespace dgx::protocol
