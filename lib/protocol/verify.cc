#include "dgx/protocol/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/manifest/fields.h"
#include "dgx/merkle/digests.h"
#include "dgx/protocol/forced.h"

namespace dgx::protocol {
namespace {

using manifest::Draw;
using manifest::Proof;
using manifest::RowReason;
using manifest::Signed;
using manifest::Task;
using manifest::Verdict;
using manifest::VerdictRow;

VerdictRow disagreement(VerdictRow row, RowReason reason) {
  row.agrees = false;
  row.reason = reason;
  return row;
}

/// A fault of the committed start state, found before anything runs.
std::optional<RowReason> fault_of(const State& start, const Segment& segment) {
  const auto step = step_of(start);
  if (!step.ok()) return RowReason::kState;
  if (*step != segment.first) return RowReason::kStep;
  return std::nullopt;
}

/// Runs the segment's steps. Returns the digest of the end state, or nullopt after a non-finite step, and
/// sets `interior` to the digest of the witnessed state on the way. A single step has none.
Result<std::optional<Digest>> run_steps(program::Executor& executor, const Segment& segment,
                                        std::optional<Digest>& interior,
                                        const std::function<bool()>& progress) {
  for (std::int64_t step = segment.first + 1; step <= segment.end; ++step) {
    Status status = executor.step();
    if (!status.ok() && status.error().code == ErrorCode::kMalformed) return std::optional<Digest>();
    DGX_CHECK(std::move(status));
    if (segment.length() > 1 && step == witness_step(segment)) {
      DGX_TRY(const merkle::StateDigests digests, executor.digests(1));
      interior = digests.state;
    }
    if (progress && !progress()) {
      return Error{ErrorCode::kInterrupted, fmt::format("segment {}: interrupted", segment.index), {}};
    }
  }
  DGX_TRY(const merkle::StateDigests end, executor.digests(1));
  return std::optional<Digest>(end.state);
}

/// Checks the sorted rows: each segment of the proof at most once, with the committed end state.
Status check_rows(std::span<const VerdictRow> rows, const Segments& segments,
                  std::span<const Digest> states) {
  if (rows.empty()) return malformed("verdict: no replayed segment");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const VerdictRow& row = rows[i];
    if (i > 0 && row.index == rows[i - 1].index)
      return malformed(fmt::format("segment {}: replayed twice", row.index));
    if (row.index < 0 || row.index >= segments.count())
      return malformed(fmt::format("segment {}: the proof has {}", row.index, segments.count()));
    if (row.expected != committed_end(segments, states, row.index).value_or(manifest::diverged_end())) {
      return malformed(fmt::format("segment {}: expected digest is not the proof's", row.index));
    }
  }
  return {};
}

/// Checks that a verdict of the policy's draw is about all of it and nothing else.
Status check_drawn(const Task& task, const Segments& segments, const Assignment& assignment,
                   std::span<const std::int64_t> replayed) {
  if (assignment.draw == Draw::kChosen) return {};
  DGX_TRY(const std::vector<std::int64_t> drawn, policy_draw(task, segments, assignment));
  if (std::equal(drawn.begin(), drawn.end(), replayed.begin(), replayed.end())) return {};
  return malformed("verdict: the replayed segments are not those that the policy draws");
}

}  // namespace

Result<Segments> segments_of(const Task& task, const Proof& proof) {
  if (!proof.diverged && proof.steps != task.steps)
    return malformed(fmt::format("proof: steps: is {}, the task has {}", proof.steps, task.steps));
  if (proof.diverged && proof.steps >= task.steps) {
    return malformed(
        fmt::format("proof: steps: is {}, but a run of {} steps diverges earlier", proof.steps, task.steps));
  }
  DGX_TRY(const Segments out, proof.diverged ? Segments::of_diverged(proof.steps, task.checkpoint_every)
                                             : Segments::of(task.steps, task.checkpoint_every));
  if (proof.states.count == out.states()) return out;
  return malformed(
      fmt::format("proof: states: count: is {}, its steps give {}", proof.states.count, out.states()));
}

std::optional<Digest> committed_end(const Segments& segments, std::span<const Digest> states,
                                    std::int64_t index) {
  if (segments.diverges(index)) return std::nullopt;
  return states[static_cast<std::size_t>(index) + 1];
}

Status check_proof(const Signed<Task>& task, const Signed<Proof>& proof) {
  const Proof& body = proof.body;
  if (body.task != task.id) {
    return malformed(fmt::format("proof: belongs to task {}, not {}", body.task.brief(), task.id.brief()));
  }
  if (body.initial != task.body.initial.digest)
    return malformed("proof: initial: is not the task's initial state");
  DGX_TRY([[maybe_unused]] const Segments segments, segments_of(task.body, body));
  return {};
}

