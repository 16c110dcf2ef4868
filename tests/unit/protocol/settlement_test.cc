#include "dgx/protocol/settlement.h"

#include <catch2/catch.hpp>
#include <random>

#include "dgx/protocol/bounds.h"
#include "dgx/protocol/estimate.h"
#include "market_world.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::balance_of;
using test::by;
using test::refused;
using test::TinyExecutor;
using test::TinyRun;

namespace {

constexpr std::int64_t kMoney = 100'000;

Signed<Body> deposit(std::uint8_t who, const std::string& reference) {
  return by(test::kOperator, Deposit{test::key_id(who), kMoney, reference, test::ledger_id()});
}

/// Policy and money for everyone, at time 0.
Market funded() {
  Market market;
  REQUIRE(market.apply(by(test::kOperator, test::ledger_policy()), 0).ok());
  for (const std::uint8_t who : {test::kSubmitter, test::kSolver, test::kVerifier}) {
    REQUIRE(market.apply(deposit(who, "first"), 0).ok());
  }
  return market;
}

std::int64_t sum_of(const Market& market) {
  std::int64_t sum = 0;
  for (const auto& [account, amount] : market.balances()) sum += amount;
  return sum;
}

/// Settles what is due at `now` and returns the reason.
std::string settle(Market& market, std::int64_t now) {
  const auto due = market.due(now);
  if (due.size() != 1) return "nothing due";
  REQUIRE(market.apply(by(test::kOperator, due[0]), now).ok());
  CHECK(market.balances().at("escrow") == 0);
  CHECK(market.balances().at("bonds") == 0);
  CHECK(sum_of(market) == market.total());
  return std::string(name_of(due[0].reason));
}

/// A market up to and including the solver's proof, at time 0.
Market proved(const TinyRun& run) {
  Market market = funded();
  REQUIRE(refused(market, any(run.task), 0) == "accepted");
  REQUIRE(refused(market, any(test::offer(run)), 0) == "accepted");
  REQUIRE(refused(market, any(test::assignment(run)), 0) == "accepted");
  REQUIRE(refused(market, any(run.proof), 0) == "accepted");
  return market;
}

const TinyRun& honest_run() {
  static const TinyRun run = test::tiny_run();
  return run;
}

const TinyRun& cheating_run() {
  static const TinyRun run = test::tiny_run("cheat", TinyExecutor(TinyExecutor::Lie::kWrongStep, 57));
  return run;
}

}  // namespace

