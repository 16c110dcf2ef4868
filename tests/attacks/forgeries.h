#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lying_trainer.h"

namespace dgx::test {

/// The place of a forgery: a segment of a training, neither its first nor its last.
struct Target {
  const Scene& scene;
  TinyParty& honest;
  protocol::Segment segment;

  /// A random step of the segment.
  [[nodiscard]] std::int64_t step(Dice& dice) const { return segment.first + dice.below(segment.length()); }
};

/// A way to train less, or something else, and claim that it was the task.
struct Forgery {
  std::string name;
  /// Draws the lie; nullopt if it cannot be mounted on this training.
  std::function<std::optional<Lie>(const Target&, Dice&)> draw;
};

/// The forgeries known to have been tried on verifiers of training, and some more.
[[nodiscard]] std::vector<Forgery> forgeries();

}  // namespace dgx::test
