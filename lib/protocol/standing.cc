#include <algorithm>
#include <array>

#include "dgx/core/checked.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/settlement.h"
#include "dgx/protocol/verify.h"

namespace dgx::protocol {
namespace {

using manifest::Outcome;
using manifest::Reason;

constexpr std::int64_t kMinute = 60'000;

bool is_refuted(const TaskRecord& record) {
  return record.verdict && record.verdict->body.outcome == Outcome::kRefuted;
}

/// The verifier's fee; nullopt without a verdict. A verdict of the policy's draw earns the estimate's fee,
/// which was locked for just that draw (if the proof diverged, the fee of its shorter draw). One of a chosen
/// draw earns the price of the work it states and the policy's fee, but no more than that.
std::optional<std::int64_t> fee_of(const TaskRecord& record) {
  if (!record.verdict) return std::nullopt;
  const manifest::Task& task = record.task.body;
  const manifest::Verdict& verdict = record.verdict->body;
  const std::int64_t most = earned(task, record.proof->body).fee;
  if (verdict.draw == manifest::Draw::kPolicy) return most;
  const auto price = mul_div(verdict.work, task.price, kPriceUnit);
  if (!price.ok()) return most;
  const auto fee = checked_add(*price, task.policy.verifier_fee);
  return fee ? std::min(*fee, most) : most;
}

/// True if the verdict was logged after a challenge that won against the proof. It then counts as none, so
/// that a verifier who was silent cannot take the share of whoever looked before them.
bool comes_after_finder(const TaskRecord& record, const std::vector<std::optional<GameEnd>>& ends) {
  for (std::size_t i = 0; i < record.games_before_verdict; ++i) {
    const bool proof = record.games[i].challenged() == Challenged::kProof;
    if (proof && ends[i] && ends[i]->result == GameResult::kFalls) return true;
  }
  return false;
}

/// Adds the verifier and the bonds of those who were to give the verdict.
void add_verifiers(const TaskRecord& record, std::int64_t now, Stakes& out) {
  const auto verifier = verifier_at(record, now);
  out.verifier = verifier ? verifier->hex() : "";
  for (const Digest& id : staked_offers(record)) {
    const OfferRecord& offer = record.offers.at(id);
    if (is_auditor(record, offer.statement.key_id)) continue;
    (offer.statement.key_id == verifier ? out.verifier_bond : out.silent_bonds) += offer.bond;
  }
}

/// True if no challenge of the proof that won was logged before the commitment.
bool is_early(const TaskRecord& record, const std::vector<std::optional<GameEnd>>& ends,
              const Recheck& recheck) {
  for (std::size_t i = 0; i < recheck.games_before; ++i) {
    const bool proof = record.games[i].challenged() == Challenged::kProof;
    if (proof && ends[i] && ends[i]->result == GameResult::kFalls) return false;
  }
  return true;
}

/// The segments about which games were won.
struct FallenSegments {
  std::set<std::int64_t> of_proof;  ///< of those drawn, as a whole: what a replay of the draw finds
  std::set<std::int64_t> of_verdict;
};

FallenSegments fallen_segments(const TaskRecord& record, const std::vector<std::optional<GameEnd>>& ends) {
  FallenSegments out;
  if (!record.round) return out;
  const manifest::Task& task = record.task.body;
  const auto segments = segments_of(task, record.proof->body);
  const auto drawn = policy_draw(task, *segments, record.round->source.value, record.proof->id, Digest{});
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i] || ends[i]->result != GameResult::kFalls) continue;
    const Challenged what = record.games[i].challenged();
    const manifest::Challenge& challenge = record.games[i].game.dispute().challenge.body;
    const bool replayed = challenge.about == manifest::About::kSegment &&
                          std::binary_search(drawn->begin(), drawn->end(), challenge.segment);
    if (what == Challenged::kProof && replayed) out.of_proof.insert(challenge.segment);
    if (what == Challenged::kVerdict) out.of_verdict.insert(challenge.segment);
  }
  return out;
}

