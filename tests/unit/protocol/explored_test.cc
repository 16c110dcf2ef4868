// All histories of small markets: whatever is said, and whenever, no rule of money is broken.
#include "explored.h"

#include <catch2/catch.hpp>
#include <variant>

using namespace dgx::test;

namespace {

Explored check(const SmallMarket& market) {
  Explored walked = explore(market);
  CAPTURE(walked.path, walked.problem);
  CHECK(walked.problem.empty());
  CHECK(walked.states > 50);
  return walked;
}

}  // namespace

TEST_CASE("nobody honest loses in any history of a small market in which solvers name their verifiers") {
  const Explored honest =
      check({MarketKind::kNamed, {kSolver, kVerifier, kFirstStranger}, false, 1, 0, Merging::kWhole});
  CHECK(honest.complete);
  CHECK(honest.ends.contains("accepted"));
  const Explored anybody = check({MarketKind::kNamed, {kVerifier}, false, 0, 0, Merging::kWhole});
  CHECK(anybody.complete);
  CHECK(anybody.ends.contains("no-proof"));
}

TEST_CASE("nobody honest loses in histories of small markets that draw, audit and force errors") {
  for (const MarketKind kind : {MarketKind::kDrawn, MarketKind::kAudited, MarketKind::kForced}) {
    check({kind, {kSolver, kWatcher}, false, 1, 25});
    check({kind, {kVerifier, kFirstStranger}, true, 1, 25});
    const Explored honest = check({kind, {kSolver, kVerifier, kWatcher}, false, 1, 25});
    CHECK(honest.ends.contains("accepted"));
  }
}

TEST_CASE("a walk that tells apart all that the ledger does comes to the same ends") {
  for (SmallMarket market : {SmallMarket{MarketKind::kNamed, {}, false, 0},
                             {MarketKind::kNamed, {}, true, 0},
                             {MarketKind::kNamed, {kVerifier}, true, 0},
                             {MarketKind::kDrawn, {kSolver, kVerifier, kWatcher}, false, 0}}) {
    const Explored walked = check(market);
    market.merging = Merging::kWhole;
    const Explored whole = check(market);
    CHECK(whole.states > 10 * walked.states);
    CHECK(whole.outcomes == walked.outcomes);
    CHECK(whole.standings == walked.standings);
  }
}

TEST_CASE("states with one future are followed by states with the same futures") {
  const SmallMarket named{MarketKind::kNamed, {}, true, 1, 0, Merging::kChecked};
  const SmallMarket drawn{MarketKind::kDrawn, {kVerifier}, true, 0, 0, Merging::kChecked};
  for (const SmallMarket& market : {named, drawn}) {
    const Explored walked = check(market);
    CHECK(walked.complete);
    CHECK(walked.ends.contains("convicted"));
  }
}

TEST_CASE("a planted fault is found on the way through all histories") {
  const Explored walked =
      explore({MarketKind::kDrawn, {kSolver, kVerifier, kWatcher}, false, 0, 25},
              [](const auto& body) { return std::holds_alternative<dgx::manifest::Opening>(body); });
  CHECK(walked.problem == "the sum is not conserved");
  REQUIRE_FALSE(walked.path.empty());
  CHECK(walked.path.back().starts_with("opening"));
}