Result<Assignment> assign(const Signed<Task>& task, const Signed<Proof>& proof,
                          const std::optional<DrawSource>& source, const Digest& verifier) {
  DGX_CHECK(check_proof(task, proof));
  Assignment out{task.id, proof.id, verifier, std::nullopt, Digest{}, Draw::kChosen};
  if (!source) return out;
  DGX_CHECK(check_source(task, proof.id, *source));
  if (!source->is_round && source->signer != verifier) {
    return unauthorised(
        fmt::format("beacon: is signed by {}, the verifier is {}", source->signer.brief(), verifier.brief()));
  }
  out.beacon = source->id;
  out.beacon_value = source->value;
  out.draw = Draw::kPolicy;
  return out;
}

Result<std::vector<std::int64_t>> policy_draw(const Task& task, const Segments& segments,
                                              const Assignment& assignment) {
  if (!assignment.beacon)
    return usage_error("the policy's draw needs a beacon or a round",
                       "give --beacon, or choose the segments");
  return policy_draw(task, segments, assignment.beacon_value, assignment.proof, assignment.verifier);
}

Result<OpeningDraw> drawn_after_source(const Signed<Task>& task, const Signed<Proof>& proof,
                                       const DrawSource& source) {
  DGX_TRY(const Assignment assignment, assign(task, proof, source, source.signer));
  DGX_TRY(const Segments segments, segments_of(task.body, proof.body));
  DGX_TRY(auto drawn, policy_draw(task.body, segments, assignment));
  return OpeningDraw{source.id, std::move(drawn)};
}

Result<OpeningDraw> drawn_after_proof(const Signed<Task>& task, const Signed<Proof>& proof,
                                      const Digest& root) {
  DGX_TRY(Assignment assignment, assign(task, proof, std::nullopt, proof.key_id));
  assignment.beacon = proof.id;
  assignment.beacon_value = manifest::beacon_value(root, proof.id);
  DGX_TRY(const Segments segments, segments_of(task.body, proof.body));
  DGX_TRY(auto drawn, policy_draw(task.body, segments, assignment));
  return OpeningDraw{proof.id, std::move(drawn)};
}

Result<VerdictRow> replay_segment(program::Executor& executor, const State& start, const Segment& segment,
                                  const Digest& start_digest, const std::optional<Digest>& end_digest,
                                  const Assignment& assignment, const std::function<bool()>& progress,
                                  Digest* audited) {
  const std::string where = fmt::format("segment {}", segment.index);
  DGX_TRY(const merkle::StateDigests given, merkle::state_digests(start));
  if (given.state != start_digest)
    return malformed(where + ": the given start state is not the committed one");
  VerdictRow row;
  row.index = segment.index;
  row.expected = end_digest.value_or(manifest::diverged_end());
  if (const auto fault = fault_of(start, segment)) return disagreement(row, *fault);
  Status loaded = executor.load(start);
  // The state is the committed one, so anything wrong with it is the prover's fault.
  if (!loaded.ok() && loaded.error().code == ErrorCode::kMalformed)
    return disagreement(row, RowReason::kState);
  if (!loaded.ok()) return within(where, std::move(loaded).error());

  std::optional<Digest> interior;
  DGX_TRY(const std::optional<Digest> end, run_steps(executor, segment, interior, progress));
  if (interior) {
    row.witness = witness_of(assignment.verifier, *interior);
    if (assignment.audited && audited != nullptr)
      *audited = witness_of(assignment.audited->verifier, *interior);
  }
  if (!end && end_digest) return disagreement(row, RowReason::kNonFinite);
  row.recomputed = end.value_or(manifest::diverged_end());
  if (end != end_digest) return disagreement(row, RowReason::kDigest);
  row.agrees = true;
  return row;
}