RecheckStake stake_of(const TaskRecord& record, const std::vector<std::optional<GameEnd>>& ends,
                      const FallenSegments& fallen, const Recheck& recheck) {
  RecheckStake out{recheck.who.hex(), recheck.bond};
  out.shown = recheck.audit.has_value();
  out.refutes = out.shown && recheck.audit->body.outcome == Outcome::kRefuted;
  out.denies = out.shown && !recheck.audit->body.denied.empty();
  out.denies_more = out.denies;
  out.claims = claims_jackpot(record, recheck);
  out.is_early = is_early(record, ends, recheck);
  out.after_secret = recheck.after_secret;
  if (!out.shown) return out;
  const std::vector<std::int64_t>& denied = recheck.audit->body.denied;
  const auto denies = [&](std::int64_t index) {
    return std::binary_search(denied.begin(), denied.end(), index);
  };
  const auto& of_verdict = fallen.of_verdict;
  if (const auto forced = forced_segment(record)) {
    out.denies_more =
        std::any_of(denied.begin(), denied.end(), [&](std::int64_t index) { return index != *forced; });
    out.confirmed_forced = confirms_forced(record, recheck) && !of_verdict.contains(*forced);
  }
  out.found = std::any_of(of_verdict.begin(), of_verdict.end(), denies);
  out.overlooked = !out.refutes &&
                   (!fallen.of_proof.empty() || !std::all_of(of_verdict.begin(), of_verdict.end(), denies));
  return out;
}

/// Adds, in the order of their commitments, the volunteers and the drawn auditor, who owes an audit whether
/// or not they committed to one.
void add_rechecks(const TaskRecord& record, const std::vector<std::optional<GameEnd>>& ends, Stakes& out) {
  if (!record.verdict || !is_rechecked(record)) return;
  const FallenSegments fallen = fallen_segments(record, ends);
  for (const Recheck& one : record.rechecks) out.rechecks.push_back(stake_of(record, ends, fallen, one));
  if (!record.audit || !record.audit->auditor) return;
  const StakedOffer& offer = record.audit->auditor->drawn;
  const std::string auditor = offer.verifier.hex();
  auto own = std::find_if(out.rechecks.begin(), out.rechecks.end(),
                          [&](const RecheckStake& one) { return one.who == auditor; });
  if (own == out.rechecks.end()) own = out.rechecks.insert(own, RecheckStake{auditor});
  own->bond = offer.bond;
  own->drawn = true;
  out.audit_fee = record.audit->fee;
  out.audit_fee_of_task = record.audit->fee_of_task;
}

/// Adds what became of the verifier's secret, and what is promised to those who claim the error it forced.
void add_secret(const TaskRecord& record, std::int64_t now, Stakes& out) {
  out.secret = secret_fate(record, now);
  if (out.secret == SecretFate::kGivenAway) out.revealed_by = record.secret->statement.key_id.hex();
  out.jackpot = record.jackpot;
}

/// The stakes of a task that is due: all its games are over.
Stakes stakes_of(const TaskRecord& record, std::int64_t now) {
  Stakes out;
  out.submitter = record.task.key_id.hex();
  out.solver = record.solver ? record.solver->hex() : "";
  add_verifiers(record, now, out);
  out.proved = record.proof.has_value();
  out.earned = record.proof ? earned(record.task.body, record.proof->body) : record.task.body.estimate;
  out.drawn = source_of(record).has_value();
  const auto ends = ends_of(record, now);
  if (!comes_after_finder(record, ends)) {
    out.refuted = is_refuted(record);
    out.fee = fee_of(record);
  }
  for (std::size_t i = 0; i < record.games.size(); ++i) {
    const GameRecord& game = record.games[i];
    const Challenged what = game.challenged();
    out.games.push_back({game.game.dispute().challenger().hex(), what,
                         ends[i] ? ends[i]->result : GameResult::kReturned, game.bond,
                         what == Challenged::kAudit ? game.game.dispute().defender().hex() : ""});
  }
  add_rechecks(record, ends, out);
  add_secret(record, now, out);
  return out;
}

/// A task's games at a moment, summed up.
struct Games {
  std::optional<std::int64_t> proof_fell, verdict_fell;  ///< times
  std::map<Digest, std::int64_t> fell;                   ///< times, by id of the proof, verdict or audit
  std::optional<std::int64_t> open_until;                ///< the last deadline among the open ones
  std::int64_t last_end = 0;
};

