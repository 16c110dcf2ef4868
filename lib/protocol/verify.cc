#include "dgx/protocol/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/manifest/fields.h"
#include "dgx/merkle/digests.h"

namespace dgx::protocol {
namespace {

using manifest::Beacon;
using manifest::Draw;
using manifest::Proof;
using manifest::RowReason;
using manifest::Signed;
using manifest::Task;
using manifest::Verdict;
using manifest::VerdictRow;

Result<Digest> digest_of(const State& state) {
  DGX_TRY(const merkle::StateDigests digests, merkle::state_digests(state));
  return digests.state;
}

VerdictRow disagreement(VerdictRow row, RowReason reason) {
  row.agrees = false;
  row.reason = reason;
  return row;
}

/// A fault of the committed state, found before anything runs.
std::optional<RowReason> fault_of(const State& start, const Segment& segment) {
  const auto step = step_of(start);
  if (!step.ok()) return RowReason::kState;
  if (*step != segment.first) return RowReason::kStep;
  return std::nullopt;
}

/// Steps of the segment; gives the digest of the end state, or nullopt after a non-finite step. Sets the
/// witness on its way.
Result<std::optional<Digest>> run_steps(Executor& executor, const Segment& segment, std::int64_t witnessed,
                                        const Digest& verifier, const std::function<bool()>& progress,
                                        Digest& witness) {
  for (std::int64_t step = segment.first + 1; step <= segment.end; ++step) {
    Status status = executor.step();
    if (!status.ok() && status.error().code == ErrorCode::kMalformed) return std::optional<Digest>();
    DGX_CHECK(std::move(status));
    if (step == witnessed) {
      DGX_TRY(const State now, executor.state());
      DGX_TRY(const Digest interior, digest_of(now));
      witness = witness_of(verifier, interior);
    }
    if (progress && !progress()) {
      return Error{ErrorCode::kInterrupted, fmt::format("segment {}: interrupted", segment.index), {}};
    }
  }
  DGX_TRY(const State last, executor.state());
  DGX_TRY(const Digest end, digest_of(last));
  return std::optional<Digest>(end);
}

/// Each row once, in order, of this task, and about the committed end state.
Status check_rows(std::span<const VerdictRow> rows, std::span<const Digest> states) {
  if (rows.empty()) return malformed("verdict: no replayed segment");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const VerdictRow& row = rows[i];
    if (i > 0 && row.index == rows[i - 1].index)
      return malformed(fmt::format("segment {}: replayed twice", row.index));
    if (row.index < 0 || row.index + 1 >= std::ssize(states)) {
      return malformed(fmt::format("segment {}: the task has {}", row.index, states.size() - 1));
    }
    if (row.expected != states[static_cast<std::size_t>(row.index) + 1]) {
      return malformed(fmt::format("segment {}: expected digest is not the proof's", row.index));
    }
  }
  return {};
}

Status check_drawn(const Task& task, const Assignment& assignment, std::span<const std::int64_t> segments) {
  if (assignment.draw != Draw::kPolicy) return {};
  DGX_TRY(const std::vector<std::int64_t> drawn, policy_draw(task, assignment));
  if (std::equal(drawn.begin(), drawn.end(), segments.begin(), segments.end())) return {};
  return malformed("verdict: the replayed segments are not those that the policy draws");
}

}  // namespace

Status check_proof(const Signed<Task>& task, const Signed<Proof>& proof) {
  const Proof& body = proof.body;
  if (body.task != task.id) {
    return malformed(fmt::format("proof: is of task {}, not of {}", body.task.brief(), task.id.brief()));
  }
  if (body.initial != task.body.initial.digest)
    return malformed("proof: initial: is not the task's initial state");
  if (body.steps != task.body.steps) {
    return malformed(fmt::format("proof: steps: is {}, the task has {}", body.steps, task.body.steps));
  }
  DGX_TRY(const Segments segments, Segments::of(task.body.steps, task.body.checkpoint_every));
  if (body.states.count != segments.count() + 1) {
    return malformed(fmt::format("proof: states: count: is {}, the task has {} segments", body.states.count,
                                 segments.count()));
  }
  return {};
}

Result<Assignment> assign(const Signed<Task>& task, const Signed<Proof>& proof, const Signed<Beacon>* beacon,
                          const Digest& verifier) {
  DGX_CHECK(check_proof(task, proof));
  Assignment out{task.id, proof.id, verifier, std::nullopt, Digest{}, Draw::kChosen};
  if (beacon == nullptr) return out;
  if (beacon->body.task != task.id) return malformed("beacon: is of another task");
  if (beacon->body.proof != proof.id) return malformed("beacon: is of another proof");
  if (beacon->key_id != verifier) {
    return unauthorised(
        fmt::format("beacon: is signed by {}, the verifier is {}", beacon->key_id.brief(), verifier.brief()));
  }
  out.beacon = beacon->id;
  out.beacon_value = beacon->body.value;
  out.draw = Draw::kPolicy;
  return out;
}

