#pragma once

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dgx/manifest/log.h"
#include "dgx/protocol/referee.h"
#include "disputes.h"
#include "scenes.h"
#include "statements.h"

namespace dgx::test {

/// Disputes as a referee sees them: from transcripts of signed statements to rulings.

inline constexpr std::uint8_t kStranger = 6;
inline constexpr std::uint8_t kLedgerOperator = 7;

using Moves = std::vector<manifest::Signed<manifest::Move>>;

/// A small_scene() and a growing_scene() that a program's tests share.
inline const Scene& small() {
  static const Scene kScene = small_scene();
  return kScene;
}
inline const Scene& growing() {
  static const Scene kScene = growing_scene();
  return kScene;
}

/// The ruling that follows from a transcript, or the error if it is not valid.
[[nodiscard]] Result<manifest::Ruling> ruled(const std::string& transcript,
                                             const std::optional<Digest>& operator_key = std::nullopt);

/// Plays a signed game between two players to its end and has the referee read its transcript. If the
/// defender has nothing to say, the game stops there: the transcript then has no ruling, and in a ledger a
/// deadline would end the game. Fails if the referee and the game disagree, or if the ruling cannot be
/// signed.
[[nodiscard]] manifest::Ruling ruled(const Scene& scene, const protocol::Dispute& dispute,
                                     protocol::Party& defender, protocol::Party& challenger);

/// The first `count` moves of such a game (all, if it has fewer).
[[nodiscard]] Moves moves_of(const Scene& scene, const protocol::Dispute& dispute, protocol::Party& defender,
                             protocol::Party& challenger, std::size_t count = 256);
/// The game after these moves, all of which it must accept.
[[nodiscard]] protocol::Game game_after(const protocol::Dispute& dispute, const Moves& moves);

/// The next message of an honest player; fails if there is none.
[[nodiscard]] protocol::Message next_message(protocol::Player& player, const protocol::Game& game);

/// The move that is due, but with this message; signed by the side whose turn it is, or by `seed`.
[[nodiscard]] manifest::Signed<manifest::Move> instead(const protocol::Game& game,
                                                       const protocol::Message& message,
                                                       std::optional<std::uint8_t> seed = std::nullopt);
[[nodiscard]] manifest::Signed<manifest::Move> instead(const protocol::Game& game, json::Object message,
                                                       std::optional<std::uint8_t> seed = std::nullopt);

/// A signed dispute about the proof of `prover`, or about a verdict on it by `verifier`.
[[nodiscard]] protocol::Dispute about_proof(TinyParty& prover, std::int64_t segment = 0);
[[nodiscard]] protocol::Dispute about_verdict(TinyParty& prover, TinyParty& verifier,
                                              manifest::About about = manifest::About::kSegment,
                                              std::int64_t segment = 0);
/// The dispute with this row in its verdict, by the same verifier.
[[nodiscard]] protocol::Dispute with_row(protocol::Dispute dispute, const manifest::VerdictRow& row);

/// The dispute over a proof that commits to these states.
[[nodiscard]] protocol::Dispute over_states(protocol::Dispute dispute, const std::vector<Digest>& states);
/// A line of the program with its audit path.
[[nodiscard]] manifest::OpenedLine opened_line(const program::Program& program, std::int64_t value);

/// A receipt, or a tree head, as a line, of the ledger that the tests' tasks name or of another.
[[nodiscard]] std::string receipt_line(const Digest& statement, std::int64_t milliseconds,
                                       std::uint8_t seed = kLedgerOperator,
                                       const Digest& ledger = ledger_id());
[[nodiscard]] std::string head_line(std::int64_t milliseconds);

/// A fault with these numbers, from which everything afterwards follows.
[[nodiscard]] Fault fault(Fault::Kind kind, std::int64_t step, std::int64_t value, std::int64_t element = 0,
                          int bit = 0);

}  // namespace dgx::test
