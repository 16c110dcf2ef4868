#pragma once

#include <string>

#include "dgx/protocol/settlement.h"

/// The games that verifiers and auditors owe, in words for dgx-verify respond: "you to challenge …, by …",
/// "your move in game …, by …"; empty if there is none now. `clock` is the market's.
namespace dgx::jobs {

/// A move, or the game that an auditor whose audit denies has to win, until it was begun or is too late.
/// Asserted: `who` has shown an audit.
[[nodiscard]] std::string owed_by_auditor(const protocol::TaskRecord& record, const Digest& who,
                                          const protocol::MarketClock& clock);

/// A move, or a challenge of the drawn auditor's refutation, by which an acceptance falls. Asserted: `who`
/// has given the verdict.
[[nodiscard]] std::string owed_by_verifier(const protocol::TaskRecord& record, const Digest& who,
                                           const protocol::MarketClock& clock);

}  // namespace dgx::jobs
