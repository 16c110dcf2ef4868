#pragma once

#include <string>

#include "dgx/core/result.h"
#include "dgx/jobs/prove.h"
#include "dgx/jobs/train.h"
#include "dgx/jobs/verify.h"

/// A folder in place of a task (dgx(7), A FOLDER FOR A TASK).
///
/// If an option's `task` is a folder, complete() replaces it by the task in there, and names every file that
/// the caller did not: inputs by their content, outputs by the conventional name in the folder. It decides
/// nothing else and believes nothing: the job checks each file as if it had been named. If `task` is a file,
/// nothing changes.
///
/// kMissing if a file that is needed is not there; kUsage, naming the candidates, if there is more than one;
/// and the error of a file that says it is what is looked for but cannot be read.
namespace dgx::jobs {

/// True if a task's path is a folder.
[[nodiscard]] bool is_task_folder(const std::string& task);

/// Completes the data, and the run, which is RUN/run unless there is one of this task.
[[nodiscard]] Status complete(TrainOptions& options);
/// Completes the run and PROOF.json.
[[nodiscard]] Status complete(ProveOptions& options);
/// Completes proof, beacon, run and output; the data if they are there.
[[nodiscard]] Status complete(OpenSampleOptions& options);
/// Completes proof, run and output.
[[nodiscard]] Status complete(DeliverOptions& options);
/// The needs of a verification: everything, or task, proof and beacon.
enum class VerifyNeeds { kReplay, kPlan };
/// Completes proof, data and, but for a shard, the output. For the policy's draw the beacon, and for start
/// states a sample or an opening, or else the run; for a chosen draw the run, or else a sample.
[[nodiscard]] Status complete(VerifyOptions& options, VerifyNeeds needs);

}  // namespace dgx::jobs
