#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/core/result.h"
#include "dgx/exec/executor.h"

namespace dgx::jobs {

/// Commits checkpoints in a thread of its own, so that training goes on while a state is copied from the
/// device, hashed, compressed and made durable. At most one is in flight: commit() waits for the previous one
/// and returns its error.
class Checkpointer {
 public:
  explicit Checkpointer(bundle::RunWriter& run);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Commits the executor's current state; the executor must outlive the commit.
  [[nodiscard]] Status commit(exec::StepExecutor& executor, std::vector<float> losses);
  /// Waits until everything is committed.
  [[nodiscard]] Status finish();
  /// The time that commit() and finish() have waited.
  [[nodiscard]] double waited_seconds() const { return waited_seconds_; }

 private:
  struct Work {
    exec::PendingState state;
    std::vector<float> losses;
  };
  void serve();
  [[nodiscard]] Status write(const Work& work);
  /// Waits until nothing is in flight; returns the error of the last commit.
  [[nodiscard]] Status wait(std::unique_lock<std::mutex>& lock);

  bundle::RunWriter& run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Work> work_;
  Status status_;
  bool stop_ = false;
  double waited_seconds_ = 0;
  std::thread thread_;
};

}  // namespace dgx::jobs
