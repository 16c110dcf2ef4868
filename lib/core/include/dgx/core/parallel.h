#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

#include "dgx/core/result.h"

namespace dgx {

/// `asked`, or for 0 the number of CPUs this process may use (a job's share of a node, not the node's).
[[nodiscard]] int thread_count(int asked);

/// Runs work(0) … work(count - 1) on up to `threads` threads, including the caller's, claimed in ascending
/// order. After an error no more are claimed; the error that occurred first is returned.
[[nodiscard]] Status for_each_index(std::size_t count, int threads,
                                    const std::function<Status(std::size_t)>& work);

/// Lets the threads of one for_each_index do part of their work in index order.
class Turns {
 public:
  /// Waits until every lower index has taken its turn, then runs `work`. Does nothing if another thread has
  /// failed.
  [[nodiscard]] Status take(std::size_t index, const std::function<Status()>& work);
  /// Must be called by a thread that will not take its turn; returns the error unchanged.
  [[nodiscard]] Error fail(Error error);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;
  bool failed_ = false;
};

}  // namespace dgx
