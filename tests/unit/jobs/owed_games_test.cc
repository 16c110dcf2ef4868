// Words of dgx-verify respond about the games that a verifier and an auditor owe.
#include "verify/owed_games.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "audit_market.h"
#include "dgx/core/time_text.h"

using namespace dgx;
using namespace dgx::manifest;
using test::at;
using test::AuditMarket;
using test::by;
using test::key_id;
using test::kStranger;

namespace {

std::string verifiers(const AuditMarket& m) {
  return jobs::owed_by_verifier(m.record(), key_id(m.verifier()), m.market().clock());
}
std::string auditors(const AuditMarket& m) {
  return jobs::owed_by_auditor(m.record(), key_id(m.auditor()), m.market().clock());
}

/// A challenge of the auditor's refutation, by the row that it gives.
Challenge of_refutation(const AuditMarket& m, const Verdict& lie) {
  Challenge out = test::challenge_of(m.run(), m.segments_drawn().front());
  out.verdict = seal(lie, test::key(m.auditor()))->id;
  out.row = OpenedRow{0, {}, *lie.first_disagreement};
  return out;
}

/// The words about a refutation while it stands.
std::string refuted(const Digest& refutation, std::int64_t until) {
  return fmt::format(
      "somebody, such as you, to challenge the auditor's refutation {}, by {}: while it stands this verdict "
      "has fallen, and your bond is lost",
      refutation.brief(), utc_text(until));
}

}  // namespace

TEST_CASE("a verifier whose verdict the auditor refutes is told until when a challenge saves the bond") {
  AuditMarket m;
  m.give_verdict();
  CHECK(verifiers(m).empty());
  m.take(by(test::kOperator, m.round_of(5)), at(4'000));
  const Verdict lie = m.refuting_audit(m.auditor());
  m.take(m.commitment_to(m.auditor(), lie), at(4'900));
  CHECK(verifiers(m).empty());
  m.take(by(m.auditor(), lie), at(5'001));
  REQUIRE(m.state(at(5'001)) == "challenge-window");
  const Digest id = seal(lie, test::key(m.auditor()))->id;
  CHECK(verifiers(m) == refuted(id, at(6'001)));
  SECTION("in the last millisecond, and not after it") {
    m.deposit(at(6'001));
    CHECK(verifiers(m) == refuted(id, at(6'001)));
    m.deposit(at(6'002));
    CHECK(verifiers(m).empty());
  }
  SECTION("not once the verifier has challenged it: then the auditor owes a move") {
    m.take(by(m.verifier(), of_refutation(m, lie)), at(5'500));
    CHECK(verifiers(m).empty());
    const Digest& game = m.record().games.back().id();
    CHECK(auditors(m) == fmt::format("your move in game {}, by {}", game.brief(), utc_text(at(5'900))));
    m.deposit(at(5'901));
    CHECK(auditors(m).empty());
  }
  SECTION("still while somebody else's game is open, who may lose it, until the refutation has fallen") {
    m.take(by(kStranger, of_refutation(m, lie)), at(5'500));
    CHECK(verifiers(m) == refuted(id, at(6'001)));
    m.deposit(at(5'901));
    CHECK(verifiers(m).empty());
  }
}

TEST_CASE(
    "a verifier whose verdict the auditor confirms or denies owes nothing until somebody challenges it") {
  AuditMarket m;
  const bool lazy = GENERATE(false, true);
  m.draw_auditor(lazy);
  m.audit_by_drawn(m.audit(m.auditor()));
  CHECK(verifiers(m).empty());
  if (!lazy) {
    CHECK(auditors(m).empty());
    return;
  }
  CHECK(auditors(m) ==
        fmt::format("you to challenge the verdict about segment {}, with dgx-bisect open --against, by {}: "
                    "your bond is lost unless it falls",
                    m.segments_drawn().front(), utc_text(at(6'001))));
  m.take(by(m.auditor(), m.witness_challenge()), at(5'100));
  CHECK(auditors(m).empty());
  CHECK(verifiers(m) == fmt::format("your move in game {}, by {}", m.record().games.back().id().brief(),
                                    utc_text(at(5'500))));
}
