// dgx-threats(7), rows 5, 10, 12, 13, 14, 28: cheats who are challenged and cheats who challenge, in whole
// games.

#include <fmt/format.h>

#include "dgx/protocol/segments.h"
#include "ruled_games.h"

using namespace dgx;
using namespace dgx::test;
using manifest::About;
using manifest::Ruling;
using manifest::RulingReason;
using protocol::Side;
using Kind = Fault::Kind;

namespace {

/// The ruling about the proof of a cheat with these faults, challenged by an honest replay. If the faults
/// leave no trace in the committed states, the cheat lies about those, too: else there is nothing to dispute.
Ruling against(const Scene& scene, std::vector<Fault> faults) {
  TinyParty honest(scene);
  const auto end = [&] { return TinyParty(scene, faults, &honest).state_record(2).digest; };
  if (end() == honest.state_record(2).digest) faults.push_back(fault(Kind::kEntry, 1, 3, 0, 3));
  TinyParty cheat(scene, faults, &honest);
  cheat.ignores_non_finite = true;
  const auto segments = *protocol::Segments::of(scene.task.body.steps, scene.task.body.checkpoint_every);
  honest.look(segments[0].first, segments[0].end);
  const Ruling ruling = ruled(scene, about_proof(cheat), cheat, honest);
  CHECK(ruling.falls);
  CHECK(ruling.defender == key_id(kProver));
  return ruling;
}

void check_claim(const Ruling& ruling, manifest::Claim claim, std::int64_t value) {
  INFO(ruling.words);
  CHECK(ruling.reason == RulingReason::kClaim);
  CHECK(ruling.claim == claim);
  CHECK(ruling.at.step == 1);
  CHECK(ruling.at.value == value);
}

}  // namespace

TEST_CASE("honest values with a false end state fall by the entry that does not follow from them") {
  for (std::int64_t entry = 0; entry < 5; ++entry) {
    const Ruling ruling = against(small(), {fault(Kind::kEntry, 1, entry, 0, 3)});
    INFO(ruling.words);
    CHECK(ruling.reason == RulingReason::kClaim);
    CHECK(ruling.claim == manifest::Claim::kEntry);
    const Ruling digest = against(small(), {fault(Kind::kEntryDigest, 1, entry)});
    CHECK(digest.claim == manifest::Claim::kEntry);
  }
  const Ruling nothing = against(small(), {fault(Kind::kState, 1, 0)});
  CHECK(nothing.reason == RulingReason::kPost);
}

TEST_CASE("false inputs with honest operations fall by the input") {
  for (const std::int64_t state : {0, 1, 2})
    check_claim(against(small(), {fault(Kind::kValue, 1, state, 1, 2)}), manifest::Claim::kStateInput, state);
  for (const std::int64_t input : {3, 4, 5, 6, 7}) {
    const Ruling ruling = against(small(), {fault(Kind::kValue, 1, input, 1, 2)});
    check_claim(ruling, manifest::Claim::kInput, input);
    REQUIRE(ruling.scalar);
    CHECK(ruling.scalar->operation == "input");
    CHECK(ruling.at.element == 1);
  }
}

TEST_CASE("one flipped bit of any line falls at the line's own operation") {
  for (std::int64_t value = 8; value <= 18; ++value) {
    const Ruling ruling = against(small(), {fault(Kind::kValue, 1, value, 0, 1)});
    INFO(ruling.words);
    CHECK(ruling.claim == manifest::Claim::kOperation);
    CHECK(ruling.at.value == value);
    REQUIRE(ruling.scalar);
    CHECK(ruling.scalar->claimed != ruling.scalar->result);
  }
}

