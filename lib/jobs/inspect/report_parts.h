#pragma once

#include <vector>

#include "inspect/report_games.h"

namespace dgx::jobs {

/// The parts of a report's story, each from the evidence alone.

/// Gives everybody who signed something about the task the role of what they did first.
[[nodiscard]] Cast cast_of(const Evidence& evidence);
[[nodiscard]] std::vector<Party> parties_of(const Evidence& evidence, const Cast& cast);
[[nodiscard]] std::vector<Fact> bought_of(const Evidence& evidence);
[[nodiscard]] std::vector<Curve> curves_of(const Evidence& evidence);
/// Sets segments and stretches by the first proof, the draw, the verdicts' rows and the games' ends.
void tell_segments(const Evidence& evidence, const std::vector<ToldGame>& games, Story& out);
/// Accounts of a task that the ledger has settled, or could settle now; empty for any other.
[[nodiscard]] std::vector<Account> money_of(const Evidence& evidence, const Cast& cast);
[[nodiscard]] std::vector<Event> events_of(const Evidence& evidence, const std::vector<ToldGame>& games,
                                           const Cast& cast);
[[nodiscard]] std::vector<Check> checks_of(const Evidence& evidence, const std::vector<ToldGame>& games);

}  // namespace dgx::jobs
