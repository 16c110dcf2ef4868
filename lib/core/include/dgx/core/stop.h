#pragma once

#include <atomic>

namespace dgx {

/// A flag set once, from a signal handler or another thread, and read between the steps of long work. Work
/// that sees it set finishes the step, saves what is needed to resume, and returns an error with
/// ErrorCode::kInterrupted (interrupted()).
class StopFlag {
 public:
  StopFlag() = default;
  /// Is also set if `other`, which must outlive it, is.
  explicit StopFlag(const StopFlag* other) : other_(other) {}

  [[nodiscard]] bool requested() const {
    return requested_.load(std::memory_order_relaxed) || (other_ != nullptr && other_->requested());
  }
  /// Async-signal-safe.
  void request() { requested_.store(true, std::memory_order_relaxed); }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::atomic<bool> requested_ = false;
  const StopFlag* other_ = nullptr;
};

/// A request that a signal handler or another thread may make again and again. Long work takes it between two
/// steps, does what was asked for, and goes on.
class RequestFlag {
 public:
  /// True if there was a request since the last call. Cheap enough for every step.
  [[nodiscard]] bool take() {
    return requested_.load(std::memory_order_relaxed) &&
           requested_.exchange(false, std::memory_order_relaxed);
  }
  /// Async-signal-safe.
  void request() { requested_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_ = false;
};

}  // namespace dgx
