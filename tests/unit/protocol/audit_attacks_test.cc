// Attacks by audits and on them: each is refused with its reason, and changes nothing else.
#include <algorithm>
#include <catch2/catch.hpp>

#include "audit_market.h"
#include "dgx/manifest/fields.h"
#include "dgx/protocol/lots.h"

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

TEST_CASE("commitments to audits are refused before the verdict, after the recheck, twice, by the verifier") {
  AuditMarket m;
  m.open();
  const VerdictCommitment early{m.run().task.id, m.run().proof.id, test::digest("x"), test::digest("y")};
  CHECK(m.refused(by(20, early), at(3'000)) == "task " + m.run().task.id.brief() + " has no verdict yet");
  m.take(by(m.verifier(), m.replayed(m.verifier())), at(3'500));
  const Verdict honest = m.audit(20);
  CHECK(m.refused(m.commitment_to(m.verifier(), honest), at(3'600)) ==
        "the verifier cannot re-check their own verdict");
  CHECK(m.refused(by(20, early), at(3'600)).starts_with("audits: is "));
  VerdictCommitment of_another_proof = early;
  of_another_proof.proof = test::digest("another");
  CHECK(m.refused(by(20, of_another_proof), at(3'600)).starts_with("is about proof"));
  m.take(m.commitment_to(20, honest), at(3'600));
  Verdict other = honest;
  other.nonce = test::digest("another nonce");
  CHECK(m.refused(m.commitment_to(20, other), at(3'700)) ==
        "its signer has committed to an audit of this verdict already");
  // The policy's challenger_bond.
  m.take(by(21, Withdrawal{test::key_id(21).hex(), test::kWorldMoney - 300, "out", m.ledger()}), at(3'700));
  CHECK(m.refused(m.commitment_to(21, m.audit(21)), at(3'700)).ends_with("a volunteer's bond needs 301"));
  CHECK(m.refused(m.commitment_to(22, m.audit(22)), at(4'501)).ends_with("is reveal"));
}

TEST_CASE("sixty-four volunteers at most, and the auditor beside them") {
  AuditMarket m;
  m.draw_auditor();
  std::uint8_t who = 2;
  for (std::size_t n = 0; n < kMostVolunteers; ++who) {
    if (who == m.verifier() || who == m.auditor()) continue;
    m.take(m.commitment_to(who, m.audit(who)), at(4'100));
    ++n;
  }
  while (who == m.verifier() || who == m.auditor()) ++who;
  CHECK(m.refused(m.commitment_to(who, m.audit(who)), at(4'200)) == "64 volunteers have committed already");
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(4'300));
  CHECK(m.settle(at(7'002)) == "accepted");
}

TEST_CASE("an audit is refused unless it is the one committed to, in its time, and of the draw") {
  AuditMarket m;
  m.draw_auditor();
  const std::uint8_t auditor = m.auditor();
  const std::string task = "task " + m.run().task.id.brief();
  const Verdict honest = m.audit(auditor);
  CHECK(m.refused(by(auditor, honest), at(4'100)) == "its signer has not committed to an audit");
  m.take(m.commitment_to(auditor, honest), at(4'200));
  CHECK(m.refused(by(auditor, honest), at(4'300)) == task + " is recheck");
  CHECK(m.refused(by(20, m.audit(20)), at(5'100)) == "its signer has not committed to an audit");
  Verdict other = honest;
  other.nonce = test::digest("another nonce");
  CHECK(m.refused(by(auditor, other), at(5'100)) == "is not the audit that was committed to");
  CHECK(m.refused(by(auditor, honest), at(6'001)) == task + " is challenge-window");
  m.take(by(auditor, honest), at(6'000));
  CHECK(m.refused(by(auditor, honest), at(6'000)) == "is already in the ledger");
  CHECK(m.refused(by(auditor, other), at(6'000)) == "its signer has shown their audit already");
}

TEST_CASE("an audit that says what the draw does not allow is refused, though it was committed to") {
  AuditMarket m;
  m.draw_auditor();
  const std::uint8_t auditor = m.auditor();
  Verdict audit = m.audit(auditor);
  std::string why;
  std::int64_t foreign = 0;
  const auto drawn = m.segments_drawn();
  while (std::find(drawn.begin(), drawn.end(), foreign) != drawn.end()) ++foreign;
  SECTION("denied is of a segment that was not drawn") {
    audit.denied = {foreign};
    why = "denied: segment " + std::to_string(foreign) + " is not drawn";
  }
  SECTION("so is the refutation") {
    audit = m.refuting_audit(auditor);
    audit.first_disagreement->index = foreign;
    why = "first_disagreement: segment " + std::to_string(foreign) + " is not drawn";
  }
  SECTION("another number of segments") {
    audit.replayed = audit.rows.count = 2;
    audit.witnesses.pop_back();
    why = "replayed: is 2, the policy draws 3";
  }
  SECTION("another proof's segments") {
    audit.segments = 11;
    why = "segments: is 11, the proof has 10";
  }
  SECTION("another round") {
    audit.beacon = test::digest("another round");
    why = "beacon: is not the task's";
  }
  SECTION("other work") {
    audit.work += 1;
    why = "work: does not match the number of replayed segments";
  }
  SECTION("other chances") {
    audit.miss_probability.one_segment = "0.5";
    why = "miss_probability: does not follow from the replayed segments";
  }
  SECTION("no witnesses") {
    audit.witnesses.clear();
    why = "witnesses: are missing: in this market verdicts are audited";
  }
  m.take(m.commitment_to(auditor, audit), at(4'900));
  CHECK(m.refused(by(auditor, audit), at(5'100)) == why);
  // There is no other that it can show.
  CHECK(m.settle(at(7'001)) == "accepted");
  CHECK(m.gain(auditor) == -AuditMarket::bond_of(auditor));
}

TEST_CASE("readers refuse audits whose fields contradict each other") {
  AuditMarket m;
  m.draw_auditor();
  const Verdict honest = m.audit(m.auditor());
  const auto problem = [&](const auto& change) {
    Verdict audit = honest;
    change(audit);
    const auto sealed = seal(audit, test::key(m.auditor()));
    return sealed.ok() ? std::string("accepted") : sealed.error().message;
  };
  CHECK(problem([](Verdict&) {}) == "accepted");
  CHECK(problem([](Verdict& v) {
          v.denied = {3, 3};
        }) == "predicate: denied: entry 1 is not an ascending segment number");
  CHECK(problem([](Verdict& v) {
          v.denied = {5, 3};
        }) == "predicate: denied: entry 1 is not an ascending segment number");
  CHECK(problem([](Verdict& v) { v.denied = {-1}; }) ==
        "predicate: denied: entry 0 is not an ascending segment number");
  CHECK(problem([](Verdict& v) { v.denied = {10}; }) == "predicate: denied: has segment 10 of 10");
  CHECK(problem([](Verdict& v) { v.draw = Draw::kPolicy; }) ==
        "predicate: audits: must be present if and only if the draw is \"audit\"");
  CHECK(problem([](Verdict& v) { v.beacon.reset(); }) ==
        "predicate: beacon: is required, since the draw is the policy's");
  CHECK(problem([](Verdict& v) { v.witnesses.pop_back(); }) == "predicate: witnesses: are 2 of 3 rows");
}

TEST_CASE("an acceptance states its witnesses where verdicts are audited, and nowhere else") {
  AuditMarket m;
  m.open();
  Verdict body = m.replayed(m.verifier());
  const std::vector<Digest> witnesses = body.witnesses;
  body.witnesses.clear();
  CHECK(m.refused(by(m.verifier(), body), at(3'500)) ==
        "witnesses: are missing: in this market verdicts are audited");
  test::RoundMarket without;
  without.draw({{10, test::kOfferBond}, {11, test::kOfferBond}});
  without.take(without.opening_of(), 2'500);
  Verdict other = without.accepted_by(without.drawn()[0]).body;
  other.witnesses = witnesses;
  CHECK(without.refused(by(without.drawn()[0], other), 3'000) == "witnesses: this market audits no verdicts");
  const auto verdict = without.accepted_by(without.drawn()[0]);
  without.take(any(verdict), 3'000);
  const VerdictCommitment hidden{without.run().task.id, without.run().proof.id, test::digest("c"),
                                 verdict.id};
  CHECK(without.refused(by(20, hidden), 3'100) == "this market audits no verdicts");
  Verdict audit = other;
  audit.draw = Draw::kAudit;
  audit.audits = verdict.id;
  CHECK(without.refused(by(20, audit), 3'100) == "this market audits no verdicts");
}

TEST_CASE("a row made of a stated witness opens a game only if all of it is what an acceptance says") {
  AuditMarket m;
  m.draw_auditor(true);
  const auto refused_row = [&](const auto& change) {
    Challenge challenge = m.witness_challenge();
    change(challenge);
    return m.refused(by(kStranger, challenge), at(5'100));
  };
  CHECK(refused_row([](Challenge& c) { c.row->row.witness = test::digest("invented"); }) != "accepted");
  CHECK(refused_row([](Challenge& c) {
          c.row->row.expected = c.row->row.recomputed = test::digest("invented");
        }) != "accepted");
  CHECK(refused_row([](Challenge& c) { c.row->index = 1; }) != "accepted");
  CHECK(refused_row([](Challenge& c) { c.row->index = 3; }) != "accepted");
  CHECK(refused_row([](Challenge& c) { c.row->row.index += 1; }) != "accepted");
  CHECK(refused_row([](Challenge& c) { c.row->path = {test::digest("path")}; }) != "accepted");
  CHECK(refused_row([](Challenge& c) { c.about = About::kSegment; }) != "accepted");
  CHECK(refused_row([](Challenge&) {}) == "accepted");
}

TEST_CASE("an audit can be challenged by the witness that it states, and its signer answers for it") {
  AuditMarket m;
  m.draw_auditor();
  Verdict lazy = m.audit(m.auditor());
  lazy.witnesses[0] = test::digest("a guess");
  m.take(m.commitment_to(m.auditor(), lazy), at(4'900));
  m.take(by(m.auditor(), lazy), at(5'001));
  Challenge challenge = m.witness_challenge();
  challenge.verdict = seal(lazy, test::key(m.auditor()))->id;
  challenge.row->row.witness = lazy.witnesses[0];
  CHECK(m.refused(by(m.auditor(), challenge), at(5'100)) ==
        "challenge: is signed by the signer of what it challenges");
  m.take(by(kStranger, challenge), at(5'100));
  CHECK(m.record().games.front().challenged() == Challenged::kAudit);
  CHECK(m.settle(at(6'502)) == "accepted");
  const std::int64_t bond = AuditMarket::bond_of(m.auditor());
  CHECK(m.gain(m.auditor()) == -bond);
  CHECK(m.gain(kStranger) == bond / 2 / 2);
  CHECK(m.gain(m.verifier()) == m.fee());
}

TEST_CASE("bonds near 2^53 are locked and paid like others") {
  AuditMarket m;
  const std::int64_t rest = kMaxInteger - m.market().total();
  m.take(by(kOperator, Deposit{test::key_id(10), rest, "all there is", m.ledger()}), at(0));
  m.draw({{10, rest}, {11, test::kOfferBond}}, test::kFrom);
  m.take(m.opening_of(), at(2'500));
  m.take(any(test::delivery(m.run())), at(2'500));
  REQUIRE(m.verifier() == 10);
  m.take(by(10, m.replayed(10)), at(3'500));
  m.take(by(kOperator, m.round_of(5)), at(4'000));
  REQUIRE(m.auditor() == 11);
  const Verdict honest = m.audit(11);
  m.take(m.commitment_to(11, honest), at(4'900));
  m.take(by(11, honest), at(5'001));
  CHECK(m.settle(at(6'002)) == "accepted");
  CHECK(m.gain(10) == rest + m.fee());
  CHECK(m.gain(11) == m.fee());
  // And in a settlement alone, beyond what a ledger can have.
  RecheckStake huge{"auditor", kMaxInteger, true, true, true, true, true};
  Stakes stakes;
  stakes.submitter = "submitter";
  stakes.solver = "solver";
  stakes.verifier = "verifier";
  stakes.verifier_bond = kMaxInteger;
  stakes.proved = stakes.drawn = true;
  stakes.earned = m.run().task.body.estimate;
  stakes.fee = stakes.earned.fee;
  stakes.audit_fee = stakes.earned.fee;
  stakes.rechecks.assign(65, huge);
  for (std::size_t i = 1; i < 65; ++i) {
    stakes.rechecks[i].who = "volunteer " + std::to_string(i);
    stakes.rechecks[i].drawn = false;
  }
  std::int64_t sum = 0;
  for (const Payout& payout : payouts(m.run().task.body, Reason::kRefuted, stakes)) sum += payout.amount;
  const Estimate& e = m.run().task.body.estimate;
  CHECK(sum == e.escrow + bonds_of(m.run().task.body).solver + kMaxInteger + 65 * kMaxInteger + e.fee);
}
