#include <fmt/format.h>

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

/// Unlocks the bonds of all offers but one.
void release_offers(MarketState& market, TaskRecord& record, const std::optional<Digest>& chosen) {
  std::erase_if(record.offers, [&](const auto& offer) {
    if (offer.first == chosen) return false;
    transfer(market, "bonds", offer.second.statement.key_id.hex(), bonds_of(record.task.body).verifier);
    return true;
  });
}

/// Pays out what the settlement lists, and unlocks the bonds that nobody has lost.
void pay(MarketState& market, TaskRecord& record, const manifest::Settlement& settlement, std::int64_t now) {
  const Bonds bonds = bonds_of(record.task.body);
  market.accounts["escrow"] -= record.task.body.estimate.escrow;
  if (record.solver) {
    market.accounts["bonds"] -= bonds.solver + bonds.verifier;
  } else {
    release_offers(market, record, std::nullopt);
  }
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
  if (who != record.task.key_id && who != record.solver && who != record.verifier)
    return unauthorised("a profile must be signed by the task's submitter, solver or verifier");
  if (!record.profiles.insert(who).second)
    return not_allowed("its signer's profile is already in the ledger");
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::BeaconCommitment& offer) {
  DGX_TRY(TaskRecord* const record, record_of(market, offer.task));
  DGX_CHECK(check_ready(*record, entry, offer));
  const std::int64_t bond = bonds_of(record->task.body).verifier;
  DGX_CHECK(check_balance(market, entry.account(), bond, "the verifier's bond"));
  record->offers.emplace(entry.statement.id, OfferRecord{entry.with(offer), entry.now});
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
  transfer(market, "bonds", entry.account(), bonds_of(record->task.body).verifier);
  record->offers.erase(offer);
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::Assign& assign) {
  DGX_TRY(TaskRecord* const record, record_of(market, assign.task));
  DGX_CHECK(check_ready(*record, entry, assign));
  const auto offer = record->offers.find(assign.commitment);
  if (offer == record->offers.end()) {
    return not_allowed(
        fmt::format("beacon commitment {} is not in the ledger for this task", assign.commitment.brief()));
  }
  const Digest verifier = offer->second.statement.key_id;
  if (verifier == entry.signer()) return unauthorised("solver and verifier are the same key");
  const Bonds bonds = bonds_of(record->task.body);
  // The balance must also cover a challenger's bond, which is not locked: without it the solver could not
  // challenge a false refutation.
  DGX_CHECK(check_balance(market, entry.account(), bonds.solver + bonds.challenger,
                          "the solver's bond with that of a challenge"));
  record->solver = entry.signer();
  record->verifier = verifier;
  record->assigned_ms = entry.now;
  transfer(market, entry.account(), "bonds", bonds.solver);
  release_offers(market, *record, assign.commitment);
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::Settlement& settlement) {
  DGX_CHECK(check_operator(entry));
  DGX_TRY(TaskRecord* const record, record_of(market, settlement.task));
  DGX_CHECK(check_state(*record, entry.now, {TaskState::kDue}));
  const manifest::Settlement follows = *standing(*record, entry.now).settlement;
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
