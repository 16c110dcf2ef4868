#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "dgx/core/progress.h"
#include "dgx/core/stop.h"

namespace dgx::cli {

/// Progress as people see it. On a terminal, one line on standard error, redrawn in place at most ten times a
/// second:
///
///     training  [############........]  61 %  2,854/4,680  312/s  0:06 left  loss 0.31
///
/// Elsewhere, where that would fill a file with control characters, a line of words every 30 seconds. A
/// request (SIGUSR2) is answered by such a line at the next update, even where nothing else is shown.
class ProgressBar final : public Progress {
 public:
  enum class Form { kNothing, kLines, kBar };
  using Talk = std::function<void(std::string_view)>;
  /// Borrows `where`, the request for a line. `say` prints a line even with -q.
  ProgressBar(Form form, RequestFlag& where, Talk say, Talk note, Talk warning);
  ~ProgressBar() override { finish(); }

  void start(std::string_view label, std::int64_t total) override;
  void update(std::int64_t done, std::string_view note) override;
  void finish() override;
  void note(std::string_view text) override;
  void warning(std::string_view text) override;

 private:
  using Clock = std::chrono::steady_clock;
  /// Units per second since the job began; 0 in its first half second.
  [[nodiscard]] double rate(Clock::time_point now) const;
  void draw(std::string_view note, Clock::time_point now);
  void erase();

  const Form form_;
  RequestFlag& where_;
  Talk say_;
  Talk note_;
  Talk warning_;
  std::string label_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  // `done` of the first update: a resumed job begins in the middle, and the rate counts from there.
  std::int64_t first_done_ = -1;
  bool drawn_ = false;
  Clock::time_point began_;
  Clock::time_point drew_;  // when a bar or a line was last shown
};

/// The bar's line for a terminal of `columns` columns; `rate` in units per second, 0 if not known yet.
[[nodiscard]] std::string progress_line(std::string_view label, std::int64_t done, std::int64_t total,
                                        double rate, std::string_view note, int columns);
/// The same as words: "training: 2,854 of 4,680 (60 %), 312/s, 0:06 left, loss 0.31".
[[nodiscard]] std::string progress_words(std::string_view label, std::int64_t done, std::int64_t total,
                                         double rate, std::string_view note);

}  // namespace dgx::cli
