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
#include "dgx/protocol/segments.h"

namespace dgx::jobs {

/// Start states of a proof's segments, from a sample or a run. Every state returned has the committed digest.
class StartStates {
 public:
  /// Opens a sample, an opening or a run. kMissing, or kMalformed for a file of another task or proof.
  /// `proof` must outlive this object.
  [[nodiscard]] static Result<StartStates> open(const std::string& path, const ProofFiles& proof,
                                                int threads);

  /// The segments of `wanted` whose start states are certainly not available.
  [[nodiscard]] std::vector<std::int64_t> missing(std::span<const std::int64_t> wanted) const;

  /// The segments of `wanted` for which start() needs an executor.
  [[nodiscard]] std::vector<std::int64_t> to_recompute(std::span<const std::int64_t> wanted) const;

  /// The start state of a segment. One that the run did not keep is recomputed by `executor` (then not null)
  /// from the nearest kept one, or from the executor's current state, if that is nearer (see reached()).
  ///
  /// kInconclusive if the recomputed state is not the committed one: somewhere in between the run deviates
  /// from the program. kMalformed if a file holds another state than was committed. kInterrupted.
  [[nodiscard]] Result<State> start(std::int64_t segment, program::Executor* executor, const StopFlag& stop);

  /// Notes that the executor holds committed state `state` or, with nullopt, something else.
  void reached(std::optional<std::int64_t> state) { reached_ = state; }

  [[nodiscard]] std::int64_t recomputed_steps() const { return recomputed_steps_; }

 private:
  StartStates(std::string path, const ProofFiles& proof, int threads)
      : path_(std::move(path)), proof_(&proof), threads_(threads) {}
  [[nodiscard]] Status check_run() const;
  [[nodiscard]] Status check_sample() const;
  [[nodiscard]] Result<State> from_sample(std::int64_t segment) const;
  [[nodiscard]] Result<State> kept(std::int64_t checkpoint) const;
  [[nodiscard]] Error missed(std::int64_t checkpoint, std::int64_t base) const;
  [[nodiscard]] Result<State> recompute(std::int64_t checkpoint, program::Executor& executor,
                                        const StopFlag& stop);
  [[nodiscard]] const Digest& committed(std::int64_t state) const {
    return proof_->states[static_cast<std::size_t>(state)];
  }

  std::string path_;
  const ProofFiles* proof_;
  int threads_;
  std::optional<bundle::RunReader> run_;
  std::optional<bundle::SampleReader> sample_;
  std::optional<std::int64_t> reached_;
  std::optional<std::int64_t>
      not_reached_;  ///< a checkpoint that recomputation missed: later ones are not recomputed across it
  std::int64_t recomputed_steps_ = 0;
};

/// The segment numbers for a message: "3, 17, 20", and how many more there are.
[[nodiscard]] std::string listed(std::span<const std::int64_t> numbers);

}  // namespace dgx::jobs
