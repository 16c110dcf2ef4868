#include "dgx/jobs/dispute_story.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "played.h"

namespace dgx::jobs {
namespace {

using Moves = std::vector<manifest::Signed<manifest::Move>>;

protocol::Game play(const protocol::Dispute& dispute, const Moves& moves) {
  auto game = protocol::Game::open(dispute);
  REQUIRE(game.ok());
  for (const auto& move : moves) REQUIRE(game->apply(move).ok());
  return *std::move(game);
}

DisputeStory tell(const protocol::Dispute& dispute, const Moves& moves,
                  const std::map<Digest, std::int64_t>& logged_ms = {}) {
  Cast cast;
  cast_dispute(dispute, cast);
  return tell_dispute({play(dispute, moves), moves, logged_ms}, cast);
}

}  // namespace

TEST_CASE("every kind of dispute has its moves and its end told") {
  using Ending = DisputeStory::Ending;
  for (const test::Example& example : test::examples()) {
    INFO(example.name);
    const DisputeStory story = tell(example.dispute, example.moves);
    CHECK(story.moves.size() == example.moves.size());
    const protocol::Game game = play(example.dispute, example.moves);
    const auto& decision = game.decision();
    CHECK(story.ending == (!decision ? Ending::kOpen : decision->falls ? Ending::kFalls : Ending::kStands));
    CHECK(story.claims.size() == 2);
    CHECK(story.end.size() == (decision ? 2 : 1));
    CHECK(std::all_of(story.funnel.begin(), story.funnel.end(), [](const Level& level) {
      return level.among >= 1 && !level.of.empty() && !level.picked.empty() && !level.agreed.empty();
    }));
    for (const ToldMove& move : story.moves) {
      CHECK(move.who == (move.turn % 2 == 1 ? example.dispute.verdict ? "the verifier" : "the solver"
                                            : "the challenger"));
      CHECK_FALSE(move.words.empty());
      CHECK(move.time.empty());
    }
  }
}

TEST_CASE("an operation is told with all its numbers in decimals") {
  std::size_t told = 0;
  for (const test::Example& example : test::examples()) {
    const DisputeStory story = tell(example.dispute, example.moves);
    if (!story.operation) continue;
    INFO(example.name);
    ++told;
    CHECK(story.operation->right.bits != story.operation->right.decimal);
    CHECK(story.operation->claimed.bits.starts_with("0x"));
    for (const ToldNumber& operand : story.operation->operands) CHECK(operand.bits != operand.decimal);
  }
  CHECK(told > 0);
}

TEST_CASE("a party who gives up is said to have given up") {
  const protocol::Dispute& dispute = test::examples().front().dispute;
  const auto game = protocol::Game::open(dispute);
  REQUIRE(game.ok());
  const auto move = test::move_of(*game, protocol::Side::kDefender, concession());
  const DisputeStory story = tell(dispute, {move}, {{move.id, 0}});
  CHECK(story.moves.front().words == "gives the game up");
  CHECK(story.moves.front().time == "1970-01-01 00:00:00 UTC");
  CHECK(story.end.front() == "The proof falls by default: no part of it was shown to be false.");
  CHECK(story.end.back() == "The solver gave the game up on 1970-01-01 00:00:00 UTC.");
  CHECK(story.ending == DisputeStory::Ending::kFalls);
}

TEST_CASE("an open dispute says who must do what") {
  const DisputeStory story = tell(test::examples().front().dispute, {});
  CHECK(story.ending == DisputeStory::Ending::kOpen);
  CHECK(story.end.front().starts_with("It goes on with turn 1: the solver must show "));
  CHECK(story.heading == "the challenger disputes the solver's proof");
}

}  // namespace dgx::jobs
