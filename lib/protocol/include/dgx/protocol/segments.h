#pragma once

#include <cstdint>

#include "dgx/core/result.h"

namespace dgx::protocol {

/// The steps from committed state `index` to `index` + 1: [first, end). The last segment of a proof that
/// diverged is the diverging step, which leads from the last committed state to none.
struct Segment {
  std::int64_t index = 0;
  std::int64_t first = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t length() const { return end - first; }
  bool operator==(const Segment&) const = default;
};

/// The segments of a task or of a proof (dgx-protocol(7), "Segments").
///
/// A task has a committed state every `checkpoint_every` steps, and each segment has at least two steps, so
/// that it has an interior state: a one-step remainder joins the segment before it. A run that diverged ends
/// wherever it did: it has a state every `checkpoint_every` steps and one where it ended, and one segment
/// more, the diverging step.
class Segments {
 public:
  /// The segments of a task, or of a proof that finished it. kMalformed unless both arguments are at least 2.
  [[nodiscard]] static Result<Segments> of(std::int64_t steps, std::int64_t checkpoint_every);
  /// The segments of a run that diverged: step `steps`, from its last state, gives a state that is not
  /// finite. kMalformed unless steps is at least 0 and checkpoint_every at least 2.
  [[nodiscard]] static Result<Segments> of_diverged(std::int64_t steps, std::int64_t checkpoint_every);

  /// The number of all segments, the diverging step included.
  [[nodiscard]] std::int64_t count() const { return between_ + (diverged_ ? 1 : 0); }
  /// The number of segments between two committed states, among which the policy draws: 0 to between() − 1.
  [[nodiscard]] std::int64_t between() const { return between_; }
  /// The number of committed states.
  [[nodiscard]] std::int64_t states() const { return between_ + 1; }
  /// The step of the last committed state.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// True if the segment is the diverging step: the last one, number between(), of a run that diverged.
  [[nodiscard]] bool diverges(std::int64_t index) const { return diverged_ && index == between_; }
  [[nodiscard]] bool diverged() const { return diverged_; }
  /// The step at which committed state `state` is taken. Asserted: 0 to states() − 1.
  [[nodiscard]] std::int64_t boundary(std::int64_t state) const;
  /// Asserted: 0 to count() − 1.
  [[nodiscard]] Segment operator[](std::int64_t index) const;
  /// The number of the committed state taken at this step, or -1 if the step is no boundary.
  [[nodiscard]] std::int64_t state_at(std::int64_t step) const;
  /// Steps of the longest segment between two committed states; 0 if there is none.
  [[nodiscard]] std::int64_t longest() const;

 private:
  Segments(std::int64_t steps, std::int64_t every, std::int64_t between, bool diverged)
      : steps_(steps), every_(every), between_(between), diverged_(diverged) {}
  std::int64_t steps_;
  std::int64_t every_;
  std::int64_t between_;
  bool diverged_;
};

}  // namespace dgx::protocol
