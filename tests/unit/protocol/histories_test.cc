// Random histories of a market: whatever arrives in whatever order, money is neither created nor lost.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "dgx/protocol/settlement.h"
#include "game.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::TinyExecutor;
using test::TinyRun;

namespace {

using Story = std::vector<Signed<Body>>;

Signed<Verdict> slander(const TinyRun& run) {
  const std::vector<std::int64_t> chosen{5};
  Verdict body = test::verdict(run, chosen).body;
  body.outcome = Outcome::kRefuted;
  body.first_disagreement =
      VerdictRow{5, run.digests[6], test::digest("no state"), false, RowReason::kDigest, test::digest("w")};
  return *seal(body, test::key(test::kVerifier));
}

/// Adds a challenge with valid and invalid moves of either side.
void add_game(Story& story, const Challenge& body, std::uint8_t challenger, std::uint8_t defender) {
  const auto challenge = *seal(body, test::key(challenger));
  const auto shown = test::states_move(challenge, defender);
  story.push_back(any(challenge));
  story.push_back(any(shown));
  story.push_back(any(test::empty_move(challenge, 2, shown.id, challenger)));
  story.push_back(any(test::empty_move(challenge, 1, challenge.id, defender)));
}

/// A task's life up to a verdict, with games about its proof or, with `of_verdict`, about a refutation.
Story story_of(const TinyRun& run, const Signed<Verdict>& verdict, bool of_verdict) {
  Story out{any(run.task),  any(test::offer(run)),   any(test::assignment(run)),
            any(run.proof), any(run.beacon),         any(test::opening(run)),
            any(verdict),   any(test::delivery(run))};
  const Challenge body = of_verdict ? test::challenge_of(run, verdict) : test::challenge_of(run, 5);
  add_game(out, body, test::kStranger, of_verdict ? test::kVerifier : test::kSolver);
  add_game(out, body, of_verdict ? test::kSolver : test::kSubmitter,
           of_verdict ? test::kVerifier : test::kSolver);
  const auto chunk = *seal(test::chunk_challenge(run, 3), test::key(test::kStranger));
  out.push_back(any(chunk));
  out.push_back(any(test::chunk_move(run, chunk, test::kSolver)));
  return out;
}

std::vector<Story> stories() {
  static const TinyRun honest = test::tiny_run("honest");
  static const TinyRun cheat = test::tiny_run("cheat", TinyExecutor(TinyExecutor::Lie::kWrongStep, 57));
  static const TinyRun slandered = test::tiny_run("slandered");
  const std::vector<std::int64_t> fifth{5};
  return {story_of(honest, test::verdict(honest), false), story_of(cheat, test::verdict(cheat, fifth), false),
          story_of(slandered, slander(slandered), true)};
}

/// A settlement as if signed by the operator: it only needs an id of its own.
Signed<Body> as_operator(const Signed<Body>& policy, const Settlement& settlement) {
  Signed<Body> out = policy;
  out.body = settlement;
  out.id = settlement.task;
  out.id.bytes[0] ^= 1;
  return out;
}

std::int64_t checked_sum(const Market& market) {
  std::int64_t sum = 0;
  for (const auto& [account, amount] : market.balances()) {
    REQUIRE(amount >= 0);
    sum += amount;
  }
  return sum;
}

/// A task or a policy with a treasury of 46, a tenth of the reward, as if it had been signed so.
Signed<Body> with_treasury(Signed<Body> statement) {
  constexpr std::int64_t kPpm = 100'000, kTreasuryOfTask = 46;
  if (auto* const policy = std::get_if<LedgerPolicy>(&statement.body)) policy->policy.treasury_ppm = kPpm;
  if (auto* const task = std::get_if<Task>(&statement.body)) {
    REQUIRE(task->estimate.treasury == 0);
    task->policy.treasury_ppm = kPpm;
    task->estimate.treasury = kTreasuryOfTask;
    task->estimate.escrow += kTreasuryOfTask;
  }
  return statement;
}

/// Takes out what the treasury has, as if signed by the operator, after more than that and strangers were
/// refused. True if it had something.
bool empties_treasury(Market& market, const Signed<Body>& policy, std::int64_t now) {
  const std::int64_t has = market.balances().at("treasury");
  const std::int64_t total = market.total();
  const auto takes = [&](std::int64_t amount, std::uint8_t who) {
    Signed<Body> statement = policy;
    statement.body = Withdrawal{std::string(kTreasury), amount, "rent", test::ledger_id()};
    statement.key_id = test::key_id(who);
    statement.id = test::digest("rent " + std::to_string(now) + " " + std::to_string(amount));
    return market.apply(statement, now).ok();
  };
  REQUIRE_FALSE(takes(has + 1, test::kOperator));
  if (has == 0) return false;
  REQUIRE_FALSE(takes(has, test::kStranger));
  if (!takes(has, test::kOperator)) return false;  // a pause has to be recorded first
  REQUIRE(market.balances().at("treasury") == 0);
  REQUIRE(market.total() == total - has);
  REQUIRE(checked_sum(market) == market.total());
  return true;
}

}  // namespace

TEST_CASE("random histories conserve the sum, and no balance is ever negative") {
  // Statements are signed once; a history applies them in random order at random times, with repetitions.
  const auto policy = with_treasury(any(*seal(test::ledger_policy(), test::key(test::kOperator))));
  Story deposits;
  for (const std::uint8_t who : {test::kSubmitter, test::kSolver, test::kVerifier, test::kStranger}) {
    deposits.push_back(
        any(*seal(Deposit{test::key_id(who), 2'200, "one", test::ledger_id()}, test::key(test::kOperator))));
    deposits.push_back(
        any(*seal(Withdrawal{test::key_id(who).hex(), 400, "out", test::ledger_id()}, test::key(who))));
  }
  std::vector<Story> order = stories();
  for (Story& story : order) story.front() = with_treasury(std::move(story.front()));
  order.insert(order.begin(), deposits);
  std::mt19937_64 random(11);
  std::map<Reason, std::size_t> settled;
  std::size_t treasury_paid = 0;
  for (int history = 0; history < 6'000; ++history) {
    std::shuffle(order.begin() + 1, order.end(), random);
    Story all;
    for (const Story& story : order) all.insert(all.end(), story.begin(), story.end());
    Market market;
    REQUIRE(market.apply(policy, 0).ok());
    std::int64_t now = 0;
    // Three of four statements come in order, so that many histories get far; 80 statements each: 480,000 in
    // all.
    std::size_t next = 0;
    for (int turn = 0; turn < 80; ++turn) {
      now += static_cast<std::int64_t>(random() % 150);
      for (const Settlement& due : market.due(now)) {
        if (market.apply(as_operator(policy, due), now).ok()) ++settled[due.reason];
      }
      const std::size_t pick = random() % 4 != 0 ? next++ : random();
      static_cast<void>(market.apply(all[pick % all.size()], now));
      REQUIRE(checked_sum(market) == market.total());
      if (turn % 8 == 0 && empties_treasury(market, policy, now)) ++treasury_paid;
    }
  }
  for (const auto& [reason, count] : settled) UNSCOPED_INFO(name_of(reason) << ' ' << count);
  for (const Reason reason : {Reason::kAccepted, Reason::kRefuted, Reason::kConvicted, Reason::kOverturned})
    CHECK(settled[reason] > 100);
  CHECK(treasury_paid > 100);
}
