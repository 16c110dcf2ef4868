#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/stop.h"

namespace dgx::jobs {

/// Waits until somebody else has written to one of a few files.
///
/// It looks at them again and again, ten times a second: they may lie on a network file system, where
/// notifications of other machines' writes do not exist. look() comes before the files are read, so that a
/// write between reading and waiting is not missed.
class FileWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `patience` is the longest time from one expect() to the next; none: any. `stop` outlives the watch.
  FileWatch(std::vector<std::string> paths, const StopFlag& stop,
            std::optional<std::chrono::seconds> patience)
      : paths_(std::move(paths)), stop_(stop), patience_(patience) {}

  /// Begins a wait: patience counts from now.
  void expect() { begun_ = Clock::now(); }
  /// Remembers how the files are now.
  void look() { seen_ = now(); }
  /// True if somebody has written to a file since look().
  [[nodiscard]] bool has_changed() const { return now() != seen_; }
  /// Returns after a change since look(), or after `at_most`. kInterrupted if the flag is set, or patience
  /// has run out; `awaited` says what for.
  [[nodiscard]] Status wait(const std::string& awaited,
                            std::chrono::milliseconds at_most = std::chrono::hours(1)) const;
  [[nodiscard]] bool is_out_of_patience() const { return patience_ && Clock::now() - begun_ >= *patience_; }

 private:
  /// Device, inode, length and time of last change of each file; zeros for one that is not there.
  [[nodiscard]] std::vector<std::int64_t> now() const;

  std::vector<std::string> paths_;
  const StopFlag& stop_;
  std::optional<std::chrono::seconds> patience_;
  Clock::time_point begun_ = Clock::now();
  std::vector<std::int64_t> seen_;
};

}  // namespace dgx::jobs
