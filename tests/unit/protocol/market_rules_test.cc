// Rules of a market other than its games: time, offers, bonds, the store and the treasury.
#include <catch2/catch.hpp>

#include "dgx/ledger/ledger.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/settlement.h"
#include "market_world.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::balance_of;
using test::by;
using test::honest;
using test::refused;
using test::TinyRun;

namespace {

constexpr std::int64_t kMoney = 100'000;

Signed<Body> first_of(const Policy& policy) {
  return by(test::kOperator, LedgerPolicy{policy, test::digest("nonce of the ledger")});
}

Market funded(const Policy& policy = test::policy()) {
  Market market;
  REQUIRE(market.apply(first_of(policy), 0).ok());
  const Digest ledger = first_of(policy).id;
  for (std::uint8_t who = test::kSubmitter; who < 10; ++who)
    REQUIRE(market.apply(by(test::kOperator, Deposit{test::key_id(who), kMoney, "first", ledger}), 0).ok());
  return market;
}

TreeHead head(std::int64_t milliseconds, bool pause) {
  return {test::ledger_id(), {test::digest("head"), 1}, milliseconds, pause};
}

/// The task with this policy and the estimate that follows, in a ledger of the same policy.
Task task_with(const Policy& policy) {
  Task out = test::task();
  out.policy = policy;
  out.ledger = first_of(policy).id;
  const auto estimated = estimate(
      {out.estimate.step_operations, out.caps.bytes, out.steps, out.checkpoint_every, out.price}, policy);
  REQUIRE(estimated.ok());
  out.estimate = *estimated;
  return out;
}

}  // namespace

