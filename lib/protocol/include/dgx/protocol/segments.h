#pragma once

#include <cstdint>

#include "dgx/core/result.h"

namespace dgx::protocol {

/// The steps from committed state `index` to `index` + 1: [first, end).
struct Segment {
  std::int64_t index = 0;
  std::int64_t first = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t length() const { return end - first; }
  bool operator==(const Segment&) const = default;
};

/// How a task's steps are cut: every `checkpoint_every` steps, and each segment has at least two, so that it
/// has an interior state: a one-step remainder joins the segment before it (dgx-protocol(7), "Segments").
class Segments {
 public:
  /// kMalformed unless both are at least 2.
  [[nodiscard]] static Result<Segments> of(std::int64_t steps, std::int64_t checkpoint_every);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// The step at which committed state `state` is taken, 0 to count(): asserted.
  [[nodiscard]] std::int64_t boundary(std::int64_t state) const;
  /// 0 to count() − 1: asserted.
  [[nodiscard]] Segment operator[](std::int64_t index) const;
  /// The committed state taken at this step, or -1 if the step is no boundary.
  [[nodiscard]] std::int64_t state_at(std::int64_t step) const;
  /// Length of the longest segment.
  [[nodiscard]] std::int64_t longest() const;

 private:
  Segments(std::int64_t steps, std::int64_t every, std::int64_t count)
      : steps_(steps), every_(every), count_(count) {}
  std::int64_t steps_;
  std::int64_t every_;
  std::int64_t count_;
};

}  // namespace dgx::protocol
