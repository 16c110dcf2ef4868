// The gains of auditors and volunteers from what they say, and what lies, silence and laziness cost them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "audit_market.h"
#include "dgx/manifest/fields.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/verify.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::at;
using test::AuditMarket;
using test::by;
using test::kOperator;
using test::kStranger;

namespace {

constexpr std::int64_t kVolunteerBond = 301;  // the policy's challenger_bond

/// A segment that was not drawn.
std::int64_t foreign_segment(const AuditMarket& m) {
  const auto drawn = m.segments_drawn();
  std::int64_t out = 0;
  while (std::find(drawn.begin(), drawn.end(), out) != drawn.end()) ++out;
  return out;
}

/// An acceptance of the whole draw of a proof whose last segment is one step, with invented witnesses and a
/// zero for that step.
Verdict of_diverged(const AuditMarket& m) {
  const Task& task = m.run().task.body;
  const Segments segments = m.run().segments();
  const auto drawn = m.segments_drawn();
  Verdict out;
  out.task = m.run().task.id;
  out.proof = m.run().proof.id;
  out.beacon = m.record().round->source.id;
  out.draw = Draw::kPolicy;
  out.outcome = Outcome::kAccepted;
  out.segments = segments.count();
  out.replayed = std::ssize(drawn);
  out.rows = {test::digest("rows"), out.replayed};
  out.work = *replay_work(task, segments, drawn);
  out.miss_probability = miss_probabilities(segments, drawn);
  out.nonce = test::digest("nonce");
  out.witnesses.assign(drawn.size(), test::digest("a guess"));
  out.witnesses.back() = Digest{};
  return out;
}

Verdict garbage(const AuditMarket& m, std::uint8_t who) {
  Verdict out = m.audit(who);
  std::fill(out.witnesses.begin(), out.witnesses.end(), test::digest("garbage"));
  return out;
}

/// Volunteers who have shown audits, at 5,001.
void volunteer(AuditMarket& m, const std::vector<std::uint8_t>& them,
               const std::function<Verdict(std::uint8_t)>& audit) {
  for (const std::uint8_t who : them) m.take(m.commitment_to(who, audit(who)), at(4'100));
  for (const std::uint8_t who : them) m.take(by(who, audit(who)), at(5'001));
}

/// A challenge of the first witness that an audit states.
Challenge challenge_of_audit(const AuditMarket& m, const Verdict& audit, std::uint8_t who) {
  Challenge out = m.witness_challenge();
  out.verdict = seal(audit, test::key(who))->id;
  out.row->row.witness = audit.witnesses.front();
  return out;
}

}  // namespace

TEST_CASE("a witness of a single step must be zero, and cannot be denied") {
  AuditMarket m(test::audit_policy(), true, true);
  m.open();
  REQUIRE(m.segments_drawn().back() == 2);
  REQUIRE(m.run().segments()[2].length() == 1);
  const Verdict honest = of_diverged(m);
  Verdict lie = honest;
  lie.witnesses.back() = test::digest("a lie");
  const std::string why = "witnesses: that of segment 2, which has one step, must be zero";
  CHECK(m.refused(by(m.verifier(), lie), at(3'500)) == why);
  m.take(by(m.verifier(), honest), at(3'500));
  m.take(by(kOperator, m.round_of(5)), at(4'000));
  const auto audit_as = [&](Verdict body) {
    body.draw = Draw::kAudit;
    body.audits = m.record().verdict->id;
    return body;
  };
  const std::uint8_t other = m.others(1)[0];
  const Verdict audit = audit_as(lie);
  Verdict denial = audit_as(honest);
  denial.denied = {2};
  m.take(m.commitment_to(m.auditor(), audit), at(4'900));
  m.take(m.commitment_to(other, denial), at(4'900));
  CHECK(m.refused(by(m.auditor(), audit), at(5'001)) == why);
  CHECK(m.refused(by(other, denial), at(5'001)) == "denied: segment 2 has one step, and so no witness");
}

TEST_CASE("an auditor who refutes after a challenge that won takes nobody's bond") {
  AuditMarket m;
  m.draw_auditor();
  m.take(by(kStranger, test::challenge_of(m.run(), foreign_segment(m))), at(4'050));
  Verdict lie = m.refuting_audit(m.auditor());
  REQUIRE(lie.denied.empty());
  m.audit_by_drawn(lie);  // the solver, whose proof fell at 4,450, has no reason to answer
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  CHECK(m.settle(at(8'000)) == "convicted");
  CHECK(m.gain(verifier) == 0);
  CHECK(m.gain(auditor) == 0);
}

TEST_CASE("an auditor who confirms what falls has no fee, and keeps the bond") {
  AuditMarket m;
  m.draw_auditor(true);
  Verdict lazy = m.audit(m.auditor());
  lazy.denied.clear();
  std::fill(lazy.witnesses.begin(), lazy.witnesses.end(), test::digest("unseen"));
  const std::uint8_t volunteer = m.others(1)[0], auditor = m.auditor();
  m.take(m.commitment_to(volunteer, m.audit(volunteer)), at(4'800));
  m.audit_by_drawn(lazy);
  m.take(by(volunteer, m.audit(volunteer)), at(5'002));
  m.take(by(volunteer, m.witness_challenge()), at(5'010));
  CHECK(m.settle(at(8'000)) == "unverified");
  CHECK(m.gain(auditor) == 0);
  CHECK(m.gain(volunteer) == AuditMarket::bond_of(m.verifier()) / 2 / 2);
}

TEST_CASE("a proof that falls costs an auditor the fee only where they looked") {
  AuditMarket m;
  m.draw_auditor();
  const std::uint8_t auditor = m.auditor();
  const bool inside = GENERATE(false, true);
  m.audit_by_drawn(m.audit(auditor));
  const std::int64_t segment = inside ? m.segments_drawn().front() : foreign_segment(m);
  m.take(by(kStranger, test::challenge_of(m.run(), segment)), at(5'010));
  CHECK(m.settle(at(8'000)) == "convicted");
  CHECK(m.gain(auditor) == (inside ? 0 : m.fee()));
}

TEST_CASE("a denial has its fee for the segment that it denies, and its bond if the verdict falls") {
  AuditMarket m;
  m.draw_auditor(true);
  const std::uint8_t auditor = m.auditor();
  Verdict denial = m.audit(auditor);
  const bool same = GENERATE(true, false);
  if (!same) denial.denied = {m.segments_drawn()[1]};
  m.audit_by_drawn(denial);
  m.take(by(kStranger, m.witness_challenge()), at(5'010));
  CHECK(m.settle(at(8'000)) == "unverified");
  CHECK(m.gain(auditor) == (same ? m.fee() : 0));
}

TEST_CASE("a volunteer who refutes a segment loses no bond by a denial of it") {
  AuditMarket m;
  m.draw_auditor(true);
  const std::uint8_t volunteer = m.others(1)[0];
  const Verdict refutation = m.refuting_audit(volunteer);
  CHECK(refutation.denied.empty());
  m.take(m.commitment_to(volunteer, refutation), at(4'800));
  m.audit_by_drawn(m.audit(m.auditor()));
  m.take(by(volunteer, refutation), at(5'002));
  m.take(by(volunteer, test::challenge_of(m.run(), m.segments_drawn().front())), at(5'010));
  CHECK(m.settle(at(8'000)) == "convicted");
  CHECK(m.gain(volunteer) > 0);
}

TEST_CASE("finders come in the order of their commitments, the auditor among them") {
  AuditMarket m;
  m.draw_auditor(true);
  const std::uint8_t volunteer = m.others(1)[0], auditor = m.auditor();
  m.take(m.commitment_to(volunteer, m.audit(volunteer)), at(4'100));
  m.take(m.commitment_to(auditor, m.audit(auditor)), at(4'900));
  m.take(by(volunteer, m.audit(volunteer)), at(5'001));
  m.take(by(auditor, m.audit(auditor)), at(5'001));
  m.take(by(auditor, m.witness_challenge()), at(5'010));
  m.take(by(volunteer, m.witness_challenge()), at(5'020));
  CHECK(m.settle(at(9'000)) == "unverified");
  const std::int64_t found = AuditMarket::bond_of(m.verifier()) / 2;
  CHECK(m.gain(volunteer) == found / 2);
  CHECK(m.gain(auditor) == m.fee() + found / 4);
}

TEST_CASE("volunteers open one game in all at a challenger's bond, and the next ones double") {
  AuditMarket m;
  m.draw_auditor();
  const auto them = m.others(8);
  const bool objects = GENERATE(false, true);
  volunteer(m, them, [&](std::uint8_t who) { return objects ? m.refuting_audit(who) : garbage(m, who); });
  std::int64_t total = 0;
  for (const std::uint8_t who : them) {
    m.take(by(who, test::challenge_of(m.run(), 0)), at(5'010));
    total += m.record().games.back().bond;
  }
  // The first costs one bond whether it counts or not: 301 (1 + 1 + 2 + … + 64) or 301 (1 + 2 + … + 128).
  CHECK(total == 301 * (objects ? 128 : 255));
}

TEST_CASE("what volunteers' audits come to holds up no settlement") {
  AuditMarket m;
  m.draw_auditor();
  const auto them = m.others(5);
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(4'050));
  volunteer(m, them, [&](std::uint8_t who) { return garbage(m, who); });
  m.take(by(m.auditor(), m.audit(m.auditor())), at(5'001));
  // The first falls at 5,500, the last within the window.
  for (std::size_t i = 0; i < them.size(); ++i) {
    const auto when = at(5'100 + 100 * static_cast<std::int64_t>(i));
    m.take(by(kStranger, challenge_of_audit(m, garbage(m, them[i]), them[i])), when);
  }
  CHECK(m.state(at(6'001)) == "challenge-window");
  CHECK(m.settle(at(6'002)) == "accepted");
  for (const std::uint8_t who : them) CHECK(m.gain(who) == -kVolunteerBond);
}

TEST_CASE("a confirming auditor's fall begins no window, a refuting one's does") {
  AuditMarket m;
  m.draw_auditor();
  const std::uint8_t auditor = m.auditor();
  const bool refutes = GENERATE(false, true);
  const Verdict lie = refutes ? m.refuting_audit(auditor) : garbage(m, auditor);
  m.audit_by_drawn(lie);
  Challenge challenge = test::challenge_of(m.run(), m.segments_drawn().front());
  if (refutes) {
    challenge.verdict = seal(lie, test::key(auditor))->id;
    challenge.row = OpenedRow{0, {}, *lie.first_disagreement};
  } else {
    challenge = challenge_of_audit(m, lie, auditor);
  }
  m.take(by(m.verifier(), challenge), at(5'500));  // falls at 5,900
  CHECK(m.state(at(6'002)) == (refutes ? "challenge-window" : "due"));
  CHECK(m.state(at(6'901)) == "due");
}

TEST_CASE("room is kept for the games that honest parties of a re-check have to win") {
  AuditMarket m;
  m.draw_auditor(true);
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  const auto them = m.others(3);
  const auto reserve_of = [&](std::uint8_t who, const Challenge& body) {
    return m.market().reserve_of(by(who, body));
  };
  const std::size_t before = m.market().reserved_bytes();
  const auto commitment = m.commitment_to(them[0], m.audit(them[0]));
  const auto room = m.market().reserve_of(commitment);
  REQUIRE(room);
  m.take(commitment, at(4'100));
  CHECK(m.market().reserved_bytes() == before + *room);
  m.take(m.commitment_to(them[1], m.refuting_audit(them[1])), at(4'100));
  Verdict confirms = garbage(m, them[2]);
  confirms.denied.clear();
  m.take(m.commitment_to(them[2], confirms), at(4'100));
  m.audit_by_drawn(m.refuting_audit(auditor));
  m.take(by(them[0], m.audit(them[0])), at(5'002));
  m.take(by(them[1], m.refuting_audit(them[1])), at(5'002));
  const std::size_t held = m.market().reserved_bytes();
  m.take(by(them[2], confirms), at(5'002));
  CHECK(m.market().reserved_bytes() < held);  // who confirms has no game to win
  // Those who have objected.
  CHECK_FALSE(reserve_of(them[0], m.witness_challenge()));
  CHECK_FALSE(reserve_of(them[1], test::challenge_of(m.run(), 0)));
  CHECK(reserve_of(them[2], m.witness_challenge()));
  // Solver and verifier against the auditor's refutation, whatever they have played about volunteers' audits.
  for (const std::uint8_t who : {test::kSolver, verifier})
    m.take(by(who, challenge_of_audit(m, confirms, them[2])), at(5'010));
  Challenge of_refutation = test::challenge_of(m.run(), m.segments_drawn().front());
  const Verdict lie = m.refuting_audit(auditor);
  of_refutation.verdict = seal(lie, test::key(auditor))->id;
  of_refutation.row = OpenedRow{0, {}, *lie.first_disagreement};
  for (const std::uint8_t who : {test::kSolver, verifier}) {
    CHECK_FALSE(reserve_of(who, of_refutation));
    m.take(by(who, of_refutation), at(5'020));
    CHECK(reserve_of(who, of_refutation));
  }
}

TEST_CASE("audits pay out no more than the tax brings in, whatever the price of a task") {
  Policy policy = test::audit_policy();
  policy.jackpot_tax_ppm = GENERATE(20'000, 0);
  AuditMarket m(policy);
  m.draw_auditor();
  const std::int64_t tax = m.run().task.body.estimate.tax;
  REQUIRE(tax < m.fee());
  CHECK(m.record().audit->fee == tax);  // audit_ppm is a million
  m.audit_by_drawn(m.audit(m.auditor()));
  const std::uint8_t auditor = m.auditor();
  CHECK(m.settle(at(6'002)) == "accepted");
  CHECK(m.gain(auditor) == tax);
  Estimate earned;
  earned.fee = 100;
  earned.tax = 4;
  policy.audit_ppm = 50'000;
  CHECK(audit_fee(earned, policy) == 80);
  policy.audit_ppm = 1;
  earned.tax = kMaxInteger;
  CHECK(audit_fee(earned, policy) == 100);
}

TEST_CASE("offers from which nobody can be drawn any more unlock with the next entry") {
  AuditMarket m;
  const auto locked = [&] {
    std::size_t out = 0;
    for (std::uint8_t who = 10; who < 14; ++who) out += m.gain(who) < 0 ? 1 : 0;
    return out;
  };
  SECTION("all three were silent") {
    m.open();
    CHECK(m.state(at(5'500)) == "opened");
    m.deposit(at(5'500));
    CHECK(locked() == 4);
    m.deposit(at(5'501));
    CHECK(locked() == 3);
  }
  SECTION("the round of the verdict did not come") {
    m.give_verdict();
    m.deposit(at(4'500));
    CHECK(locked() == 4);
    m.deposit(at(4'501));
    CHECK(locked() == 1);
  }
  CHECK(m.settle(at(8'000)) != "due");
}
