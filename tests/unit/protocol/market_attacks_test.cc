// Attacks on the rules of money that once succeeded, mounted by statements: balances before and after.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "dgx/manifest/fields.h"
#include "dgx/protocol/message.h"
#include "dgx/protocol/settlement.h"
#include "market_world.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::accepted;
using test::any;
using test::cheat;
using test::false_refutation;
using test::honest;
using test::TinyRun;
using test::World;

TEST_CASE("a swarm cannot price the solver out of challenging a false refutation") {
  // Submitter, verifier and puppets against the solver, who could lose 1,001 and the reward of 460.
  World world(honest());
  const auto verdict = false_refutation(honest());
  world.take(any(verdict), 0);
  const auto about = test::challenge_of(honest(), verdict);
  for (std::uint8_t puppet = 10; puppet < 19; ++puppet) world.challenge(about, puppet, 0);
  CHECK(world.refused(any(*seal(about, test::key(20))), 0)
            .ends_with("has 100000, the challenger's bond needs 154112"));
  const auto game = world.challenge(about, test::kSolver, 1);
  CHECK(world.record().games.back().bond == test::kChallengerBond);
  for (std::uint8_t puppet = 10; puppet < 19; ++puppet) {
    const auto other = *seal(about, test::key(puppet));
    world.challenger_loses(other, test::kVerifier, puppet, 2);
  }
  world.defender_loses(game, test::kVerifier, 300);
  CHECK(world.settle(1'301) == "overturned");
  CHECK(world.gain(test::kSolver) == 460 + 125);
  CHECK(world.gain(test::kVerifier) == -501);
}

TEST_CASE("those whom a false statement hurts have one game at one bond about it") {
  World world(honest());
  const auto verdict = false_refutation(honest());
  world.take(any(verdict), 0);
  const auto bond_of = [&](const Challenge& body, std::uint8_t who) {
    world.challenge(body, who, 0);
    return world.record().games.back().bond;
  };
  constexpr std::int64_t kBond = test::kChallengerBond;
  const auto about_verdict = test::challenge_of(honest(), verdict);
  CHECK(bond_of(about_verdict, test::kStranger) == kBond);
  CHECK(bond_of(about_verdict, test::kSolver) == kBond);
  CHECK(bond_of(about_verdict, test::kSubmitter) == kBond);
  CHECK(bond_of(about_verdict, 20) == 2 * kBond);
  CHECK(bond_of(test::challenge_of(honest(), 1), test::kStranger) == kBond);
  CHECK(bond_of(test::challenge_of(honest(), 2), test::kVerifier) == kBond);
  CHECK(bond_of(test::challenge_of(honest(), 2), test::kSubmitter) == kBond);
  CHECK(bond_of(test::challenge_of(honest(), 3), test::kVerifier) == 2 * kBond);
}

TEST_CASE("an assign asks for the bond of a challenge beside the solver's, and locks the latter only") {
  Market market;
  const auto take = [&](const Signed<Body>& statement) { return market.apply(statement, 0); };
  const auto deposit = [&](std::uint8_t who, std::int64_t amount, const std::string& reference) {
    return take(any(
        *seal(Deposit{test::key_id(who), amount, reference, test::ledger_id()}, test::key(test::kOperator))));
  };
  REQUIRE(take(any(*seal(test::ledger_policy(), test::key(test::kOperator)))).ok());
  for (const std::uint8_t who : {test::kSubmitter, test::kVerifier})
    REQUIRE(deposit(who, 10'000, "first").ok());
  REQUIRE(deposit(test::kSolver, 1'301, "first").ok());
  REQUIRE(take(any(honest().task)).ok());
  REQUIRE(take(any(test::offer(honest()))).ok());
  const Status poor = take(any(test::assignment(honest())));
  REQUIRE(!poor.ok());
  CHECK(poor.error().message.ends_with(" has 1301, the solver's bond with that of a challenge needs 1302"));
  REQUIRE(deposit(test::kSolver, 1, "second").ok());
  REQUIRE(take(any(test::assignment(honest()))).ok());
  CHECK(market.balances().at(test::key_id(test::kSolver).hex()) == 301);
}

TEST_CASE("a silent verifier who refutes behind a stranger's challenge takes nothing from it") {
  World world(cheat());
  const std::vector<std::int64_t> chosen{5};
  const auto refutation = test::verdict(cheat(), chosen);
  CHECK(world.state(1'001) == "challenge-window");
  SECTION("they come first: a finder with fee and bond") {
    world.take(any(refutation), 1'001);
    const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 1'001);
    world.defender_loses(game, test::kSolver, 1'002);
    CHECK(world.settle(2'002) == "convicted");
    CHECK(world.gain(test::kVerifier) == 17 + 121);
    CHECK(world.gain(test::kStranger) == 60);
    return;
  }
  const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 1'001);
  SECTION("they stay silent") {
    world.defender_loses(game, test::kSolver, 1'003);
    CHECK(world.settle(2'003) == "convicted");
  }
  SECTION("they refute while the game is open") {
    world.take(any(refutation), 1'001);
    world.defender_loses(game, test::kSolver, 1'003);
    CHECK(world.settle(2'003) == "convicted");
  }
  SECTION("they refute when the proof has fallen") {
    world.defender_loses(game, test::kSolver, 1'002);
    CHECK(world.refused(any(refutation), 1'003) == "the proof has already fallen");
    CHECK(world.settle(2'003) == "convicted");
  }
  CHECK(world.gain(test::kVerifier) == -501);
  CHECK(world.gain(test::kStranger) == 124);
  CHECK(world.gain(test::kSolver) == -1'001);
}

TEST_CASE("a late refutation counts if the challenge before it is lost") {
  World world(cheat());
  const std::vector<std::int64_t> chosen{5};
  const auto planted = world.challenge(test::challenge_of(cheat(), 2), 10, 1'001);
  world.take(any(test::verdict(cheat(), chosen)), 1'001);
  world.challenger_loses(planted, test::kSolver, 10, 1'002);
  CHECK(world.settle(2'002) == "refuted");
  CHECK(world.gain(test::kVerifier) == 17 + 121);
}

TEST_CASE("an honest finder behind a game that the cheat planted elsewhere has the second share") {
  World world(cheat());
  world.take(any(accepted(cheat())), 0);
  const auto planted = world.challenge(test::challenge_of(cheat(), 6), 20, 0);
  const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 1);
  world.defender_loses(planted, test::kSolver, 2);
  SECTION("the cheat is silent") {}
  SECTION("the cheat gives up") { world.defender_loses(game, test::kSolver, 3); }
  CHECK(world.settle(1'001) == "convicted");
  CHECK(world.gain(test::kStranger) == 62);
  CHECK(world.gain(20) == 124);
  CHECK(world.gain(test::kSolver) == -1'001);
}

TEST_CASE("planting a game costs half its bond if nobody looks") {
  World world(cheat());
  world.take(any(accepted(cheat())), 0);
  const auto planted = world.challenge(test::challenge_of(cheat(), 6), 20, 0);
  world.challenger_loses(planted, test::kSolver, 20, 1);
  CHECK(world.settle(1'001) == "accepted");
  CHECK(world.gain(test::kSolver) == 460 + 150);
  CHECK(world.gain(20) == -test::kChallengerBond);
}

namespace {

/// A move that names the first of the shown states.
Signed<Move> name_move(const Signed<Challenge>& game, const Signed<Move>& shown, std::uint8_t who) {
  return *seal(Move{game.body.task, game.id, 2, shown.id, print_message(Name{0, std::nullopt})},
               test::key(who));
}

}  // namespace

TEST_CASE("games planted on other tasks stretch a game by 63 windows in all") {
  World world(cheat());
  world.take(any(accepted(cheat())), 0);
  constexpr std::int64_t kWindow = 400;
  constexpr std::uint8_t kPlanted = 63;
  std::vector<TinyRun> runs;
  std::vector<Signed<Challenge>> planted;
  for (std::uint8_t i = 0; i < kPlanted; ++i) {
    const TinyRun& run = runs.emplace_back(test::tiny_run("planted " + std::to_string(i)));
    for (const auto& statement :
         {any(run.task), any(test::offer(run)), any(test::assignment(run)), any(run.proof), any(run.beacon),
          any(test::opening(run)), any(test::verdict(run))})
      world.take(statement, 0);
    planted.push_back(world.challenge(test::challenge_of(run, 1), static_cast<std::uint8_t>(6 + i), 0));
  }
  const auto game = world.challenge(test::challenge_of(cheat(), 5), test::kStranger, 0);
  CHECK(world.record().games[0].deadline_ms == 64 * kWindow);
  // The cheat keeps the planted games waiting for them, answering each at its deadline.
  for (std::uint8_t i = 0; i < kPlanted; ++i) {
    const auto shown = test::states_move(planted[i], test::kSolver);
    world.take(any(shown), (i + 1) * kWindow);
    world.take(any(name_move(planted[i], shown, static_cast<std::uint8_t>(6 + i))), (i + 1) * kWindow);
  }
  const auto shown = test::states_move(game, test::kSolver);
  world.take(any(shown), 64 * kWindow);
  world.take(any(name_move(game, shown, test::kStranger)), 64 * kWindow);
  const auto awaited = [&](const TinyRun& run) {
    const TaskRecord& record = world.market.tasks().at(run.task.id);
    return !ends_of(record, 64 * kWindow)[0] && record.games[0].game.due().side == Side::kDefender;
  };
  CHECK(std::all_of(runs.begin(), runs.end(), awaited));
  // The next move is due after one window, and missing it fells the proof; formerly it was due after
  // another 64.
  CHECK(world.record().games[0].deadline_ms == 65 * kWindow);
  CHECK(!has_fallen(world.record(), world.record().proof->id, 65 * kWindow));
  CHECK(has_fallen(world.record(), world.record().proof->id, 65 * kWindow + 1));
}

TEST_CASE("a verdict states the chances and the work of what it replayed, and no others") {
  World world(honest());
  const auto stated = [&](const std::function<void(Verdict&)>& change) {
    Verdict body = accepted(honest()).body;
    change(body);
    return world.refused(any(*seal(body, test::key(test::kVerifier))), 0);
  };
  const std::string chances = "miss_probability: does not follow from the replayed segments";
  const std::string work = "work: does not match the number of replayed segments";
  CHECK(stated([](Verdict& v) { v.miss_probability = {"0", "0", "0"}; }) == chances);
  CHECK(stated([](Verdict& v) { v.miss_probability.ten_percent = "0.6"; }) == chances);
  CHECK(stated([](Verdict& v) { v.work = kMaxInteger; }) == work);
  CHECK(stated([](Verdict& v) { v.work += 1; }) == work);
  CHECK(stated([](Verdict& v) { v.work += 10'000; }) == work);
  Verdict refutation = false_refutation(honest()).body;
  refutation.work = kMaxInteger;
  CHECK(world.refused(any(*seal(refutation, test::key(test::kVerifier))), 0) == work);
  CHECK(stated([](Verdict&) {}) == "accepted");
}

TEST_CASE("a deposit cannot be withdrawn unit by unit") {
  World world(honest());
  const auto withdrawn = [&](std::int64_t amount) {
    const Withdrawal body{test::key_id(test::kStranger).hex(), amount, std::to_string(amount),
                          test::ledger_id()};
    return world.refused(any(*seal(body, test::key(test::kStranger))), 0);
  };
  CHECK(withdrawn(1) == "a withdrawal must be at least 301, or all that the account has, which is 100000");
  CHECK(withdrawn(300) == "a withdrawal must be at least 301, or all that the account has, which is 100000");
  CHECK(withdrawn(301) == "accepted");
  CHECK(withdrawn(99'500) == "accepted");
  CHECK(withdrawn(198) == "a withdrawal must be at least 301, or all that the account has, which is 199");
  CHECK(withdrawn(199) == "accepted");
}
