// Plays COUNT random games between an honest side and a liar:
//
//   dispute_games COUNT [SEED]
//
// On hand-made programs with every kind of line, and on steps of real training (trained_scenes.h), which take
// half of the games. Prints how they ended, how many lines of each program rulings were about, the most moves
// and the longest payload; exits with 1 at the first that broke a rule.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "liars.h"
#include "trained_scenes.h"

using namespace dgx;
using namespace dgx::test;

namespace {

/// The games about one program.
struct Tally {
  std::int64_t games = 0;
  std::set<std::int64_t> judged;  ///< lines that rulings were about
};

std::string end_of(const DrawnGame& played, const std::string& about) {
  std::string end = "nobody spoke on";
  if (const auto& decision = played.decision) {
    end = fmt::format("{}{}, {}", manifest::name_of(decision->reason),
                      decision->claim ? " " + manifest::name_of(*decision->claim) : "",
                      decision->falls ? "falls" : "stands");
  }
  if (about.find("; the row") != std::string::npos) end += ", of a row";
  return end;
}

/// Prints the table of programs.
void print_lines(const std::map<std::string, std::pair<const Scene*, Tally>>& scenes) {
  for (const auto& [name, found] : scenes) {
    const auto& [scene, tally] = found;
    fmt::print("{:28} {:8} games, {:3} of {:3} lines judged\n", name, tally.games, tally.judged.size(),
               scene->program.values.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 1000;
  const std::uint64_t seed = argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 1;
  DrawnGames games(seed);
  for (Scene& scene : trained_scenes()) games.add(std::move(scene), 10);
  std::map<std::string, std::int64_t> ends;
  std::map<std::string, std::pair<const Scene*, Tally>> scenes;
  std::int64_t most = 0;
  std::size_t longest = 0;
  for (std::int64_t game = 0; game < count; ++game) {
    std::string about;
    const DrawnGame played = games.play(about);
    if (!played.problem.empty()) {
      fmt::print("game {} of seed {}: {}\n{}\n", game, seed, about, played.problem);
      return 1;
    }
    ++ends[end_of(played, about)];
    auto& [scene, tally] = scenes[played.scene->name];
    scene = played.scene;
    ++tally.games;
    if (played.decision && played.decision->claim && played.decision->at.value)
      tally.judged.insert(*played.decision->at.value);
    most = std::max(most, played.moves);
    longest = std::max(longest, played.longest);
  }
  for (const auto& [end, times] : ends) fmt::print("{:32} {:8}\n", end, times);
  print_lines(scenes);
  fmt::print("{} games of seed {}: nobody honest lost; at most {} moves, payloads of at most {} bytes\n",
             count, seed, most, longest);
}
