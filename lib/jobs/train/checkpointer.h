#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/core/result.h"
#include "dgx/exec/executor.h"
#include "train/resume_point.h"

namespace dgx::jobs {

/// Commits checkpoints, and saves resume points between them, in a thread of its own, so that training goes
/// on while a state is copied from the device, hashed, compressed and made durable. They are written in the
/// order in which they were asked for, at most one at a time: commit() and save() wait for the previous one
/// and return its error. A checkpoint that is durable removes the resume point before it, which until then is
/// all that the next call would have of the segment.
class Checkpointer {
 public:
  enum class Pace {
    kBeside,        ///< training goes on while a state is written, on the same CPUs
    kBesideDevice,  ///< training goes on, on a device
    kAlone,         ///< commit() and save() return when it is: there is no memory for it beside a step's
  };
  /// The threads that hash and compress a state: kBeside one, since more would only take CPUs from training,
  /// else all of `threads`.
  [[nodiscard]] static int threads_of(Pace pace, int threads) { return pace == Pace::kBeside ? 1 : threads; }
  /// The run and the point must outlive it. Of `threads`, at least 1, it takes threads_of().
  Checkpointer(bundle::RunWriter& run, ResumePoint& point, Pace pace, int threads);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Commits the executor's current state; the executor must outlive the commit.
  [[nodiscard]] Status commit(exec::StepExecutor& executor, std::vector<float> losses);
  /// Saves it as the resume point, with the losses since the last checkpoint.
  [[nodiscard]] Status save(exec::StepExecutor& executor, std::vector<float> losses);
  /// Waits until everything is durable.
  [[nodiscard]] Status finish();
  /// The time that commit(), save() and finish() have waited.
  [[nodiscard]] double waited_seconds() const { return waited_seconds_; }

 private:
  enum class Kind { kCheckpoint, kResumePoint };
  struct Work {
    Kind kind = Kind::kCheckpoint;
    exec::PendingState state;
    std::vector<float> losses;
  };
  void serve();
  [[nodiscard]] Status begin(Kind kind, exec::StepExecutor& executor, std::vector<float> losses);
  [[nodiscard]] Status write(const Work& work);
  /// Waits until nothing is in flight; returns the first error.
  [[nodiscard]] Status wait(std::unique_lock<std::mutex>& lock);

  bundle::RunWriter& run_;
  ResumePoint& point_;
  Pace pace_;
  int threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Work> work_;
  Status status_;
  bool stop_ = false;
  double waited_seconds_ = 0;
  std::thread thread_;
};

}  // namespace dgx::jobs
