#include <catch2/catch.hpp>

#include "dgx/protocol/segments.h"
#include "disputes.h"

using namespace dgx;
using namespace dgx::test;

namespace {

/// Disputes between an honest party and a cheat with these faults: about the proof, with the cheat as
/// defender; about a verdict, with the cheat as verifier; and about the cheat's own wrong objection to a
/// right proof.
void check_faults(TinyParty& honest, const std::vector<Fault>& faults, std::int64_t segment) {
  const Scene& scene = honest.scene();
  const auto segments = *protocol::Segments::of(scene.task.body.steps, scene.task.body.checkpoint_every);
  const protocol::Segment steps = segments[segment];
  honest.look(steps.first, steps.end);
  TinyParty cheat(scene, faults, &honest);
  cheat.ignores_non_finite = true;
  const std::int64_t most = most_moves(scene, steps.length());
  const bool differs = cheat.state_record(steps.end).digest != honest.state_record(steps.end).digest;
  const bool wrong = differs || (*honest.non_finite_after()).has_value();
  for (const bool of_verdict : {false, true}) {
    Setup setup;
    setup.segment = segment;
    setup.prover = of_verdict ? &honest : &cheat;
    setup.verifier = of_verdict ? &cheat : nullptr;
    const Played played = play(scene, dispute_of(scene, setup), cheat, honest);
    INFO((of_verdict ? "verdict " : "proof ")
         << played.moves.size() << " moves, " << standing_in_words(played.game));
    INFO(played.error);
    CHECK((played.error.empty() || played.silent == protocol::Side::kDefender));
    CHECK(std::ssize(played.moves) <= most);
    CHECK(played.longest <= manifest::kMaxMoveBytes);
    // The cheat may also lose because of false steps between right states.
    const auto& decision = played.game.decision();
    REQUIRE((decision || played.silent == protocol::Side::kDefender || !wrong));
    if (decision) {
      INFO(decision->words);
      CHECK(decision->falls);
    }
  }
  Setup setup;
  setup.segment = segment;
  setup.prover = &honest;
  const Played played = play(scene, dispute_of(scene, setup), honest, cheat);
  INFO("objection " << played.moves.size() << " moves");
  if (const auto& decision = played.game.decision()) {
    INFO(decision->words);
    CHECK(!decision->falls);
  }
}

void check_scene(const Scene& scene, int faults, std::uint64_t seed) {
  TinyParty honest(scene);
  Dice dice(seed);
  const auto segments = *protocol::Segments::of(scene.task.body.steps, scene.task.body.checkpoint_every);
  for (int i = 0; i < faults; ++i) {
    const std::int64_t segment = dice.below(segments.count());
    std::vector<Fault> all;
    do {
      all.push_back(draw_fault(scene, segments[segment].first, segments[segment].end, dice));
    } while (dice.one_in(4));
    std::string text = scene.name;
    for (const Fault& fault : all) text += "; " + to_string(fault);
    INFO(text);
    check_faults(honest, all, segment);
  }
}

}  // namespace

TEST_CASE("A cheat with any fault loses to a replay, on either side: small") {
  check_scene(small_scene(), 500, 1);
}
TEST_CASE("A cheat with any fault loses to a replay, on either side: tiny") {
  for (int which = 0; which < 4; ++which) check_scene(tiny_scene(which), 300, 2);
}
TEST_CASE("A cheat with any fault loses to a replay, on either side: growing") {
  check_scene(growing_scene(), 300, 3);
}
TEST_CASE("A cheat with any fault loses to a replay, on either side: wide") {
  check_scene(wide_scene(), 60, 4);
}
TEST_CASE("A cheat with any fault loses to a replay, on either side: long") {
  check_scene(long_scene(), 60, 5);
}
TEST_CASE("A cheat with any fault loses to a replay, on either side: large") {
  check_scene(large_scene(), 30, 6);
}

TEST_CASE("whoever continues a game that their replay would not have led to is told so") {
  const Scene scene = small_scene();
  TinyParty honest(scene);
  honest.look(0, 2);
  Setup setup;
  setup.prover = &honest;
  for (int kind = 0; kind < 14; ++kind) {
    for (std::int64_t entry = 0; entry < std::ssize(scene.initial); ++entry) {
      TinyParty other(scene,
                      {{static_cast<Fault::Kind>(kind), 1, entry, 0, 3, true}, {Fault::Kind::kMissing, 1, 0}},
                      &honest);
      protocol::Player shows(scene.program, honest), strange(scene.program, other);
      auto game = *protocol::Game::open(dispute_of(scene, setup));
      const auto play_next = [&](const protocol::Message& what) {
        const auto side = game.due().side;
        REQUIRE(game.apply(move_of(game, side, protocol::print_message(what))).ok());
      };
      const auto show = [&] { play_next(**shows.next(game)); };
      show();
      play_next(protocol::Name{1, std::nullopt});
      show();
      play_next(protocol::Accept{});
      static_cast<void>(strange.next(game));
      show();
      static_cast<void>(strange.next(game));
      play_next(protocol::Name{std::ssize(scene.initial) - 1, std::nullopt});
      static_cast<void>(strange.next(game));
      show();
      static_cast<void>(strange.next(game));
      REQUIRE(!game.decision());
    }
  }
}
