#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/protocol/game.h"
#include "dgx/protocol/player.h"
#include "parties.h"

namespace dgx::test {

/// Disputes about scenes. Statements are signed or, if many games are played, only have ids.

inline constexpr std::uint8_t kProver = 3;
inline constexpr std::uint8_t kJudge = 4;       ///< key of the verifier, whose verdict may be challenged
inline constexpr std::uint8_t kChallenges = 5;  ///< key of the challenger

struct Setup {
  manifest::About about = manifest::About::kSegment;
  std::int64_t segment = 0;
  TinyParty* prover = nullptr;    ///< the party whose states are committed
  TinyParty* verifier = nullptr;  ///< the party whose verdict is challenged; null: the proof is
  bool policy_draw = false;       ///< the verdict has a beacon
  bool sealed = false;
};
[[nodiscard]] protocol::Dispute dispute_of(const Scene& scene, const Setup& setup);
/// A dispute about the proof of any kind of party, which commits to the states that the party gives.
[[nodiscard]] protocol::Dispute dispute_of(const Scene& scene, const Setup& setup, protocol::Party& prover);

/// A statement by key `seed` (below 16), signed if `sealed`.
template <class T>
[[nodiscard]] manifest::Signed<T> stated(const T& body, std::uint8_t seed, bool sealed);

/// The next move of a side, as it would be signed.
[[nodiscard]] manifest::Signed<manifest::Move> move_of(const protocol::Game& game, protocol::Side side,
                                                       json::Object say, bool sealed = false);
[[nodiscard]] std::uint8_t key_of(const protocol::Game& game, protocol::Side side);
[[nodiscard]] std::size_t payload_bytes(const manifest::Signed<manifest::Move>& move, std::uint8_t seed);

/// The lines of a transcript: task, proof, verdict and beacon if present, challenge, moves.
[[nodiscard]] std::string transcript_of(const protocol::Dispute& dispute,
                                        const std::vector<manifest::Signed<manifest::Move>>& moves);

/// The most moves that a game about `steps` steps of the scene may take (dgx-dispute(7), "Moves and claims",
/// "Numbers"). `first_lists` counts what the defender shows before that: a row, a witness's state, one that
/// is not finite.
[[nodiscard]] std::int64_t most_moves(const Scene& scene, std::int64_t steps, std::int64_t first_lists = 0);

/// A game from its beginning to its end, or until a side is silent.
struct Played {
  protocol::Game game;
  std::vector<manifest::Signed<manifest::Move>> moves;
  std::size_t longest = 0;               ///< bytes of the longest payload
  std::size_t evidence = 0;              ///< bytes of the last move's payload
  std::string error;                     ///< why a side was silent, or the rule that was broken
  std::optional<protocol::Side> silent;  ///< the side that had nothing to say
};
/// Plays a game between two players, each with a replay of their own.
[[nodiscard]] Played play(const Scene& scene, protocol::Dispute dispute, protocol::Party& defender,
                          protocol::Party& challenger, bool sealed = false);

}  // namespace dgx::test
