#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "histories.h"
#include "shrink.h"

TEST_CASE(
    "nobody honest loses in drawn histories of markets, and nobody dishonest is paid for a wrong proof") {
  const auto played = dgx::test::play_histories(1'500, 2);
  INFO(played.problem);
  CHECK(played.problem.empty());
  CHECK(played.worst_challenger >= 0);
  CHECK(played.games > 100);
  for (const char* reason :
       {"accepted", "convicted", "overturned", "unverified", "no-proof", "no-assignment"}) {
    INFO(reason);
    CHECK(played.ends.contains(reason));
  }
}

TEST_CASE("nobody honest loses in drawn histories of markets that draw verifiers") {
  const auto played = dgx::test::play_histories(1'500, 3, dgx::test::MarketKind::kDrawn);
  INFO(played.problem);
  CHECK(played.problem.empty());
  CHECK(played.worst_challenger >= 0);
  CHECK(played.games > 100);
  CHECK(played.silent > 50);
  for (const char* reason :
       {"accepted", "convicted", "overturned", "unverified", "no-proof", "no-assignment", "refuted"}) {
    INFO(reason);
    CHECK(played.ends.contains(reason));
  }
  for (const char* state :
       {"proof-committed", "awaiting-opening", "drawn", "opened", "challenge-window", "arbitration"}) {
    INFO(state);
    CHECK(played.states.contains(state));
  }
}

TEST_CASE("nobody honest loses in drawn histories of markets that audit verdicts") {
  const auto played = dgx::test::play_histories(1'500, 4, dgx::test::MarketKind::kAudited);
  INFO(played.problem);
  CHECK(played.problem.empty());
  CHECK(played.worst_challenger >= 0);
  CHECK(played.audited > 100);
  CHECK(played.denied > 50);
  for (const char* reason :
       {"accepted", "convicted", "overturned", "unverified", "no-proof", "no-assignment", "refuted"}) {
    INFO(reason);
    CHECK(played.ends.contains(reason));
  }
  for (const char* state : {"recheck", "reveal", "challenge-window", "arbitration"}) {
    INFO(state);
    CHECK(played.states.contains(state));
  }
}

TEST_CASE("a planted fault is found in drawn histories, and shrunk to at most ten statements") {
  using dgx::manifest::Body;
  using dgx::test::MarketKind;
  const auto offers = [](const Body& body) {
    return std::holds_alternative<dgx::manifest::BeaconCommitment>(body);
  };
  for (const MarketKind kind : {MarketKind::kNamed, MarketKind::kDrawn}) {
    // A unit is lost with an offer: the policy, the deposits of submitter and verifier, the task, the offer.
    const auto played = dgx::test::play_histories(100, 5, kind, offers);
    CHECK(played.problem.find("the sum is not conserved") != std::string::npos);
    CHECK(played.shrunk.size() == 5);
    CHECK(played.shrunk.back().starts_with("beacon-commitment"));
  }
}

TEST_CASE("a list is shrunk until nothing can be left out") {
  std::vector<int> list(1'000);
  for (int i = 0; i < 1'000; ++i) list[static_cast<std::size_t>(i)] = i;
  const auto has = [](const std::vector<int>& some, int number) {
    return std::find(some.begin(), some.end(), number) != some.end();
  };
  const auto left = dgx::test::shrink(
      list, [&](const std::vector<int>& some) { return has(some, 7) && has(some, 500) && has(some, 999); });
  CHECK(left == std::vector<int>{7, 500, 999});
}

TEST_CASE("nobody honest loses in drawn histories of markets that force errors") {
  const auto played = dgx::test::play_histories(1'500, 5, dgx::test::MarketKind::kForced);
  INFO(played.problem);
  CHECK(played.problem.empty());
  CHECK(played.worst_challenger >= 0);
  CHECK(played.audited > 100);
  CHECK(played.jackpots > 50);
  CHECK(played.given_away > 20);
  CHECK(played.withheld > 20);
  for (const char* reason :
       {"accepted", "convicted", "overturned", "unverified", "no-proof", "no-assignment", "refuted"}) {
    INFO(reason);
    CHECK(played.ends.contains(reason));
  }
}
