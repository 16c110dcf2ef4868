#include <catch2/catch.hpp>
#include <map>

#include "liars.h"

using namespace dgx;
using namespace dgx::test;

TEST_CASE("Whoever is right loses to no liar, and no game is longer than it may be: drawn games") {
  DrawnGames games(1);
  std::map<std::string, int> ends;
  for (int game = 0; game < 6'000; ++game) {
    std::string about;
    const DrawnGame played = games.play(about);
    INFO("game " << game << ": " << about);
    INFO(played.problem);
    REQUIRE(played.problem.empty());
    std::string end = "nobody spoke on";
    if (const auto& decision = played.decision) {
      end = manifest::name_of(decision->reason);
      if (decision->claim) end += " " + manifest::name_of(*decision->claim);
      end += decision->falls ? ", falls" : ", stands";
    }
    ++ends[end];
  }
  // Every way to lose occurs.
  for (const auto& [end, count] : ends) UNSCOPED_INFO(end << ": " << count);
  CHECK(ends.size() > 20);
}
