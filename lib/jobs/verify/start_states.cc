#include "verify/start_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "dgx/core/remote.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"

namespace dgx::jobs {
namespace {

constexpr std::size_t kMostListed = 32;

}  // namespace

std::string listed(std::span<const std::int64_t> numbers) {
  std::string out = fmt::format("{}", fmt::join(numbers.first(std::min(numbers.size(), kMostListed)), ", "));
  if (numbers.size() > kMostListed) out += fmt::format(" and {} more", numbers.size() - kMostListed);
  return out;
}

Result<StartStates> StartStates::open(const std::string& path, const ProofFiles& proof, int threads) {
  StartStates out(path, proof.proof.body.task, proof.segments, &proof, threads);
  DGX_CHECK(out.open_file());
  return out;
}

Result<StartStates> StartStates::open(const std::string& path, const Digest& task,
                                      const protocol::Segments& segments, int threads) {
  StartStates out(path, task, segments, nullptr, threads);
  DGX_CHECK(out.open_file());
  return out;
}

Status StartStates::open_file() {
  std::error_code ignored;
  if (is_url(path_) && path_.ends_with('/')) {
    path_.pop_back();
    DGX_TRY(run_, bundle::RunReader::open(path_));
    return check_run();
  }
  if (is_opening(path_)) {
    path_ = fmt::format("{}/{}", path_, kOpenedSample);
  } else if (std::filesystem::is_directory(path_, ignored)) {
    DGX_TRY(run_, bundle::RunReader::open(path_));
    return check_run();
  } else if (proof_ == nullptr) {
    DGX_TRY(const bundle::Kind kind, bundle::kind_of(path_));
    if (kind == bundle::Kind::kState) return {};
    if (kind != bundle::Kind::kSample)
      return malformed(fmt::format("{}: is a {} bundle, expected a run, a state or a sample", path_,
                                   bundle::name_of(kind)));
  }
  DGX_TRY(auto sample, bundle::SampleReader::open(path_));
  sample_.emplace(std::move(sample));
  return check_sample();
}

Status StartStates::check_run() const {
  const bundle::RunIndex& index = run_->index();
  if (index.header.task != task_) return malformed(path_ + ": belongs to another task");
  if (index.segments() >= segments_.states())
    return malformed(fmt::format("{}: has more checkpoints than the {}", path_, proof_ ? "proof" : "task"));
  if (proof_ == nullptr) return {};  // one that diverged ends between two of the task's checkpoints
  for (std::size_t i = 0; i < index.checkpoints.size(); ++i) {
    const std::int64_t due = segments_.boundary(static_cast<std::int64_t>(i));
    if (index.checkpoints[i].step == due) continue;
    return malformed(fmt::format("{}: checkpoint {} is at step {}, the proof has it at {}", path_, i,
                                 index.checkpoints[i].step, due));
  }
  return {};
}

Status StartStates::check_sample() const {
  const bundle::SampleHeader& header = sample_->header();
  if (header.task != task_) return malformed(path_ + ": belongs to another task");
  if (proof_ == nullptr) return {};
  if (header.proof != proof_->proof.id) return malformed(path_ + ": belongs to another proof");
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

Status StartStates::check_shared(const program::Program& program) const {
  if (!sample_) return {};
  const std::vector<std::string> constant = program::constant_entries(program);
  for (const std::string& name : sample_->constants()) {
    if (std::binary_search(constant.begin(), constant.end(), name)) continue;
    return malformed(
        fmt::format("{}: \"constant/{}\": the task's program changes this entry, or has none", path_, name));
  }
  return {};
}

std::vector<std::int64_t> StartStates::missing(std::span<const std::int64_t> wanted) const {
  std::vector<std::int64_t> out;
  if (!sample_) return out;
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
  if (!run_) return out;
  const auto& have = run_->index().checkpoints;
  for (const std::int64_t segment : wanted) {
    const auto at = static_cast<std::size_t>(segment);
    if (at >= have.size() || !run_->has(segment) || have[at].digest != committed(segment))
      out.push_back(segment);
  }
  return out;
}

Result<State> StartStates::start(std::int64_t segment, program::Executor* executor, const StopFlag& stop) {
  if (sample_) return from_sample(segment);
  if (!run_) {
    DGX_TRY(auto stored, bundle::read_state(path_, bundle::Check::kDigests, {threads_}));
    return std::move(stored.state);
  }
  if (proof_ == nullptr && segment > run_->index().segments()) {
    return usage_error(
        fmt::format("{}: has committed states 0 to {}, not {}", path_, run_->index().segments(), segment));
  }
  if (to_recompute(std::span(&segment, 1)).empty()) return kept(segment);
  if (executor == nullptr) return run_->state(segment).error();
  return recompute(segment, *executor, stop);
}

Result<State> StartStates::from_sample(std::int64_t segment) const {
  const auto& have = sample_->segments();
  const auto found =
      std::find_if(have.begin(), have.end(), [&](const auto& s) { return s.segment == segment; });
  if (found == have.end()) {
    return Error{proof_ != nullptr ? ErrorCode::kInconclusive : ErrorCode::kMissing,
                 fmt::format("{}: has no start state of segment {}", path_, segment),
                 {}};
  }
  const auto position = static_cast<std::size_t>(found - have.begin());
  DGX_TRY(auto stored, sample_->start(position, bundle::Check::kDigests, {threads_}));
  if (proof_ == nullptr || stored.digests.state == committed(segment)) return std::move(stored.state);
  return malformed(fmt::format("{}: segment {}: holds state {}, the proof commits to {}", path_, segment,
                               stored.digests.state.brief(), committed(segment).brief()));
}

Result<State> StartStates::kept(std::int64_t checkpoint) const {
  DGX_TRY(auto stored, run_->state(checkpoint, bundle::Check::kDigests, {threads_}));
  return std::move(stored.state);
}

Error StartStates::missed(std::int64_t checkpoint, std::int64_t base) const {
  if (proof_ == nullptr) {
    return malformed(
        fmt::format("{}: committed state {} does not follow from checkpoint {}, the nearest that was kept",
                    path_, checkpoint, base));
  }
  const std::string segments = base + 1 == *not_reached_
                                   ? fmt::format("segment {}", base)
                                   : fmt::format("one of the segments {} to {}", base, *not_reached_ - 1);
  return {ErrorCode::kInconclusive,
          fmt::format("{}: checkpoint {} of the proof is missing, and the program does not lead to it from "
                      "checkpoint {}",
                      path_, checkpoint, base),
          segments + " is wrong"};
}

/// Turns kMalformed into kInconclusive: a committed state from which the program cannot go on is the prover's
/// fault, not the file's, and the caller who replays that very segment gives the reason.
Status StartStates::of_prover(Status status, std::int64_t checkpoint) const {
  if (status.ok() || proof_ == nullptr || status.error().code != ErrorCode::kMalformed) return status;
  Error error = within(fmt::format("recomputing checkpoint {}", checkpoint), std::move(status).error());
  error.code = ErrorCode::kInconclusive;
  return error;
}

/// Loads checkpoint `base`, which is kept unless there is none before `checkpoint`.
Status StartStates::restart(std::int64_t checkpoint, std::int64_t base, program::Executor& executor) {
  if (!to_recompute(std::span(&base, 1)).empty()) {
    if (proof_ == nullptr) return run_->state(base).error();
    return Error{ErrorCode::kInconclusive,
                 fmt::format("{}: has no state of the proof at or before checkpoint {}", path_, checkpoint),
                 {}};
  }
  if (not_reached_ && base < *not_reached_ && *not_reached_ <= checkpoint) return missed(checkpoint, base);
  DGX_TRY(const State from, kept(base));
  DGX_CHECK(of_prover(executor.load(from), checkpoint));
  reached_ = base;
  const std::int64_t step = run_->index().checkpoints[static_cast<std::size_t>(base)].step;
  if (proof_ != nullptr || executor.position() == step) return {};
  return malformed(
      fmt::format("{}: committed state {} is at step {}, not {}", path_, base, executor.position(), step));
}

std::int64_t StartStates::base_of(std::int64_t checkpoint) const {
  std::int64_t base = checkpoint - 1;
  while (base > 0 && !to_recompute(std::span(&base, 1)).empty()) --base;
  return base;
}

std::int64_t StartStates::steps_to_recompute(std::span<const std::int64_t> wanted) const {
  std::int64_t steps = 0;
  std::int64_t reached = -1;
  for (const std::int64_t segment : wanted) {
    if (!to_recompute(std::span(&segment, 1)).empty()) {
      const std::int64_t base = base_of(segment);
      const bool is_nearer = reached >= base && reached <= segment;
      steps += segments_.boundary(segment) - segments_.boundary(is_nearer ? reached : base);
    }
    reached = segment + 1;
  }
  return steps;
}

Result<State> StartStates::recompute(std::int64_t checkpoint, program::Executor& executor,
                                     const StopFlag& stop) {
  const std::int64_t base = base_of(checkpoint);
  if (!reached_ || *reached_ > checkpoint || *reached_ < base) {
    DGX_CHECK(restart(checkpoint, base, executor));
  }
  const std::int64_t from = *reached_;
  reached_.reset();
  not_reached_ = checkpoint;
  const auto& have = run_->index().checkpoints;
  const auto at = static_cast<std::size_t>(checkpoint);
  const std::int64_t target = at < have.size() ? have[at].step : segments_.boundary(checkpoint);
  const auto taken = [&]() -> Status {
    ++recomputed_steps_;
    if (!stop.requested()) return {};
    return Error{ErrorCode::kInterrupted, fmt::format("recomputing checkpoint {}: stopped", checkpoint), {}};
  };
  DGX_CHECK(of_prover(executor.advance(target - executor.position(), taken), checkpoint));
  DGX_TRY(const auto digests, executor.digests(threads_));
  if (digests.state != committed(checkpoint)) return missed(checkpoint, from);
  reached_ = checkpoint;
  not_reached_.reset();
  return executor.state();
}

}  // namespace dgx::jobs