Games games_of(const TaskRecord& record, std::int64_t now) {
  Games out;
  const auto ends = ends_of(record, now);
  for (std::size_t i = 0; i < record.games.size(); ++i) {
    const GameRecord& game = record.games[i];
    if (!ends[i]) {
      out.open_until = std::max(out.open_until.value_or(0), game.deadline_ms);
      continue;
    }
    out.last_end = std::max(out.last_end, ends[i]->milliseconds);
    if (ends[i]->result != GameResult::kFalls) continue;
    const auto [fall, first] = out.fell.emplace(game.statement(), ends[i]->milliseconds);
    if (!first) fall->second = std::min(fall->second, ends[i]->milliseconds);
  }
  const auto time_of = [&](const auto& statement) {
    const auto fall = statement ? out.fell.find(statement->id) : out.fell.end();
    return fall == out.fell.end() ? std::nullopt : std::optional(fall->second);
  };
  out.proof_fell = time_of(record.proof);
  out.verdict_fell = time_of(record.verdict);
  return out;
}

/// True if an auditor's refutation of the proof stands. It counts like a verifier's: a volunteer's does not.
bool auditor_refutes(const TaskRecord& record, const Games& games) {
  for (const Recheck& one : record.rechecks) {
    if (one.audit && one.audit->body.outcome == Outcome::kRefuted && is_auditor(record, one.who))
      return !games.fell.contains(one.audit->id);
  }
  return false;
}

Standing due(const TaskRecord& record, Reason reason, std::int64_t now) {
  manifest::Settlement settlement;
  settlement.task = record.task.id;
  settlement.reason = reason;
  settlement.payouts = payouts(record.task.body, reason, stakes_of(record, now));
  return {TaskState::kDue, std::nullopt, settlement};
}

/// The outcome of a task whose proof did not fall, if the final state arrives. A verdict that fell counts as
/// none, and so does one whose verifier did not keep the secret until it was due, and show it; only a
/// refutation that stands excuses a solver who did not open.
Reason reason_of(const TaskRecord& record, const Games& games, std::int64_t now) {
  const bool fell = games.verdict_fell.has_value();
  if (auditor_refutes(record, games)) return Reason::kRefuted;
  if (is_refuted(record) && !fell) return Reason::kRefuted;
  if (!record.opening) return Reason::kNoProof;
  if (record.verdict && !fell && secret_fate(record, now) == SecretFate::kKept) return Reason::kAccepted;
  return is_refuted(record) ? Reason::kOverturned : Reason::kUnverified;
}

/// True if the fall of a statement begins the challenge window anew, since others may have kept silent
/// because of it: the verdict's, or that of a drawn auditor's refutation. Nobody relies on any other audit.
bool is_relied_on(const TaskRecord& record, const Digest& statement) {
  if (record.verdict && statement == record.verdict->id) return true;
  const auto* const audit = verdict_of(record, statement);
  return audit != nullptr && is_auditor(record, audit->key_id) && audit->body.outcome == Outcome::kRefuted;
}

/// Start of the challenge window: the last of the opening, the verdict (or the deadline of whichever was
/// missed), the end of its re-checks, and the fall of what others relied on.
std::int64_t window_begin(const TaskRecord& record, const Games& games) {
  std::int64_t since = record.opening ? record.opening_ms : opening_duty(record)->deadline_ms;
  for (const auto& [statement, when] : games.fell) {
    if (is_relied_on(record, statement)) since = std::max(since, when);
  }
  if (is_rechecked(record)) return std::max(since, recheck_times(record).ends_ms);
  if (record.verdict) return std::max(since, record.verdict_ms);
  const auto turns = turns_of(record);
  return turns.empty() ? since : std::max(since, turns.back().deadline_ms);
}

/// The standing from the challenge window on: games end, then the final state is awaited if the solver is to
/// be paid.
Standing objected(const TaskRecord& record, const Games& games, std::int64_t now) {
  const manifest::Policy& policy = record.task.body.policy;
  const std::int64_t window_end = window_begin(record, games) + policy.window_challenge_ms;
  if (now <= window_end) return {TaskState::kChallengeWindow, window_end, std::nullopt};
  if (games.open_until) return {TaskState::kArbitration, games.open_until, std::nullopt};
  if (games.proof_fell) return due(record, Reason::kConvicted, now);
  const Reason reason = reason_of(record, games, now);
  const bool unpaid = reason == Reason::kRefuted || reason == Reason::kNoProof;
  if (unpaid || record.delivered) return due(record, reason, now);
  const std::int64_t deadline = std::max(window_end, games.last_end) + policy.window_delivery_ms;
  if (now > deadline) return due(record, Reason::kNoDelivery, now);
  return {TaskState::kAwaitingDelivery, deadline, std::nullopt};
}

