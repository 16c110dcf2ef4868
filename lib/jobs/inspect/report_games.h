#pragma once

#include <cstdint>
#include <vector>

#include "dgx/jobs/dispute_story.h"
#include "inspect/report_evidence.h"

namespace dgx::jobs {

/// A game of the task, replayed.
struct ToldGame {
  protocol::Game game;
  std::vector<manifest::Signed<manifest::Move>> moves;

  [[nodiscard]] const Digest& id() const { return game.dispute().challenge.id; }
};

/// The games of the evidence, the first 32 of them: the ledger's as they stand at its time, then those of the
/// files. `left_out` names a challenge that is void or lacks a statement that it rests on.
[[nodiscard]] std::vector<ToldGame> games_of(const Evidence& evidence, std::vector<std::string>& left_out);

/// tell_dispute(), and for each ruling about the game in the evidence whether it follows from the moves.
[[nodiscard]] DisputeStory tell_game(const Evidence& evidence, const ToldGame& told, const Cast& cast);

}  // namespace dgx::jobs