TEST_CASE("a defender whose story changes in mid-game loses by what they posted before") {
  TinyParty honest(small());
  TinyParty one(small(), {fault(Kind::kValue, 1, 9, 0, 20)}, &honest);
  TinyParty other(small(), {fault(Kind::kValue, 1, 12, 1, 20)}, &honest);
  TinyParty third(small(), {fault(Kind::kEntry, 1, 3, 1, 20)}, &honest);
  Dice dice(7);
  ChangingParty changing({&one, &other, &third, &honest}, dice);
  int contradicted = 0;
  for (int i = 0; i < 200; ++i) {
    const auto dispute = about_proof(one);
    const Played played = play(small(), dispute, changing, honest, true);
    if (!played.game.decision()) {  // this story gives the defender nothing to say
      CHECK(played.silent == Side::kDefender);
      continue;
    }
    const auto ruling = ruled(transcript_of(dispute, played.moves));
    REQUIRE(ruling.ok());
    INFO(ruling->words);
    CHECK(ruling->falls);
    contradicted += ruling->reason == RulingReason::kPost ? 1 : 0;
  }
  CHECK(contradicted > 50);
}

TEST_CASE("entries missing, added, twice, swapped or renamed are no state of the program") {
  for (const Kind kind : {Kind::kMissing, Kind::kExtra, Kind::kTwice, Kind::kSwapped, Kind::kRenamed}) {
    for (std::int64_t entry = 0; entry < 5; ++entry) {
      for (int bit = 0; bit < 2; ++bit) {
        const Ruling ruling = against(small(), {fault(kind, 1, entry, 0, bit)});
        INFO(ruling.words);
        CHECK((ruling.claim == manifest::Claim::kEntry || ruling.reason == RulingReason::kPost ||
               ruling.reason == RulingReason::kLate));
      }
    }
  }
}

TEST_CASE("a value of another type or shape than its line's is refused as shown") {
  for (const Kind kind : {Kind::kShape, Kind::kType, Kind::kDigest}) {
    for (std::int64_t value = 3; value <= 18; ++value) {
      for (int bit = 0; bit < 3; ++bit) {
        const Ruling ruling = against(small(), {fault(kind, 1, value, 0, bit)});
        INFO(ruling.words);
        // More leaves than the line's shape has violate even the form of the move.
        const bool form = ruling.reason == RulingReason::kMalformed && kind == Kind::kShape && bit == 2;
        CHECK((form ||
               (ruling.reason == RulingReason::kPost && ruling.claim == manifest::Claim::kTypeOrShape)));
      }
    }
  }
  for (const std::int64_t state : {0, 1, 2})
    check_claim(against(small(), {fault(Kind::kType, 1, state)}), manifest::Claim::kStateInput, state);
}

TEST_CASE("a NaN of another payload than the one is wrong, even where a NaN is right") {
  // A line that gives NaN, which a select then drops.
  Sketch s;
  const int w = s.state("model/w", "f32", {2});
  const int nan = s.add({"map", {2}, {fmt::format("{}[i0]", w)}, {"sub x0 x0", "div t0 t0"}});
  const int chain =
      s.add({"chain", {2}, {fmt::format("{}[i0]", nan)}, {"add acc x0"}, {1}, "f32", {}, "0x0p0"});
  s.next(w, s.add({"map",
                   {2},
                   {fmt::format("{}[i0]", w), fmt::format("{}[i0]", chain)},
                   {"eq x1 x1", "select t0 x1 x0"}}));
  const Scene scene = scene_of("nan", s.finish(), 4, 2, 9);
  for (const int value : {nan, chain}) {
    // The later lie would never be reached if the NaN saved the cheat.
    const Ruling ruling =
        against(scene, {fault(Kind::kNan, 1, value, 1, 3), fault(Kind::kEntry, 1, 1, 0, 4)});
    INFO(ruling.words);
    CHECK(ruling.at.value == value);
  }
}

TEST_CASE("a state that is not finite falls, whoever committed to it") {
  // The scene's third step is the first with a non-finite result; the segment goes on to the sixth.
  TinyParty truth(growing());
  truth.look(0, 6);
  TinyParty cheat(growing());
  cheat.ignores_non_finite = true;
  const Ruling ruling = ruled(growing(), about_proof(cheat), cheat, truth);
  INFO(ruling.words);
  CHECK(ruling.falls);
  CHECK(ruling.claim == manifest::Claim::kNonFinite);
  CHECK(ruling.reason == RulingReason::kClaim);
}