/// The end of the time for the beacon, or for the round: its slot may last as long again after the proof.
std::int64_t source_deadline_ms(const TaskRecord& record) {
  const manifest::Policy& policy = record.task.body.policy;
  return record.proof_ms + policy.window_reveal_ms + (policy.beacon_source == 0 ? 0 : policy.beacon_slot_ms);
}

/// The step owed after the proof while no verdict is there: by whom and until when; nullopt if the challenge
/// window has begun.
std::optional<Standing> awaited_step(const TaskRecord& record, std::int64_t now) {
  const std::int64_t source_deadline = source_deadline_ms(record);
  if (!source_of(record) && now <= source_deadline)
    return Standing{TaskState::kProofCommitted, source_deadline, std::nullopt};
  if (!record.opening) {
    const std::int64_t deadline = opening_duty(record)->deadline_ms;
    const TaskState waits = record.round ? TaskState::kDrawn : TaskState::kAwaitingOpening;
    if (now <= deadline) return Standing{waits, deadline, std::nullopt};
    return due(record, Reason::kNoProof, now);
  }
  for (const VerifierTurn& turn : turns_of(record)) {
    if (now > turn.deadline_ms) continue;
    const bool committed = record.committed.contains(turn.verifier);
    return Standing{committed ? TaskState::kVerifyCommitted : TaskState::kOpened, turn.deadline_ms,
                    std::nullopt};
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(TaskState state) {
  constexpr std::array<std::string_view, 14> kNames{
      "open",   "assigned",         "proof-committed",  "awaiting-opening",
      "drawn",  "opened",           "verify-committed", "recheck",
      "reveal", "challenge-window", "arbitration",      "awaiting-delivery",
      "due",    "settled"};
  return kNames[static_cast<std::size_t>(state)];
}

std::optional<OpeningDuty> opening_duty(const TaskRecord& record) {
  if (!record.proof) return std::nullopt;
  const std::int64_t window = record.task.body.policy.window_reveal_ms;
  if (record.beacon) return OpeningDuty{record.beacon->id, record.beacon_ms, record.beacon_ms + window};
  if (record.round) {
    const std::int64_t since = record.round->logged_ms;
    return OpeningDuty{record.round->source.id, since, since + window};
  }
  // None can come after its deadline, and no beacon after a refutation that did not wait for it.
  std::int64_t begins = source_deadline_ms(record) + 1;
  if (record.verdict) begins = std::min(begins, record.verdict_ms);
  return OpeningDuty{record.proof->id, begins, begins + window};
}

std::int64_t heartbeat_ms(const manifest::Policy& policy) {
  const std::int64_t shortest =
      std::min({policy.window_proof_ms, policy.window_reveal_ms, policy.window_challenge_ms,
                policy.window_move_ms, policy.window_delivery_ms});
  return std::max(shortest / 8, kMinute);
}

Standing standing(const TaskRecord& record, std::int64_t now) {
  if (record.settlement) return {TaskState::kSettled, std::nullopt, std::nullopt};
  const manifest::Policy& policy = record.task.body.policy;
  if (!record.solver) {
    const std::int64_t deadline = record.posted_ms + policy.window_proof_ms;
    if (now > deadline) return due(record, Reason::kNoAssignment, now);
    return {TaskState::kOpen, deadline, std::nullopt};
  }
  if (!record.proof) {
    const std::int64_t deadline = record.assigned_ms + policy.window_proof_ms;
    if (now > deadline) return due(record, Reason::kNoProof, now);
    return {TaskState::kAssigned, deadline, std::nullopt};
  }
  if (!record.verdict) {
    if (const auto awaited = awaited_step(record, now)) return *awaited;
  }
  if (is_rechecked(record)) {
    const RecheckTimes times = recheck_times(record);
    if (now <= times.commit_ms) return {TaskState::kRecheck, times.commit_ms, std::nullopt};
    if (now <= times.reveal_ms && times.ends_ms == times.reveal_ms)
      return {TaskState::kReveal, times.reveal_ms, std::nullopt};
  }
  return objected(record, games_of(record, now), now);
}

}  // namespace dgx::protocol