Result<Verdict> assemble_verdict(const Task& task, const Segments& segments, const Assignment& assignment,
                                 std::span<const Digest> states, std::vector<VerdictRow>& rows,
                                 const Digest& nonce, std::vector<std::int64_t> denied) {
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  DGX_CHECK(check_rows(rows, segments, states));
  std::vector<std::int64_t> replayed;
  for (const VerdictRow& row : rows) replayed.push_back(row.index);
  DGX_CHECK(check_drawn(task, segments, assignment, replayed));

  Verdict out;
  out.task = assignment.task;
  out.proof = assignment.proof;
  out.beacon = assignment.beacon;
  out.draw = assignment.draw;
  out.segments = segments.count();
  out.replayed = std::ssize(rows);
  out.rows = manifest::rows_root(rows);
  const auto wrong =
      std::find_if(rows.begin(), rows.end(), [](const VerdictRow& row) { return !row.agrees; });
  out.outcome = wrong == rows.end() ? manifest::Outcome::kAccepted : manifest::Outcome::kRefuted;
  if (wrong != rows.end()) out.first_disagreement = *wrong;
  DGX_TRY(out.work, replay_work(task, segments, replayed));
  out.miss_probability = miss_probabilities(segments, replayed);
  out.nonce = nonce;
  if (assignment.audited) out.audits = assignment.audited->verdict;
  out.denied = std::move(denied);
  const bool stated = rechecks_verdicts(task.policy) && out.draw != Draw::kChosen && wrong == rows.end();
  if (!stated) return out;
  if (rows.size() > manifest::kMostWitnesses)
    return usage_error(fmt::format("a verdict has room for {} witnesses, not for {}",
                                   manifest::kMostWitnesses, rows.size()));
  for (const VerdictRow& row : rows) out.witnesses.push_back(row.witness);
  return out;
}

namespace {

/// The steps of `count` segments between committed states, the last one included if `with_last`; nullopt if
/// there are not that many. All but the last have the same length.
std::optional<std::int64_t> steps_of(const Task& task, const Segments& segments, std::int64_t count,
                                     bool with_last) {
  const std::int64_t n = segments.between();
  const std::int64_t others = count - (with_last ? 1 : 0);
  if (others < 0 || others > std::max<std::int64_t>(0, n - 1) || (with_last && n == 0)) return std::nullopt;
  return others * task.checkpoint_every + (with_last ? segments[n - 1].length() : 0);
}

/// True if `work` is that of replaying any `count` of those segments and `more` steps.
bool is_work_of(const Task& task, const Segments& segments, std::int64_t count, std::int64_t more,
                std::int64_t work) {
  const auto fits = [&](bool with_last) {
    const auto steps = steps_of(task, segments, count, with_last);
    const auto product = checked_mul(steps.value_or(0) + more, task.estimate.step_operations);
    return steps && product && *product == work;
  };
  return fits(false) || fits(true);
}

}  // namespace

Status check_stated_work(const Task& task, const Segments& segments, const Verdict& verdict) {
  const bool accepted = verdict.outcome == manifest::Outcome::kAccepted;
  const bool policy = verdict.draw != manifest::Draw::kChosen;
  const std::int64_t diverging = segments.diverged() ? 1 : 0;
  // The policy's draw includes the diverging step; a chosen one may.
  bool follows = is_work_of(task, segments, verdict.replayed - diverging, diverging, verdict.work);
  if (diverging == 1 && !policy)
    follows = follows || is_work_of(task, segments, verdict.replayed, 0, verdict.work);
  if (!follows) return malformed("work: does not match the number of replayed segments");
  if (!accepted ||
      verdict.miss_probability == miss_probabilities(segments.between(), verdict.replayed - diverging))
    return {};
  return malformed("miss_probability: does not follow from the replayed segments");
}

Status check_stated_witnesses(const Segments& segments, std::span<const std::int64_t> drawn,
                              const Verdict& verdict) {
  const auto has_inside = [&](std::int64_t index) { return segments[index].length() > 1; };
  for (const std::int64_t index : verdict.denied) {
    if (!has_inside(index))
      return malformed(fmt::format("denied: segment {} has one step, and so no witness", index));
  }
  const std::vector<Digest>& stated = verdict.witnesses;
  if (stated.empty()) return {};
  if (stated.size() != drawn.size())
    return malformed(fmt::format("witnesses: are {} of {} segments drawn", stated.size(), drawn.size()));
  for (std::size_t place = 0; place < drawn.size(); ++place) {
    if (!has_inside(drawn[place]) && stated[place] != Digest{})
      return malformed(
          fmt::format("witnesses: that of segment {}, which has one step, must be zero", drawn[place]));
  }
  return {};
}

Result<std::int64_t> replay_work(const Task& task, const Segments& all,
                                 std::span<const std::int64_t> segments) {
  std::int64_t steps = 0;
  for (const std::int64_t index : segments) {
    if (index < 0 || index >= all.count())
      return malformed(fmt::format("segment {}: there are only {}", index, all.count()));
    steps += all[index].length();
  }
  const auto work = checked_mul(steps, task.estimate.step_operations);
  if (!work || *work > manifest::kMaxInteger)
    return usage_error("the work of the replay exceeds 2^53 operations");
  return *work;
}

}  // namespace dgx::protocol