TEST_CASE("a clock that stood moves on a heartbeat after the pause, and never back") {
  MarketClock clock(1'000);
  clock.advance(5'000);
  CHECK(clock.now() == 5'000);
  CHECK(clock.at(6'000) == 6'000);
  clock.pause(1'000'000, 600);
  CHECK(clock.now() == 5'000);
  CHECK(clock.at(1'000'600) == 5'000);
  CHECK(clock.at(1'000'601) == 5'001);
  clock.advance(1'000'100);
  CHECK(clock.now() == 5'000);
  CHECK(clock.receipt_time(5'001) == 1'000'601);
  clock.advance(1'000'700);
  CHECK(clock.now() == 5'100);
  CHECK(clock.receipt_time(6'000) == 1'001'600);
  CHECK(clock.receipt_time(5'100) == 1'000'700);
  CHECK(clock.receipt_time(5'040) == 1'000'640);
}

TEST_CASE("a deadline passes only while the operator is seen") {
  Policy policy = test::policy();
  policy.window_proof_ms = policy.window_reveal_ms = policy.window_challenge_ms = policy.window_delivery_ms =
      policy.window_move_ms = 8'000'000;
  CHECK(heartbeat_ms(policy) == 1'000'000);
  Market market = funded(policy);
  const auto task = by(test::kSubmitter, task_with(policy));
  // Nothing is waiting yet, so the operator may be away for any time.
  REQUIRE(refused(market, task, 500'000'000) == "accepted");
  const std::int64_t begin = 500'000'000;
  const auto own_head = [&](std::int64_t now, bool pause) {
    TreeHead out = head(now, pause);
    out.ledger = *std::get<Task>(task.body).ledger;
    return by(test::kOperator, out);
  };
  CHECK(refused(market, own_head(begin + 1'000'000, true), begin + 1'000'000) ==
        "pause: the operator was not away, or nothing waited");
  REQUIRE(refused(market, own_head(begin + 1'000'000, false), begin + 1'000'000) == "accepted");
  // A clock fifty years ahead: refused unless the operator asserts that it is right, and then no deadline
  // passes because of it.
  const std::int64_t far = begin + std::int64_t{50} * 366 * 86'400'000;
  CHECK(refused(market, own_head(far, false), far) ==
        "the ledger was silent for more than two heartbeats while a deadline ran");
  CHECK(market.is_pause(far));
  REQUIRE(refused(market, own_head(far, true), far) == "accepted");
  CHECK(market.due(far).empty());
  // 7,000,000 of the window were left, plus a heartbeat.
  std::int64_t now = far;
  for (; now < far + 8'000'000; now += 2'000'000)
    REQUIRE(refused(market, own_head(now + 1, false), now + 1) == "accepted");
  CHECK(market.due(far + 8'000'000).empty());
  CHECK(market.due(far + 8'000'001).size() == 1);
}

TEST_CASE("what had passed before a pause stays passed") {
  Policy policy = test::policy();
  policy.window_proof_ms = policy.window_reveal_ms = policy.window_challenge_ms = policy.window_delivery_ms =
      policy.window_move_ms = 800'000;
  Market market = funded(policy);
  REQUIRE(refused(market, by(test::kSubmitter, task_with(policy)), 0) == "accepted");
  Task second = task_with(policy);
  second.seed = 1;
  REQUIRE(refused(market, by(test::kSubmitter, second), 200'000) == "accepted");
  for (const std::int64_t now : {400'000, 600'000, 700'000, 800'001}) {
    TreeHead one = head(now, false);
    one.ledger = *second.ledger;
    REQUIRE(refused(market, by(test::kOperator, one), now) == "accepted");
  }
  CHECK(market.due(800'001).size() == 1);
  TreeHead pause = head(9'000'000, true);
  pause.ledger = *second.ledger;
  REQUIRE(refused(market, by(test::kOperator, pause), 9'000'000) == "accepted");
  CHECK(market.due(9'000'000).size() == 1);
  CHECK(market.due(9'000'000 + 100'000 + 199'999).size() == 1);
  CHECK(market.due(9'000'000 + 100'000 + 200'000).size() == 2);
}

TEST_CASE("an offer locks its bond until another is chosen, it is taken back or the task ends") {
  Market market = funded();
  const TinyRun& run = honest();
  REQUIRE(refused(market, any(run.task), 0) == "accepted");
  const auto offered = [&](std::uint8_t who) {
    BeaconCommitment body = test::offer(run).body;
    body.commitment = test::digest("secret of " + std::to_string(who));
    return *seal(body, test::key(who));
  };
  CHECK(refused(market, any(offered(99)), 0).ends_with(" has 0, the verifier's bond needs 501"));
  for (std::uint8_t who = 5; who < 9; ++who) REQUIRE(refused(market, any(offered(who)), 0) == "accepted");
  CHECK(balance_of(market, 5) == kMoney - 501);
  CHECK(market.balances().at("bonds") == 4 * 501);
  SECTION("another is chosen") {
    REQUIRE(refused(market, any(test::offer(run)), 0) == "accepted");
    REQUIRE(refused(market, any(test::assignment(run)), 0) == "accepted");
    for (std::uint8_t who = 5; who < 9; ++who) CHECK(balance_of(market, who) == kMoney);
    CHECK(market.balances().at("bonds") == 1'502);
  }
  SECTION("the task ends") {
    const auto due = market.due(1'001);
    REQUIRE(due.size() == 1);
    REQUIRE(market.apply(by(test::kOperator, due[0]), 1'001).ok());
    CHECK(market.balances().at("bonds") == 0);
    for (std::uint8_t who = 5; who < 9; ++who) CHECK(balance_of(market, who) == kMoney);
  }
  SECTION("it cannot be taken back within the hour, by another, or twice") {
    const OfferEnd end{run.task.id, offered(5).id};
    CHECK(refused(market, by(5, end), 900) == "an offer stands for at least 3600000 ms");
    CHECK(refused(market, by(6, end), 900).find("not by the task's offer's verifier") != std::string::npos);
    CHECK(refused(market, by(5, OfferEnd{run.task.id, test::digest("none")}), 900)
              .ends_with("is not in the ledger for this task"));
  }
}

TEST_CASE("an offer is taken back after an hour, while the task is open") {
  Policy policy = test::policy();
  policy.window_proof_ms = 100'000'000;
  Market market = funded(policy);
  const auto task = *seal(task_with(policy), test::key(test::kSubmitter));
  REQUIRE(refused(market, any(task), 0) == "accepted");
  const BeaconCommitment body{task.id, test::digest("c"), task.body.dataset.digest, task.body.initial.digest,
                              1};
  const auto offer = *seal(body, test::key(5));
  REQUIRE(refused(market, any(offer), 0) == "accepted");
  TreeHead pause = head(3'600'000, true);
  pause.ledger = *task.body.ledger;
  REQUIRE(refused(market, by(test::kOperator, pause), 3'600'000) == "accepted");
  CHECK(refused(market, by(5, OfferEnd{task.id, offer.id}), 3'660'000) ==
        "an offer stands for at least 3600000 ms");
  for (std::int64_t now = 3'660'000; now <= 7'260'000; now += 120'000) {
    TreeHead one = head(now, false);
    one.ledger = *task.body.ledger;
    REQUIRE(refused(market, by(test::kOperator, one), now) == "accepted");
  }
  REQUIRE(refused(market, by(5, OfferEnd{task.id, offer.id}), 7'260'000) == "accepted");
  CHECK(balance_of(market, 5) == kMoney);
}

TEST_CASE("a task is refused whose solver's bond is too small, or whose opening the store cannot take") {
  const auto taken = [](const Policy& policy) {
    Market market = funded(policy);
    return refused(market, by(test::kSubmitter, task_with(policy)), 0);
  };
  Policy policy = test::policy();
  policy.solver_bond = 92;
  CHECK(taken(policy) == "accepted");
  policy.solver_bond = 91;
  CHECK(taken(policy) == "the solver's bond of 91 is below 2 (fee + tax + treasury) = 92");
  policy.unsafe_bonds = 1;
  CHECK(taken(policy) == "the solver's bond of 91 is below 2 (fee + tax + treasury) = 92");
  policy = test::policy();
  policy.solver_bond = 0;
  policy.solver_bond_ppm = 200'000;
  CHECK(taken(policy) == "accepted");
  policy = test::policy();
  policy.store_bytes = *opening_bytes(task_with(policy));
  CHECK(taken(policy) == "accepted");
  policy.store_bytes -= 1;
  CHECK(taken(policy).starts_with("an opening may take"));
}

TEST_CASE("an offer or assign is refused whose signer cannot answer within a move") {
  Market market = funded();  // window_move_ms is 400: a segment may take 50 ms
  const TinyRun& run = honest();
  REQUIRE(refused(market, any(run.task), 0) == "accepted");
  const auto offered = [&](std::optional<std::int64_t> milliseconds) {
    BeaconCommitment body = test::offer(run).body;
    body.segment_milliseconds = milliseconds;
    return *seal(body, test::key(test::kVerifier));
  };
  const auto assigned = [&](std::optional<std::int64_t> milliseconds) {
    Assign body = test::assignment(run).body;
    body.commitment = offered(50).id;
    body.segment_milliseconds = milliseconds;
    return by(test::kSolver, body);
  };
  const std::string too_long =
      "segment_milliseconds: the longest segment takes 51 ms: four times that exceeds half of "
      "window_move_ms, 400";
  CHECK(refused(market, any(offered(51)), 0) == too_long);
  CHECK(refused(market, any(offered(std::nullopt)), 0) == "segment_milliseconds: is missing");
  CHECK(balance_of(market, test::kVerifier) == kMoney);
  REQUIRE(refused(market, any(offered(50)), 0) == "accepted");
  CHECK(refused(market, assigned(51), 0) == too_long);
  CHECK(refused(market, assigned(std::nullopt), 0) == "segment_milliseconds: is missing");
  CHECK(balance_of(market, test::kSolver) == kMoney);
  CHECK(refused(market, assigned(50), 0) == "accepted");
}

TEST_CASE("a task is refused whose longest segment has more work than the market takes") {
  Policy policy = test::policy();
  policy.segment_operations = 10'000;  // 10 steps of 1,000 each
  Market market = funded(policy);
  CHECK(refused(market, by(test::kSubmitter, task_with(policy)), 0) == "accepted");
  policy.segment_operations = 9'999;
  Market strict = funded(policy);
  CHECK(refused(strict, by(test::kSubmitter, task_with(policy)), 0) ==
        "checkpoint_every: the longest segment has 10 steps of 1000 operations, the policy's "
        "segment_operations are 9999");
}

TEST_CASE("the operator pays the treasury out, and nobody else") {
  Policy policy = test::policy();
  policy.treasury_ppm = 100'000;
  Market market = funded(policy);
  const auto task = *seal(task_with(policy), test::key(test::kSubmitter));
  REQUIRE(refused(market, any(task), 0) == "accepted");
  const BeaconCommitment body{task.id, test::digest("c"), task.body.dataset.digest, task.body.initial.digest,
                              1};
  const auto offer = *seal(body, test::key(test::kVerifier));
  REQUIRE(refused(market, any(offer), 0) == "accepted");
  REQUIRE(refused(market,
                  by(test::kSolver,
                     Assign{task.id, offer.id, task.body.dataset.digest, task.body.initial.digest, 1}),
                  0) == "accepted");
  REQUIRE(refused(market,
                  by(test::kSolver, Proof{task.id,
                                          {test::digest("states"), 11},
                                          task.body.initial.digest,
                                          test::ending("final").state,
                                          100,
                                          test::ending("final").loss}),
                  0) == "accepted");
  const auto due = market.due(50'000);
  REQUIRE(due.size() == 1);
  REQUIRE(market.apply(by(test::kOperator, due[0]), 50'000).ok());
  // Due once the proof is logged, out of the solver's bond.
  REQUIRE(market.balances().at("treasury") == 46);
  const auto withdrawal = [&](std::int64_t amount) {
    return Withdrawal{"treasury", amount, "rent", *task.body.ledger};
  };
  CHECK(refused(market, by(test::kSubmitter, withdrawal(1)), 50'000)
            .starts_with("a withdrawal must be signed by"));
  CHECK(refused(market, by(test::kOperator, withdrawal(47)), 50'000).starts_with("account treasury has 46"));
  REQUIRE(refused(market, by(test::kOperator, withdrawal(46)), 50'000) == "accepted");
  CHECK(market.balances().at("treasury") == 0);
}

TEST_CASE("a delivery that nobody signs is made by the solver, through the operator's store") {
  Market market = funded();
  const TinyRun& run = honest();
  for (const auto& statement :
       {any(run.task), any(test::offer(run)), any(test::assignment(run)), any(run.proof)})
    REQUIRE(refused(market, statement, 0) == "accepted");
  Delivery body = test::delivery(run).body;
  CHECK(refused(market, by(test::kSolver, body), 1).starts_with("a delivery must be signed by"));
  body.location = "final.h5";
  CHECK(refused(market, by(test::kSubmitter, body), 1).starts_with("a delivery must be signed by"));
  CHECK(refused(market, by(test::kVerifier, body), 1).starts_with("a delivery must be signed by"));
  CHECK(refused(market, by(test::kSolver, body), 1) == "accepted");
}

TEST_CASE("an early refutation does not end the duty to open") {
  Market market = funded();
  const TinyRun& run = honest();
  for (const auto& statement :
       {any(run.task), any(test::offer(run)), any(test::assignment(run)), any(run.proof)})
    REQUIRE(refused(market, statement, 0) == "accepted");
  const std::vector<std::int64_t> chosen{5};
  Verdict verdict = test::verdict(run, chosen).body;
  verdict.outcome = Outcome::kRefuted;
  verdict.first_disagreement =
      VerdictRow{5, run.digests[6], test::digest("no"), false, RowReason::kDigest, test::digest("w")};
  const auto refutation = *seal(verdict, test::key(test::kVerifier));
  REQUIRE(refused(market, any(refutation), 100) == "accepted");
  CHECK(refused(market, any(run.beacon), 101).ends_with("is challenge-window"));
  const auto game = *seal(test::challenge_of(run, refutation), test::key(test::kSolver));
  SECTION("opened: the false refutation is overturned") {
    REQUIRE(refused(market, any(test::opening(run, true)), 1'100) == "accepted");
    REQUIRE(refused(market, any(game), 1'200) == "accepted");
    CHECK(market.due(2'600).empty());
    REQUIRE(refused(market, any(test::delivery(run)), 1'300) == "accepted");
    // Missed at 1,600: the window begins again.
    CHECK(market.due(2'600).empty());
    REQUIRE(market.due(2'601).size() == 1);
    CHECK(market.due(2'601)[0].reason == Reason::kOverturned);
  }
  SECTION("not opened: nobody is paid for a proof that nobody saw") {
    CHECK(refused(market, any(test::opening(run, true)), 1'101) ==
          "the deadline to open the proof has passed");
    REQUIRE(refused(market, any(game), 1'100) == "accepted");
    REQUIRE(market.due(9'000).size() == 1);
    CHECK(market.due(9'000)[0].reason == Reason::kNoProof);
  }
  SECTION("not opened and not challenged: the refutation stands") {
    REQUIRE(market.due(9'000).size() == 1);
    CHECK(market.due(9'000)[0].reason == Reason::kRefuted);
  }
}
