// Secrets that are withheld, given away or wrong, and verdicts that are not what the secret says.
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
using test::ForcedMarket;
using test::kSolver;
using test::kStranger;
using test::secret;

namespace {

/// The verifier's first move in the last game about a witness: the state that it is of.
Move interior_move(const ForcedMarket& m, const Digest& interior) {
  const Digest& game = m.record().games.back().id();
  return {m.run().task.id, game, 1, game, print_message(InteriorPost{interior})};
}

}  // namespace

TEST_CASE("who has the secret before it is due takes a quarter of its owner's bond") {
  ForcedMarket m;
  m.forced_and_drawn();
  const std::uint8_t robber = m.others(1)[0], verifier = m.verifier();
  const Verdict audit = m.audit(m.auditor());
  const bool committed = GENERATE(true, false);
  if (committed) m.take(m.commitment_to(m.auditor(), audit), at(4'100));
  m.take(by(robber, m.reveal()), at(4'200));
  CHECK(m.refused(by(kStranger, m.reveal()), at(4'201)) == "the secret is already revealed");
  if (!committed) m.take(m.commitment_to(m.auditor(), audit), at(4'300));
  CHECK(m.state(at(5'001)) == "reveal");
  CHECK(m.refused(by(verifier, m.reveal()), at(5'001)) == "the secret is already revealed");
  m.take(by(m.auditor(), audit), at(5'001));
  CHECK(m.record().jackpot == 0);
  const std::uint8_t auditor = m.auditor();
  const std::int64_t pool = m.jackpot();
  CHECK(m.settle(at(6'002)) == "unverified");
  const std::int64_t bond = AuditMarket::bond_of(verifier);
  CHECK(m.gain(robber) == bond / 2 / 2);
  CHECK(m.gain(verifier) == -bond);
  // An auditor who commits later sees what to deny, and is not paid for it.
  const std::int64_t fee = committed ? m.fee() : 0;
  CHECK(m.gain(auditor) == fee);
  CHECK(m.gain(kSolver) == m.reward());
  CHECK(m.jackpot() == pool + m.tax() + bond - bond / 2 / 2 + m.fee() - fee);
}

TEST_CASE("a lazy verifier saves nothing by robbing themselves") {
  ForcedMarket m;
  m.open();
  Verdict lazy = m.replayed(m.verifier());
  std::fill(lazy.witnesses.begin(), lazy.witnesses.end(), test::digest("a guess"));
  m.take(by(m.verifier(), lazy), at(3'500));
  m.draw();
  const std::uint8_t robber = m.others(1)[0], verifier = m.verifier(), auditor = m.auditor();
  const Verdict audit = m.audit(auditor);
  REQUIRE(audit.denied.size() == 3);
  m.take(m.commitment_to(auditor, audit), at(4'100));
  m.take(by(robber, m.reveal()), at(4'200));
  m.take(by(auditor, audit), at(5'001));
  m.take(by(auditor, m.witness_challenge()), at(5'100));
  CHECK(m.settle(at(6'502)) == "unverified");
  const std::int64_t bond = AuditMarket::bond_of(verifier);
  // No more than an accomplice who had been the first to challenge would have.
  CHECK(m.gain(robber) == bond / 2 / 2);
  CHECK(m.gain(verifier) == -bond);
  CHECK(m.gain(auditor) == m.fee() + bond / 2 / 4);
}

TEST_CASE("a secret at the wrong time, by the wrong key, or of something else is refused") {
  ForcedMarket m;
  m.open();
  const std::string task = "task " + m.run().task.id.brief();
  CHECK(m.refused(by(m.verifier(), m.reveal()), at(3'000)) ==
        task + " has no acceptance whose secret could be revealed");
  CHECK(m.refused(by(kStranger, m.reveal()), at(3'000)) ==
        task + " has no acceptance whose secret could be revealed");
  Verdict body = m.replayed(m.verifier());
  body.witnesses[m.place()] = false_witness(body.witnesses[m.place()]);
  m.take(by(m.verifier(), body), at(3'500));
  m.draw();
  const auto before = m.market().balances();
  // Its owner cannot rob themselves under the same key by a mistake.
  CHECK(m.refused(by(m.verifier(), m.reveal()), at(4'100)) == task + " is recheck");
  const Digest wrong = test::digest("another secret");
  CHECK(m.refused(by(kStranger, m.reveal_of(m.verifier(), wrong)), at(4'100)) ==
        "secret: is not the one that was committed to");
  CHECK(m.refused(by(kStranger, m.reveal_of(m.auditor(), secret())), at(4'100)) ==
        "commitment: is not the offer of whoever gave the verdict");
  Beacon other = m.reveal();
  other.proof = test::digest("another proof");
  other.value = beacon_value(other.secret, other.proof);
  CHECK(m.refused(by(kStranger, other), at(4'100)).starts_with("is about proof "));
  CHECK(m.refused(by(kStranger, m.reveal()), at(5'001)).ends_with("not by the task's verifier"));
  CHECK(m.market().balances() == before);
  m.reveal_in_time();
  CHECK(m.refused(by(m.verifier(), m.reveal()), at(5'002)) == "is already in the ledger");
  CHECK(m.refused(by(kStranger, m.reveal()), at(5'002)) == "the secret is already revealed");
}

TEST_CASE("a secret in a market that forces no errors is refused, and after a refutation") {
  SECTION("no forced errors") {
    AuditMarket m;
    m.draw_auditor();
    const Digest value = secret();
    const Beacon beacon{m.run().task.id, test::digest("offer"), m.run().proof.id, value,
                        beacon_value(value, m.run().proof.id)};
    CHECK(m.refused(by(m.verifier(), beacon), at(5'001)) ==
          "this market draws by rounds: nobody reveals a beacon");
  }
  SECTION("a refutation is never forced") {
    ForcedMarket m;
    m.open();
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
    CHECK(m.refused(by(m.verifier(), m.reveal()), at(3'600)).ends_with("whose secret could be revealed"));
    CHECK(m.settle(at(4'501)) == "refuted");
    CHECK(m.gain(m.verifier()) > 0);
  }
}

TEST_CASE("a verifier who withholds the secret loses the bond, and nobody else anything") {
  ForcedMarket m;
  m.forced_and_drawn();
  const auto them = m.others(2);
  Verdict all = m.audit(them[1]);
  all.denied = m.segments_drawn();
  const std::vector<std::pair<std::uint8_t, Verdict>> audits{
      {m.auditor(), m.audit(m.auditor())}, {them[0], m.confirmation(them[0])}, {them[1], all}};
  m.commit(audits);
  m.show(audits);
  CHECK(m.state(at(6'000)) == "reveal");
  CHECK(m.state(at(6'001)) == "challenge-window");
  CHECK(m.refused(by(m.verifier(), m.reveal()), at(6'001)).ends_with("is challenge-window"));
  CHECK(m.refused(by(kStranger, m.witness_challenge()), at(6'001)) ==
        "the verdict counts as none: its verifier has not revealed the secret");
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  const std::int64_t pool = m.jackpot();
  CHECK(m.settle(at(7'001)) == "unverified");
  CHECK(m.gain(verifier) == -AuditMarket::bond_of(verifier));
  CHECK(m.gain(auditor) == m.fee());
  for (const std::uint8_t who : them) CHECK(m.gain(who) == 0);
  CHECK(m.gain(kSolver) == m.reward());
  CHECK(m.jackpot() == pool + m.tax() + AuditMarket::bond_of(verifier));
}

TEST_CASE("a verifier who does not misstate what had to be false loses to the auditor who confirmed it") {
  ForcedMarket m;
  m.forced_and_drawn(true);
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  const Verdict audit = m.audit(auditor);
  REQUIRE(audit.denied.empty());
  m.take(m.commitment_to(auditor, audit), at(4'900));
  m.take(by(auditor, audit), at(5'001));
  m.reveal_in_time();
  SECTION("who challenges the row") {
    m.take(by(auditor, m.witness_challenge(m.forced())), at(5'100));
    // The game is one of those whom a false statement hurts.
    CHECK_FALSE(m.record().games.front().counted);
    m.take(by(verifier, interior_move(m, interior_of(m, m.forced()))), at(5'200));
    REQUIRE(m.record().games.front().game.decision());
    CHECK(m.record().games.front().game.decision()->falls);
    CHECK(m.settle(at(6'502)) == "unverified");
    const std::int64_t bond = AuditMarket::bond_of(verifier);
    CHECK(m.gain(verifier) == -bond);
    CHECK(m.gain(auditor) == bond / 2 / 2);
  }
  SECTION("and takes the auditor's bond if nobody does") {
    CHECK(m.settle(at(6'002)) == "accepted");
    CHECK(m.gain(auditor) == -AuditMarket::bond_of(auditor));
  }
}

TEST_CASE("an auditor who confirmed a forced witness unseen cannot win about it") {
  ForcedMarket m;
  m.forced_and_drawn();
  const std::uint8_t auditor = m.auditor(), verifier = m.verifier();
  m.audit_by_drawn(m.confirmation(auditor));
  m.reveal_in_time();
  m.take(by(auditor, m.witness_challenge(m.forced())), at(5'100));
  const Digest interior = interior_of(m, m.forced());
  CHECK(witness_of(test::key_id(verifier), interior) != m.record().games.back().game.state().row->witness);
  m.take(by(verifier, interior_move(m, interior)), at(5'200));
  // The state is the right one, by the false tag: the auditor has nothing to say.
  CHECK_FALSE(m.record().games.back().game.decision());
  const std::int64_t bond = m.record().games.back().bond;
  CHECK(m.settle(at(7'002)) == "accepted");
  CHECK(m.gain(auditor) == -AuditMarket::bond_of(auditor) - bond);
  CHECK(m.gain(verifier) == m.fee() + bond / 2);
}

TEST_CASE("in a game, a row that is not forced must have the true witness") {
  ForcedMarket m;
  m.open();
  Verdict body = m.replayed(m.verifier());
  // All of them are misstated.
  for (Digest& witness : body.witnesses) witness = false_witness(witness);
  m.take(by(m.verifier(), body), at(3'500));
  m.draw();
  const std::uint8_t auditor = m.auditor();
  const Verdict audit = m.audit(auditor);
  REQUIRE(audit.denied == m.segments_drawn());
  m.audit_by_drawn(audit);
  m.reveal_in_time();
  std::int64_t other = -1;
  for (const std::int64_t index : m.segments_drawn()) {
    if (index != m.forced()) other = index;
  }
  m.take(by(auditor, m.witness_challenge(other)), at(5'100));
  m.take(by(m.verifier(), interior_move(m, interior_of(m, other))), at(5'200));
  REQUIRE(m.record().games.back().game.decision());
  CHECK(m.record().games.back().game.decision()->falls);
  CHECK(m.settle(at(6'502)) == "unverified");
  CHECK(m.gain(auditor) > m.fee());
}

TEST_CASE("the game of a witness needs the secret exactly where it decides") {
  ForcedMarket m;
  m.forced_and_drawn();
  m.audit_by_drawn(m.audit(m.auditor()));
  m.reveal_in_time();
  m.take(by(kStranger, m.witness_challenge()), at(5'100));
  Dispute dispute = m.record().games.back().game.dispute();
  REQUIRE(dispute.secret);
  SECTION("it is missing") {
    dispute.secret.reset();
    CHECK(Game::open(dispute).error().message == "the verifier's secret is missing");
  }
  SECTION("it is of another proof") {
    dispute.secret->body.proof = test::digest("another");
    CHECK(Game::open(dispute).error().message == "secret: belongs to another proof");
  }
  SECTION("the offer is missing") {
    dispute.offer.reset();
    CHECK(Game::open(dispute).error().message == "the verifier's offer is missing");
  }
  SECTION("the offer is somebody else's, with a secret of their own") {
    BeaconCommitment body = dispute.offer->body;
    body.commitment = beacon_commitment(test::digest("invented"));
    dispute.offer = *seal(body, test::key(kStranger));
    CHECK(Game::open(dispute).error().message == "offer: is not signed by whoever gave the verdict");
  }
  SECTION("the offer is for another task") {
    BeaconCommitment body = dispute.offer->body;
    body.task = test::digest("another");
    dispute.offer = *seal(body, test::key(m.verifier()));
    CHECK(Game::open(dispute).error().message == "offer: belongs to another task");
  }
  SECTION("it is another offer of the same verifier's") {
    BeaconCommitment body = dispute.offer->body;
    body.bond = *body.bond + 1;
    dispute.offer = *seal(body, test::key(m.verifier()));
    CHECK(Game::open(dispute).error().message == "secret: is not the one of the offer");
  }
  SECTION("it is another secret") {
    Beacon body = dispute.secret->body;
    body.secret = test::digest("invented");
    body.value = beacon_value(body.secret, body.proof);
    dispute.secret = *seal(body, test::key(kStranger));
    CHECK(Game::open(dispute).error().message == "secret: is not the one of the offer");
  }
  SECTION("it is not needed") {
    dispute.task.body.policy.forced_error_ppm = 0;
    CHECK(Game::open(dispute).error().message == "has a secret that is not needed");
  }
}
