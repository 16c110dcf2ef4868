#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/exec/profile.h"
#include "dgx/jobs/compute_device.h"

namespace dgx::jobs {

/// dgx-train(1).
struct TrainOptions {
  std::string task;
  std::string data;
  std::string run;                     ///< the run's folder, created or continued
  std::optional<std::string> program;
  std::optional<std::string> init;
  std::optional<std::int64_t> until;   ///< stop once this many steps are done
  std::string keep = "all";            ///< all, every:N, last
  std::optional<std::string> drill;    ///< step=S,op=O,element=E,bit=B | segment=N,lazy
  std::optional<std::string> isa;
  ComputeDevice device = ComputeDevice::kCpu;
  bool profile_operations = false;     ///< note what every operation takes
};

struct TrainResult {
  std::int64_t steps = 0;         ///< done in all
  std::int64_t total_steps = 0;
  Digest state;                   ///< of the state after `steps`
  float loss = 0;                 ///< of the last step
  std::int64_t segments = 0;      ///< committed
  std::int64_t resumed_from = 0;  ///< the step this call began at
  double seconds = 0;             ///< of steps and checkpoints
  double checkpoint_seconds = 0;  ///< of those, spent on checkpoints
  std::optional<std::int64_t> segment_milliseconds;  ///< of the longest segment by this call's steps, if a ledger asks for it
  std::optional<exec::StepProfile> profile;  ///< of this call's steps
  std::string divergence;         ///< why the run ended before the task does, in words; empty: it did not diverge
  bool drill_changed_nothing = false;  ///< this call made the drill's fault, and the segment ended in the honest digest
};

/// Trains from where the run stands (from the initial state in a new one) to the task's end, or to `until`. Every segment's end is
/// committed: digest and losses into the index, the state as a bundle by `keep`. When the stop flag is raised, or at `until`
/// between two checkpoints, the state goes to RUN/resume.h5, which is not committed to and is taken up by the next call; then
/// kInterrupted. Killed at any moment, the same call ends with the same digests.
///
/// A step that gives a state which is not finite ends the run: the state before it is committed, and the run says that it
/// diverged. That is a result, which can be proved (prove.h), and no error; a further call says it again.
///
/// kInternal if a call that continues a run is interrupted before it has made a step, so that a scheduler cannot requeue for ever.
[[nodiscard]] Result<TrainResult> train(const TrainOptions& options, const JobContext& context);

struct EvaluateOptions {
  std::string task;
  std::string data;  ///< test data
  std::string run;
  std::optional<std::string> isa;
};

struct EvaluateResult {
  std::int64_t step = 0;  ///< of the checkpoint evaluated
  Digest state;
  std::int64_t samples = 0;
  double loss = 0;                  ///< mean over the targets, without smoothing and class weights; summed in binary64 for people: not part of the contract
  std::optional<double> accuracy;   ///< cross entropy only: of all targets that are not ignored
  std::optional<double> perplexity; ///< exp(loss), where every token of a sample has a target
};

/// Loss and accuracy of the run's last checkpoint on another dataset with the same fields. The last batch is padded, padding is ignored.
[[nodiscard]] Result<EvaluateResult> evaluate(const EvaluateOptions& options, const JobContext& context);

}  // namespace dgx::jobs
