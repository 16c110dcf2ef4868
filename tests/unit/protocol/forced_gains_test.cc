// Gains from forced errors that the pages say nobody has, and what is left of those that they admit.
#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/manifest/fields.h"
#include "dgx/protocol/draw.h"
#include "forced_market.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::at;
using test::AuditMarket;
using test::by;
using test::ForcedMarket;
using test::kFrom;
using test::kJackpot;
using test::kOfferBond;
using test::kOperator;
using test::kSolver;
using test::kStranger;
using test::secret;

namespace {

Move interior_move(const ForcedMarket& m, const Digest& game, const Digest& interior) {
  return {m.run().task.id, game, 1, game, print_message(InteriorPost{interior})};
}

std::int64_t other_row(const ForcedMarket& m) {
  for (const std::int64_t index : m.segments_drawn()) {
    if (index != m.forced()) return index;
  }
  return -1;
}

/// A policy without audits in which a quarter of the acceptances is forced.
Policy silent_policy() {
  Policy out = test::forced_policy();
  out.audit_ppm = 0;
  out.forced_error_ppm = 250'000;
  out.jackpot = 1'000'000;
  out.jackpot_tax_ppm = 1'000'000;
  out.solver_bond = 20'000;
  return out;
}

/// A market in which each offer has a secret of its own, drawn at 2,000 and opened at 2,500.
struct OwnSecrets : ForcedMarket {
  std::vector<Digest> secrets{20};

