// A challenger who opens truthfully, but another leaf than the one in question.
#include <catch2/catch.hpp>

#include "claims.h"
#include "disputes.h"
#include "party_view.h"

using namespace dgx;
using namespace dgx::test;
using namespace dgx::protocol;

namespace {

/// Samples of 256 bytes, 37 of them: nine full leaves and a partial one.
Scene batch_scene(const std::string& field = "x") {
  Sketch s;
  const int w = s.state("model/w", "f32", {64});
  s.input("batch " + field, "f32", {2, 64});
  s.next(w, s.add({"map", {64}, {"0[i0]", "1[0,i0]", "1[1,i0]"}, {"add x0 x1", "mul t0 x2"}}));
  return scene_of("batch", s.finish(), 2, 2, 7);
}

/// The game about the honest solver's batch, up to the leaf in question.
Game at_batch(const Scene& scene, TinyParty& honest) {
  Setup setup;
  setup.prover = &honest;
  auto game = Game::open(dispute_of(scene, setup));
  REQUIRE(game.ok());
  Player player(scene.program, honest);
  PartyView view(scene.program, honest);
  while (!game->stage<ChooseElement>()) {
    const Side side = game->due().side;
    Message message = Name{0, std::nullopt};
    if (side == Side::kDefender) message = **player.next(*game);
    if (game->stage<ChooseValue>()) message = Name{1, view.line(kernels::ValueIndex{1})};
    REQUIRE(game->apply(move_of(*game, side, print_message(message))).ok());
    REQUIRE(!game->decision());
  }
  return *std::move(game);
}

}  // namespace

TEST_CASE("A true opening of another leaf of the dataset convicts nobody") {
  const std::string field = GENERATE("x", "mask");
  const Scene scene = batch_scene(field);
  TinyParty honest(scene);
  const Game before = at_batch(scene, honest);
  int others = 0;
  for (std::int64_t element = 0; element < 37 * 64; element += 256) {
    const auto data = honest.data(field, element);
    REQUIRE(data.ok());
    for (const std::int64_t index : {0, 1, 63, 64, 127}) {
      Game game = before;
      REQUIRE(game.apply(move_of(game, Side::kChallenger, print_message(InputClaim{index, *data}))).ok());
      REQUIRE(game.decision());
      INFO(game.decision()->words);
      CHECK(!game.decision()->falls);
      others += game.decision()->words.find("is not in the opened leaf") != std::string::npos ? 1 : 0;
    }
  }
  CHECK(others >= 35);
}

TEST_CASE("A true opening of another field convicts nobody") {
  const Scene scene = batch_scene("mask");
  TinyParty honest(scene);
  const Game before = at_batch(scene, honest);
  for (const char* field : {"x", "y"}) {
    const auto data = honest.data(field, 0);
    REQUIRE(data.ok());
    Game game = before;
    REQUIRE(game.apply(move_of(game, Side::kChallenger, print_message(InputClaim{0, *data}))).ok());
    REQUIRE(game.decision());
    CHECK(!game.decision()->falls);
    CHECK(game.decision()->words.find("opens another field") != std::string::npos);
  }
}

TEST_CASE("A batch's element is the dataset's only in the dataset's shape and type") {
  const Scene scene = batch_scene();
  const kernels::Primitive& line = scene.program.values[kernels::ValueIndex{1}];
  REQUIRE(line.source.name == "x");
  CHECK(dataset_element(scene.task.body, 0, line, 3).ok());
  kernels::Primitive other = line;
  other.shape.back() -= 1;
  CHECK_FALSE(dataset_element(scene.task.body, 0, other, 3).ok());
  other = line;
  other.dtype = line.dtype == DType::kU8 ? DType::kF32 : DType::kU8;
  CHECK_FALSE(dataset_element(scene.task.body, 0, other, 3).ok());
  other = line;
  other.source.name = "mask";
  CHECK_FALSE(dataset_element(scene.task.body, 0, other, 3).ok());
}
