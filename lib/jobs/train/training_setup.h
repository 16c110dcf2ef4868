#pragma once

#include <optional>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/run.h"
#include "dgx/jobs/drill.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/train.h"
#include "train/training_log.h"

namespace dgx::jobs {

/// The options of a training, checked, and the files that it reads before its first step.
struct TrainingSetup {
  bundle::KeepPolicy keep;
  std::optional<Drill> drill;
  TaskFiles files;
  bundle::Dataset data;
  LoggedValues logged;
};
[[nodiscard]] Result<TrainingSetup> read_setup(const TrainOptions& options, const JobContext& context);

/// Trains on an executor for the setup's task, of which StepExecutor::watched() gives LoggedValues::all().
/// Opens the run. Errors and result of train().
[[nodiscard]] Result<TrainResult> train_with(const TrainingSetup& setup, exec::StepExecutor& executor,
                                             const TrainOptions& options, const JobContext& context);

/// train() in one of the processes that MPI has started.
[[nodiscard]] Result<TrainResult> train_on_ranks(const TrainOptions& options, const JobContext& context);

}  // namespace dgx::jobs
