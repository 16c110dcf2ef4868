#pragma once

#include "dgx/protocol/game.h"

namespace dgx::protocol {

/// Size of a line's value in bytes. Opening the line has checked that its elements can be counted.
[[nodiscard]] inline std::uint64_t tensor_bytes(const kernels::Primitive& line) {
  return static_cast<std::uint64_t>(*element_count(line.shape)) * size_of(line.dtype);
}

/// True if the row gives the segment's end, rather than a reason why it cannot be computed.
[[nodiscard]] bool was_replayed(const manifest::VerdictRow& row);

/// True if a row of the challenged segment has a witness: it was replayed, and the segment has a state
/// inside.
[[nodiscard]] bool has_witness(const Dispute& dispute, const manifest::VerdictRow& row);

/// True if a row agrees that the challenged step diverges: there is no state after it.
[[nodiscard]] bool says_diverged(const Dispute& dispute, const manifest::VerdictRow& row);

/// The fault that a defender has to show in ShowFault: the reason of the row played on, or, if row or
/// proof says that a step diverges, that the state after it is not finite.
[[nodiscard]] manifest::RowReason fault_shown(const GameState& state);

/// The segments that the verdict's beacon draws, sorted; dispute.beacon must be set.
[[nodiscard]] Result<std::vector<std::int64_t>> drawn_segments(const Dispute& dispute);

/// Decides that the verdict falls if its row misstates what the proof says.
[[nodiscard]] std::optional<Decision> check_expected(const Dispute& dispute, const manifest::VerdictRow& row);

/// The stage once the disputed interval is known: a single step shows its values, a longer one states
/// between.
[[nodiscard]] Stage show_interval(const GameState& state);

/// The stage in which the defender first has to back up state.row; `about` selects its end (kSegment) or its
/// witness (kWitness).
[[nodiscard]] Stage play_on(const Dispute& dispute, manifest::About about, GameState& state);

/// The rules' answer to a message (dgx-dispute(7), "Moves and claims"): the stage that follows, or the end.
using Outcome = std::variant<Stage, Decision>;

/// The turn of one side: what the rules look at besides the message. Both outlive it.
struct Turn {
  const Dispute& dispute;
  GameState& state;  ///< a rule moves out of its stage and may narrow the interval
};

/// Judges the message of the side whose turn it is. show() are the rules for the defender's messages,
/// choose() those for the challenger's; in each a function for a stage and a message says that this stage
/// takes it.
[[nodiscard]] Outcome take(const Turn& turn, const Message& message);
[[nodiscard]] Outcome show(const Turn& turn, const Message& message);
[[nodiscard]] Outcome choose(const Turn& turn, const Message& message);

/// The decision against a side whose message is none that its stage takes.
[[nodiscard]] Decision unexpected(const Due& due, const Message& message);

}  // namespace dgx::protocol
