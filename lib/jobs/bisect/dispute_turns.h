#pragma once

#include <string>

#include "bisect/line_role.h"
#include "dgx/jobs/dispute_story.h"

namespace dgx::jobs {

/// A move in words, as the game took it from state `before` to state `after`: "accepts the state before step
/// 1,234, and rejects the one after it". The sentence's subject, its signer, is left out.
[[nodiscard]] std::string tell_move(const manifest::Move& move, const protocol::GameState& before,
                                    const protocol::GameState& after, const program::Program* program);

/// The values of a game's step: of the program, or of the line that it has opened.
[[nodiscard]] StepLines lines_of(const protocol::GameState& state, const program::Program* program);

/// "step 1,234", or "steps 1,200 to 1,399".
[[nodiscard]] std::string words_of_steps(std::int64_t first, std::int64_t end);

}  // namespace dgx::jobs
