// Plays COUNT random games between an honest side and a liar:
//
//   dispute_games COUNT [SEED]
//
// Prints how they ended, the most moves and the longest payload; exits with 1 at the first that broke a rule.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "liars.h"

using namespace dgx;
using namespace dgx::test;

int main(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 1000;
  const std::uint64_t seed = argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 1;
  DrawnGames games(seed);
  std::map<std::string, std::int64_t> ends;
  std::int64_t most = 0;
  std::size_t longest = 0;
  for (std::int64_t game = 0; game < count; ++game) {
    std::string about;
    const DrawnGame played = games.play(about);
    if (!played.problem.empty()) {
      fmt::print("game {} of seed {}: {}\n{}\n", game, seed, about, played.problem);
      return 1;
    }
    std::string end = "nobody spoke on";
    if (const auto& decision = played.decision) {
      end = fmt::format("{}{}, {}", manifest::name_of(decision->reason),
                        decision->claim ? " " + manifest::name_of(*decision->claim) : "",
                        decision->falls ? "falls" : "stands");
    }
    if (about.find("; the row") != std::string::npos) end += ", of a row";
    ++ends[end];
    most = std::max(most, played.moves);
    longest = std::max(longest, played.longest);
  }
  for (const auto& [end, times] : ends) fmt::print("{:32} {:8}\n", end, times);
  fmt::print("{} games of seed {}: nobody honest lost; at most {} moves, payloads of at most {} bytes\n",
             count, seed, most, longest);
}
