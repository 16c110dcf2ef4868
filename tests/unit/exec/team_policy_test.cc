#include <catch2/catch.hpp>

#include "../../../lib/exec/cpu/team_policy.h"

namespace dgx::exec {
namespace {

/// Runs `count` times; a run together takes `together` seconds, `slept` of them asleep, and one alone takes
/// `alone`. Returns how many ran alone.
int runs_alone(TeamPolicy& policy, int count, double together, double slept, double alone) {
  int alone_count = 0;
  for (int n = 0; n < count; ++n) {
    const bool shared = policy.together();
    alone_count += shared ? 0 : 1;
    policy.note(shared ? together : alone, shared ? slept : 0);
  }
  return alone_count;
}

}  // namespace

TEST_CASE("a team that need not sleep stays together") {
  TeamPolicy policy;
  CHECK(runs_alone(policy, 10000, 1e-3, 0.2e-3, 0.5e-3) == 0);
}

TEST_CASE("a team that sleeps for members tries its first one alone, and stays with what is faster") {
  TeamPolicy crowded;
  CHECK(runs_alone(crowded, 10000, 3e-3, 2e-3, 1e-3) > 9800);
  TeamPolicy uneven;  // sleeps, and is still faster
  CHECK(runs_alone(uneven, 10000, 1e-3, 0.4e-3, 1.6e-3) < 60);
}

TEST_CASE("a team comes together again when there is room") {
  TeamPolicy policy;
  runs_alone(policy, 1000, 3e-3, 2e-3, 1e-3);
  REQUIRE(!policy.together());
  CHECK(runs_alone(policy, 10000, 0.6e-3, 0, 1e-3) < 4200);
  CHECK(policy.together());
  CHECK(runs_alone(policy, 1000, 3e-3, 2e-3, 1e-3) > 900);
}

TEST_CASE("of long runs a tenth at most is spent on trials") {
  TeamPolicy policy;
  CHECK(runs_alone(policy, 200, 3, 2, 1) >= 170);
  CHECK(runs_alone(policy, 200, 0.6, 0, 1) < 40);
}

}  // namespace dgx::exec
