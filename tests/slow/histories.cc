// Plays random histories of markets, honest parties against liars, stallers and griefers (histories.h):
//
//   market_histories COUNT [SEED]
//
// so many in a market without rounds, in one that draws verifiers, in one that audits them, and in one that
// also forces errors.
//
// Prints how they ended; exits with 1 at the first in which an honest party lost, a replay differs or a sum
// was not conserved. Of the last it prints the fewest statements that still show it.
#include "histories.h"

#include <fmt/format.h>

int main(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 1'000;
  const std::uint64_t seed = argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 1;
  using dgx::test::MarketKind;
  for (const MarketKind kind :
       {MarketKind::kNamed, MarketKind::kDrawn, MarketKind::kAudited, MarketKind::kForced}) {
    const auto played = dgx::test::play_histories(count, seed, kind);
    if (!played.problem.empty()) {
      fmt::print("{}\n", played.problem);
      if (!played.shrunk.empty()) fmt::print("{} statements are left of it:\n", played.shrunk.size());
      for (const std::string& line : played.shrunk) fmt::print("  {}\n", line);
      return 1;
    }
    for (const auto& [reason, times] : played.ends) fmt::print("{:16} {:8}\n", reason, times);
    fmt::print(
        "{} histories of seed {}, in which {}: {} statements, {} games, {} bonds of silent verifiers, {} "
        "auditors, {} true denials, {} jackpots, {} secrets given away, {} withheld; nobody honest lost\n",
        count, seed,
        kind == MarketKind::kNamed     ? "solvers name their verifiers"
        : kind == MarketKind::kDrawn   ? "verifiers are drawn"
        : kind == MarketKind::kAudited ? "verdicts are audited"
                                       : "errors are forced",
        played.statements, played.games, played.silent, played.audited, played.denied, played.jackpots,
        played.given_away, played.withheld);
  }
}