TEST_CASE("an accepted task pays everyone and refunds what was not used") {
  const TinyRun& run = honest_run();
  Market market = proved(run);
  CHECK(market.balances().at("escrow") == 555);
  CHECK(market.balances().at("bonds") == 1'502);
  CHECK(refused(market, any(run.beacon), 300) == "accepted");
  CHECK(refused(market, any(test::verdict(run)), 400).ends_with("is awaiting-opening"));
  CHECK(refused(market, any(test::opening(run)), 500) == "accepted");
  CHECK(refused(market, any(test::verdict(run)), 1'000) == "accepted");
  CHECK(refused(market, any(test::delivery(run)), 1'500) == "accepted");
  CHECK(settle(market, 2'000) == "nothing due");
  CHECK(settle(market, 2'001) == "accepted");
  CHECK(balance_of(market, test::kSolver) == kMoney + 460);
  CHECK(balance_of(market, test::kVerifier) == kMoney + 37);
  CHECK(market.balances().at("jackpot") == 9);
  CHECK(balance_of(market, test::kSubmitter) == kMoney - 460 - 37 - 9);
}

TEST_CASE("a refutation that stands slashes the solver's bond") {
  const TinyRun& run = cheating_run();
  Market market = proved(run);
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  CHECK(refused(market, any(test::verdict(run, all)), 500) == "accepted");
  // Without a beacon the proof had to be opened by 1,500; the window begins then.
  CHECK(settle(market, 2'501) == "refuted");
  // The bond pays the tax of 9 and the fee for ten segments, capped at the estimate's 37; of the remaining
  // 955, 238 go to the finders (half to the first), 238 to the jackpot, 479 to the submitter.
  CHECK(balance_of(market, test::kSolver) == kMoney - 1'001);
  CHECK(balance_of(market, test::kVerifier) == kMoney + 37 + 119);
  CHECK(market.balances().at("jackpot") == 9 + 119 + 238);
  CHECK(balance_of(market, test::kSubmitter) == kMoney + 479);
}

TEST_CASE("whoever misses a deadline loses their bond to the jackpot") {
  const TinyRun& run = honest_run();
  SECTION("nobody takes the task") {
    Market market = funded();
    REQUIRE(refused(market, any(run.task), 0) == "accepted");
    CHECK(settle(market, 1'000) == "nothing due");
    CHECK(settle(market, 1'001) == "no-assignment");
    CHECK(balance_of(market, test::kSubmitter) == kMoney);
  }
  SECTION("no proof") {
    Market market = funded();
    REQUIRE(refused(market, any(run.task), 0) == "accepted");
    REQUIRE(refused(market, any(test::offer(run)), 0) == "accepted");
    REQUIRE(refused(market, any(test::assignment(run)), 0) == "accepted");
    Market late = market;
    CHECK(refused(late, any(run.proof), 1'001).find("is due") != std::string::npos);
    CHECK(settle(market, 1'001) == "no-proof");
    CHECK(balance_of(market, test::kSolver) == kMoney - 1'001);
    CHECK(balance_of(market, test::kVerifier) == kMoney);
    CHECK(balance_of(market, test::kSubmitter) == kMoney);
    CHECK(market.balances().at("jackpot") == 1'001);
  }
  SECTION("no opening after the beacon") {
    Market market = proved(run);
    REQUIRE(refused(market, any(run.beacon), 500) == "accepted");
    CHECK(settle(market, 1'500) == "nothing due");
    Market late = market;
    CHECK(refused(late, any(test::opening(run)), 1'501) == "the deadline to open the proof has passed");
    CHECK(settle(market, 1'501) == "no-proof");
    // The bond pays the tax of 9 and the verifier's 7; the submitter gets the whole escrow back.
    CHECK(balance_of(market, test::kSolver) == kMoney - 1'001);
    CHECK(balance_of(market, test::kVerifier) == kMoney + 7);
    CHECK(balance_of(market, test::kSubmitter) == kMoney);
    CHECK(market.balances().at("jackpot") == 994);
  }
  SECTION("neither a beacon nor an opening") {
    Market market = proved(run);
    CHECK(refused(market, any(test::opening(run, true)), 1'000) ==
          "the verifier may still reveal the beacon");
    CHECK(settle(market, 2'001) == "nothing due");
    CHECK(settle(market, 2'002) == "no-proof");
    CHECK(balance_of(market, test::kSolver) == kMoney - 1'001);
    CHECK(balance_of(market, test::kVerifier) == kMoney - 501);
    CHECK(balance_of(market, test::kSubmitter) == kMoney);
  }
  SECTION("no beacon: the solver opens after the proof, and is paid after a window without objection") {
    Market market = proved(run);
    REQUIRE(refused(market, any(test::delivery(run)), 10) == "accepted");
    REQUIRE(refused(market, any(test::opening(run)), 1'001) ==
            "after: is " + run.beacon.id.brief() + ", must be " + run.proof.id.brief());
    REQUIRE(refused(market, any(test::opening(run, true)), 1'001) == "accepted");
    CHECK(settle(market, 2'001) == "nothing due");
    CHECK(settle(market, 2'002) == "unverified");
    CHECK(balance_of(market, test::kVerifier) == kMoney - 501);
    CHECK(balance_of(market, test::kSolver) == kMoney + 460);
  }
  SECTION("no verdict: the solver is paid after a window without objection") {
    Market market = proved(run);
    REQUIRE(refused(market, any(test::delivery(run)), 10) == "accepted");
    REQUIRE(refused(market, any(run.beacon), 10) == "accepted");
    REQUIRE(refused(market, any(test::opening(run)), 20) == "accepted");
    CHECK(settle(market, 2'020) == "nothing due");
    CHECK(settle(market, 2'021) == "unverified");
    CHECK(balance_of(market, test::kVerifier) == kMoney - 501);
    CHECK(balance_of(market, test::kSolver) == kMoney + 460);
    CHECK(market.balances().at("jackpot") == 501 + 9);
  }
  SECTION("no delivery") {
    Market market = proved(run);
    REQUIRE(refused(market, any(run.beacon), 0) == "accepted");
    REQUIRE(refused(market, any(test::opening(run)), 0) == "accepted");
    REQUIRE(refused(market, any(test::verdict(run)), 0) == "accepted");
    CHECK(settle(market, 2'000) == "nothing due");
    CHECK(settle(market, 2'001) == "no-delivery");
    // The bond pays tax and fee.
    CHECK(balance_of(market, test::kSolver) == kMoney - 1'001);
    CHECK(balance_of(market, test::kVerifier) == kMoney + 37);
    CHECK(balance_of(market, test::kSubmitter) == kMoney);
  }
}

TEST_CASE("what the rules do not allow changes nothing and says why") {
  const TinyRun& run = honest_run();
  Market market = proved(run);
  const auto before = market.balances();
  CHECK(refused(market, any(run.proof), 0) == "is already in the ledger");
  CHECK(refused(market, any(test::verdict(run)), 0).ends_with("is proof-committed"));
  const std::vector<std::int64_t> chosen{1, 2, 3};
  Market opened = market;
  REQUIRE(refused(opened, any(run.beacon), 0) == "accepted");
  REQUIRE(refused(opened, any(test::opening(run)), 0) == "accepted");
  CHECK(refused(opened, any(test::opening(run)), 0) == "is already in the ledger");
  CHECK(refused(opened, any(test::verdict(run, chosen)), 0) ==
        "an acceptance of a chosen draw settles nothing");
  CHECK(refused(market, any(cheating_run().proof), 0).find("is not in the ledger") != std::string::npos);
  Beacon beacon = run.beacon.body;
  beacon.secret = test::digest("another");
  beacon.value = beacon_value(beacon.secret, beacon.proof);
  CHECK(refused(market, by(test::kVerifier, beacon), 0) == "secret: is not the one that was committed to");
  CHECK(refused(market, by(9, run.beacon.body), 0).find("not by the task's verifier") != std::string::npos);
  const Deposit mine{test::key_id(test::kSolver), 5, "mine", test::ledger_id()};
  CHECK(refused(market, by(test::kSolver, mine), 0).find("not by the ledger's operator") !=
        std::string::npos);
  const Withdrawal large{test::key_id(test::kSolver).hex(), kMoney, "all", test::ledger_id()};
  CHECK(refused(market, by(test::kSolver, large), 0).find("has 98999, the withdrawal needs 100000") !=
        std::string::npos);
  CHECK(refused(market, by(test::kVerifier, large), 0) ==
        "a withdrawal must be signed by the account's owner, from the treasury by the operator");
  CHECK(market.balances() == before);
}

TEST_CASE("a settlement other than the one that follows is refused") {
  const TinyRun& run = honest_run();
  Market market = proved(run);
  Settlement early{run.task.id, Reason::kAccepted, {}};
  CHECK(refused(market, by(test::kOperator, early), 0).find("is proof-committed") != std::string::npos);
  auto due = market.due(5'000);
  REQUIRE(due.size() == 1);
  due[0].payouts[0].amount += 1;
  CHECK(refused(market, by(test::kOperator, due[0]), 5'000) ==
        "is not the settlement that follows from the ledger, which is \"no-proof\"");
}

TEST_CASE("a verdict must be the one committed to") {
  const TinyRun& run = honest_run();
  Market market = proved(run);
  REQUIRE(refused(market, any(run.beacon), 0) == "accepted");
  REQUIRE(refused(market, any(test::opening(run)), 0) == "accepted");
  const auto verdict = test::verdict(run);
  const VerdictCommitment other{run.task.id, run.proof.id, test::digest("other")};
  Market wrong = market;
  REQUIRE(refused(wrong, by(test::kVerifier, other), 0) == "accepted");
  CHECK(refused(wrong, any(verdict), 0) == "is not the verdict that was committed to");
  const VerdictCommitment right{run.task.id, run.proof.id,
                                verdict_commitment(verdict.id, verdict.body.nonce)};
  REQUIRE(refused(market, by(test::kVerifier, right), 900) == "accepted");
  CHECK(refused(market, any(verdict), 1'900) == "accepted");
}

namespace {

/// Adds an auditor and volunteers, each with or without an audit, which may be challenged.
template <class Below>
void add_rechecks(Stakes& stakes, const Estimate& estimate, const Below& below) {
  for (std::int64_t i = below(2); i < 1 + below(66); ++i) {
    const std::string who = i == 0 ? "auditor" : "volunteer " + std::to_string(i);
    const bool shown = below(3) != 0;
    stakes.rechecks.push_back(
        {who, below(1 << 30), i == 0, shown, shown && below(3) == 0, shown && below(3) == 0, below(2) == 0});
    if (i == 0) {
      stakes.audit_fee = below(estimate.fee + 1);
      stakes.audit_fee_of_task = below(std::min(stakes.audit_fee, estimate.margin) + 1);
    }
    while (shown && below(3) == 0)
      stakes.games.push_back({"challenger " + std::to_string(below(70)), Challenged::kAudit,
                              static_cast<GameResult>(below(3)), below(1 << 20), who});
  }
}

}  // namespace

TEST_CASE("payouts sum to what was locked, whatever the numbers") {
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  constexpr std::array kReasons{Reason::kAccepted,     Reason::kRefuted,   Reason::kUnverified,
                                Reason::kNoAssignment, Reason::kNoProof,   Reason::kNoDelivery,
                                Reason::kConvicted,    Reason::kOverturned};
  for (int round = 0; round < 100'000; ++round) {
    Task task;
    task.policy = test::policy();
    task.policy.solver_bond = below(1 << 20);
    task.policy.verifier_bond = below(1 << 20);
    task.policy.challenger_bond = below(1 << 20);
    task.policy.solver_bond_ppm = below(2'000'000);
    task.policy.verifier_bond_ppm = below(2'000'000);
    task.policy.split_submitter_ppm = below(1'000'001);
    task.policy.split_verifier_ppm = below(1'000'001 - task.policy.split_submitter_ppm);
    task.policy.split_jackpot_ppm =
        1'000'000 - task.policy.split_submitter_ppm - task.policy.split_verifier_ppm;
    task.price = below(1 << 30);
    task.estimate = {below(1 << 30), 0, 0, 0, below(1 << 30), below(1 << 20), below(1 << 20), below(1 << 10),
                     below(1 << 20), 0};
    const Estimate& e = task.estimate;
    task.estimate.escrow = e.reward + e.fee + e.tax + e.treasury + e.margin;
    const Reason reason = kReasons[static_cast<std::size_t>(below(8))];
    // Roles may share a key.
    Stakes stakes;
    stakes.earned = task.estimate;
    stakes.submitter = "submitter";
    stakes.solver = below(8) == 0 ? "submitter" : "solver";
    stakes.verifier = below(8) == 0 ? "solver" : "verifier";
    if (reason != Reason::kNoAssignment) {
      stakes.verifier_bond = below(3) == 0 ? below(1 << 30) : bonds_of(task).verifier;
      stakes.silent_bonds = below(2) == 0 ? 0 : below(1 << 30);
    }
    stakes.proved = reason != Reason::kNoAssignment && (reason != Reason::kNoProof || below(2) == 0);
    stakes.drawn = stakes.proved && below(2) == 0;
    if (stakes.proved && below(2) == 0) stakes.fee = below(task.estimate.fee + 1);
    stakes.refuted = reason == Reason::kRefuted || below(2) == 0;
    if (reason == Reason::kConvicted)
      stakes.games.push_back({"winner", Challenged::kProof, GameResult::kFalls, below(1 << 20)});
    while (stakes.proved && below(4) != 0) {
      const Challenged statement = stakes.fee && below(2) == 0 ? Challenged::kVerdict : Challenged::kProof;
      const bool may_fall =
          reason == Reason::kConvicted || (statement == Challenged::kVerdict && reason != Reason::kRefuted);
      const auto result = static_cast<GameResult>(may_fall ? below(3) : 1 + below(2));
      stakes.games.push_back({"challenger " + std::to_string(below(70)), statement, result, below(1 << 20)});
    }
    if (stakes.fee && (reason == Reason::kRefuted || !stakes.refuted) && below(2) == 0)
      add_rechecks(stakes, task.estimate, below);
    std::int64_t sum = 0, lost = stakes.audit_fee - stakes.audit_fee_of_task;
    for (const RecheckStake& one : stakes.rechecks) lost += one.bond;
    for (const DecidedGame& game : stakes.games) lost += game.result == GameResult::kStands ? game.bond : 0;
    const auto list = payouts(task, reason, stakes);
    REQUIRE(list.size() <= 400);
    for (const Payout& payout : list) {
      REQUIRE(payout.amount > 0);
      sum += payout.amount;
    }
    const Bonds bonds = bonds_of(task);
    REQUIRE(sum == task.estimate.escrow + (reason == Reason::kNoAssignment ? 0 : bonds.solver) +
                       stakes.verifier_bond + stakes.silent_bonds + lost);
  }
}

TEST_CASE("bounds hold what the closed forms say") {
  Policy policy = test::policy();
  policy.sample_ppm = 50'000;
  Task task = test::task();
  task.policy = policy;
  task.estimate.train = 1'000'000'000;
  task.estimate.reward = 900'000;  // R = 0.9 C
  const auto lines = bounds(policy, &task);
  REQUIRE(lines.ok());
  const auto value = [&](std::string_view name) {
    for (const Bound& line : *lines) {
      if (line.name == name) return line.value;
    }
    return std::string("none");
  };
  CHECK(value("solver_bond") == "100000");
  CHECK(value("segments") == "10");
  CHECK(value("miss_one_segment") == "0.9");
  CHECK(bounds(policy, nullptr).ok());
  CHECK(least_solver_bond(5, 3) == 2);
  CHECK(least_solver_bond(3, 5) == 0);
}
