#pragma once

#include <vector>

#include "scenes.h"

namespace dgx::test {

/// Scenes of real training, of twenty to sixty lines: steps as dgx-submit lowers them, one scene
/// for each choice that a trainer has of losses, optimisers, schedules and updates, a few choices at a time;
/// a masked field, and a loss inside the model. Aborts if one does not lower.
[[nodiscard]] std::vector<Scene> trained_scenes();

}  // namespace dgx::test
