#include <algorithm>
#include <array>

#include "dgx/protocol/segments.h"
#include "dgx/protocol/settlement.h"
#include "dgx/protocol/verify.h"

namespace dgx::protocol {
namespace {

using manifest::Outcome;
using manifest::Reason;

bool is_refuted(const TaskRecord& record) {
  return record.verdict && record.verdict->body.outcome == Outcome::kRefuted;
}

Challenged challenged_by(const GameRecord& game) {
  return game.game.dispute().verdict ? Challenged::kVerdict : Challenged::kProof;
}

/// All games are over when somebody is due.
Stakes stakes_of(const TaskRecord& record, std::int64_t now) {
  Stakes out{record.task.key_id.hex(),
             record.solver ? record.solver->hex() : "",
             record.verifier ? record.verifier->hex() : "",
             is_refuted(record),
             {}};
  for (const GameRecord& game : record.games) {
    const auto end = end_of(game, now);
    out.games.push_back(
        {game.game.dispute().challenger().hex(), challenged_by(game), end.has_value() && end->falls});
  }
  return out;
}

/// The games of a task at a moment, together.
struct Games {
  std::optional<std::int64_t> proof_fell, verdict_fell;  ///< when
  std::optional<std::int64_t> open_until;                ///< the last deadline among those that are open
  std::int64_t last_end = 0;
};

Games games_of(const TaskRecord& record, std::int64_t now) {
  Games out;
  for (const GameRecord& game : record.games) {
    const auto end = end_of(game, now);
    if (!end) {
      out.open_until = std::max(out.open_until.value_or(0), game.deadline_ms());
      continue;
    }
    out.last_end = std::max(out.last_end, end->milliseconds);
    if (!end->falls) continue;
    auto& fell = challenged_by(game) == Challenged::kProof ? out.proof_fell : out.verdict_fell;
    fell = std::min(fell.value_or(end->milliseconds), end->milliseconds);
  }
  return out;
}

/// Steps behind the verdict: those of the policy's draw, which the ledger can recompute; of a chosen draw,
/// what its work says.
std::optional<std::int64_t> replayed_steps(const TaskRecord& record) {
  if (!record.verdict) return std::nullopt;
  const manifest::Task& task = record.task.body;
  std::int64_t work = record.verdict->body.work;
  if (record.verdict->body.draw == manifest::Draw::kPolicy && record.beacon) {
    const auto assignment = assign(record.task, *record.proof, &*record.beacon, *record.verifier);
    if (!assignment.ok()) return 0;
    const auto drawn = policy_draw(task, *assignment);
    if (!drawn.ok()) return 0;
    work = replay_work(task, *drawn).ok() ? *replay_work(task, *drawn) : work;
  }
  return task.estimate.step_operations == 0 ? 0 : work / task.estimate.step_operations;
}

Standing due(const TaskRecord& record, Reason reason, std::int64_t now) {
  manifest::Settlement settlement;
  settlement.task = record.task.id;
  settlement.reason = reason;
  settlement.payouts = payouts(record.task.body, reason, stakes_of(record, now), replayed_steps(record));
  return {TaskState::kDue, std::nullopt, settlement};
}

/// What a task ends in whose proof did not fall, if the final state arrives. A verdict that fell counts as
/// none.
Reason reason_of(const TaskRecord& record, const Games& games) {
  if (!record.verdict) return Reason::kUnverified;
  if (games.verdict_fell) return is_refuted(record) ? Reason::kOverturned : Reason::kUnverified;
  switch (record.verdict->body.outcome) {
    case Outcome::kAccepted:
      return Reason::kAccepted;
    case Outcome::kRefuted:
      return Reason::kRefuted;
    case Outcome::kInconclusive:
      break;
  }
  return Reason::kInconclusive;
}

/// From the challenge window on: games end, then the final state is awaited if the solver is to be paid.
Standing objected(const TaskRecord& record, std::int64_t window_end, const Games& games, std::int64_t now) {
  if (now <= window_end) return {TaskState::kChallengeWindow, window_end, std::nullopt};
  if (games.open_until) return {TaskState::kArbitration, games.open_until, std::nullopt};
  if (games.proof_fell) return due(record, Reason::kConvicted, now);
  const Reason reason = reason_of(record, games);
  const bool unpaid = reason == Reason::kRefuted || reason == Reason::kInconclusive;
  if (unpaid || record.delivered) return due(record, reason, now);
  const std::int64_t deadline =
      std::max(window_end, games.last_end) + record.task.body.policy.window_delivery_ms;
  if (now > deadline) return due(record, Reason::kNoDelivery, now);
  return {TaskState::kAwaitingDelivery, deadline, std::nullopt};
}

/// When a verdict falls the window begins anew: whoever kept silent because of it can still object to the
/// proof.
Standing with_verdict(const TaskRecord& record, std::int64_t now) {
  const Games games = games_of(record, now);
  const std::int64_t since = std::max(record.verdict_ms, games.verdict_fell.value_or(0));
  return objected(record, since + record.task.body.policy.window_challenge_ms, games, now);
}

/// Proof logged, no verdict yet: which step the verifier owes, and until when.
Standing awaiting_verdict(const TaskRecord& record, std::int64_t now) {
  const manifest::Policy& policy = record.task.body.policy;
  TaskState state = TaskState::kProofCommitted;
  std::int64_t since = record.proof_ms;
  if (record.beacon) {
    state = TaskState::kBeacon;
    since = record.beacon_ms;
  }
  if (record.verdict_commitment) {
    state = TaskState::kVerifyCommitted;
    since = record.verdict_commitment_ms;
  }
  const std::int64_t deadline = since + policy.window_reveal_ms;
  if (now <= deadline) return {state, deadline, std::nullopt};
  return objected(record, deadline + policy.window_challenge_ms, games_of(record, now), now);
}

}  // namespace

std::string_view name_of(TaskState state) {
  constexpr std::array<std::string_view, 10> kNames{"open",        "assigned",          "proof-committed",
                                                    "beacon",      "verify-committed",  "challenge-window",
                                                    "arbitration", "awaiting-delivery", "due",
                                                    "settled"};
  return kNames[static_cast<std::size_t>(state)];
}

std::int64_t GameRecord::deadline_ms() const {
  return last_ms + game.dispute().task.body.policy.window_move_ms;
}

std::optional<GameEnd> end_of(const GameRecord& record, std::int64_t milliseconds) {
  if (const auto& decision = record.game.decision()) return GameEnd{decision->falls, record.last_ms};
  if (milliseconds <= record.deadline_ms()) return std::nullopt;
  return GameEnd{side_of(record.game.stage()) == Side::kDefender, record.deadline_ms()};
}

Game game_at(const GameRecord& record, std::int64_t milliseconds) {
  Game out = record.game;
  if (!out.decision() && milliseconds > record.deadline_ms()) out.miss_turn();
  return out;
}

Standing standing(const TaskRecord& record, std::int64_t milliseconds) {
  if (record.settlement) return {TaskState::kSettled, std::nullopt, std::nullopt};
  const manifest::Policy& policy = record.task.body.policy;
  if (!record.solver) {
    const std::int64_t deadline = record.opened_ms + policy.window_proof_ms;
    if (milliseconds > deadline) return due(record, Reason::kNoAssignment, milliseconds);
    return {TaskState::kOpen, deadline, std::nullopt};
  }
  if (!record.proof) {
    const std::int64_t deadline = record.assigned_ms + policy.window_proof_ms;
    if (milliseconds > deadline) return due(record, Reason::kNoProof, milliseconds);
    return {TaskState::kAssigned, deadline, std::nullopt};
  }
  return record.verdict ? with_verdict(record, milliseconds) : awaiting_verdict(record, milliseconds);
}

}  // namespace dgx::protocol
