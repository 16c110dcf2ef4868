// Walks through all histories of small markets (explored.h), of every kind of market, with every choice of
// who is honest:
//
//   market_explored SEQUENCES [GAMES [KIND]]
//
// SEQUENCES of each (0: all), and GAMES games (default 1) begun by those who are not; KIND is named, drawn,
// audited or forced, and else all of them. Prints how many states there were, and exits with 1 at the first
// in which a rule is broken, whose statements it prints.
#include "explored.h"

#include <fmt/format.h>

#include <cstdlib>

using namespace dgx::test;

namespace {

/// Prints what a walk came to; false if a rule was broken.
bool report(const SmallMarket& market, const std::string& name) {
  const Explored walked = explore(market);
  std::string honest;
  for (const std::uint8_t who : market.honest) honest += fmt::format(" {}", who);
  fmt::print("{:8} {:6} honest:{:8} {:9} states, {:9} statements, {}", name, market.cheats ? "cheats" : "",
             honest, walked.states, walked.statements, walked.complete ? "all" : "some");
  for (const auto& [reason, ends] : walked.ends) fmt::print(", {} {}", reason, ends);
  fmt::print("\n");
  std::fflush(stdout);
  if (walked.problem.empty()) return true;
  fmt::print("{}\n", walked.problem);
  for (const std::string& line : walked.path) fmt::print("  {}\n", line);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t sequences = argc > 1 ? std::atoll(argv[1]) : 2'000;
  const int games = argc > 2 ? std::atoi(argv[2]) : 1;
  const std::pair<MarketKind, const char*> kinds[] = {{MarketKind::kNamed, "named"},
                                                      {MarketKind::kDrawn, "drawn"},
                                                      {MarketKind::kAudited, "audited"},
                                                      {MarketKind::kForced, "forced"}};
  const std::string_view only = argc > 3 ? argv[3] : "";
  for (const auto& [kind, name] : kinds) {
    if (!only.empty() && only != name) continue;
    for (unsigned choice = 0; choice < 16; ++choice) {
      SmallMarket market{kind, {}, false, games, sequences};
      for (const std::uint8_t who : {kSolver, kVerifier, kWatcher, kFirstStranger}) {
        if ((choice >> (who - kSolver) & 1) != 0) market.honest.insert(who);
      }
      if (!report(market, name)) return 1;
      market.cheats = true;
      if (!market.honest.contains(kSolver) && !report(market, name)) return 1;
    }
  }
}
