#include "market_world.h"

#include <catch2/catch.hpp>

namespace dgx::test {

using namespace manifest;
using namespace protocol;

const TinyRun& honest() {
  static const TinyRun run = tiny_run("honest");
  return run;
}

const TinyRun& cheat() {
  static const TinyRun run = tiny_run("crooked", TinyExecutor(TinyExecutor::Lie::kWrongStep, 57));
  return run;
}

std::string refused(Market& market, const Signed<Body>& statement, std::int64_t now) {
  const auto before = market.balances();
  const Status status = market.apply(statement, now);
  if (status.ok()) return "accepted";
  CHECK(market.balances() == before);
  return status.error().message.substr(status.error().message.find(": ") + 2);
}

std::int64_t balance_of(const Market& market, std::uint8_t who) {
  return market.balances().at(key_id(who).hex());
}

World::World(const TinyRun& of) : run(of) {
  take(by(kOperator, ledger_policy()), 0);
  for (std::uint8_t who = kSubmitter; who < 70; ++who)
    take(by(kOperator, Deposit{key_id(who), kWorldMoney, "first", ledger_id()}), 0);
  take(any(run.task), 0);
  take(any(offer(run)), 0);
  take(any(assignment(run)), 0);
  take(any(run.proof), 0);
  take(any(run.beacon), 0);
  take(any(opening(run)), 0);
  take(any(delivery(run)), 0);
}

void World::take(const Signed<Body>& statement, std::int64_t now) {
  INFO(statement.id.brief());
  const Status status = market.apply(statement, now);
  REQUIRE(status.ok());
}

Signed<Challenge> World::challenge(const Challenge& body, std::uint8_t who, std::int64_t now) {
  auto out = *seal(body, key(who));
  take(any(out), now);
  return out;
}

void World::defender_loses(const Signed<Challenge>& game, std::uint8_t who, std::int64_t now) {
  take(any(empty_move(game, 1, game.id, who)), now);
}

void World::challenger_loses(const Signed<Challenge>& game, std::uint8_t defender, std::uint8_t who,
                             std::int64_t now) {
  const auto shown = states_move(game, defender);
  take(any(shown), now);
  take(any(empty_move(game, 2, shown.id, who)), now);
}

Standing World::stands(std::int64_t now) const { return standing(record(), now); }

std::string World::state(std::int64_t now) const { return std::string(name_of(stands(now).state)); }

std::string World::settle(std::int64_t now) {
  const auto due = market.due(now);
  if (due.size() != 1) return state(now);
  // Every settlement that is written must be readable.
  const auto statement = *seal_any(due[0], key(kOperator));
  CHECK(open_any(statement.envelope).ok());
  take(statement, now);
  CHECK(market.balances().at("escrow") == 0);
  CHECK(market.balances().at("bonds") == 0);
  std::int64_t sum = 0;
  for (const auto& [account, amount] : market.balances()) sum += amount;
  CHECK(sum == market.total());
  return std::string(name_of(due[0].reason));
}

std::int64_t World::gain(std::uint8_t who) const { return of(key_id(who).hex()) - kWorldMoney; }

Signed<Verdict> false_refutation(const TinyRun& run) {
  const std::vector<std::int64_t> chosen{5};
  Verdict body = verdict(run, chosen).body;
  body.outcome = Outcome::kRefuted;
  body.first_disagreement =
      VerdictRow{5, run.digests[6], digest("invented"), false, RowReason::kDigest, digest("w")};
  return *seal(body, key(kVerifier));
}

Signed<Verdict> accepted(const TinyRun& run) {
  Verdict body = verdict(honest()).body;
  body.task = run.task.id;
  body.proof = run.proof.id;
  body.beacon = run.beacon.id;
  return *seal(body, key(kVerifier));
}

}  // namespace dgx::test
