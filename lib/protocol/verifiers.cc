// The verifiers of a task, and their deadlines: the one whom the assign names, or those whom a round draws.

#include <algorithm>

#include "dgx/protocol/settlement.h"

namespace dgx::protocol {
namespace {

/// Index of the verdict's signer among those drawn; their number if there is no verdict.
std::size_t verdict_index(const TaskRecord& record) {
  const auto& drawn = record.round->drawn;
  if (!record.verdict) return drawn.size();
  const auto found = std::find_if(drawn.begin(), drawn.end(), [&](const DrawnVerifier& one) {
    return one.drawn.verifier == record.verdict->key_id;
  });
  return static_cast<std::size_t>(found - drawn.begin());
}

/// The verifiers in the order in which they are asked.
std::vector<Digest> asked(const TaskRecord& record) {
  if (record.beacon) return {*record.verifier};
  std::vector<Digest> out;
  if (record.round) {
    for (const DrawnVerifier& one : record.round->drawn) out.push_back(one.drawn.verifier);
  }
  return out;
}

}  // namespace

std::optional<DrawSource> source_of(const TaskRecord& record) {
  if (record.round) return record.round->source;
  if (record.beacon) return DrawSource(*record.beacon);
  return std::nullopt;
}

std::vector<VerifierTurn> turns_of(const TaskRecord& record) {
  std::vector<VerifierTurn> out;
  if (!record.opening) return out;
  const std::int64_t window = record.task.body.policy.window_reveal_ms;
  std::int64_t begins = record.opening_ms;
  for (const Digest& verifier : asked(record)) {
    const auto committed = record.committed.find(verifier);
    const std::int64_t waited = committed == record.committed.end() ? begins : committed->second.logged_ms;
    out.push_back({verifier, begins, waited + window});
    begins = waited + window;
  }
  return out;
}

std::optional<Digest> verifier_at(const TaskRecord& record, std::int64_t now) {
  if (record.verifier) return record.verifier;
  if (!record.round) return std::nullopt;
  const auto turns = turns_of(record);
  for (const VerifierTurn& turn : turns) {
    if (now <= turn.deadline_ms) return turn.verifier;
  }
  return turns.empty() ? record.round->drawn.front().drawn.verifier : turns.back().verifier;
}

std::set<Digest> staked_offers(const TaskRecord& record) {
  std::set<Digest> out;
  if (!record.solver) return out;
  if (record.task.body.policy.beacon_source == 0) {
    for (const auto& [id, offer] : record.offers) out.insert(id);
    return out;
  }
  if (!record.round) return out;
  const auto& drawn = record.round->drawn;
  const std::size_t verdict = verdict_index(record);
  // A verdict before the opening comes from the first; without an opening nobody else was asked.
  const std::size_t last = record.verdict ? verdict : record.opening ? drawn.size() - 1 : 0;
  for (std::size_t i = 0; i <= last; ++i) out.insert(drawn[i].drawn.offer);
  if (record.audit && record.audit->auditor) out.insert(record.audit->auditor->drawn.offer);
  return out;
}

}  // namespace dgx::protocol
