#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <thread>

namespace dgx::exec {

/// Adds the processor time of this thread, between its making and charge(), to a sum; nothing without one.
class ProcessorClock {
 public:
  explicit ProcessorClock(double* sum) : sum_(sum), begin_(sum == nullptr ? 0 : now()) {}
  void charge() const {
    if (sum_ != nullptr) *sum_ += now() - begin_;
  }

 private:
  [[nodiscard]] static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  double* sum_;
  double begin_;
};

/// Sleeps up to times that follow each other: what one sleep is too long, the next is shorter. Every
/// millisecond it wakes to call `between`, if that is not empty.
class Sleeper {
 public:
  explicit Sleeper(const std::function<void()>& between) : between_(between) {}

  void add(double seconds) { due_ += std::chrono::duration_cast<Clock::duration>(Seconds(seconds)); }
  void sleep() {
    for (auto now = Clock::now(); now < due_; now = Clock::now()) {
      std::this_thread::sleep_until(std::min(due_, now + std::chrono::milliseconds(1)));
      if (between_) between_();
    }
  }
  /// Goes on from now, if that is later than it would be.
  void wake() { due_ = std::max(due_, Clock::now()); }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  const std::function<void()>& between_;
  Clock::time_point due_ = Clock::now();
};

}  // namespace dgx::exec
