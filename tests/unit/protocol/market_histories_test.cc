#include <catch2/catch.hpp>

#include "histories.h"

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
