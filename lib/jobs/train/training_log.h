#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/jobs/task_files.h"
#include "dgx/kernels/schedule.h"
#include "train/log_rows.h"

namespace dgx::jobs {

/// The f32 scalars of a step program that its log shows.
struct LoggedValues {
  /// Their sum is the square of the gradients' norm before clipping. Empty if the task does not clip
  /// gradients, and so computes no norm.
  std::vector<kernels::ValueIndex> squares;
  /// With the schedule plateau: the factor of the learning rate in the next step.
  std::optional<kernels::ValueIndex> factor;

  /// All of them, in the order in which TrainingLog::step() takes their numbers.
  [[nodiscard]] std::vector<kernels::ValueIndex> all() const;
};
[[nodiscard]] LoggedValues logged_values(const program::Program& program, const manifest::Task& task);

/// RUN/log.csv: a row for each step of a run.
///
/// The run's index commits to the losses, and they alone count; the log copies them and adds what people want
/// to see. So it may lag behind and be repaired. Rows are flushed every tenth of a second and before any
/// state is saved, and never synced. When a run is resumed, rows after the state that it resumes from are cut
/// off, since their steps are taken again; rows missing before it are made from the index's losses, without
/// the times, which are lost. A step that already has a row gets no second one, though it may be taken twice:
/// a run that diverges is trained again from its last checkpoint.
class TrainingLog {
 public:
  /// Opens the log of the run in folder `run`, which stands at step `position`. `losses` are those of all its
  /// steps up to there. `factor` is that of the learning rate in the next step: factor_in() with the schedule
  /// plateau, else 1. Errors of RunLog::open() and flush().
  [[nodiscard]] static Result<TrainingLog> open(const std::string& run, const manifest::Task& task,
                                                const LoggedValues& logged, std::int64_t position,
                                                std::span<const float> losses, std::optional<float> factor);
  /// Plateau's factor of the learning rate in the step that begins with this state; nullopt if the state,
  /// which may be of anybody's program, has none.
  [[nodiscard]] static std::optional<float> factor_in(const State& state);

  /// Starts the clock of the next step. The time from the end of a step to here belongs to no step.
  void start_clock() { started_ = Clock::now(); }
  /// Records the step that led to `position`, and the time since start_clock(). `values` holds the numbers of
  /// LoggedValues::all(), or nothing if the step was traced: then the cells for them are empty.
  [[nodiscard]] Status step(std::int64_t position, float loss, std::span<const float> values);
  /// Records a step that was not taken here: one of a lazy segment, or of an earlier call whose log was lost.
  /// With the schedule plateau its learning rate is not known. Now and then writes the rows that wait. Errors
  /// of flush().
  [[nodiscard]] Status fill(std::int64_t position, float loss);
  /// Writes the rows that wait. Errors of RunLog::flush().
  [[nodiscard]] Status flush();

  [[nodiscard]] double epoch_of(std::int64_t position) const;
  /// Seconds that the run's steps took, including those of earlier calls as far as the log knows.
  [[nodiscard]] double seconds() const;
  /// The number of steps of this call, and the seconds that they took.
  [[nodiscard]] std::int64_t steps_here() const { return steps_here_; }
  [[nodiscard]] double seconds_here() const { return seconds_here_; }

 private:
  using Clock = std::chrono::steady_clock;
  TrainingLog(RunLog rows, kernels::ScheduleParameters schedule, std::int64_t batch, std::int64_t samples)
      : rows_(std::move(rows)), schedule_(schedule), batch_(batch), samples_(samples) {}
  /// The first cells of a row, up to the learning rate: all that do not depend on the machine but the norm.
  [[nodiscard]] LogLine line_of(std::int64_t position, float loss, std::optional<float> factor) const;

  RunLog rows_;
  kernels::ScheduleParameters schedule_;
  std::int64_t batch_;
  std::int64_t samples_;
  std::int64_t last_ = 0;        // step of the last row
  std::size_t squares_ = 0;      // how many of a step's values are LoggedValues::squares
  std::optional<float> factor_;  // of the learning rate in the step after last_, if it is known
  double seconds_ = 0;
  double seconds_here_ = 0;
  std::int64_t steps_here_ = 0;
  Clock::time_point started_ = Clock::now();
  Clock::time_point flushed_ = Clock::now();
};

}  // namespace dgx::jobs