Result<std::vector<std::int64_t>> policy_draw(const Task& task, const Assignment& assignment) {
  if (!assignment.beacon)
    return usage_error("the policy's draw needs a beacon", "give --beacon, or choose the segments");
  DGX_TRY(const Segments segments, Segments::of(task.steps, task.checkpoint_every));
  const std::int64_t n = segments.count();
  return draw_segments(assignment.beacon_value, assignment.proof, assignment.verifier, n,
                       sample_count(n, task.policy.sample_ppm));
}

Result<OpeningDraw> drawn_after_beacon(const Signed<Task>& task, const Signed<Proof>& proof,
                                       const Signed<manifest::Beacon>& beacon) {
  DGX_TRY(const Assignment assignment, assign(task, proof, &beacon, beacon.key_id));
  DGX_TRY(auto segments, policy_draw(task.body, assignment));
  return OpeningDraw{beacon.id, std::move(segments)};
}

Result<OpeningDraw> drawn_after_proof(const Signed<Task>& task, const Signed<Proof>& proof, const Digest& root) {
  DGX_TRY(Assignment assignment, assign(task, proof, nullptr, proof.key_id));
  assignment.beacon = proof.id;
  assignment.beacon_value = manifest::beacon_value(root, proof.id);
  DGX_TRY(auto segments, policy_draw(task.body, assignment));
  return OpeningDraw{proof.id, std::move(segments)};
}

Result<VerdictRow> replay_segment(Executor& executor, const State& start, const Segment& segment,
                                  const Digest& start_digest, const Digest& end_digest,
                                  const Assignment& assignment, const std::function<bool()>& progress) {
  const std::string where = fmt::format("segment {}", segment.index);
  DGX_TRY(const Digest given, digest_of(start));
  if (given != start_digest) return malformed(where + ": the start state given is not the committed one");
  VerdictRow row;
  row.index = segment.index;
  row.expected = end_digest;
  if (const auto fault = fault_of(start, segment)) return disagreement(row, *fault);
  Status loaded = executor.load(start);
  // The state is the committed one, so whatever is wrong with it is the prover's fault.
  if (!loaded.ok() && loaded.error().code == ErrorCode::kMalformed)
    return disagreement(row, RowReason::kState);
  if (!loaded.ok()) return within(where, std::move(loaded).error());

  const std::int64_t witnessed =
      witness_step(assignment.beacon_value, assignment.proof, assignment.verifier, segment);
  DGX_TRY(const std::optional<Digest> end,
          run_steps(executor, segment, witnessed, assignment.verifier, progress, row.witness));
  if (!end) return disagreement(row, RowReason::kNonFinite);
  row.recomputed = *end;
  if (*end != end_digest) return disagreement(row, RowReason::kDigest);
  row.agrees = true;
  return row;
}

Result<Verdict> assemble_verdict(const Task& task, const Assignment& assignment,
                                 std::span<const Digest> states, std::vector<VerdictRow>& rows,
                                 const Digest& nonce) {
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  DGX_CHECK(check_rows(rows, states));
  std::vector<std::int64_t> segments;
  for (const VerdictRow& row : rows) segments.push_back(row.index);
  DGX_CHECK(check_drawn(task, assignment, segments));

  Verdict out;
  out.task = assignment.task;
  out.proof = assignment.proof;
  out.beacon = assignment.beacon;
  out.draw = assignment.draw;
  out.segments = std::ssize(states) - 1;
  out.replayed = std::ssize(rows);
  out.rows = manifest::rows_root(rows);
  const auto wrong =
      std::find_if(rows.begin(), rows.end(), [](const VerdictRow& row) { return !row.agrees; });
  out.outcome = wrong == rows.end() ? manifest::Outcome::kAccepted : manifest::Outcome::kRefuted;
  if (wrong != rows.end()) out.first_disagreement = *wrong;
  DGX_TRY(out.work, replay_work(task, segments));
  out.miss_probability = miss_probabilities(out.segments, out.replayed);
  out.nonce = nonce;
  return out;
}

Result<std::int64_t> replay_work(const Task& task, std::span<const std::int64_t> segments) {
  DGX_TRY(const Segments all, Segments::of(task.steps, task.checkpoint_every));
  std::int64_t steps = 0;
  for (const std::int64_t index : segments) {
    if (index < 0 || index >= all.count())
      return malformed(fmt::format("segment {}: the task has {}", index, all.count()));
    steps += all[index].length();
  }
  const auto work = checked_mul(steps, task.estimate.step_operations);
  if (!work || *work > manifest::kMaxInteger)
    return usage_error("the work of the replay exceeds 2^53 operations");
  return *work;
}

}  // namespace dgx::protocol
