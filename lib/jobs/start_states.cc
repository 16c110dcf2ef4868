#include "start_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"

namespace dgx::jobs {
namespace {

constexpr std::size_t kMostListed = 32;

/// Turns kMalformed into kInconclusive: a committed state from which the program cannot go on is the prover's
/// fault, not the file's, and the caller who replays that very segment gives the reason.
Status as_inconclusive(Status status, const std::string& where) {
  if (status.ok() || status.error().code != ErrorCode::kMalformed) return status;
  Error error = within(where, std::move(status).error());
  error.code = ErrorCode::kInconclusive;
  return error;
}

}  // namespace

std::string listed(std::span<const std::int64_t> numbers) {
  std::string out = fmt::format("{}", fmt::join(numbers.first(std::min(numbers.size(), kMostListed)), ", "));
  if (numbers.size() > kMostListed) out += fmt::format(" and {} more", numbers.size() - kMostListed);
  return out;
}

Result<StartStates> StartStates::open(const std::string& path, const ProofFiles& proof, int threads) {
  StartStates out(path, proof, threads);
  std::error_code ignored;
  const bool opening = is_opening(path);
  if (opening) out.path_ = fmt::format("{}/{}", path, kOpenedSample);
  if (!opening && std::filesystem::is_directory(path, ignored)) {
    DGX_TRY(out.run_, bundle::RunReader::open(path));
    DGX_CHECK(out.check_run());
  } else {
    DGX_TRY(auto sample, bundle::SampleReader::open(out.path_));
    out.sample_.emplace(std::move(sample));
    DGX_CHECK(out.check_sample());
  }
  return out;
}

Status StartStates::check_run() const {
  const bundle::RunIndex& index = run_->index();
  if (index.header.task != proof_->proof.body.task) return malformed(path_ + ": is a run of another task");
  const protocol::Segments& segments = proof_->segments;
  if (std::ssize(index.checkpoints) > segments.states())
    return malformed(path_ + ": has more checkpoints than the proof");
  for (std::size_t i = 0; i < index.checkpoints.size(); ++i) {
    const std::int64_t due = segments.boundary(static_cast<std::int64_t>(i));
    if (index.checkpoints[i].step == due) continue;
    return malformed(fmt::format("{}: checkpoint {} is at step {}, the proof has it at {}", path_, i,
                                 index.checkpoints[i].step, due));
  }
  return {};
}

Status StartStates::check_sample() const {
  const bundle::SampleHeader& header = sample_->header();
  if (header.task != proof_->proof.body.task) return malformed(path_ + ": is a sample of another task");
  if (header.proof != proof_->proof.id) return malformed(path_ + ": is a sample of another proof");
  const manifest::RootReference& tree = proof_->proof.body.states;
  if (header.checkpoints != tree.count)
    return malformed(path_ + ": does not have the proof's number of states");
  for (const bundle::SampleSegment& segment : sample_->segments()) {
    const auto index = static_cast<std::uint64_t>(segment.segment);
    const Digest leaf = merkle::committed_state_leaf(segment.start);
    if (merkle::verify_inclusion(leaf, index, static_cast<std::uint64_t>(tree.count), segment.path,
                                 tree.root))
      continue;
    return malformed(fmt::format("{}: segment {}: its start state's path does not lead to the proof's root",
                                 path_, segment.segment));
  }
  return {};
}

std::vector<std::int64_t> StartStates::missing(std::span<const std::int64_t> wanted) const {
  std::vector<std::int64_t> out;
  if (run_) return out;
  const auto& have = sample_->segments();
  for (const std::int64_t segment : wanted) {
    const bool there =
        std::any_of(have.begin(), have.end(), [&](const auto& s) { return s.segment == segment; });
    if (!there) out.push_back(segment);
  }
  return out;
}

std::vector<std::int64_t> StartStates::to_recompute(std::span<const std::int64_t> wanted) const {
  std::vector<std::int64_t> out;
  if (sample_) return out;
  const auto& have = run_->index().checkpoints;
  for (const std::int64_t segment : wanted) {
    const auto at = static_cast<std::size_t>(segment);
    if (at >= have.size() || !have[at].kept || have[at].digest != committed(segment)) out.push_back(segment);
  }
  return out;
}

Result<State> StartStates::start(std::int64_t segment, program::Executor* executor, const StopFlag& stop) {
  if (sample_) return from_sample(segment);
  if (to_recompute(std::span(&segment, 1)).empty()) return kept(segment);
  if (executor == nullptr) return run_->state(segment).error();
  return recompute(segment, *executor, stop);
}

Result<State> StartStates::from_sample(std::int64_t segment) const {
  const auto& have = sample_->segments();
  const auto found =
      std::find_if(have.begin(), have.end(), [&](const auto& s) { return s.segment == segment; });
  if (found == have.end()) {
    return Error{
        ErrorCode::kInconclusive, fmt::format("{}: has no start state of segment {}", path_, segment), {}};
  }
  const auto position = static_cast<std::size_t>(found - have.begin());
  DGX_TRY(auto stored, sample_->start(position, bundle::Check::kDigests, {threads_}));
  if (stored.digests.state == committed(segment)) return std::move(stored.state);
  return malformed(fmt::format("{}: segment {}: holds state {}, the proof commits to {}", path_, segment,
                               stored.digests.state.brief(), committed(segment).brief()));
}

Result<State> StartStates::kept(std::int64_t checkpoint) const {
  DGX_TRY(auto stored, run_->state(checkpoint, bundle::Check::kDigests, {threads_}));
  return std::move(stored.state);
}

Error StartStates::missed(std::int64_t checkpoint, std::int64_t base) const {
  const std::string segments = base + 1 == *not_reached_
                                   ? fmt::format("segment {}", base)
                                   : fmt::format("one of the segments {} to {}", base, *not_reached_ - 1);
  return {ErrorCode::kInconclusive,
          fmt::format("{}: checkpoint {} of the proof is not there, and the program does not lead to it from "
                      "checkpoint {}",
                      path_, checkpoint, base),
          segments + " is wrong"};
}

Result<State> StartStates::recompute(std::int64_t checkpoint, program::Executor& executor,
                                     const StopFlag& stop) {
  const std::string where = fmt::format("recomputing checkpoint {}", checkpoint);
  std::int64_t base = checkpoint - 1;
  while (base > 0 && !to_recompute(std::span(&base, 1)).empty()) --base;
  if (!reached_ || *reached_ > checkpoint || *reached_ < base) {
    if (!to_recompute(std::span(&base, 1)).empty()) {
      return Error{ErrorCode::kInconclusive,
                   fmt::format("{}: has no state of the proof at or before checkpoint {}", path_, checkpoint),
                   {}};
    }
    if (not_reached_ && base < *not_reached_ && *not_reached_ <= checkpoint) return missed(checkpoint, base);
    DGX_TRY(const State from, kept(base));
    DGX_CHECK(as_inconclusive(executor.load(from), where));
    reached_ = base;
  }
  const std::int64_t from = *reached_;
  reached_.reset();
  not_reached_ = checkpoint;
  const std::int64_t target = proof_->segments.boundary(checkpoint);
  while (executor.position() < target) {
    if (stop.requested()) return Error{ErrorCode::kInterrupted, where + ": stopped", {}};
    DGX_CHECK(as_inconclusive(executor.step(), where));
    ++recomputed_steps_;
  }
  DGX_TRY(State state, executor.state());
  DGX_TRY(const auto digests, bundle::digests_of(state, threads_));
  if (digests.state != committed(checkpoint)) return missed(checkpoint, from);
  reached_ = checkpoint;
  not_reached_.reset();
  return state;
}

}  // namespace dgx::jobs
