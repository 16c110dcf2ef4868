#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dgx/bundle/dataset.h"
#include "dgx/core/progress.h"
#include "dgx/core/result.h"
#include "dgx/core/stop.h"
#include "dgx/exec/executor.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/train.h"
#include "train/model_outputs.h"

namespace dgx::jobs {

/// A model's answers for all samples, in the data's order. Filled by Evaluation::measure().
struct Predictions {
  Tensor classes;  ///< i64 [samples, targets …]; cross entropy only
  Tensor outputs;  ///< f32, the shape of ModelOutputs::values with all samples in its first dimension
};

/// The cost of one measurement of a model on some data, beside that of training.
struct EvaluationNeeds {
  std::int64_t work = 0;          ///< weighted operations
  std::int64_t memory_bytes = 0;  ///< the data and the evaluation program's values
};
/// Plans Evaluation::measure() without reading the data's numbers. The errors of Evaluation::open() that need
/// none of them.
[[nodiscard]] Result<EvaluationNeeds> plan_evaluation(const TaskFiles& files, const std::string& data,
                                                      int threads);

/// Measures states of a task's model on other data, with the task's evaluation program. Nothing is kept from
/// one measurement to the next, and no state is changed.
class Evaluation {
 public:
  /// Reads the data and TASK.eval.jsonl. kMalformed if the data do not have the types and shapes of the
  /// task's, or have a label for which the model has no class, or no target that counts; kMissing for either
  /// file; kUsage and kInternal as exec::Evaluator. `files` must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<Evaluation>> open(const TaskFiles& files,
                                                                const std::string& data, int threads);

  /// Measures the model in `state`, and fills `predictions` if it is not null. kMalformed if the state is not
  /// the model's, or no target counts; kInterrupted as soon as `stop` is raised; kUsage if predictions are
  /// wanted that the evaluation program does not show.
  [[nodiscard]] Result<Measures> measure(const State& state, Progress& progress, const StopFlag& stop,
                                         Predictions* predictions = nullptr);

 private:
  Evaluation(const TaskFiles& files, std::string path, bundle::Dataset data)
      : files_(files), path_(std::move(path)), data_(std::move(data)) {}

  const TaskFiles& files_;
  std::string path_;  // the data's
  bundle::Dataset data_;
  kernels::ValueIndex last_{};  // the last value of TASK.eval.jsonl
  bool by_batches_ = false;     // that is the loss of a whole batch
  ModelOutputs outputs_;
  std::unique_ptr<exec::Evaluator> evaluator_;
};

}  // namespace dgx::jobs
