#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/verify.h"
#include "rules.h"

namespace dgx::protocol {
namespace {

/// kNotAllowed without a verdict to audit, kMalformed if `audits` is another's.
Status check_audited(const TaskRecord& record, const Digest& audits) {
  if (!rechecks_verdicts(record.task.body.policy)) return not_allowed("this market audits no verdicts");
  if (!record.verdict) return not_allowed(fmt::format("task {} has no verdict yet", record.task.id.brief()));
  if (audits != record.verdict->id)
    return malformed(
        fmt::format("audits: is {}, the task's verdict is {}", audits.brief(), record.verdict->id.brief()));
  if (is_rechecked(record)) return {};
  return not_allowed("only an acceptance is audited: a refutation stands or falls in a game");
}

/// Checks that everything an audit replayed, refutes and denies is of the one draw that all verifiers of the
/// proof have.
Status check_audit_draw(const TaskRecord& record, const manifest::Verdict& audit) {
  const manifest::Task& task = record.task.body;
  DGX_TRY(const Segments segments, segments_of(task, record.proof->body));
  if (audit.segments != segments.count())
    return malformed(fmt::format("segments: is {}, the proof has {}", audit.segments, segments.count()));
  const DrawSource& source = record.round->source;
  if (audit.beacon != source.id) return malformed("beacon: is not the task's");
  DGX_TRY(const auto drawn, policy_draw(task, segments, source.value, record.proof->id, Digest{}));
  const auto is_drawn = [&](std::int64_t index) {
    return std::binary_search(drawn.begin(), drawn.end(), index);
  };
  if (audit.replayed != std::ssize(drawn))
    return malformed(fmt::format("replayed: is {}, the policy draws {}", audit.replayed, drawn.size()));
  if (audit.first_disagreement && !is_drawn(audit.first_disagreement->index))
    return malformed(
        fmt::format("first_disagreement: segment {} is not drawn", audit.first_disagreement->index));
  for (const std::int64_t index : audit.denied) {
    if (!is_drawn(index)) return malformed(fmt::format("denied: segment {} is not drawn", index));
  }
  return check_stated_work(task, segments, audit);
}

}  // namespace

Status check_witnesses(const TaskRecord& record, const manifest::Verdict& verdict) {
  const bool audits = rechecks_verdicts(record.task.body.policy);
  const bool must = audits && verdict.outcome == manifest::Outcome::kAccepted;
  if (must == verdict.witnesses.empty())
    return malformed(must ? "witnesses: are missing: in this market verdicts are audited"
                          : "witnesses: this market audits no verdicts");
  if (!must && verdict.denied.empty()) return {};
  const manifest::Task& task = record.task.body;
  DGX_TRY(const Segments segments, segments_of(task, record.proof->body));
  const Digest& round = record.round->source.value;
  DGX_TRY(const auto drawn, policy_draw(task, segments, round, record.proof->id, Digest{}));
  return check_stated_witnesses(segments, drawn, verdict);
}

Status commit_to_audit(MarketState& market, TaskRecord& record, const Entry& entry,
                       const manifest::VerdictCommitment& hidden) {
  DGX_CHECK(check_about(record, hidden.proof));
  DGX_CHECK(check_audited(record, *hidden.audits));
  if (entry.signer() == record.verdict->key_id)
    return unauthorised("the verifier cannot re-check their own verdict");
  DGX_CHECK(check_state(record, entry.now, {TaskState::kRecheck}));
  if (recheck_of(record, entry.signer()) != nullptr)
    return not_allowed("its signer has committed to an audit of this verdict already");
  Recheck out{entry.signer(),           hidden.commitment, 0, record.games.size(), std::nullopt, 0,
              record.secret.has_value()};
  if (!is_auditor(record, entry.signer())) {
    const auto volunteers = std::count_if(record.rechecks.begin(), record.rechecks.end(),
                                          [&](const Recheck& one) { return !is_auditor(record, one.who); });
    if (volunteers >= static_cast<std::ptrdiff_t>(kMostVolunteers))
      return not_allowed(fmt::format("{} volunteers have committed already", kMostVolunteers));
    out.bond = bonds_of(record.task.body).challenger;
    DGX_CHECK(check_balance(market, entry.account(), out.bond, "a volunteer's bond"));
    transfer(market, entry.account(), "bonds", out.bond);
  }
  record.rechecks.push_back(std::move(out));
  return {};
}

Status show_audit(MarketState& market, TaskRecord& record, const Entry& entry,
                  const manifest::Verdict& audit) {
  DGX_CHECK(check_about(record, audit.proof));
  DGX_CHECK(check_audited(record, *audit.audits));
  const auto own = std::find_if(record.rechecks.begin(), record.rechecks.end(),
                                [&](const Recheck& one) { return one.who == entry.signer(); });
  if (own == record.rechecks.end()) return not_allowed("its signer has not committed to an audit");
  if (own->audit) return not_allowed("its signer has shown their audit already");
  DGX_CHECK(check_state(record, entry.now, {TaskState::kReveal}));
  if (manifest::verdict_commitment(entry.statement.id, audit.nonce) != own->commitment)
    return malformed("is not the audit that was committed to");
  DGX_CHECK(check_audit_draw(record, audit));
  DGX_CHECK(check_witnesses(record, audit));
  own->audit = entry.with(audit);
  own->audit_ms = entry.now;
  promise_jackpot(market, record);
  return {};
}

/// A task is looked at when the present state ends at the latest, and the states in which somebody may be
/// drawn end by a deadline or with a rule that unlocks by itself; only a verdict may bring that time nearer.
void release_undrawn(MarketState& market, std::int64_t now) {
  while (!market.undrawn.empty() && market.undrawn.begin()->first < now) {
    const Digest task = market.undrawn.begin()->second;
    market.undrawn.erase(market.undrawn.begin());
    TaskRecord& record = market.tasks.at(task);
    const std::set<Digest> kept = staked_offers(record);
    if (record.settlement || record.offers.size() <= kept.size()) continue;
    const Standing stands = standing(record, now);
    const bool waits = stands.state == TaskState::kProofCommitted || stands.state == TaskState::kDrawn ||
                       stands.state == TaskState::kOpened || stands.state == TaskState::kVerifyCommitted ||
                       (stands.state == TaskState::kRecheck && !record.audit);
    if (waits) {
      market.undrawn.emplace(*stands.deadline_ms, task);
    } else {
      release_offers(market, record, kept);
    }
  }
}

/// An auditor is drawn among those who were not asked for the verdict. The fee is locked for them at once,
/// from the jackpot as far as it goes, so that what is promised can be paid, whatever else the jackpot pays
/// until then. What it lacks the task's own escrow pays, of what would go back to the submitter: an empty
/// jackpot switches no audit off.
void draw_audit(MarketState& market, TaskRecord& record, const Entry& entry, const manifest::Round& round) {
  const manifest::Task& task = record.task.body;
  const Digest& verdict = record.verdict->id;
  AuditDraw out;
  out.lot = audit_lot(round.value, verdict);
  out.hits = hits(out.lot, task.policy.audit_ppm);
  out.logged_ms = entry.now;
  const std::set<Digest> asked = staked_offers(record);
  std::vector<StakedOffer> others;
  for (const auto& [id, offer] : record.offers) {
    if (!asked.contains(id)) others.push_back({id, offer.statement.key_id, offer.bond});
  }
  const manifest::Estimate worth = earned(task, record.proof->body);
  const std::int64_t fee = audit_fee(worth, task.policy);
  const std::int64_t of_jackpot = std::min(fee, balance_of(market, "jackpot"));
  if (out.hits && !others.empty() && fee - of_jackpot <= unused_escrow(task, worth)) {
    out.auditor = draw_auditor(round.value, verdict, std::move(others));
    out.fee = fee;
    out.fee_of_task = fee - of_jackpot;
    transfer(market, "jackpot", "escrow", of_jackpot);
    // One who had volunteered is the auditor now, and stakes the offer's bond alone.
    for (Recheck& one : record.rechecks) {
      if (one.who != out.auditor->drawn.verifier) continue;
      transfer(market, "bonds", one.who.hex(), one.bond);
      one.bond = 0;
    }
  }
  record.audit = std::move(out);
  release_offers(market, record, staked_offers(record));
}

}  // namespace dgx::protocol