  explicit OwnSecrets(int salt) : ForcedMarket(silent_policy()) {
    take(any(run().task), at(0));
    for (std::uint8_t who = 10; who < 14; ++who) {
      secrets[who] = test::digest("own " + std::to_string(salt) + " " + std::to_string(who));
      BeaconCommitment body = test::offer(run()).body;
      body.bond = kOfferBond;
      body.commitment = beacon_commitment(secrets[who]);
      take(by(who, body), at(0));
    }
    take(assign_of(kSolver), at(400));
    take(any(run().proof), at(1'300));
    take(by(kOperator, round_of(slot_of(at(1'300), *market().policy()))), at(2'000));
    take(opening_of(), at(2'500));
    take(any(test::delivery(run())), at(2'500));
  }
  [[nodiscard]] std::optional<std::int64_t> forced_of(std::uint8_t who) const {
    return forced_segment(run().task.body, run().segments(), record().round->source, secrets[who]);
  }
  /// The verdict of `who` at a time, as the rule wants it, a claim by an accomplice if it is forced, and the
  /// settlement.
  std::string play(std::uint8_t who, std::uint8_t accomplice, std::int64_t when) {
    Verdict body = replayed(who);
    const auto forced = forced_of(who);
    const auto all = segments_drawn();
    if (forced) {
      Digest& witness =
          body.witnesses[static_cast<std::size_t>(std::find(all.begin(), all.end(), *forced) - all.begin())];
      witness = false_witness(witness);
    }
    take(by(who, body), at(when));
    const Verdict claim = audit(accomplice);
    if (forced) take(commitment_to(accomplice, claim), at(when + 100));
    take(by(who, reveal_of(who, secrets[who])), at(when + 1'001));
    if (forced) take(by(accomplice, claim), at(when + 1'001));
    return settle(at(when + 2'002));
  }
};

}  // namespace

TEST_CASE("A1 silence for the sake of an accomplice whose error is forced does not pay") {
  for (int salt = 0; salt < 200; ++salt) {
    OwnSecrets silent(salt);
    const auto drawn = silent.drawn();
    const std::uint8_t first = drawn[0], second = drawn[1], accomplice = silent.others(1)[0];
    // All of this is known to a coalition of the two before the first has to say anything.
    if (silent.forced_of(first) || !silent.forced_of(second)) continue;
    OwnSecrets spoken(salt);
    CHECK(spoken.play(first, accomplice, 3'000) == "accepted");
    const auto all = [&](const OwnSecrets& m) { return m.gain(first) + m.gain(second) + m.gain(accomplice); };
    CHECK(silent.play(second, accomplice, 3'600) == "accepted");
    CAPTURE(silent.gain(first), silent.gain(second), silent.gain(accomplice), silent.tax());
    CHECK(all(silent) <= all(spoken));
    return;
  }
  FAIL("no such draw");
}

TEST_CASE("A2 an honest auditor loses nothing by a verifier who loses another row first, on purpose") {
  ForcedMarket m;
  m.forced_and_drawn(true);  // the witness that had to be false is true
  const std::uint8_t auditor = m.auditor();
  const Verdict audit = m.audit(auditor);
  REQUIRE(audit.denied.empty());  // the replay gives all witnesses
  m.audit_by_drawn(audit);
  // Verifier and accomplice, within a millisecond.
  m.reveal_in_time();
  m.take(by(kStranger, m.witness_challenge(other_row(m))), at(5'001));
  m.take(by(m.verifier(), interior_move(m, m.record().games.back().id(), test::digest("no state"))),
         at(5'001));
  REQUIRE(m.record().games.back().game.decision());
  // It comes too late, as any challenge of what has fallen; the bond does not depend on it.
  CHECK(m.refused(by(auditor, m.witness_challenge(m.forced())), at(5'002)).find("has already fallen") !=
        std::string::npos);
  const std::uint8_t verifier = m.verifier();
  CHECK(m.settle(at(8'000)) == "unverified");
  CAPTURE(m.gain(verifier), m.gain(kStranger));
  CHECK(m.gain(auditor) >= 0);
}

TEST_CASE("A3 who has bought a secret can rob the seller, whatever the seller does then") {
  ForcedMarket m;
  m.forced_and_drawn();
  const std::uint8_t robber = m.others(1)[0], verifier = m.verifier();
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(4'100));
  m.take(by(robber, m.reveal()), at(4'200));
  m.take(by(m.auditor(), m.audit(m.auditor())), at(5'001));
  // The seller's second key.
  m.take(by(kStranger, m.witness_challenge(other_row(m))), at(5'002));
  m.take(by(verifier, interior_move(m, m.record().games.back().id(), test::digest("no state"))), at(5'002));
  const std::uint8_t auditor = m.auditor();
  CHECK(m.settle(at(8'000)) == "unverified");
  CAPTURE(m.gain(verifier), m.gain(kStranger), m.gain(auditor));
  const std::int64_t bond = AuditMarket::bond_of(verifier);
  CHECK(m.gain(robber) == bond / 2 / 2);
  // A second finder's part, an eighth: behind the robber, whose quarter the seller has lost for good.
  CHECK(m.gain(kStranger) + m.gain(verifier) <= -(bond - bond / 8));
  // The auditor confirmed the row that the verifier loses on purpose, which nobody can tell from a lie.
  CHECK(m.gain(auditor) == 0);
}

TEST_CASE("A4 nobody convicts an honest verifier by a secret of their own invention") {
  ForcedMarket m;
  m.forced_and_drawn();
  m.audit_by_drawn(m.audit(m.auditor()));
  m.reveal_in_time();
  m.take(by(kStranger, m.witness_challenge(m.forced())), at(5'100));
  Dispute dispute = m.record().games.back().game.dispute();
  const Move answer = interior_move(m, dispute.challenge.id, interior_of(m, m.forced()));
  // As in a transcript for a referee who has no ledger.
  for (int salt = 0; salt < 100; ++salt) {
    Beacon lie = m.reveal_of(m.verifier(), test::digest("invented " + std::to_string(salt)));
    if (forced_segment(m.run().task.body, m.run().segments(), m.record().round->source, lie.secret) ==
        m.forced())
      continue;
    dispute.secret = *seal(lie, test::key(kStranger));
    break;
  }
  auto game = Game::open(dispute);
  if (!game.ok()) return;  // as it should be
  const auto move = *seal(answer, test::key(m.verifier()));
  REQUIRE(game->apply(move).ok());
  CHECK_FALSE((game->decision() && game->decision()->falls));
}

// The page admits that other volunteers can be left without a jackpot; the drawn auditor has a place of their
// own, and nobody has more by it.
TEST_CASE("A5 who takes the volunteers' places, or claims with many keys, has no more by it") {
  ForcedMarket m;
  m.forced_and_drawn();
  std::vector<std::uint8_t> own;
  for (std::uint8_t who = 70; own.size() < 64 && who >= test::kSubmitter; --who) {
    if (who != m.verifier() && who != m.auditor() && who != kStranger) own.push_back(who);
  }
  const bool claim = GENERATE(false, true);
  const std::size_t count = claim ? 12 : own.size();
  own.resize(count);
  std::vector<std::int64_t> before;
  for (const std::uint8_t who : own) {
    before.push_back(m.market().balances().at(test::key_id(who).hex()));
    m.take(m.commitment_to(who, claim ? m.audit(who) : m.confirmation(who)), at(4'010));
  }
  const std::string told = m.refused(m.commitment_to(kStranger, m.audit(kStranger)), at(4'100));
  CHECK(told == (claim ? "accepted" : "64 volunteers have committed already"));
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(4'200));
  for (const std::uint8_t who : own) m.take(by(who, claim ? m.audit(who) : m.confirmation(who)), at(5'001));
  if (claim) m.take(by(kStranger, m.audit(kStranger)), at(5'001));
  m.take(by(m.auditor(), m.audit(m.auditor())), at(5'001));
  m.reveal_in_time();
  const std::uint8_t auditor = m.auditor();
  CHECK(m.settle(at(8'000)) == "accepted");
  CHECK(m.gain(kStranger) == 0);
  CHECK(m.gain(auditor) == m.fee() + (claim ? 0 : kJackpot));
  for (std::size_t i = 0; i < own.size(); ++i)
    CHECK(m.market().balances().at(test::key_id(own[i]).hex()) == before[i]);
}

TEST_CASE(
    "A6 a verifier who saves an auditor who confirmed unseen loses half a bond, and neither has a fee") {
  for (const bool saved : {false, true}) {
    ForcedMarket m;
    m.forced_and_drawn();
    const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
    m.audit_by_drawn(m.confirmation(auditor));
    m.reveal_in_time();
    if (saved) {
      m.take(by(auditor, m.witness_challenge(m.forced())), at(5'002));
      m.take(by(verifier, interior_move(m, m.record().games.back().id(), test::digest("no state"))),
             at(5'002));
    }
    m.settle(at(8'000));
    if (saved) {
      CHECK(m.gain(verifier) == -ForcedMarket::bond_of(verifier));
      CHECK(m.gain(auditor) <= ForcedMarket::bond_of(verifier) / 2);
    } else {
      CHECK(m.gain(auditor) == -ForcedMarket::bond_of(auditor));
    }
  }
}

TEST_CASE("A7 the secret's times, to the millisecond") {
  const int which = GENERATE(0, 1, 2, 3, 4);
  ForcedMarket m;
  m.forced_and_drawn();
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(5'000));
  const std::uint8_t robber = m.others(1)[0];
  if (which == 0) CHECK(m.refused(by(robber, m.reveal()), at(5'000)) == "accepted");
  if (which == 1) CHECK(m.refused(by(robber, m.reveal()), at(5'001)).ends_with("not by the task's verifier"));
  if (which == 2) CHECK(m.refused(by(m.verifier(), m.reveal()), at(5'000)).ends_with("recheck"));
  if (which == 3) CHECK(m.refused(by(m.verifier(), m.reveal()), at(6'000)) == "accepted");
  if (which == 4) CHECK(m.refused(by(m.verifier(), m.reveal()), at(6'001)).ends_with("challenge-window"));
  CHECK(m.settle(at(8'001)) == (which == 3 ? "accepted" : "unverified"));
}

TEST_CASE("A8 jackpots do not take the fees of auditors who are not drawn yet") {
  Policy policy = test::forced_policy();
  policy.jackpot = 1'000'000;
  policy.jackpot_tax_ppm = 1'000'000;
  ForcedMarket m(policy);
  m.forced_and_drawn();
  m.audit_by_drawn(m.audit(m.auditor()));
  const std::int64_t pool = m.jackpot();
  m.reveal_in_time();
  UNSCOPED_INFO("pool " << pool << " after " << m.jackpot() << " fee " << m.fee() << " tax " << m.tax());
  CHECK(m.record().jackpot <= pool / 3);
}

// The fee alone is left where every guess is right: the page says so, and to choose a smaller rate.
TEST_CASE("A9 a row that is always forced can be denied unseen for the fee, but for no jackpot") {
  Policy policy = test::forced_policy();
  policy.sample_ppm = 1;
  ForcedMarket m(policy);
  m.forced_and_drawn();
  REQUIRE(m.segments_drawn().size() == 1);
  const std::uint8_t auditor = m.auditor();
  Verdict unseen = m.audit(auditor);
  std::fill(unseen.witnesses.begin(), unseen.witnesses.end(), test::digest("unseen"));
  unseen.denied = m.segments_drawn();
  m.audit_by_drawn(unseen);
  m.reveal_in_time();
  CHECK(m.settle(at(8'000)) == "accepted");
  CHECK(m.gain(auditor) == m.fee());
}

TEST_CASE("A10 an auditor has no fee for nothing once the secret was given away") {
  ForcedMarket m;
  m.forced_and_drawn();
  m.take(by(m.others(1)[0], m.reveal()), at(4'010));  // the verifier's second key
  const std::uint8_t auditor = m.auditor();
  Verdict unseen = m.audit(auditor);
  std::fill(unseen.witnesses.begin(), unseen.witnesses.end(), test::digest("unseen"));
  unseen.denied = {m.forced()};
  m.audit_by_drawn(unseen);
  CHECK(m.settle(at(8'000)) == "unverified");
  CHECK(m.gain(auditor) <= 0);
}

TEST_CASE("A11 a jackpot is fixed by the first claim, also where it is nothing") {
  Policy policy = test::forced_policy();
  policy.audit_ppm = 0;
  ForcedMarket m(policy, false);
  m.forced_verdict();
  const auto them = m.others(2);
  m.commit({{them[0], m.audit(them[0])}, {them[1], m.audit(them[1])}});
  m.take(by(m.verifier(), m.reveal()), at(4'501));
  m.take(by(them[0], m.audit(them[0])), at(4'501));
  CHECK(m.record().jackpot == 0);
  REQUIRE(m.jackpot() == 0);
}

TEST_CASE("A12 a seller with many second keys has half of the bond back, and the robber nothing") {
  ForcedMarket m;
  m.forced_and_drawn();
  const auto them = m.others(8);
  const std::uint8_t robber = them[7], verifier = m.verifier();
  m.take(by(robber, m.reveal()), at(4'200));
  m.take(m.commitment_to(m.auditor(), m.audit(m.auditor())), at(4'300));
  m.take(by(m.auditor(), m.audit(m.auditor())), at(5'001));
  for (std::size_t i = 0; i < 4; ++i) m.take(by(them[i], m.witness_challenge(other_row(m))), at(5'002));
  for (std::size_t i = 0; i < 4; ++i)
    m.take(by(verifier, interior_move(m, m.record().games[i].id(), test::digest("no state"))), at(5'002));
  CHECK(m.settle(at(9'000)) == "unverified");
  std::int64_t coalition = m.gain(verifier);
  for (std::size_t i = 0; i < 4; ++i) coalition += m.gain(them[i]);
  CAPTURE(m.gain(robber));
  // The robber has the first finder's quarter, all others together less than another.
  const std::int64_t bond = AuditMarket::bond_of(verifier);
  CHECK(coalition < -(bond - bond / 4));
  CHECK(m.gain(robber) == bond / 2 / 2);
}

TEST_CASE("A13 an honest auditor who wins about what they deny does not lose by what they confirm") {
  ForcedMarket m;
  m.open();
  Verdict body = m.replayed(m.verifier());  // the forced row is true, another is invented
  const auto all = m.segments_drawn();
  const std::size_t other = m.place() == 0 ? 1 : 0;
  body.witnesses[other] = test::digest("a guess");
  m.take(by(m.verifier(), body), at(3'500));
  m.draw();
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  const Verdict audit = m.audit(auditor);
  REQUIRE(audit.denied == std::vector{all[other]});
  m.audit_by_drawn(audit);
  m.reveal_in_time();
  m.take(by(auditor, m.witness_challenge(all[other])), at(5'100));
  m.take(by(verifier, interior_move(m, m.record().games.back().id(), test::digest("no state"))), at(5'101));
  // The verdict has fallen: another game about it is neither possible nor needed.
  CHECK(m.refused(by(auditor, m.witness_challenge(m.forced())), at(5'200)).find("has already fallen") !=
        std::string::npos);
  CHECK(m.settle(at(8'000)) == "unverified");
  CHECK(m.gain(auditor) >= m.fee());
}

TEST_CASE("A14 an auditor who confirmed unseen cannot be saved for less than half of a verifier's bond") {
  // Offers state bonds of their own, and may be above the policy's, with which the page counts.
  const auto play = [](std::uint8_t big, std::int64_t large, bool saved) -> std::optional<std::int64_t> {
    ForcedMarket m;
    m.take(any(m.run().task), at(0));
    for (std::uint8_t who = 10; who < 14; ++who)
      m.take(m.offer_of(who, who == big ? large : kOfferBond), at(0));
    m.take(m.assign_of(kSolver), at(400));
    m.take(any(m.run().proof), at(1'300));
    m.take(by(kOperator, m.round_of(slot_of(at(1'300), *m.market().policy()))), at(2'000));
    m.take(m.opening_of(), at(2'500));
    m.take(any(test::delivery(m.run())), at(2'500));
    const std::uint8_t verifier = m.verifier();
    Verdict body = m.replayed(verifier);
    body.witnesses[m.place()] = false_witness(body.witnesses[m.place()]);
    m.take(by(verifier, body), at(3'500));
    m.draw();
    const std::uint8_t auditor = m.auditor();
    if (auditor != big) return std::nullopt;
    m.audit_by_drawn(m.confirmation(auditor));
    m.reveal_in_time();
    if (saved) {
      m.take(by(auditor, m.witness_challenge(m.forced())), at(5'002));
      m.take(by(verifier, interior_move(m, m.record().games.back().id(), test::digest("no state"))),
             at(5'002));
    }
    m.settle(at(8'000));
    return m.gain(auditor) + m.gain(verifier);
  };
  for (std::uint8_t big = 10; big < 14; ++big) {
    for (const std::int64_t large : {2'000, 2'500, 3'000, 3'500}) {
      const auto lost = play(big, large, false);
      if (!lost) continue;
      CHECK(*lost < -kOfferBond);
      CHECK(*play(big, large, true) <= -kOfferBond / 2);
      return;
    }
  }
  FAIL("no such draw");
}
