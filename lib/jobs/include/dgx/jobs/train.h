#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/exec/leading_executor.h"
#include "dgx/exec/profile.h"
#include "dgx/jobs/compute_device.h"
#include "dgx/jobs/forecast.h"

namespace dgx::jobs {

/// dgx-train(1).
struct TrainOptions {
  std::string task;
  std::string data;
  std::string run;  ///< the run's folder, created or continued
  std::optional<std::string> program;
  std::optional<std::string> init;
  std::optional<std::int64_t> until;    ///< stop once this many steps are done
  std::optional<std::string> validate;  ///< data to evaluate on as training goes on
  std::optional<std::int64_t> every;    ///< steps between validations; none: as many as between checkpoints
  bool averages = false;                ///< validate the parameters' moving averages
  std::string keep = "all";             ///< all, every:N, last
  /// The time after which a state between two checkpoints is saved, so that a kill loses no more.
  std::optional<std::chrono::seconds> save_every;
  std::optional<std::string> drill;  ///< step=S,op=O,element=E,bit=B | segment=N,lazy
  std::optional<std::string> isa;
  ComputeDevice device = ComputeDevice::kCpu;
  std::int64_t parts = 1;  ///< of each batch, made one after another
  /// The process is one of several that MPI has started for this training.
  bool mpi = false;
  std::optional<std::string> placement = {};  ///< with `mpi`: the plan that says what each process makes
  bool experts = false;                       ///< with `mpi`: each expert on one process
  std::optional<std::string> emulate = {};    ///< with `mpi`: machines whose network messages are to take
  bool profile_operations = false;            ///< record the time of every operation
};

/// A model's quality on other data. For people: summed in binary64, not exact.
struct Measures {
  std::int64_t samples = 0;
  /// Samples after the last whole batch, which are not measured if the model computes its own loss.
  std::int64_t left_out = 0;
  double loss = 0;                   ///< mean over targets, no smoothing or class weights; or over batches
  std::optional<double> accuracy;    ///< cross entropy only: share of the targets that are not ignored
  std::optional<double> top5;        ///< more than five classes: share whose label is among the five best
  std::optional<double> perplexity;  ///< exp(loss), where every token of a sample has a target
  /// Number of targets, indexed by label and by the class that the model gives them; empty for mse and for
  /// more than 32 classes.
  std::vector<std::vector<std::int64_t>> confusion;
};

/// The validation that a call of train() made last.
struct Validated {
  std::int64_t step = 0;
  Measures measures;
  std::int64_t best_step = 0;  ///< step of the run's lowest loss, and of RUN/best.h5; 0 if no loss was finite
};

struct TrainResult {
  std::int64_t steps = 0;  ///< done in total
  std::int64_t total_steps = 0;
  Digest state;                   ///< digest of the state after `steps`
  float loss = 0;                 ///< the last step's
  std::int64_t segments = 0;      ///< committed
  std::int64_t resumed_from = 0;  ///< the step this call began at
  double seconds = 0;             ///< time of steps and checkpoints
  double checkpoint_seconds = 0;  ///< the part of `seconds` spent on checkpoints
  /// Estimated time of the longest segment; set if a ledger is named.
  std::optional<std::int64_t> segment_milliseconds;
  std::optional<exec::StepProfile> profile;  ///< profile of this call's steps
  std::optional<Validated> validated;        ///< empty if this call made none
  /// The reason, in words, why the run ended before its task does; empty if it did not diverge.
  std::string divergence;
  /// The reason, in words, why the drill changed no digest that this call has committed; empty if it did.
  std::string drill_without_effect;
  std::vector<exec::RankWork> ranks;  ///< the work of each, if MPI started them
  /// True if this process follows rank 0, which has the run and the result.
  bool follows = false;
};

/// Trains from where the run stands (in a new one, the initial state) to the task's end, or to `until`.
/// Commits the end of every segment: digest and losses into the index, the state as a bundle according to
/// `keep`. When the stop flag is raised, or if `until` is between two checkpoints, the state goes to
/// RUN/resume.h5, which is not committed to and which the next call takes up; a raised flag then gives
/// kInterrupted. With `save_every` such a state is saved from time to time, too. After a kill at any moment,
/// the same call ends with the same digests.
///
/// A step that gives a state which is not finite ends the run: the state before it is committed, and the run
/// records that it diverged. That is a result, which can be proved (prove.h), and no error; a further call
/// returns it again.
///
/// Every step becomes a row of RUN/log.csv, and with `validate` the model is evaluated after every `every`
/// steps and after the last, which RUN/validation.csv records; the best state goes to RUN/best.h5. Neither
/// changes a step. kUsage for `averages` of a task that keeps none. A request of `context.save` saves the
/// state as an interruption does, and training goes on.
///
/// With `mpi`, all of the processes call this alike, each for itself, and make a part of every step; rank 0
/// alone reads and writes the run (LeadingExecutor). If one cannot begin, its error says why, with its rank
/// and machine, and the others end without a result (`follows`), rank 0 too. kMalformed if they are of
/// different versions of dgx or have different tasks. A rank that fails later ends all of them when its
/// process exits.
///
/// kInternal if a call that continues a run is interrupted before it has made a step, so that a scheduler
/// cannot requeue it forever.
[[nodiscard]] Result<TrainResult> train(const TrainOptions& options, const JobContext& context);

/// The plan of a training, and its cost on the CPU.
struct TrainPlan {
  std::int64_t done_steps = 0;   ///< by the run that is there, up to its saved state
  std::int64_t steps = 0;        ///< left
  std::int64_t validations = 0;  ///< left, if there is data for them
  std::int64_t work = 0;         ///< weighted operations of the steps and validations that are left
  Needs needs;
};
/// Plans train() and runs nothing: needs neither data nor a run, and of the data to evaluate on no number.
/// kMalformed for a run of another task, and for such data that are not the task's in form; errors of
/// operations_per_second().
[[nodiscard]] Result<TrainPlan> plan_training(const TrainOptions& options, const RateSource& rate,
                                              const JobContext& context);

struct EvaluateOptions {
  std::string task;
  std::string data;                    ///< test data
  std::string run;                     ///< a run's folder, or a state bundle
  std::optional<std::string> program;  ///< the step program; none: the one next to the task
  std::optional<std::string> isa;
  std::optional<std::int64_t> step;        ///< the checkpoint at this step; none: the last
  std::optional<std::string> predictions;  ///< FILE.npy or FILE.npz, dgx-train(1)
  bool averages = false;                   ///< parameters as their moving averages
};

struct EvaluateResult {
  std::int64_t step = 0;  ///< the step of the state evaluated
  Digest state;
  Measures measures;
};

/// Measures one of the run's checkpoints on another dataset with the same fields. The last batch is padded,
/// and the padding ignored, or left out (Measures::left_out). kUsage if the run has no checkpoint at that
/// step, or the predictions' name ends in neither form; kMissing if the checkpoint was not kept.
[[nodiscard]] Result<EvaluateResult> evaluate(const EvaluateOptions& options, const JobContext& context);

struct PruneOptions {
  std::string run;
  std::string keep = "last";  ///< every:N, last
  LockWait wait = {};         ///< for a process that writes the run
};

struct PruneResult {
  std::int64_t removed = 0;  ///< checkpoints
  std::int64_t kept = 0;
  std::int64_t bytes = 0;  ///< freed
};

/// Removes the checkpoints of a run that `keep` does not name; the first and the last always stay, and so do
/// all digests. kMissing if there is no run; kLocked if another process writes it; kUsage for a policy
/// that parse_keep() refuses.
[[nodiscard]] Result<PruneResult> prune(const PruneOptions& options);

}  // namespace dgx::jobs
