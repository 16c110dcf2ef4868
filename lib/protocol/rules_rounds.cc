#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/rounds.h"
#include "rules.h"

namespace dgx::protocol {
namespace {

/// Draws the verifiers of a proof, and unlocks the bonds of those who were not drawn, unless one of them may
/// still be drawn to audit the verdict.
void draw(MarketState& market, TaskRecord& record, const Entry& entry, const manifest::Round& round) {
  std::vector<StakedOffer> offers;
  for (const auto& [id, offer] : record.offers) offers.push_back({id, offer.statement.key_id, offer.bond});
  const Digest& proof = record.proof->id;
  record.round = ProofRound{DrawSource(entry.with(round), proof), entry.now,
                            draw_verifiers(round.value, proof, std::move(offers))};
  if (record.task.body.policy.audit_ppm > 0) {
    market.undrawn.emplace(entry.now, record.task.id);
    return;
  }
  std::set<Digest> drawn;
  for (const DrawnVerifier& one : record.round->drawn) drawn.insert(one.drawn.offer);
  release_offers(market, record, drawn);
}

}  // namespace

/// Nothing in a round is its signer's choice: slot and head follow from the ledger, the rest from them. A
/// delay's own steps are not computed again here, which would take its time once more: whoever checks a
/// ledger can do that, and no money moves on it.
Status apply(MarketState& market, const Entry& entry, const manifest::Round& round) {
  DGX_CHECK(check_operator(entry));
  DGX_CHECK(check_ledger(market, round.ledger));
  const manifest::Policy& policy = *market.policy;
  if (policy.beacon_source == 0) return not_allowed("this market has no rounds: its beacon_source is 0");
  if (slot_of(entry.receipt_ms, policy) <= round.slot)
    return not_allowed(fmt::format("slot {} is not over", round.slot));
  const auto slot = market.slots.all.find(round.slot);
  if (slot == market.slots.all.end())
    return not_allowed(fmt::format("nothing was logged in slot {}", round.slot));
  if (slot->second.round) return not_allowed(fmt::format("slot {} has its round already", round.slot));
  const manifest::RootReference head = market.slots.head_of(round.slot);
  if (head != round.head)
    return malformed(
        fmt::format("head: is not that of the {} entries up to the end of slot {}", head.count, round.slot));
  DGX_CHECK(check_origin(round, policy));
  slot->second.round = entry.statement.id;
  std::vector<std::pair<Digest, TaskRecord*>> audited;  // by their lots, which nobody could choose
  for (const Digest& task : market.unsettled) {
    TaskRecord& record = market.tasks.at(task);
    const bool waits = record.proof && record.proof_slot == round.slot &&
                       standing(record, entry.now).state == TaskState::kProofCommitted;
    if (waits) draw(market, record, entry, round);
    const bool audits = may_draw_auditor(record) && record.verdict_slot == round.slot && !record.audit &&
                        standing(record, entry.now).state == TaskState::kRecheck;
    if (audits) audited.emplace_back(audit_lot(round.value, record.verdict->id), &record);
  }
  std::sort(audited.begin(), audited.end());
  for (const auto& [lot, record] : audited) draw_audit(market, *record, entry, round);
  return {};
}

}  // namespace dgx::protocol
