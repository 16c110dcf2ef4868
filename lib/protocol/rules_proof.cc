#include <fmt/format.h>

#include "dgx/protocol/draw.h"
#include "dgx/protocol/verify.h"
#include "rules.h"

namespace dgx::protocol {
namespace {

/// An acceptance settles only with the policy's draw; a refutation always does.
Status check_draw(const TaskRecord& record, const Segments& segments, const manifest::Verdict& verdict) {
  const std::int64_t n = segments.count();
  if (verdict.segments != n)
    return malformed(fmt::format("segments: is {}, the proof has {}", verdict.segments, n));
  if (verdict.first_disagreement && verdict.first_disagreement->index >= n) {
    return malformed(fmt::format("first_disagreement: index: the proof has {} segments", n));
  }
  // A witness is judged with the beacon that the verdict names.
  const auto source = source_of(record);
  if (verdict.beacon && (!source || *verdict.beacon != source->id))
    return malformed("beacon: is not the task's");
  if (verdict.draw == manifest::Draw::kChosen) {
    if (verdict.outcome != manifest::Outcome::kAccepted) return {};
    return not_allowed("an acceptance of a chosen draw settles nothing",
                       "verify with the beacon and the policy's draw");
  }
  const std::int64_t q = drawn_count(record.task.body, segments);
  if (verdict.replayed != q) {
    return malformed(fmt::format("replayed: is {}, the policy draws {}", verdict.replayed, q));
  }
  return {};
}

/// If the verifier committed to a verdict, only that one is taken.
Status check_committed(const TaskRecord& record, const Entry& entry, const manifest::Verdict& verdict) {
  const auto committed = record.committed.find(entry.signer());
  if (committed == record.committed.end()) return {};
  if (manifest::verdict_commitment(entry.statement.id, verdict.nonce) == committed->second.commitment)
    return {};
  return malformed("is not the verdict that was committed to");
}

/// Submitter and operator state that they have the final state; a solver states where the operator fetched
/// it.
Status check_deliverer(const TaskRecord& record, const Entry& entry, const manifest::Delivery& delivery) {
  const bool by_receiver = entry.signer() == record.task.key_id || entry.by_operator;
  if (by_receiver && !delivery.location) return {};
  if (delivery.location && record.solver == entry.signer()) return {};
  return unauthorised(
      "a delivery must be signed by the submitter or the operator, or by the solver with a location");
}

}  // namespace

/// A proof is logged. Where no round comes in time for it, nobody is drawn, and the bonds of all offers
/// unlock.
Status apply(MarketState& market, const Entry& entry, const manifest::Proof& proof) {
  DGX_TRY(TaskRecord* const found, record_of(market, proof.task));
  TaskRecord& record = *found;
  DGX_CHECK(check_signer(entry, record.solver, "solver"));
  DGX_CHECK(check_state(record, entry.now, {TaskState::kAssigned}));
  DGX_CHECK(check_proof(record.task, entry.with(proof)));
  record.proof = entry.with(proof);
  record.proof_ms = entry.now;
  record.proof_slot = slot_of(entry.receipt_ms, record.task.body.policy);
  if (market.policy->beacon_source != 0)
    market.undrawn.emplace(*standing(record, entry.now).deadline_ms, record.task.id);
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::Beacon& beacon) {
  DGX_TRY(TaskRecord* const found, record_of(market, beacon.task));
  TaskRecord& record = *found;
  if (record.task.body.policy.beacon_source != 0) return reveal_secret(market, record, entry, beacon);
  DGX_CHECK(check_signer(entry, record.verifier, "verifier"));
  DGX_CHECK(check_state(record, entry.now, {TaskState::kProofCommitted}));
  DGX_CHECK(check_about(record, beacon.proof));
  const auto& [offer, assigned] = *record.offers.begin();
  if (beacon.commitment != offer) return malformed("commitment: is not the assigned one");
  if (manifest::beacon_commitment(beacon.secret) != assigned.statement.body.commitment) {
    return malformed("secret: is not the one that was committed to");
  }
  record.beacon = entry.with(beacon);
  record.beacon_ms = entry.now;
  return {};
}

/// The operator has fetched and checked an opening before logging it.
Status apply(TaskRecord& record, const Entry& entry, const manifest::Opening& opening) {
  DGX_CHECK(check_signer(entry, record.solver, "solver"));
  DGX_CHECK(check_about(record, opening.proof));
  if (record.opening) return not_allowed("the proof is already opened");
  const OpeningDuty duty = *opening_duty(record);
  if (entry.now < duty.begins_ms)
    return record.task.body.policy.beacon_source == 0
               ? not_allowed("the verifier may still reveal the beacon", "open the proof after it")
               : not_allowed("the round of the proof's slot may still come", "open the proof after it");
  if (entry.now > duty.deadline_ms) return not_allowed("the deadline to open the proof has passed");
  if (opening.after != duty.after)
    return malformed(fmt::format("after: is {}, must be {}", opening.after.brief(), duty.after.brief()));
  record.opening = entry.with(opening);
  record.opening_ms = entry.now;
  return {};
}

Status apply(MarketState& market, const Entry& entry, const manifest::VerdictCommitment& commitment) {
  DGX_TRY(TaskRecord* const found, record_of(market, commitment.task));
  TaskRecord& record = *found;
  if (commitment.audits) return commit_to_audit(market, record, entry, commitment);
  DGX_CHECK(check_signer(entry, verifier_at(record, entry.now), "verifier"));
  DGX_CHECK(check_state(record, entry.now, {TaskState::kOpened}));
  DGX_CHECK(check_about(record, commitment.proof));
  record.committed.emplace(entry.signer(), CommittedVerdict{commitment.commitment, entry.now});
  return {};
}

/// A refutation is never too early, since it needs nothing that the solver shows, nor too late while
/// objections are heard. An acceptance needs the opening.
Status apply(MarketState& market, const Entry& entry, const manifest::Verdict& verdict) {
  DGX_TRY(TaskRecord* const found, record_of(market, verdict.task));
  TaskRecord& record = *found;
  if (verdict.audits) return show_audit(market, record, entry, verdict);
  DGX_CHECK(check_signer(entry, verifier_at(record, entry.now), "verifier"));
  DGX_CHECK(check_about(record, verdict.proof));
  if (record.verdict) return not_allowed("the task already has its verdict");
  const bool refuted = verdict.outcome == manifest::Outcome::kRefuted;
  DGX_CHECK(refuted
                ? check_state(record, entry.now,
                              {TaskState::kProofCommitted, TaskState::kAwaitingOpening, TaskState::kDrawn,
                               TaskState::kOpened, TaskState::kVerifyCommitted, TaskState::kChallengeWindow})
                : check_state(record, entry.now, {TaskState::kOpened, TaskState::kVerifyCommitted}));
  if (has_fallen(record, record.proof->id, entry.now)) return not_allowed("the proof has already fallen");
  DGX_TRY(const Segments segments, segments_of(record.task.body, record.proof->body));
  DGX_CHECK(check_draw(record, segments, verdict));
  DGX_CHECK(check_stated_work(record.task.body, segments, verdict));
  DGX_CHECK(check_witnesses(record, verdict));
  DGX_CHECK(check_committed(record, entry, verdict));
  record.verdict = entry.with(verdict);
  record.verifier = entry.signer();
  record.verdict_ms = entry.now;
  record.verdict_slot = slot_of(entry.receipt_ms, record.task.body.policy);
  record.games_before_verdict = record.games.size();
  // Those who were not asked may be drawn to audit an acceptance.
  if (!may_draw_auditor(record)) {
    release_offers(market, record, staked_offers(record));
  } else {
    market.undrawn.emplace(recheck_times(record).commit_ms, record.task.id);
  }
  return {};
}

Status apply(TaskRecord& record, const Entry& entry, const manifest::Delivery& delivery) {
  DGX_CHECK(check_deliverer(record, entry, delivery));
  DGX_CHECK(check_about(record, delivery.proof));
  if (delivery.final_state != record.proof->body.final_state)
    return malformed("final: is not the proof's final state");
  if (record.delivered) return not_allowed("the final state is already delivered");
  DGX_CHECK(
      check_state(record, entry.now,
                  {TaskState::kProofCommitted, TaskState::kAwaitingOpening, TaskState::kDrawn,
                   TaskState::kOpened, TaskState::kVerifyCommitted, TaskState::kRecheck, TaskState::kReveal,
                   TaskState::kChallengeWindow, TaskState::kArbitration, TaskState::kAwaitingDelivery}));
  record.delivered = true;
  return {};
}

}  // namespace dgx::protocol
