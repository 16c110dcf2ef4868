#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/protocol/settlement.h"

/// The games that verifiers and auditors owe, in words for dgx-verify respond: "you to challenge …, by …",
/// "your move in game …, by …"; empty if there is none now. `clock` is the market's.
namespace dgx::jobs {

/// A move, or the game that an auditor whose audit denies has to win, until it was begun or is too late.
/// Asserted: `who` has shown an audit.
[[nodiscard]] std::string owed_by_auditor(const protocol::TaskRecord& record, const Digest& who,
                                          const protocol::MarketClock& clock);

/// The segment of a forced error that this auditor's audit claims, as long as they can still challenge the
/// verdict about it, and have not. Whether its witness is the false one of the rule, a replay says. Asserted:
/// `who` has shown an audit.
[[nodiscard]] std::optional<std::int64_t> found_forced(const protocol::TaskRecord& record, const Digest& who,
                                                       const protocol::MarketClock& clock);

/// The challenge by which an auditor gains where it is not: nothing is lost without it.
[[nodiscard]] std::string gained_by_auditor(const protocol::TaskRecord& record, std::int64_t segment,
                                            const protocol::MarketClock& clock);

/// A move, or a challenge of the drawn auditor's refutation, by which an acceptance falls. Asserted: `who`
/// has given the verdict.
[[nodiscard]] std::string owed_by_verifier(const protocol::TaskRecord& record, const Digest& who,
                                           const protocol::MarketClock& clock);

}  // namespace dgx::jobs
