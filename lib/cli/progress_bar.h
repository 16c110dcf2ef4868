#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "dgx/core/progress.h"

namespace dgx::cli {

/// One line on standard error, redrawn in place at most ten times a second:
///
///     training  [############........]  61 %  2,854/4,680  312/s  0:06 left  loss 0.31
///
/// With `visible` false it draws nothing and only passes notes and warnings on.
class ProgressBar final : public Progress {
 public:
  using Talk = std::function<void(std::string_view)>;
  ProgressBar(bool visible, Talk note, Talk warning);
  ~ProgressBar() override { finish(); }

  void start(std::string_view label, std::int64_t total) override;
  void update(std::int64_t done, std::string_view note) override;
  void finish() override;
  void note(std::string_view text) override;
  void warning(std::string_view text) override;

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::string_view note, Clock::time_point now);
  void erase();

  const bool visible_;
  Talk note_;
  Talk warning_;
  std::string label_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  // `done` of the first update: a resumed job begins in the middle, and the rate counts from there.
  std::int64_t first_done_ = -1;
  bool drawn_ = false;
  Clock::time_point began_;
  Clock::time_point drew_;
};

/// The bar's line for a terminal of `columns` columns; `rate` in units per second, 0 if not known yet.
[[nodiscard]] std::string progress_line(std::string_view label, std::int64_t done, std::int64_t total,
                                        double rate, std::string_view note, int columns);

}  // namespace dgx::cli
