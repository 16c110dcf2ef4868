// Disputes in a ledger: who may challenge when, and the effect on the money.
#include <catch2/catch.hpp>

#include "dgx/merkle/tree.h"
#include "dgx/protocol/message.h"
#include "dgx/protocol/settlement.h"
#include "game.h"
#include "market_world.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::accepted;
using test::any;
using test::cheat;
using test::false_refutation;
using test::honest;
using test::World;

namespace {

constexpr std::int64_t kBond = test::kChallengerBond;

}  // namespace

TEST_CASE("a proof that falls in a game is a conviction, although its verdict accepted it") {
  World world(cheat());
  world.take(any(accepted(cheat())), 0);
  const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 900);
  CHECK(world.of("bonds") == 1'502 + kBond);
  CHECK(world.gain(test::kStranger) == -kBond);
  CHECK(world.state(1'000) == "challenge-window");
  CHECK(world.state(1'001) == "arbitration");
  CHECK(world.stands(1'001).deadline_ms == 1'300);
  world.defender_loses(game, test::kSolver, 1'200);
  CHECK(world.settle(1'200) == "convicted");
  // The 1,001 first pay the tax of 9; of the rest 248 go to the finders, half of that to the first, 248 to
  // the jackpot and 496 to the submitter.
  CHECK(world.gain(test::kSolver) == -1'001);
  CHECK(world.gain(test::kStranger) == 124);
  CHECK(world.of("jackpot") == 9 + 124 + 248);
  CHECK(world.gain(test::kSubmitter) == 496);
  CHECK(world.gain(test::kVerifier) == 0);
}

TEST_CASE("whoever misses a move loses the game at its deadline") {
  World world(cheat());
  const std::vector<std::int64_t> chosen{5};
  world.take(any(test::verdict(cheat(), chosen)), 0);
  const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 1'000);
  SECTION("the defender") {
    CHECK(world.state(1'400) == "arbitration");
    CHECK(world.refused(any(test::states_move(game, test::kSolver)), 1'401) ==
          "game " + game.id.brief() + " is over: the proof falls");
    CHECK(world.settle(1'401) == "convicted");
    // The verifier refuted rightly: after the tax their fee (17 for one segment) is paid, and they are the
    // first of two finders, who get a half and a quarter of floor(975 / 4).
    CHECK(world.gain(test::kVerifier) == 17 + 121);
    CHECK(world.gain(test::kStranger) == 60);
    CHECK(world.of("jackpot") == 9 + 62 + 243);
    CHECK(world.gain(test::kSubmitter) == 489);
  }
  SECTION("the challenger") {
    world.take(any(test::states_move(game, test::kSolver)), 1'400);
    CHECK(world.state(1'800) == "arbitration");
    CHECK(world.settle(1'801) == "refuted");
    // Half of the challenger's bond goes to the defender, who stays refuted.
    CHECK(world.gain(test::kStranger) == -kBond);
    CHECK(world.gain(test::kSolver) == -1'001 + 150);
    CHECK(world.of("jackpot") == 9 + 122 + 243 + 151);
  }
}

TEST_CASE("a refutation that falls is overturned: the solver is paid, the verifier slashed") {
  World world(honest());
  const auto verdict = false_refutation(honest());
  world.take(any(verdict), 0);
  const auto game = world.challenge(test::challenge_of(honest(), verdict), test::kSolver, 500);
  const auto second = world.challenge(test::challenge_of(honest(), verdict), test::kStranger, 600);
  world.defender_loses(game, test::kVerifier, 700);
  world.challenger_loses(second, test::kVerifier, test::kStranger, 800);
  // After the fall everybody may challenge the proof again.
  CHECK(world.state(1'700) == "challenge-window");
  CHECK(world.settle(1'701) == "overturned");
  // Finders share 250 of the 501; the solver who won gets half. The stranger, whose game was open when the
  // verdict fell, risks nothing.
  CHECK(world.gain(test::kSolver) == 460 + 125);
  CHECK(world.gain(test::kVerifier) == -501);
  CHECK(world.gain(test::kStranger) == 0);
  CHECK(world.of("jackpot") == 9 + 251 + 125);
  CHECK(world.gain(test::kSubmitter) == -469);
}

TEST_CASE("an accomplice's refutation cannot shelter a cheat until the window has passed") {
  World world(cheat());
  const auto verdict = false_refutation(cheat());
  world.take(any(verdict), 0);
  const auto game = world.challenge(test::challenge_of(cheat(), verdict), test::kSolver, 1'000);
  world.defender_loses(game, test::kVerifier, 1'001);
  CHECK(world.state(2'001) == "challenge-window");
  const auto late = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 2'001);
  world.defender_loses(late, test::kSolver, 2'002);
  CHECK(world.settle(2'002) == "convicted");
  // The solver's own finding earns them 125 of the verifier's 501; the verifier has no share in the solver's
  // bond.
  CHECK(world.gain(test::kSolver) == -1'001 + 125);
  CHECK(world.gain(test::kVerifier) == -501);
  CHECK(world.gain(test::kStranger) == 124);
}

TEST_CASE("an acceptance whose witness is false falls, and counts as none") {
  World world(honest());
  // Three rows, as the policy draws; the second is echoed from the proof.
  std::vector<Digest> leaves;
  for (const char* word : {"row 0", "row 1", "row 2"}) leaves.push_back(test::digest(word));
  const VerdictRow row{5,    honest().digests[6], honest().digests[6],
                       true, RowReason::kEqual,   test::digest("invented")};
  leaves[1] = merkle::leaf_hash(as_bytes(row.to_json().dump()));
  Verdict body = test::verdict(honest()).body;
  body.rows.root = merkle::root_of(leaves);
  const auto verdict = *seal(body, test::key(test::kVerifier));
  world.take(any(verdict), 0);
  Challenge challenge = test::challenge_of(honest(), 5);
  challenge.verdict = verdict.id;
  challenge.about = About::kWitness;
  challenge.row = OpenedRow{1, {}, row};
  CHECK(world.refused(any(*seal(challenge, test::key(test::kStranger))), 10).starts_with("row: path"));
  challenge.row->path = *merkle::inclusion_path(leaves, 1);
  const auto game = world.challenge(challenge, test::kStranger, 10);
  // The verifier may show any state, but loses without one that gives the witness.
  const Move shown{challenge.task, game.id, 1, game.id,
                   print_message(InteriorPost{test::digest("any state")})};
  world.take(any(*seal(shown, test::key(test::kVerifier))), 300);
  CHECK(world.state(1'300) == "challenge-window");
  CHECK(world.settle(1'301) == "unverified");
  CHECK(world.gain(test::kSolver) == 460);
  CHECK(world.gain(test::kVerifier) == -501);
  CHECK(world.gain(test::kStranger) == 125);
  CHECK(world.of("jackpot") == 9 + 251 + 125);
}

TEST_CASE("a verdict of a chosen draw cannot name a beacon that is not there") {
  World world(honest());
  Verdict body = false_refutation(honest()).body;
  body.beacon = test::digest("no beacon");
  CHECK(world.refused(any(*seal(body, test::key(test::kVerifier))), 0) == "beacon: is not the task's");
  body.beacon = honest().beacon.id;
  const auto verdict = *seal(body, test::key(test::kVerifier));
  world.take(any(verdict), 0);
  Challenge challenge = test::challenge_of(honest(), verdict);
  challenge.about = About::kWitness;
  world.challenge(challenge, test::kStranger, 10);
}

TEST_CASE("a row that expects another state than the committed one fells its verdict at once") {
  World world(honest());
  Verdict body = false_refutation(honest()).body;
  body.first_disagreement->expected = test::digest("not committed");
  const auto verdict = *seal(body, test::key(test::kVerifier));
  world.take(any(verdict), 0);
  const auto game = world.challenge(test::challenge_of(honest(), verdict), test::kStranger, 10);
  CHECK(world.market.tasks().at(honest().task.id).games[0].game.decision()->falls);
  CHECK(world.refused(any(test::states_move(game, test::kVerifier)), 11) ==
        "game " + game.id.brief() + " is over: the verdict falls");
  CHECK(world.refused(any(*seal(test::challenge_of(honest(), verdict), test::key(test::kSolver))), 11) ==
        "the verdict has already fallen, in game " + game.id.brief());
  CHECK(world.settle(1'011) == "overturned");
  CHECK(world.gain(test::kStranger) == 125);
}

TEST_CASE("a challenge is taken while the window lasts, once, from somebody with money") {
  World world(honest());
  const auto early = *seal(test::challenge_of(honest(), 3), test::key(test::kStranger));
  CHECK(world.refused(any(early), 0).ends_with(" is opened"));
  world.take(any(test::verdict(honest())), 100);
  CHECK(world.refused(any(*seal(test::challenge_of(honest(), 3), test::key(test::kSolver))), 100) ==
        "challenge: is signed by the signer of what it challenges");
  CHECK(world.refused(any(*seal(test::challenge_of(honest(), 3), test::key(200))), 100)
            .ends_with(" has 0, the challenger's bond needs 301"));
  CHECK(world.refused(any(*seal(test::challenge_of(cheat(), 3), test::key(test::kStranger))), 100)
            .ends_with(" is not in the ledger"));
  Challenge wrong = test::challenge_of(honest(), 3);
  wrong.start.digest.bytes[0] ^= 1;
  CHECK(world.refused(any(*seal(wrong, test::key(test::kStranger))), 100) ==
        "start: is not committed state 3 of the proof");
  world.take(any(early), 100);
  CHECK(world.refused(any(early), 100) == "is already in the ledger");
  Challenge again = early.body;
  again.verdict = test::digest("another");
  again.row = OpenedRow{0, {}, *false_refutation(honest()).body.first_disagreement};
  again.row->row.index = 3;
  CHECK(world.refused(any(*seal(again, test::key(test::kStranger))), 100) ==
        "challenge: is about another verdict");
  world.challenge(test::challenge_of(honest(), 4), test::kStranger, 100);
  CHECK(world.refused(any(*seal(test::challenge_of(honest(), 5), test::key(6))), 1'101).ends_with(" is due"));
}

TEST_CASE(
    "each open game of a statement doubles the bond of the next, but for those whose money is at stake") {
  World world(honest());
  world.take(any(test::verdict(honest())), 0);
  const auto bond_of_last = [&] { return world.market.tasks().at(honest().task.id).games.back().bond; };
  for (std::uint8_t i = 0; i < 8; ++i) {
    world.challenge(test::challenge_of(honest(), i), static_cast<std::uint8_t>(10 + i), 10);
    CHECK(bond_of_last() == kBond << i);
  }
  // Everyone here can pay 301 << 8 = 77,056, and nobody 301 << 9 = 154,112.
  world.challenge(test::challenge_of(honest(), 8), 30, 10);
  CHECK(world.refused(any(*seal(test::challenge_of(honest(), 9), test::key(31))), 10)
            .ends_with(" has 100000, the challenger's bond needs 154112"));
  SECTION("about the proof the submitter and the verifier have a game each at one bond") {
    world.challenge(test::challenge_of(honest(), 9), test::kSubmitter, 11);
    CHECK(bond_of_last() == kBond);
    world.challenge(test::challenge_of(honest(), 9), test::kVerifier, 11);
    CHECK(bond_of_last() == kBond);
    CHECK(world.refused(any(*seal(test::challenge_of(honest(), 1), test::key(test::kVerifier))), 11)
              .ends_with("the challenger's bond needs 154112"));
  }
  SECTION("one that has ended makes room for another") {
    world.challenger_loses(*seal(test::challenge_of(honest(), 0), test::key(10)), test::kSolver, 10, 11);
    world.challenge(test::challenge_of(honest(), 9), 31, 12);
    CHECK(bond_of_last() == kBond << 8);
  }
  SECTION("all of them can be paid") {
    // The solver answers none: the first missed move fells the proof; the other games go on and win after it.
    CHECK(world.settle(100'000) == "convicted");
    CHECK(world.gain(10) == 124);
    CHECK(world.gain(11) == 62);
    CHECK(world.gain(16) == 1);
    CHECK(world.gain(17) == 0);
    CHECK(world.gain(30) == 0);
  }
}

TEST_CASE("games won against a verdict shut nobody out of the proof") {
  World world(cheat());
  const auto verdict = false_refutation(cheat());
  world.take(any(verdict), 0);
  const auto swarm = world.challenge(test::challenge_of(cheat(), verdict), 10, 1);
  world.challenge(test::challenge_of(cheat(), verdict), 11, 1);
  world.defender_loses(swarm, test::kVerifier, 2);
  const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 3);
  CHECK(world.market.tasks().at(cheat().task.id).games.back().bond == kBond);
  world.defender_loses(game, test::kSolver, 4);
  CHECK(world.settle(1'005) == "convicted");
  CHECK(world.gain(test::kStranger) == 124);
}

TEST_CASE("a cheat who convicts themselves after an honest challenge takes nothing from it") {
  World world(cheat());
  world.take(any(accepted(cheat())), 0);
  const auto honest_game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 10);
  // The cheat's own game is about another place, and the solver loses it at once.
  const auto own = world.challenge(test::challenge_of(cheat(), 2), 20, 10);
  world.defender_loses(own, test::kSolver, 10);
  SECTION("the honest game goes on, wins and has the first share") {
    world.defender_loses(honest_game, test::kSolver, 300);
    CHECK(world.settle(1'001) == "convicted");
    CHECK(world.gain(test::kStranger) == 124);
    CHECK(world.gain(20) == 62);
  }
  SECTION("who stops has the bond back, and the cheat has none of it") {
    world.take(any(test::states_move(honest_game, test::kSolver)), 300);
    CHECK(world.settle(1'001) == "convicted");
    CHECK(world.gain(test::kStranger) == 0);
    CHECK(world.gain(test::kSolver) == -1'001);
  }
}

TEST_CASE("when a statement falls, the games that are open go on at no risk, and no new one begins") {
  World world(cheat());
  world.take(any(accepted(cheat())), 0);
  const auto first = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 10);
  const auto same = world.challenge(test::challenge_of(cheat(), 5), 20, 11);
  const auto other = world.challenge(test::challenge_of(cheat(), 2), 21, 11);
  const auto lost = world.challenge(test::challenge_of(cheat(), 3), 22, 11);
  world.defender_loses(first, test::kSolver, 12);
  CHECK(world.refused(any(*seal(test::challenge_of(cheat(), 6), test::key(23))), 13) ==
        "the proof has already fallen, in game " + first.id.brief());
  world.defender_loses(same, test::kSolver, 13);
  world.defender_loses(other, test::kSolver, 14);
  world.challenger_loses(lost, test::kSolver, 22, 14);
  CHECK(world.refused(any(test::empty_move(lost, 3, test::digest("last"), test::kSolver)), 15) ==
        "game " + lost.id.brief() + " is over: the proof has fallen in another");
  CHECK(world.settle(1'001) == "convicted");
  CHECK(world.gain(test::kStranger) == 124);
  CHECK(world.gain(20) == 62);
  CHECK(world.gain(21) == 31);
  CHECK(world.gain(22) == 0);
}

TEST_CASE("a defender's moves fall due one after another") {
  World world(honest());
  world.take(any(test::verdict(honest())), 0);
  const auto deadline = [&](std::size_t game) {
    return world.market.tasks().at(honest().task.id).games[game].deadline_ms;
  };
  const auto a = world.challenge(test::challenge_of(honest(), 1), 10, 0);
  const auto b = world.challenge(test::challenge_of(honest(), 2), 11, 0);
  const auto c = world.challenge(test::challenge_of(honest(), 3), 12, 0);
  CHECK(deadline(0) == 400);
  CHECK(deadline(1) == 800);
  CHECK(deadline(2) == 1'200);
  world.take(any(test::states_move(a, test::kSolver)), 400);
  world.take(any(test::states_move(b, test::kSolver)), 800);
  world.take(any(test::states_move(c, test::kSolver)), 1'200);
  // Each challenger has one window.
  CHECK(deadline(0) == 800);
  CHECK(deadline(2) == 1'600);
  CHECK(world.settle(1'601) == "accepted");
}

TEST_CASE("a move of a game that is not there, of nobody in it, or out of place changes nothing") {
  World world(honest());
  world.take(any(test::verdict(honest())), 0);
  const auto game = world.challenge(test::challenge_of(honest(), 3), test::kStranger, 0);
  auto foreign = game;
  foreign.id = test::digest("no game");
  CHECK(world.refused(any(test::states_move(foreign, test::kSolver)), 0) ==
        "game " + foreign.id.brief() + " is not in the ledger");
  CHECK(world.refused(any(test::states_move(game, test::kVerifier)), 0) ==
        "move 1: is signed by neither side of the game");
  CHECK(world.refused(any(test::empty_move(game, 2, test::digest("nothing"), test::kStranger)), 0) ==
        "move 2: answers a statement that is not in this game");
  const auto shown = test::states_move(game, test::kSolver);
  world.take(any(shown), 0);
  CHECK(world.refused(any(shown), 0) == "is already in the ledger");
  SECTION("two moves for one turn convict their signer") {
    world.take(any(test::empty_move(game, 1, game.id, test::kSolver)), 0);
    CHECK(world.settle(1'001) == "convicted");
  }
}

TEST_CASE("a ruling is the one that follows, or none") {
  World world(cheat());
  const std::vector<std::int64_t> chosen{5};
  world.take(any(test::verdict(cheat(), chosen)), 0);
  const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 0);
  const auto& record = [&]() -> const GameRecord& {
    return world.market.tasks().at(cheat().task.id).games[0];
  };
  Ruling ruling = *game_at(record(), 401).ruling();
  CHECK(ruling.reason == RulingReason::kLate);
  CHECK(ruling.words == "turn 1 was not taken within 400 ms");
  const auto sealed = [&](std::uint8_t who) { return any(*seal(ruling, test::key(who))); };
  CHECK(world.refused(sealed(9), 400) == "game " + game.id.brief() + " is not over");
  ruling.falls = false;
  CHECK(world.refused(sealed(9), 401) ==
        "is not the ruling that follows from the ledger, which is: turn 1 was not taken within 400 ms");
  ruling.falls = true;
  world.take(sealed(9), 402);
  CHECK(record().ruling == sealed(9).id);
  CHECK(world.refused(sealed(10), 402) == "game " + game.id.brief() + " already has its ruling");
  CHECK(world.settle(1'001) == "convicted");
}

TEST_CASE("without a verdict the proof can be challenged, and the silent verifier loses their bond") {
  World world(cheat());
  CHECK(world.state(1'001) == "challenge-window");
  const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 2'000);
  world.defender_loses(game, test::kSolver, 2'001);
  CHECK(world.settle(2'001) == "convicted");
  CHECK(world.gain(test::kVerifier) == -501);
  CHECK(world.of("jackpot") == 9 + 124 + 248 + 501);
}

TEST_CASE("a chunk that is demanded is answered in time, or the proof falls") {
  World world(honest());
  world.take(any(test::verdict(honest())), 0);
  const auto game = world.challenge(test::chunk_challenge(honest(), 7), test::kStranger, 1'000);
  SECTION("answered") {
    world.take(any(test::chunk_move(honest(), game, test::kSolver)), 1'400);
    CHECK(world.settle(1'400) == "accepted");
    CHECK(world.gain(test::kSolver) == 460 + 150);
    CHECK(world.gain(test::kStranger) == -kBond);
  }
  SECTION("not answered") {
    CHECK(world.state(1'400) == "arbitration");
    CHECK(world.settle(1'401) == "convicted");
    CHECK(world.gain(test::kSolver) == -1'001);
  }
  SECTION("answered with another state's") {
    auto other = game;
    other.body.segment = 6;
    world.take(any(test::chunk_move(honest(), other, test::kSolver)), 1'400);
    CHECK(world.settle(1'400) == "convicted");
  }
}
