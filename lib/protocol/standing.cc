#include <array>

#include "dgx/protocol/segments.h"
#include "dgx/protocol/settlement.h"
#include "dgx/protocol/verify.h"

namespace dgx::protocol {
namespace {

using manifest::Outcome;
using manifest::Reason;

Stakes stakes_of(const TaskRecord& record) {
  return {record.task.key_id.hex(), record.solver ? record.solver->hex() : "",
          record.verifier ? record.verifier->hex() : ""};
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

Standing due(const TaskRecord& record, Reason reason) {
  manifest::Settlement settlement;
  settlement.task = record.task.id;
  settlement.reason = reason;
  settlement.payouts = payouts(record.task.body, reason, stakes_of(record), replayed_steps(record));
  return {TaskState::kDue, std::nullopt, settlement};
}

/// After the challenge window: paid once the final state has arrived.
Standing after_window(const TaskRecord& record, std::int64_t window_end, std::int64_t now) {
  const Reason reason = record.verdict ? Reason::kAccepted : Reason::kUnverified;
  if (record.delivered) return due(record, reason);
  const std::int64_t deadline = window_end + record.task.body.policy.window_delivery_ms;
  if (now > deadline) return due(record, Reason::kNoDelivery);
  return {TaskState::kAwaitingDelivery, deadline, std::nullopt};
}

Standing with_verdict(const TaskRecord& record, std::int64_t now) {
  const std::int64_t window_end = record.verdict_ms + record.task.body.policy.window_challenge_ms;
  if (now <= window_end) return {TaskState::kChallengeWindow, window_end, std::nullopt};
  switch (record.verdict->body.outcome) {
    case Outcome::kRefuted:
      return due(record, Reason::kRefuted);
    case Outcome::kInconclusive:
      return due(record, Reason::kInconclusive);
    case Outcome::kAccepted:
      break;
  }
  return after_window(record, window_end, now);
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
  const std::int64_t window_end = deadline + policy.window_challenge_ms;
  if (now <= window_end) return {TaskState::kChallengeWindow, window_end, std::nullopt};
  return after_window(record, window_end, now);
}

}  // namespace

std::string_view name_of(TaskState state) {
  constexpr std::array<std::string_view, 9> kNames{"open",
                                                   "assigned",
                                                   "proof-committed",
                                                   "beacon",
                                                   "verify-committed",
                                                   "challenge-window",
                                                   "awaiting-delivery",
                                                   "due",
                                                   "settled"};
  return kNames[static_cast<std::size_t>(state)];
}

Standing standing(const TaskRecord& record, std::int64_t milliseconds) {
  if (record.settlement) return {TaskState::kSettled, std::nullopt, std::nullopt};
  const manifest::Policy& policy = record.task.body.policy;
  if (!record.solver) {
    const std::int64_t deadline = record.opened_ms + policy.window_proof_ms;
    if (milliseconds > deadline) return due(record, Reason::kNoAssignment);
    return {TaskState::kOpen, deadline, std::nullopt};
  }
  if (!record.proof) {
    const std::int64_t deadline = record.assigned_ms + policy.window_proof_ms;
    if (milliseconds > deadline) return due(record, Reason::kNoProof);
    return {TaskState::kAssigned, deadline, std::nullopt};
  }
  return record.verdict ? with_verdict(record, milliseconds) : awaiting_verdict(record, milliseconds);
}

}  // namespace dgx::protocol
