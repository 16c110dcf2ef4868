// Verdicts about verdicts: dgx-protocol(7), "AUDITS".
#include <algorithm>
#include <catch2/catch.hpp>

#include "audit_market.h"
#include "dgx/protocol/lots.h"
#include "dgx/protocol/shards.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::at;
using test::AuditMarket;
using test::by;
using test::kOperator;
using test::kSolver;
using test::kStranger;

namespace {

constexpr std::int64_t kVolunteerBond = 301;  // the policy's challenger_bond

/// The auditor commits to a body and shows it as soon as audits are shown.
void audit(AuditMarket& m, const Verdict& body) {
  m.take(m.commitment_to(m.auditor(), body), at(4'900));
  CHECK(m.state(at(5'000)) == "recheck");
  CHECK(m.state(at(5'001)) == "reveal");
  m.take(by(m.auditor(), body), at(5'001));
}

}  // namespace

TEST_CASE("an auditor who confirms is paid from the jackpot") {
  AuditMarket m;
  m.give_verdict();
  CHECK(m.state(at(3'500)) == "recheck");
  // All offers are locked: each of the others may be drawn to audit.
  for (std::uint8_t who = 10; who < 14; ++who) CHECK(m.gain(who) == -AuditMarket::bond_of(who));
  REQUIRE(m.market().slots_waiting().size() == 1);
  const std::int64_t before = m.jackpot();
  m.take(by(kOperator, m.round_of(5)), at(4'000));
  CHECK(m.market().slots_waiting().empty());
  CHECK(m.jackpot() == before - m.fee());
  CHECK(m.auditor() != m.verifier());
  for (std::uint8_t who = 10; who < 14; ++who) {
    const bool staked = who == m.auditor() || who == m.verifier();
    CHECK(m.gain(who) == (staked ? -AuditMarket::bond_of(who) : 0));
  }
  // An auditor has as long as a verifier.
  audit(m, m.audit(m.auditor()));
  // Everybody has shown what they committed to.
  CHECK(m.state(at(5'001)) == "challenge-window");
  CHECK(m.settle(at(6'001)) == "challenge-window");
  CHECK(m.settle(at(6'002)) == "accepted");
  CHECK(m.gain(m.verifier()) == m.fee());
  CHECK(m.gain(m.auditor()) == m.fee());
  CHECK(m.gain(kSolver) == m.run().task.body.estimate.reward);
}

TEST_CASE("an auditor who is silent loses the bond, committed or not") {
  AuditMarket m;
  m.draw_auditor();
  const std::int64_t before = m.jackpot();
  const bool commits = GENERATE(false, true);
  if (commits) m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(4'900));
  CHECK(m.state(at(5'001)) == (commits ? "reveal" : "challenge-window"));
  CHECK(m.state(at(6'001)) == (commits ? "challenge-window" : "due"));
  CHECK(m.refused(by(m.auditor(), m.audit(m.auditor())), at(6'001)) ==
        (commits ? "task " + m.run().task.id.brief() + " is challenge-window"
                 : "its signer has not committed to an audit"));
  CHECK(m.settle(at(7'002)) == "accepted");
  CHECK(m.gain(m.auditor()) == -AuditMarket::bond_of(m.auditor()));
  const Estimate& earned = m.run().task.body.estimate;
  CHECK(m.jackpot() == before + m.fee() + earned.tax + AuditMarket::bond_of(m.auditor()));
}

TEST_CASE("a lazy verifier is caught by the auditor") {
  AuditMarket m;
  m.draw_auditor(true);
  const Verdict denial = m.audit(m.auditor());
  REQUIRE(denial.outcome == Outcome::kAccepted);
  REQUIRE(denial.denied == std::vector{m.segments_drawn().front()});
  audit(m, denial);
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  SECTION("who wins the game") {
    m.take(by(auditor, m.witness_challenge()), at(5'100));
    // The auditor's game does not count among those that make others dearer.
    CHECK_FALSE(m.record().games.front().counted);
    CHECK(m.settle(at(6'502)) == "unverified");  // the fall begins another window
    const std::int64_t bond = AuditMarket::bond_of(verifier);
    CHECK(m.gain(verifier) == -bond);
    CHECK(m.gain(auditor) == m.fee() + bond / 2 / 2);
    CHECK(m.gain(kSolver) == m.run().task.body.estimate.reward);
  }
  SECTION("who is the first finder, though somebody else challenged before") {
    m.take(by(kStranger, m.witness_challenge()), at(5'050));
    m.take(by(auditor, m.witness_challenge()), at(5'100));
    CHECK(m.settle(at(6'502)) == "unverified");
    const std::int64_t bond = AuditMarket::bond_of(verifier);
    CHECK(m.gain(auditor) == m.fee() + bond / 2 / 2);
    CHECK(m.gain(kStranger) == bond / 2 / 4);
  }
  SECTION("who does not follow it up") {
    CHECK(m.settle(at(6'002)) == "accepted");
    CHECK(m.gain(auditor) == -AuditMarket::bond_of(auditor));
    CHECK(m.gain(verifier) == m.fee());
  }
}

TEST_CASE("an auditor's refutation counts like a verifier's") {
  AuditMarket m;
  m.draw_auditor();
  const Verdict refutation = m.refuting_audit(m.auditor());
  audit(m, refutation);
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  const Bonds bonds = bonds_of(m.run().task.body);
  SECTION("it stands if nobody objects, and the acceptance falls by it") {
    CHECK(m.settle(at(6'002)) == "refuted");
    const Estimate& e = m.run().task.body.estimate;
    const std::int64_t rest = bonds.solver - e.tax - e.treasury - e.fee;
    const std::int64_t part = part_of(rest, m.market().policy()->split_verifier_ppm);
    CHECK(m.gain(auditor) == m.fee() + part / 2 + AuditMarket::bond_of(verifier) / 2 / 2);
    CHECK(m.gain(verifier) == -AuditMarket::bond_of(verifier));
    CHECK(m.gain(kSolver) == -bonds.solver);
  }
  SECTION("the solver or the verifier objects, and it falls") {
    const std::uint8_t who = GENERATE_REF(std::uint8_t{kSolver}, std::uint8_t{0});
    const std::uint8_t challenger = who == kSolver ? kSolver : verifier;
    Challenge challenge = test::challenge_of(m.run(), refutation.first_disagreement->index);
    challenge.verdict = seal(refutation, test::key(auditor))->id;
    challenge.row = OpenedRow{0, {}, *refutation.first_disagreement};
    m.take(by(challenger, challenge), at(5'100));
    CHECK_FALSE(m.record().games.front().counted);
    CHECK(m.settle(at(6'502)) == "accepted");
    CHECK(m.gain(auditor) == -AuditMarket::bond_of(auditor));
    const std::int64_t found = AuditMarket::bond_of(auditor) / 2 / 2;
    CHECK(m.gain(verifier) == m.fee() + (challenger == verifier ? found : 0));
    CHECK(m.gain(kSolver) == m.run().task.body.estimate.reward + (challenger == kSolver ? found : 0));
  }
}

TEST_CASE("volunteers commit with a bond, and have it back if they show their audits") {
  AuditMarket m;
  m.give_verdict();
  for (std::uint8_t who = 20; who < 23; ++who) m.take(m.commitment_to(who, m.audit(who)), at(3'600));
  for (std::uint8_t who = 20; who < 23; ++who) CHECK(m.gain(who) == -kVolunteerBond);
  // No round comes in time: nobody is drawn, and the commitments count.
  CHECK(m.state(at(4'501)) == "reveal");
  m.take(by(kOperator, m.round_of(5)), at(4'501));
  CHECK_FALSE(m.record().audit);
  m.take(by(20, m.audit(20)), at(4'600));
  m.take(by(22, m.audit(22)), at(4'700));
  CHECK(m.state(at(5'500)) == "reveal");
  CHECK(m.settle(at(6'501)) == "accepted");
  CHECK(m.gain(20) == 0);
  CHECK(m.gain(21) == -kVolunteerBond);
  CHECK(m.gain(22) == 0);
  for (std::uint8_t who = 10; who < 14; ++who) CHECK(m.gain(who) == (who == m.verifier() ? m.fee() : 0));
}

TEST_CASE("a volunteer's denial or refutation that nothing bears out costs the bond") {
  AuditMarket m;
  m.give_verdict();
  Verdict denial = m.audit(20);
  denial.denied = m.segments_drawn();
  const Verdict refutation = m.refuting_audit(21);
  m.take(m.commitment_to(20, denial), at(3'600));
  m.take(m.commitment_to(21, refutation), at(3'600));
  m.take(by(20, denial), at(4'600));
  m.take(by(21, refutation), at(4'600));
  CHECK(m.settle(at(5'601)) == "accepted");
  CHECK(m.gain(20) == -kVolunteerBond);
  CHECK(m.gain(21) == -kVolunteerBond);
  CHECK(m.gain(kSolver) == m.run().task.body.estimate.reward);
}

TEST_CASE("a volunteer who is drawn is the auditor, and stakes the offer alone") {
  AuditMarket m;
  m.give_verdict();
  for (std::uint8_t who = 10; who < 14; ++who) {
    if (who != m.verifier()) m.take(m.commitment_to(who, m.audit(who)), at(3'600));
  }
  m.take(by(kOperator, m.round_of(5)), at(4'000));
  const std::uint8_t auditor = m.auditor();
  CHECK(m.gain(auditor) == -AuditMarket::bond_of(auditor));
  for (std::uint8_t who = 10; who < 14; ++who) {
    if (who != m.verifier()) m.take(by(who, m.audit(who)), at(5'001));
  }
  CHECK(m.settle(at(6'002)) == "accepted");
  for (std::uint8_t who = 10; who < 14; ++who)
    CHECK(m.gain(who) == (who == auditor || who == m.verifier() ? m.fee() : 0));
}

TEST_CASE("nobody is drawn where jackpot and task have no fee, or nobody else has offered") {
  SECTION("an empty jackpot") {
    Policy policy = test::audit_policy();
    policy.margin_ppm = 0;
    AuditMarket m(policy, false);
    m.draw_auditor();
    REQUIRE(m.record().audit);
    CHECK(m.record().audit->hits);
    CHECK_FALSE(m.record().audit->auditor);
    CHECK(m.jackpot() == 0);
    CHECK(m.settle(at(5'501)) == "accepted");
  }
  SECTION("one offer") {
    AuditMarket m;
    m.draw({{10, test::kOfferBond}}, test::kFrom);
    m.take(m.opening_of(), at(2'500));
    m.take(by(10, m.replayed(10)), at(3'500));
    m.take(by(kOperator, m.round_of(5)), at(4'000));
    CHECK_FALSE(m.record().audit->auditor);
  }
  SECTION("the lot does not hit") {
    Policy policy = test::audit_policy();
    policy.audit_ppm = 1;
    AuditMarket m(policy);
    m.draw_auditor();
    CHECK_FALSE(m.record().audit->hits);
    for (std::uint8_t who = 10; who < 14; ++who)
      CHECK(m.gain(who) == (who == m.verifier() ? -AuditMarket::bond_of(who) : 0));
  }
}

TEST_CASE("an auditor has a window from the round, however late it comes") {
  AuditMarket m;
  m.give_verdict();
  m.take(by(kOperator, m.round_of(5)), at(4'500));
  CHECK(m.state(at(5'500)) == "recheck");
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(5'500));
  CHECK(m.state(at(6'500)) == "reveal");
  m.take(by(m.auditor(), m.audit(m.auditor())), at(6'500));
  CHECK(m.settle(at(7'501)) == "accepted");
  CHECK(m.gain(m.auditor()) == m.fee());
}

TEST_CASE("a refutation, and silence, are not re-checked, and no offer stays locked for it") {
  AuditMarket m;
  m.open();
  SECTION("a refutation") {
    Verdict refutation = m.replayed(m.verifier());
    refutation.outcome = Outcome::kRefuted;
    refutation.witnesses.clear();
    const std::int64_t index = m.segments_drawn().front();
    refutation.first_disagreement = VerdictRow{index,
                                               m.run().digests[static_cast<std::size_t>(index) + 1],
                                               test::digest("no state"),
                                               false,
                                               RowReason::kDigest,
                                               test::digest("w")};
    m.take(by(m.verifier(), refutation), at(3'500));
    CHECK(m.state(at(3'500)) == "challenge-window");
    CHECK(m.market().slots_waiting().empty());
    for (std::uint8_t who = 10; who < 14; ++who)
      CHECK(m.gain(who) == (who == m.verifier() ? -AuditMarket::bond_of(who) : 0));
  }
  SECTION("silence") {
    CHECK(m.settle(at(6'502)) == "unverified");
    const auto drawn = m.drawn();
    for (std::uint8_t who = 10; who < 14; ++who) {
      const bool asked = std::find(drawn.begin(), drawn.end(), who) != drawn.end();
      CHECK(m.gain(who) == (asked ? -AuditMarket::bond_of(who) : 0));
    }
  }
}

TEST_CASE("the proof can be challenged while its verdict is re-checked, the verdict not before") {
  AuditMarket m;
  m.draw_auditor(true);
  const auto of_proof = by(kStranger, test::challenge_of(m.run(), 3));
  const auto of_verdict = by(kStranger, m.witness_challenge());
  CHECK(m.refused(of_verdict, at(4'600)).ends_with("is recheck"));
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(4'700));
  CHECK(m.refused(of_verdict, at(5'500)).ends_with("is reveal"));
  const bool early = GENERATE(false, true);
  m.take(of_proof, early ? at(4'800) : at(5'600));
  m.take(by(m.auditor(), m.audit(m.auditor())), at(5'700));
  // The solver missed the move, so the proof fell.
  CHECK(m.settle(at(6'701)) == "convicted");
}

TEST_CASE("an interrupted audit keeps what it denies") {
  AuditMarket m;
  m.give_verdict(true);
  Shard part;
  part.role = ShardRole::kPart;
  part.version = "1";
  part.assignment = *assign(m.run().task, m.run().proof, m.record().round->source, test::key_id(20));
  part.assignment.draw = Draw::kAudit;
  part.assignment.audited = Audited{m.record().verdict->id, m.record().verdict->key_id};
  part.drawn = m.segments_drawn();
  part.denied = {part.drawn.front()};
  const auto again = decode_shard(encode_shard(part));
  REQUIRE(again.ok());
  CHECK(again->denied == part.denied);
  CHECK(of_one_verification(*again, part));
  part.assignment.audited->verdict = test::digest("another verdict");
  CHECK_FALSE(of_one_verification(*again, part));
}
