// Verifiers who are drawn by a round: dgx-protocol(7), "DRAWN VERIFIERS".
#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/protocol/lots.h"
#include "round_market.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::by;
using test::kOperator;
using test::kSolver;
using test::kStranger;
using test::kSubmitter;
using test::kWorldMoney;
using test::RoundMarket;

namespace {

constexpr std::int64_t kBond = 501;  // the policy's

/// Four offers; the tests ask the market in which order they were drawn.
std::vector<std::pair<std::uint8_t, std::int64_t>> four() {
  return {{10, kBond}, {11, 600}, {12, 700}, {13, 800}};
}

std::int64_t bond_of(std::uint8_t who) { return four()[who - 10U].second; }

}  // namespace

TEST_CASE("the verifier drawn by the round gives the verdict, and all other bonds go back") {
  RoundMarket m;
  m.draw(four());
  REQUIRE(m.drawn().size() == 3);
  const auto drawn = m.drawn();
  for (std::uint8_t who = 10; who < 14; ++who) {
    const bool is_drawn = std::find(drawn.begin(), drawn.end(), who) != drawn.end();
    CHECK(m.gain(who) == (is_drawn ? -bond_of(who) : 0));
  }
  CHECK(m.state(2'000) == "drawn");
  CHECK(m.refused(any(m.accepted_by(drawn[0])), 2'100).starts_with("task"));
  m.take(m.opening_of(), 2'500);
  CHECK(m.state(2'500) == "opened");
  CHECK(m.refused(any(m.accepted_by(drawn[1])), 2'600).starts_with("signed by"));
  CHECK(m.refused(m.opening_of(), 2'600) == "is already in the ledger");
  m.take(any(m.accepted_by(drawn[0])), 3'500);
  // Nobody else can be asked any more.
  CHECK(m.gain(drawn[1]) == 0);
  CHECK(m.gain(drawn[2]) == 0);
  m.take(any(test::delivery(m.run())), 3'600);
  CHECK(m.settle(4'500) == "challenge-window");
  CHECK(m.settle(4'501) == "accepted");
  CHECK(m.gain(drawn[0]) == m.run().task.body.estimate.fee);
  CHECK(m.gain(kSolver) == m.run().task.body.estimate.reward);
}

TEST_CASE("a silent verifier loses the bond, and the next is asked") {
  RoundMarket m;
  m.draw(four());
  const auto drawn = m.drawn();
  m.take(m.opening_of(), 2'500);
  CHECK(m.refused(any(m.accepted_by(drawn[1])), 3'500).starts_with("signed by"));
  CHECK(m.refused(any(m.accepted_by(drawn[0])), 3'501).starts_with("signed by"));
  // The second commits, and so has a window from there.
  const auto verdict = m.accepted_by(drawn[1]);
  m.take(by(drawn[1], VerdictCommitment{m.run().task.id, m.run().proof.id,
                                        verdict_commitment(verdict.id, verdict.body.nonce)}),
         4'400);
  CHECK(m.state(5'400) == "verify-committed");
  CHECK(m.state(5'401) == "opened");
  SECTION("and gives the verdict") {
    m.take(any(verdict), 5'400);
    m.take(any(test::delivery(m.run())), 5'400);
    CHECK(m.settle(6'401) == "accepted");
    CHECK(m.gain(drawn[0]) == -bond_of(drawn[0]));
    CHECK(m.gain(drawn[1]) == m.run().task.body.estimate.fee);
    CHECK(m.gain(drawn[2]) == 0);
  }
  SECTION("and the third, who is the last") {
    CHECK(m.state(6'400) == "opened");
    CHECK(m.state(6'401) == "challenge-window");
    CHECK(m.refused(any(m.accepted_by(drawn[2])), 6'401).starts_with("task"));
    m.take(any(test::delivery(m.run())), 6'500);
    CHECK(m.settle(7'401) == "unverified");
    for (const std::uint8_t who : drawn) CHECK(m.gain(who) == -bond_of(who));
    CHECK(m.gain(kSolver) == m.run().task.body.estimate.reward);
  }
}

TEST_CASE("without an opening the drawn verifier is paid by the solver, and nobody else is asked") {
  RoundMarket m;
  m.draw(four());
  const auto drawn = m.drawn();
  CHECK(m.state(3'000) == "drawn");
  CHECK(m.refused(m.opening_of(), 3'001) == "the deadline to open the proof has passed");
  CHECK(m.settle(3'001) == "no-proof");
  CHECK(m.gain(drawn[0]) == m.market().policy()->verifier_fee);
  CHECK(m.gain(drawn[1]) == 0);
  CHECK(m.gain(kSolver) == -m.market().policy()->solver_bond);
}

TEST_CASE("a proof is opened after its own round") {
  RoundMarket m;
  m.draw(four());
  const auto opening = [&](const Digest& after) {
    return by(kSolver, Opening{m.run().task.id, m.run().proof.id, after, "opening"});
  };
  CHECK(m.refused(opening(m.run().proof.id), 2'100).starts_with("after: is"));
  const Round of_another_slot = m.round_of(0);
  m.take(by(kOperator, of_another_slot), 2'100);
  CHECK(m.refused(opening(seal(of_another_slot, test::key(kOperator))->id), 2'200).starts_with("after: is"));
  m.take(m.opening_of(), 2'200);
  CHECK(
      m.refused(by(kSolver, Opening{m.run().task.id, m.run().proof.id, m.record().round->source.id, "again"}),
                2'300) == "the proof is already opened");
}

TEST_CASE("where no round comes, nobody loses a bond for it, and none stays locked") {
  Policy policy = test::round_policy();
  policy.audit_ppm = GENERATE(0, 500'000);
  RoundMarket m(policy);
  m.take(any(m.run().task), 0);
  for (const auto& [who, bond] : four()) m.take(m.offer_of(who, bond), 0);
  m.take(m.assign_of(kSolver), 400);
  m.take(any(m.run().proof), 1'300);
  CHECK(m.market().slots_waiting().size() == 1);
  // A slot and window_reveal_ms.
  CHECK(m.state(3'300) == "proof-committed");
  CHECK(m.state(3'301) == "awaiting-opening");
  // One that comes later is taken, and draws nothing for this proof. From then on no bond is locked: the next
  // entry, whatever it is, unlocks all.
  const auto late = by(kOperator, m.round_of(1));
  m.deposit(3'300);
  for (const auto& [who, bond] : four()) CHECK(m.gain(who) == -bond);
  SECTION("the round comes late") { m.take(late, 3'301); }
  SECTION("no round comes") { m.deposit(3'301); }
  for (const auto& [who, bond] : four()) CHECK(m.gain(who) == 0);
  CHECK(m.record().offers.empty());
  m.take(by(kSolver, Opening{m.run().task.id, m.run().proof.id, m.run().proof.id, "opening"}), 3'400);
  CHECK(m.state(3'400) == "challenge-window");
  CHECK(m.market().slots_waiting().empty());
  m.take(any(test::delivery(m.run())), 3'400);
  CHECK(m.settle(4'401) == "unverified");
  for (const auto& [who, bond] : four()) CHECK(m.gain(who) == 0);
  CHECK(m.gain(kSolver) == m.run().task.body.estimate.reward);
}

TEST_CASE("offers are refused below the bond, twice, by the submitter, after the assign") {
  RoundMarket m;
  m.take(any(m.run().task), 0);
  CHECK(m.refused(m.offer_of(10, std::nullopt), 0) ==
        "bond: is missing: in this market verifiers are drawn by their bonds");
  CHECK(m.refused(m.offer_of(10, kBond - 1), 0) == "bond: is 500, must be at least 501");
  CHECK(m.refused(m.offer_of(10, kWorldMoney + 1), 0).starts_with("account"));
  CHECK(m.refused(m.offer_of(kSubmitter, kBond), 0) == "the submitter cannot verify their own task");
  m.take(m.offer_of(10, kBond), 0);
  CHECK(m.refused(m.offer_of(10, kBond + 1), 0).starts_with("its signer's offer"));
  m.take(m.offer_of(kSolver, kBond), 0);
  CHECK(m.refused(m.assign_of(kSolver), 399) == "verifiers may offer themselves for another 1 ms");
  Assign named = test::assignment(m.run()).body;
  CHECK(m.refused(by(kSolver, named), 400) == "commitment: this market draws the verifier");
  m.take(m.assign_of(kSolver), 400);
  // The solver's own offer is dropped.
  CHECK(m.gain(kSolver) == -m.market().policy()->solver_bond);
  CHECK(m.record().offers.size() == 1);
  CHECK(m.refused(m.offer_of(11, kBond), 401).starts_with("task"));
  CHECK(m.refused(any(m.run().beacon), 401) == "this market draws by rounds: nobody reveals a beacon");
}

TEST_CASE("an assign needs an offer that is not the solver's") {
  RoundMarket m;
  m.take(any(m.run().task), 0);
  CHECK(m.refused(m.assign_of(kSolver), 400) == "no verifier has offered");
  m.take(m.offer_of(kSolver, kBond), 400);
  CHECK(m.refused(m.assign_of(kSolver), 400) == "no verifier has offered");
}

TEST_CASE("a larger bond takes the place of the smallest of 64") {
  RoundMarket m;
  m.take(any(m.run().task), 0);
  for (std::uint8_t who = 6; who < 70; ++who) m.take(m.offer_of(who, who == 20 ? kBond : 600), 0);
  CHECK(m.record().offers.size() == kMostOffers);
  CHECK(m.refused(m.offer_of(70, kBond), 10) == "bond: is 501: there are 64 offers, the smallest of 501");
  m.take(m.offer_of(70, 601), 10);
  CHECK(m.record().offers.size() == kMostOffers);
  CHECK(m.gain(20) == 0);
  // The last key goes where bonds are equal.
  std::uint8_t last = 6;
  for (std::uint8_t who = 6; who < 70; ++who) {
    if (who != 20 && test::key_id(who) > test::key_id(last)) last = who;
  }
  m.take(m.offer_of(20, 601), 20);
  CHECK(m.gain(last) == 0);
}

TEST_CASE("a market without rounds takes no bond in an offer, and no assign without a verifier") {
  Market market;
  const test::TinyRun& run = test::honest();
  REQUIRE(test::refused(market, by(kOperator, test::ledger_policy()), 0) == "accepted");
  for (const std::uint8_t who : {kSubmitter, kSolver, test::kVerifier})
    REQUIRE(test::refused(market,
                          by(kOperator, Deposit{test::key_id(who), 5'000, "first", test::ledger_id()}),
                          0) == "accepted");
  REQUIRE(test::refused(market, any(run.task), 0) == "accepted");
  BeaconCommitment offer = test::offer(run).body;
  offer.bond = kBond;
  CHECK(test::refused(market, by(test::kVerifier, offer), 0) ==
        "bond: this market draws no verifiers: each stakes the policy's bond");
  Assign assign = test::assignment(run).body;
  assign.commitment.reset();
  CHECK(test::refused(market, by(kSolver, assign), 0) ==
        "commitment: is missing: the solver chooses a verifier");
}

TEST_CASE("a proof is not challenged between its round and its verdict, whose draw the solver knows") {
  RoundMarket m;
  m.draw(four());
  const auto drawn = m.drawn();
  const auto refused = [&](std::string_view state, std::int64_t now) {
    for (const std::uint8_t who : {kStranger, kSubmitter, drawn[0], drawn[1]}) {
      const std::string told = m.refused(by(who, test::challenge_of(m.run(), 5)), now);
      CAPTURE(told);
      CHECK(told.ends_with(std::string("is ") + std::string(state)));
      CHECK(m.refused(by(who, test::chunk_challenge(m.run(), 3)), now) == told);
    }
  };
  refused("drawn", 2'100);
  m.take(m.opening_of(), 2'200);
  refused("opened", 2'300);
  const auto verdict = m.accepted_by(drawn[0]);
  const Digest hidden = verdict_commitment(verdict.id, verdict.body.nonce);
  m.take(by(drawn[0], VerdictCommitment{m.run().task.id, m.run().proof.id, hidden, std::nullopt}), 2'300);
  refused("verify-committed", 2'400);
  SECTION("once the verdict is there") {
    m.take(any(verdict), 2'500);
    m.take(by(kStranger, test::challenge_of(m.run(), 5)), 2'500);
  }
  SECTION("once all verdicts are overdue") { m.take(by(kStranger, test::challenge_of(m.run(), 5)), 5'301); }
}

TEST_CASE("a cheat convicted by an accomplice before the verdict would lose less than by the verifier") {
  const RoundMarket m;
  const Task& task = m.run().task.body;
  Stakes stakes;
  stakes.submitter = "submitter";
  stakes.solver = "solver";
  stakes.verifier = "verifier";
  stakes.verifier_bond = kBond;
  stakes.proved = stakes.drawn = true;
  stakes.earned = task.estimate;
  stakes.games.push_back({"accomplice", Challenged::kProof, GameResult::kFalls, 301});
  const auto share = [&] {
    for (const Payout& one : payouts(task, Reason::kConvicted, stakes)) {
      if (one.account == "accomplice") return one.amount;
    }
    return std::int64_t{0};
  };
  stakes.fee = 0;  // a verdict that does not count
  const std::int64_t alone = share();
  stakes.fee = task.estimate.fee;
  stakes.refuted = true;
  CHECK(share() < alone / 2 + 1);
  CHECK(share() > 0);
}
