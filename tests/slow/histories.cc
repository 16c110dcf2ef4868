// Plays random histories of markets, honest parties against liars, stallers and griefers (histories.h):
//
//   market_histories COUNT [SEED]
//
// so many in a market without rounds, and so many in one that draws verifiers.
//
// Prints how they ended; exits with 1 at the first in which an honest party lost or a sum was not conserved.
#include "histories.h"

#include <fmt/format.h>

int main(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 1'000;
  const std::uint64_t seed = argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 1;
  for (const bool rounds : {false, true}) {
    const auto played = dgx::test::play_histories(count, seed, rounds);
    if (!played.problem.empty()) {
      fmt::print("{}\n", played.problem);
      return 1;
    }
    for (const auto& [reason, times] : played.ends) fmt::print("{:16} {:8}\n", reason, times);
    fmt::print(
        "{} histories {} rounds of seed {}: {} statements, {} games, {} bonds of silent verifiers; nobody "
        "honest lost\n",
        count, rounds ? "with" : "without", seed, played.statements, played.games, played.silent);
  }
}
