#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "dgx/core/json.h"
#include "dgx/jobs/story.h"
#include "dgx/program/program.h"
#include "dgx/protocol/game.h"

namespace dgx::jobs {

/// A game and the facts around it. Owns nothing.
struct GameFacts {
  const protocol::Game& game;  ///< as it stands, or ended
  /// The moves that led there, in order: each is taken by the game in its turn.
  std::span<const manifest::Signed<manifest::Move>> moves;
  const std::map<Digest, std::int64_t>& logged_ms;  ///< Unix milliseconds by statement
  const program::Program* program = nullptr;        ///< the task's step program, for roles; null: unknown
};

/// Gives those who signed a dispute's statements their roles: submitter, solver, verifier, challenger.
void cast_dispute(const protocol::Dispute& dispute, Cast& cast);

/// Tells a game: who claims what, the way down to the operation on which the parties differ, each move, and
/// the end. Derives all of it from the statements; recomputes the game once, move by move. Cost: that of
/// judging it, and a copy of its state a move.
[[nodiscard]] DisputeStory tell_dispute(const GameFacts& facts, const Cast& cast);

/// True if a statement fell because it was shown to be false; false if it stands, or fell by default: its
/// signer missed a deadline, broke the rules or gave up.
[[nodiscard]] bool is_shown_false(const protocol::Decision& decision);

/// A concession: it is no move of the rules, so its signer loses (dgx-dispute(7), "Who loses").
[[nodiscard]] json::Object concession();

}  // namespace dgx::jobs
