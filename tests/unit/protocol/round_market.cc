#include "round_market.h"

#include <catch2/catch.hpp>

#include "dgx/merkle/digests.h"
#include "dgx/protocol/estimate.h"

namespace dgx::test {

using namespace manifest;
using namespace protocol;

namespace {

void diverge(TinyRun& run) {
  run.digests.resize(3);
  run.states.resize(3);
  Proof body = run.proof.body;
  body.diverged = true;
  body.steps = 20;
  body.final_state = run.digests.back();
  body.states = states_root(run.digests);
  body.loss = loss_in(run.states.back());
  run.proof = *seal(body, key(kSolver));
}

}  // namespace

RoundMarket::RoundMarket(const Policy& policy, bool diverges) {
  const auto first = by(kOperator, LedgerPolicy{policy, digest("nonce of the ledger")});
  take(first, 0);
  run_ = tiny_run("drawn", TinyExecutor(), [&](Task& task) {
    task.policy = policy;
    task.ledger = first.id;
    task.estimate = *estimate(
        {task.estimate.step_operations, task.caps.bytes, task.steps, task.checkpoint_every, task.price},
        policy);
  });
  if (diverges) diverge(run_);
  for (std::uint8_t who = kSubmitter; who < 71; ++who)
    take(by(kOperator, Deposit{key_id(who), kWorldMoney, "first", first.id}), 0);
}

std::string RoundMarket::refused(const Signed<Body>& statement, std::int64_t now) {
  const std::string out = test::refused(market_, statement, now);
  if (out != "accepted") return out;
  if (times_.empty()) ledger_ = statement.id;
  tree_.add_hash(merkle::ledger_leaf(statement.id, static_cast<std::uint64_t>(now)));
  times_.push_back(now);
  return out;
}

void RoundMarket::take(const Signed<Body>& statement, std::int64_t now) {
  CAPTURE(name_of(kind_of(statement.body)), now);
  REQUIRE(refused(statement, now) == "accepted");
}

void RoundMarket::deposit(std::int64_t now) {
  take(by(kOperator, Deposit{key_id(kStranger), 1, "at " + std::to_string(now), ledger()}), now);
}

Round RoundMarket::round_of(std::int64_t slot) const {
  std::size_t count = 0;
  const Policy& policy = *market_.policy();
  while (count < times_.size() && slot_of(times_[count], policy) <= slot) ++count;
  const RootReference head{tree_.root(count), static_cast<std::int64_t>(count)};
  DelayChain chain{65'536, {crypto::sha256_chain(delay_start(ledger(), slot, head), 65'536)}};
  const Digest value = round_value(chain);
  return {ledger(), slot, head, std::move(chain), value};
}

Signed<Body> RoundMarket::offer_of(std::uint8_t who, std::optional<std::int64_t> bond) const {
  BeaconCommitment body = offer(run_).body;
  body.bond = bond;
  return by(who, body);
}

Signed<Body> RoundMarket::assign_of(std::uint8_t who) const {
  Assign body = assignment(run_).body;
  body.commitment.reset();
  return by(who, body);
}

Signed<Body> RoundMarket::opening_of() const {
  return by(kSolver, Opening{run_.task.id, run_.proof.id, record().round->source.id, "opening"});
}

Signed<Verdict> RoundMarket::accepted_by(std::uint8_t who) const {
  Verdict body = verdict(honest()).body;
  body.task = run_.task.id;
  body.proof = run_.proof.id;
  body.beacon = record().round->source.id;
  return *seal(body, key(who));
}

void RoundMarket::draw(const std::vector<std::pair<std::uint8_t, std::int64_t>>& offers, std::int64_t from) {
  take(any(run_.task), from);
  for (const auto& [who, bond] : offers) take(offer_of(who, bond), from);
  take(assign_of(kSolver), from + 400);
  take(any(run_.proof), from + 1'300);
  take(by(kOperator, round_of(slot_of(from + 1'300, *market_.policy()))), from + 2'000);
}

std::vector<std::uint8_t> RoundMarket::drawn() const {
  std::vector<std::uint8_t> out;
  for (const DrawnVerifier& one : record().round->drawn) {
    std::uint8_t who = 1;
    while (key_id(who) != one.drawn.verifier) ++who;
    out.push_back(who);
  }
  return out;
}

std::string RoundMarket::state(std::int64_t now) const {
  return std::string(name_of(standing(record(), now).state));
}

std::int64_t RoundMarket::gain(std::uint8_t who) const {
  return market_.balances().at(key_id(who).hex()) - kWorldMoney;
}

std::string RoundMarket::settle(std::int64_t now) {
  const auto due = market_.due(now);
  if (due.size() != 1) return state(now);
  take(by(kOperator, due[0]), now);
  CHECK(market_.balances().at("escrow") == 0);
  CHECK(market_.balances().at("bonds") == 0);
  return std::string(name_of(due[0].reason));
}

}  // namespace dgx::test