TEST_CASE("a false first or last state falls at once, a right one stands") {
  TinyParty honest(small());
  const auto about = [&](About what, bool lie) {
    auto dispute = about_proof(honest, what == About::kFinal ? 1 : 0);
    manifest::Proof proof = dispute.proof.body;
    if (lie) (what == About::kInitial ? proof.initial : proof.final_state) = digest("another");
    say_an_end(proof);
    dispute.proof = *manifest::seal(proof, key(kProver));
    manifest::Challenge challenge = dispute.challenge.body;
    challenge.about = what;
    challenge.proof = dispute.proof.id;
    dispute.challenge = *manifest::seal(challenge, key(kChallenges));
    const auto ruling = ruled(transcript_of(dispute, {}));
    REQUIRE(ruling.ok());
    CHECK(ruling->claim == manifest::Claim::kCommittedState);
    CHECK(ruling->moves == 0);
    return ruling->falls;
  };
  for (const About what : {About::kInitial, About::kFinal}) {
    CHECK(about(what, true));
    CHECK_FALSE(about(what, false));
  }
}

TEST_CASE("crafted initial weights fall although all segments follow from them") {
  Scene crafted = small_scene();
  crafted.initial[3].tensor.as<float>()[0] += 0x1p-20F;
  TinyParty cheat(crafted);
  auto dispute = about_proof(cheat);
  manifest::Challenge challenge = dispute.challenge.body;
  challenge.about = About::kInitial;
  dispute.challenge = *manifest::seal(challenge, key(kChallenges));
  const auto ruling = ruled(transcript_of(dispute, {}));
  REQUIRE(ruling.ok());
  CHECK(ruling->falls);
  CHECK(ruling->claim == manifest::Claim::kCommittedState);
}

TEST_CASE("a planted challenger who loses on purpose shelters nobody: the next one wins") {
  TinyParty honest(small());
  TinyParty cheat(small(), {fault(Kind::kValue, 1, 9, 0, 20)}, &honest);
  const auto planted = about_proof(cheat);
  // The challenger accepts everything and then makes a false claim, or says something that is not a move.
  Moves moves = moves_of(small(), planted, cheat, honest, 1);
  moves.push_back(instead(game_after(planted, moves), protocol::Accept{}));
  auto ruling = ruled(transcript_of(planted, moves));
  REQUIRE(ruling.ok());
  CHECK_FALSE(ruling->falls);
  for (std::uint8_t seed = 8; seed < 12; ++seed) {
    auto dispute = planted;
    dispute.challenge = *manifest::seal(dispute.challenge.body, key(seed));
    Moves mine;
    protocol::Player shows(small().program, cheat), objects(small().program, honest);
    auto game = game_after(dispute, {});
    while (!game.decision()) {
      const bool defends = game.due().side == Side::kDefender;
      mine.push_back(instead(game, next_message(defends ? shows : objects, game), defends ? kProver : seed));
      REQUIRE(game.apply(mine.back()).ok());
    }
    ruling = ruled(transcript_of(dispute, mine));
    REQUIRE(ruling.ok());
    CHECK(ruling->falls);
    CHECK(ruling->challenger == key_id(seed));
  }
}

TEST_CASE("a swarm of challengers, each with another lie, convicts no honest solver and no honest verifier") {
  TinyParty honest(small());
  Dice dice(11);
  for (int i = 0; i < 100; ++i) {
    TinyParty liar(small(), {draw_fault(small(), 0, 2, dice)}, &honest);
    for (const bool of_verdict : {false, true}) {
      const auto dispute = of_verdict ? about_verdict(honest, honest) : about_proof(honest);
      const Played played = play(small(), dispute, honest, liar, true);
      CHECK(played.silent != Side::kDefender);
      if (!played.game.decision()) continue;
      const auto ruling = ruled(transcript_of(dispute, played.moves));
      REQUIRE(ruling.ok());
      INFO(ruling->words);
      CHECK_FALSE(ruling->falls);
    }
  }
}

TEST_CASE("nobody challenges themselves") {
  TinyParty honest(small());
  auto dispute = about_proof(honest);
  dispute.challenge = *manifest::seal(dispute.challenge.body, key(kProver));
  const auto ruling = ruled(transcript_of(dispute, {}));
  REQUIRE_FALSE(ruling.ok());
  CHECK_THAT(ruling.error().message, Catch::Contains("by the signer of what it challenges"));
}
