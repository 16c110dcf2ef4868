// Forced errors: who is paid for finding one. dgx-protocol(7), "FORCED ERRORS"; dgx-money(7), "Jackpots".
#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/manifest/fields.h"
#include "dgx/protocol/draw.h"
#include "forced_market.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::at;
using test::AuditMarket;
using test::by;
using test::forced_policy;
using test::ForcedMarket;
using test::kJackpot;
using test::kStranger;
using test::kVolunteerBond;
using test::secret;

TEST_CASE("an auditor who denies the forced witness has the fee and the jackpot") {
  ForcedMarket m;
  m.forced_and_drawn();
  const Verdict audit = m.audit(m.auditor());
  REQUIRE(audit.denied == std::vector{m.forced()});
  const std::int64_t pool = m.jackpot();
  REQUIRE(pool >= 3 * kJackpot);
  m.take(m.commitment_to(m.auditor(), audit), at(4'900));
  CHECK(m.state(at(5'001)) == "reveal");
  const bool secret_first = GENERATE(true, false);
  if (secret_first) m.reveal_in_time();
  CHECK(m.record().jackpot == 0);
  m.take(by(m.auditor(), audit), at(5'001));
  if (!secret_first) m.reveal_in_time();
  // The jackpot is locked as soon as it is promised.
  CHECK(m.record().jackpot == kJackpot);
  CHECK(m.jackpot() == pool - kJackpot);
  CHECK(m.state(at(5'002)) == "challenge-window");
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  CHECK(m.settle(at(6'002)) == "accepted");
  CHECK(m.gain(verifier) == m.fee());
  CHECK(m.gain(auditor) == m.fee() + kJackpot);
  CHECK(m.jackpot() == pool - kJackpot + m.tax());
}

TEST_CASE("k claimants have the jackpot divided by 2^(k-1) each, and the jackpot the rest") {
  ForcedMarket m;
  m.forced_and_drawn();
  const std::size_t k = GENERATE(1U, 2U, 3U, 6U);
  const auto them = m.others(k);
  std::vector<std::pair<std::uint8_t, Verdict>> audits{{m.auditor(), m.confirmation(m.auditor())}};
  for (const std::uint8_t who : them) audits.emplace_back(who, m.audit(who));
  m.commit(audits);
  const std::int64_t pool = m.jackpot();
  m.show(audits);
  m.reveal_in_time();
  const std::uint8_t auditor = m.auditor();
  CHECK(m.settle(at(6'002)) == "accepted");
  const std::int64_t each = kJackpot >> (k - 1);
  for (const std::uint8_t who : them) CHECK(m.gain(who) == each);
  // The auditor has confirmed unseen: bond and fee are the jackpot's.
  CHECK(m.gain(auditor) == -AuditMarket::bond_of(auditor));
  CHECK(m.jackpot() ==
        pool - each * static_cast<std::int64_t>(k) + m.tax() + m.fee() + AuditMarket::bond_of(auditor));
}

TEST_CASE("64 volunteers and the auditor share a jackpot without a unit lost") {
  ForcedMarket m;
  m.forced_and_drawn();
  std::vector<std::pair<std::uint8_t, Verdict>> audits{{m.auditor(), m.audit(m.auditor())}};
  for (std::uint8_t who = kStranger + 1; audits.size() < 59; ++who) {
    if (who < 10 || who > 13) audits.emplace_back(who, m.audit(who));
  }
  m.commit(audits);
  const std::int64_t pool = m.jackpot();
  m.show(audits);
  m.reveal_in_time();
  CHECK(m.settle(at(6'002)) == "accepted");
  CHECK(m.jackpot() == pool + m.tax());
}

TEST_CASE("a volunteer who confirms the forced witness loses nothing, one who denies more the bond") {
  ForcedMarket m;
  m.forced_and_drawn();
  const auto them = m.others(2);
  Verdict all = m.audit(them[1]);
  all.denied = m.segments_drawn();
  const std::vector<std::pair<std::uint8_t, Verdict>> audits{
      {m.auditor(), m.audit(m.auditor())}, {them[0], m.confirmation(them[0])}, {them[1], all}};
  m.commit(audits);
  m.show(audits);
  m.reveal_in_time();
  const std::uint8_t auditor = m.auditor();
  CHECK(m.settle(at(6'002)) == "accepted");
  CHECK(m.gain(auditor) == m.fee() + kJackpot);
  CHECK(m.gain(them[0]) == 0);
  CHECK(m.gain(them[1]) == -kVolunteerBond);
}

TEST_CASE("a jackpot is at most a third of what there is, and nothing where there is nothing") {
  Policy policy = forced_policy();
  policy.jackpot = kMaxInteger >> 10;
  policy.jackpot_tax_ppm = 1'000'000;
  policy.audit_ppm = 0;
  const bool filled = GENERATE(true, false);
  ForcedMarket m(policy, filled);
  m.forced_verdict();
  const std::uint8_t who = m.others(1)[0];
  m.take(m.commitment_to(who, m.audit(who)), at(4'100));
  const std::int64_t pool = m.jackpot();
  CHECK((pool > 0) == filled);
  CHECK(m.state(at(4'501)) == "reveal");
  m.take(by(m.verifier(), m.reveal()), at(4'501));
  m.take(by(who, m.audit(who)), at(4'501));
  CHECK(m.settle(at(5'502)) == "accepted");
  // The bounds by tax, verifier's bond and guess are above a third of the pool.
  REQUIRE(pool / 3 < std::min(m.tax(), test::kOfferBond));
  CHECK(m.gain(who) == pool / 3);
}

TEST_CASE("where no verdict is audited, errors are forced for volunteers, and no offer stays locked") {
  Policy policy = forced_policy();
  policy.audit_ppm = 0;
  ForcedMarket m(policy);
  m.open();
  const auto drawn = m.drawn();
  for (std::uint8_t who = 10; who < 14; ++who) {
    const bool asked = std::find(drawn.begin(), drawn.end(), who) != drawn.end();
    CHECK(m.gain(who) == (asked ? -AuditMarket::bond_of(who) : 0));
  }
  Verdict body = m.replayed(m.verifier());
  body.witnesses[m.place()] = false_witness(body.witnesses[m.place()]);
  m.take(by(m.verifier(), body), at(3'500));
  CHECK(m.state(at(3'500)) == "recheck");
  CHECK(m.market().slots_waiting().empty());
  for (std::uint8_t who = 10; who < 14; ++who)
    CHECK(m.gain(who) == (who == m.verifier() ? -AuditMarket::bond_of(who) : 0));
  // The verifier owes the secret even where nobody volunteers.
  CHECK(m.state(at(4'501)) == "reveal");
  m.take(by(m.verifier(), m.reveal()), at(4'600));
  CHECK(m.settle(at(5'600)) == "challenge-window");
  CHECK(m.settle(at(5'601)) == "accepted");
  CHECK(m.gain(m.verifier()) == m.fee());
}

TEST_CASE("a claim cannot be copied, and its audit can be challenged") {
  ForcedMarket m;
  m.forced_and_drawn();
  const auto them = m.others(2);
  const Verdict audit = m.audit(them[0]);
  m.take(m.commitment_to(them[0], audit), at(4'100));
  // The copy of a commitment binds to a statement that its signer cannot sign.
  const Digest hidden = verdict_commitment(seal(audit, test::key(them[0]))->id, audit.nonce);
  m.take(by(them[1], VerdictCommitment{m.run().task.id, m.run().proof.id, hidden, m.record().verdict->id}),
         at(4'200));
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(4'300));
  m.show({{them[0], audit}, {m.auditor(), m.audit(m.auditor())}});
  CHECK(m.refused(by(them[1], audit), at(5'001)) == "is not the audit that was committed to");
  m.reveal_in_time();
  CHECK(m.settle(at(7'002)) == "accepted");
  CHECK(m.gain(them[0]) == kJackpot / 2);
  CHECK(m.gain(them[1]) == -kVolunteerBond);
}

TEST_CASE("a claimant whose own witnesses are invented loses them in a game, and the jackpot") {
  ForcedMarket m;
  m.forced_and_drawn();
  const std::uint8_t guesser = m.others(1)[0];
  Verdict guess = m.audit(guesser);
  std::fill(guess.witnesses.begin(), guess.witnesses.end(), test::digest("garbage"));
  const std::vector<std::pair<std::uint8_t, Verdict>> audits{{m.auditor(), m.audit(m.auditor())},
                                                             {guesser, guess}};
  m.commit(audits);
  m.show(audits);
  m.reveal_in_time();
  Challenge challenge = m.witness_challenge();
  challenge.verdict = seal(guess, test::key(guesser))->id;
  challenge.row->row.witness = guess.witnesses.front();
  m.take(by(kStranger, challenge), at(5'100));
  const std::uint8_t auditor = m.auditor();
  CHECK(m.settle(at(6'502)) == "accepted");
  CHECK(m.gain(guesser) == -kVolunteerBond);
  CHECK(m.gain(auditor) == m.fee() + kJackpot);  // the only claimant who is left
}

TEST_CASE("no task pays more in fees and jackpots than its tax, whatever the policy says") {
  Policy policy = forced_policy();
  policy.jackpot = kMaxInteger >> 10;
  Task task;
  task.policy = policy;
  task.policy.verifier_bond = task.policy.challenger_bond = std::int64_t{1} << 43;
  Estimate earned;
  earned.fee = 1'000;
  earned.tax = GENERATE(0, 999, 1'000, 1'001, 5'000, 1'000'000);
  for (const std::int64_t audits : {0, 1, 50'000, 1'000'000}) {
    for (const std::int64_t forced : {1, 50'000, 999'999, 1'000'000}) {
      task.policy.audit_ppm = audits;
      task.policy.forced_error_ppm = forced;
      const std::int64_t fee = audits == 0 ? 0 : audit_fee(earned, task.policy);
      const std::int64_t sum = jackpot_of(task, earned, 1'024, kMaxInteger);
      CHECK(audits * fee + forced * sum <= 1'000'000 * earned.tax);
    }
  }
  // A draw of one row that is always forced is guessed for certain.
  task.policy.forced_error_ppm = 1'000'000;
  CHECK(jackpot_of(task, earned, 1, kMaxInteger) == 0);
}

TEST_CASE("the room that is kept suffices for the secret and the auditor's game about it") {
  ForcedMarket m;
  m.forced_and_drawn(true);
  const std::uint8_t auditor = m.auditor();
  m.audit_by_drawn(m.audit(auditor));
  CHECK_FALSE(m.market().reserve_of(by(m.verifier(), m.reveal())));
  m.reveal_in_time();
  CHECK_FALSE(m.market().reserve_of(by(auditor, m.witness_challenge(m.forced()))));
}
