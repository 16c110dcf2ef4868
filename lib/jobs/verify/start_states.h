#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/bundle/sample.h"
#include "dgx/core/job_context.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/program/executor.h"
#include "dgx/program/program.h"
#include "dgx/protocol/segments.h"

namespace dgx::jobs {

/// The start states of segments, from a run, an opening, a sample or a state bundle: read where they are
/// kept, else recomputed from the nearest kept one. A checkpoint whose file somebody has removed was not
/// kept.
///
/// Opened for a proof, it gives only states that the proof commits to, and what cannot be had is
/// inconclusive. Opened for a task alone, it gives what a file has: a run's own committed states, those of a
/// sample, or the one of a state bundle, for which segment does not matter. The caller compares digest or
/// step.
class StartStates {
 public:
  /// Opens a sample, an opening or a run. kMissing, or kMalformed for a file of another task or proof.
  /// `proof` must outlive this object.
  [[nodiscard]] static Result<StartStates> open(const std::string& path, const ProofFiles& proof,
                                                int threads);
  /// Opens any of the four for a task. kMissing, or kMalformed for a file of another task.
  [[nodiscard]] static Result<StartStates> open(const std::string& path, const Digest& task,
                                                const protocol::Segments& segments, int threads);

  /// kMalformed if a sample shares an entry among its states that the task's program changes: the states
  /// could not all be true.
  [[nodiscard]] Status check_shared(const program::Program& program) const;

  /// The run's index; null if the states are not a run's.
  [[nodiscard]] const bundle::RunIndex* run() const { return run_ ? &run_->index() : nullptr; }

  /// The segments of `wanted` whose start states are certainly not available.
  [[nodiscard]] std::vector<std::int64_t> missing(std::span<const std::int64_t> wanted) const;

  /// The segments of `wanted` for which start() needs an executor.
  [[nodiscard]] std::vector<std::int64_t> to_recompute(std::span<const std::int64_t> wanted) const;

  /// The steps that start() would take for these segments, ascending, if each is replayed and agrees.
  [[nodiscard]] std::int64_t steps_to_recompute(std::span<const std::int64_t> wanted) const;

  /// The start state of a segment. One that the run did not keep is recomputed by `executor` (then not null)
  /// from the nearest kept one, or from the executor's current state, if that is nearer (see reached()).
  ///
  /// kInconclusive if the recomputed state is not the committed one: somewhere in between the run deviates
  /// from the program. For a task alone, that is kMalformed, and so is a kept state at another step than the
  /// run says; kUsage if the run does not have the segment, kMissing if the sample does not. kMalformed if a
  /// file holds another state than was committed. kInterrupted.
  [[nodiscard]] Result<State> start(std::int64_t segment, program::Executor* executor, const StopFlag& stop);

  /// Notes that the executor holds committed state `state` or, with nullopt, something else.
  void reached(std::optional<std::int64_t> state) { reached_ = state; }

  [[nodiscard]] std::int64_t recomputed_steps() const { return recomputed_steps_; }

 private:
  StartStates(std::string path, const Digest& task, const protocol::Segments& segments,
              const ProofFiles* proof, int threads)
      : path_(std::move(path)), task_(task), segments_(segments), proof_(proof), threads_(threads) {}
  [[nodiscard]] Status open_file();
  [[nodiscard]] Status check_run() const;
  [[nodiscard]] Status check_sample() const;
  [[nodiscard]] Result<State> from_sample(std::int64_t segment) const;
  [[nodiscard]] Result<State> kept(std::int64_t checkpoint) const;
  /// The last state before `checkpoint` that can be read, or 0.
  [[nodiscard]] std::int64_t base_of(std::int64_t checkpoint) const;
  [[nodiscard]] Error missed(std::int64_t checkpoint, std::int64_t base) const;
  [[nodiscard]] Status restart(std::int64_t checkpoint, std::int64_t base, program::Executor& executor);
  [[nodiscard]] Result<State> recompute(std::int64_t checkpoint, program::Executor& executor,
                                        const StopFlag& stop);
  [[nodiscard]] Status of_prover(Status status, std::int64_t checkpoint) const;
  /// The digest of a committed state: by the proof, if there is one, else by the run.
  [[nodiscard]] const Digest& committed(std::int64_t state) const {
    const auto at = static_cast<std::size_t>(state);
    return proof_ != nullptr ? proof_->states[at] : run_->index().checkpoints[at].digest;
  }

  std::string path_;
  Digest task_;
  protocol::Segments segments_;
  const ProofFiles* proof_;  ///< null: opened for a task alone
  int threads_;
  std::optional<bundle::RunReader> run_;
  std::optional<bundle::SampleReader> sample_;
  /// The committed state that the executor holds; nullopt if it holds something else.
  std::optional<std::int64_t> reached_;
  /// A checkpoint that recomputation missed. A state after it is not recomputed from one before it.
  std::optional<std::int64_t> not_reached_;
  std::int64_t recomputed_steps_ = 0;
};

/// The segment numbers for a message: "3, 17, 20", and how many more there are.
[[nodiscard]] std::string listed(std::span<const std::int64_t> numbers);

}  // namespace dgx::jobs
