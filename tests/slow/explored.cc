// Walks through all histories of small markets (explored.h), of every kind of market, with every choice of
// who is honest:
//
//   market_explored SEQUENCES [GAMES [KIND [CHOICE [whole|checked]]]]
//
// SEQUENCES of each (0: all), and GAMES games (default 1) begun by those who are not. KIND is named, drawn,
// audited or forced; "" is all of them. CHOICE is a sum of 1, if the solver is honest, 2, if the verifier is,
// 4 for the watcher and 8 for the stranger; "" is each. Prints how many states there were, and exits with 1
// at the first in which a rule is broken, whose statements it prints.
//
// With "checked" or "whole" every walk is taken a second time, which checks that what the first goes on from
// once may be (Merging): if both are of all sequences, they must have the same outcomes.
#include "explored.h"

#include <fmt/format.h>

#include <cstdlib>

using namespace dgx::test;

namespace {

/// Walks, and prints what it came to; false if a rule was broken.
bool report(const SmallMarket& market, const std::string& name, Explored& walked) {
  walked = explore(market);
  std::string honest;
  for (const std::uint8_t who : market.honest) honest += fmt::format(" {}", who);
  fmt::print("{:13} {:6} honest:{:8} {:9} states, {:9} statements, {}", name, market.cheats ? "cheats" : "",
             honest, walked.states, walked.statements, walked.complete ? "all" : "some");
  for (const auto& [reason, ends] : walked.ends) fmt::print(", {} {}", reason, ends);
  fmt::print("\n");
  std::fflush(stdout);
  if (walked.problem.empty()) return true;
  fmt::print("{}\n", walked.problem);
  for (const std::string& line : walked.path) fmt::print("  {}\n", line);
  return false;
}

/// Reports the walk and, if `check` is not empty, the one that checks it.
bool report(SmallMarket market, const std::string& name, const std::string& check) {
  Explored walked, checked;
  if (!report(market, name, walked)) return false;
  if (check.empty()) return true;
  market.merging = check == "whole" ? Merging::kWhole : Merging::kChecked;
  if (!report(market, name + " " + check, checked)) return false;
  const bool all = walked.complete && checked.complete;
  if (!all || (walked.outcomes == checked.outcomes && walked.standings == checked.standings)) return true;
  fmt::print("{} outcomes, {} of the walk that checks\n", walked.outcomes.size(), checked.outcomes.size());
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
  const std::string_view chosen = argc > 4 ? argv[4] : "";
  const std::string check = argc > 5 ? argv[5] : "";
  for (const auto& [kind, name] : kinds) {
    if (!only.empty() && only != name) continue;
    for (unsigned choice = 0; choice < 16; ++choice) {
      if (!chosen.empty() && fmt::to_string(choice) != chosen) continue;
      SmallMarket market{kind, {}, false, games, sequences};
      for (const std::uint8_t who : {kSolver, kVerifier, kWatcher, kFirstStranger}) {
        if ((choice >> (who - kSolver) & 1) != 0) market.honest.insert(who);
      }
      if (!report(market, name, check)) return 1;
      market.cheats = true;
      if (!market.honest.contains(kSolver) && !report(market, name, check)) return 1;
    }
  }
}
