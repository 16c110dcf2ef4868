#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dgx/bundle/constants.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/train.h"
#include "train/evaluation.h"
#include "train/log_rows.h"

namespace dgx::jobs {

/// kUsage if `every` is below 1 or given without data to evaluate on.
[[nodiscard]] Status check_validation(const TrainOptions& options);
/// kUsage if averages are asked for that the task does not keep.
[[nodiscard]] Status check_averages(const TrainOptions& options, const TaskFiles& files);

/// Measures a run's model on other data while it is trained: RUN/validation.csv and RUN/best.h5.
///
/// A measurement is made between two steps, from a copy of the state, so it cannot change training. If it is
/// the best so far, its state is written before its row: a killed writer may leave a state without its row,
/// which the next call makes again, but never a row without its state.
class Validation {
 public:
  /// Reads the data; nullptr if the options name none. Writes nothing. Errors of check_validation(),
  /// check_averages() and Evaluation::open().
  /// `files` and `context` must outlive the result.
  [[nodiscard]] static Result<std::unique_ptr<Validation>> open(const TrainOptions& options,
                                                                const TaskFiles& files,
                                                                const JobContext& context);
  /// Opens the table of the run, which stands at step `position`. Call it once, before the functions below.
  /// Errors of RunLog::open().
  [[nodiscard]] Status begin(std::int64_t position);

  /// True if the model is to be measured after `position` steps and has not been.
  [[nodiscard]] bool due(std::int64_t position) const;
  /// Measures the state after `position` steps, of which the run stores `constants` once. `epoch` and
  /// `seconds` are cells of the row. Writes nothing if the stop flag is raised meanwhile: the model stays
  /// due.
  [[nodiscard]] Status measure(const State& state, const bundle::Constants& constants, std::int64_t position,
                               double epoch, double seconds);
  /// The last measurement of this call.
  [[nodiscard]] std::optional<Validated> last() const;

 private:
  Validation(const TrainOptions& options, const TaskFiles& files, const JobContext& context)
      : run_(options.run),
        every_(options.every.value_or(files.body().checkpoint_every)),
        total_(files.body().steps),
        averages_(options.averages),
        context_(context) {}

  std::string run_;
  std::int64_t every_;
  std::int64_t total_;
  bool averages_;  ///< the moving averages are measured, instead of the parameters
  const JobContext& context_;
  std::optional<RunLog> rows_;
  std::unique_ptr<Evaluation> evaluation_;
  std::int64_t last_step_ = 0;  // the last row's
  BestRow best_;
  std::optional<Measures> last_;
};

}  // namespace dgx::jobs
