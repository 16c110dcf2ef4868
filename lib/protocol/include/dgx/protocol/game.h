#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/dispute.h"
#include "dgx/manifest/statement.h"
#include "dgx/protocol/game_state.h"
#include "dgx/protocol/lots.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {

/// The end of a game.
struct Decision {
  bool falls = false;  ///< the defender's statement falls
  manifest::RulingReason reason = manifest::RulingReason::kClaim;
  std::optional<manifest::Claim> claim;
  std::optional<manifest::JudgedScalar> scalar;
  std::string words;
  manifest::DisputePlace at = {};  ///< value, element and position where the last move named them
};

/// A challenge with all the statements that it rests on.
struct Dispute {
  manifest::Signed<manifest::Task> task;
  manifest::Signed<manifest::Proof> proof;
  std::optional<manifest::Signed<manifest::Verdict>> verdict;
  std::optional<DrawSource> beacon;  ///< the beacon or round that the verdict names
  manifest::Signed<manifest::Challenge> challenge;
  /// The secret that says which witness of the verdict had to be false, for a challenge of one, and the offer
  /// with which the verdict's signer had committed to it: both exactly if may_be_forced(). That it is the
  /// offer that was logged only a ledger can tell.
  std::optional<manifest::Signed<manifest::Beacon>> secret = {};
  std::optional<manifest::Signed<manifest::BeaconCommitment>> offer = {};

  [[nodiscard]] const Digest& defender() const { return verdict ? verdict->key_id : proof.key_id; }
  [[nodiscard]] const Digest& challenger() const { return challenge.key_id; }
};

/// The game about one challenge (dgx-dispute(7)): the defender, who signed the proof or verdict, against the
/// challenger, who says that its segment does not lead from its start to its end.
///
/// Each move narrows the difference. The defender shows digests of the states inside the segment, and the
/// challenger names the first that their own replay does not give; so one step is left, then by its value
/// table one value, one leaf of it, one element, and of a fold one position. There the challenger claims that
/// the defender's number is wrong and opens the operands, and the game computes it: the statement falls, or
/// it stands. Whoever says what the rules do not allow, or contradicts what they are bound to, has lost.
///
/// The state is a pure function of signed statements, so that parties, referee and ledger all have the same
/// one and nobody in it is believed. It is a variant with one struct per stage: a stage holds what it needs
/// and nothing that it must not look at. apply() checks what every move has, turn, signer and predecessor,
/// and the rules of a stage (turn.h) make of its message the next stage or the Decision. A move convicts its
/// signer, or is an error and changes nothing: an error is never a decision.
class Game {
 public:
  /// Starts the game of a challenge. kMalformed or kUnauthorised if the challenge is void: its parts do not
  /// belong together, or open nothing.
  [[nodiscard]] static Result<Game> open(Dispute dispute);

  /// Takes a move. An error convicts nobody and changes nothing: the move is not of this game, comes twice,
  /// or answers a statement that is not here. Everything else advances the game or ends it; once it is over,
  /// moves change nothing.
  [[nodiscard]] Status apply(const manifest::Signed<manifest::Move>& move);

  /// Ends a game in which the side at turn has missed its deadline. Asserted: it is not over.
  void time_out(std::string words);
  /// time_out(), with the words that nothing was said within window_move_ms.
  void miss_turn();

  [[nodiscard]] const Dispute& dispute() const { return dispute_; }
  /// The segment challenged. Asserted: the challenge is not about a chunk.
  [[nodiscard]] Segment segment() const;
  [[nodiscard]] const GameState& state() const { return state_; }
  /// The stage, if the game goes on and is in a stage S; else null.
  template <class S>
  [[nodiscard]] const S* stage() const {
    return decision_ ? nullptr : std::get_if<S>(&state_.stage);
  }
  /// The move awaited. Asserted: the game is not over.
  [[nodiscard]] const Due& due() const;
  /// The place that the game has reached or, if it is over, at which it ended.
  [[nodiscard]] manifest::DisputePlace place() const;
  /// turn(): number of the next move, from 1. last(): id of the statement that it answers.
  [[nodiscard]] std::int64_t turn() const { return static_cast<std::int64_t>(moves_.size()) + 1; }
  [[nodiscard]] const Digest& last() const { return moves_.empty() ? dispute_.challenge.id : moves_.back(); }
  [[nodiscard]] const Digest& party(Side side) const {
    return side == Side::kDefender ? dispute_.defender() : dispute_.challenger();
  }
  [[nodiscard]] const std::optional<Decision>& decision() const { return decision_; }
  /// The body of the statement that says how the game ended; kInconclusive if it has not.
  [[nodiscard]] Result<manifest::Ruling> ruling() const;

 private:
  explicit Game(Dispute dispute) : dispute_(std::move(dispute)) {}
  void begin();
  /// The statement's turn, 0 for the challenge; nullopt if it is no statement of the game.
  [[nodiscard]] std::optional<std::int64_t> turn_of(const Digest& statement) const;

  Dispute dispute_;
  GameState state_;
  std::vector<Digest> moves_;  ///< ids of the moves taken
  std::optional<Decision> decision_;
};

/// The witness that the defender's row of the challenged segment must have, if this is the digest of the
/// state that it is of: the false one where the verdict had to misstate it.
[[nodiscard]] Digest witness_due(const Dispute& dispute, const Digest& interior);
/// True if two rulings agree on all that counts: falls, statement, game, moves, last and reason. Their other
/// fields are for people (dgx-dispute(7), "Rulings").
[[nodiscard]] bool same_ruling(const manifest::Ruling& a, const manifest::Ruling& b);

/// The standing in words: "turn 5: the defender must show the value named", or how the game ended.
[[nodiscard]] std::string standing_in_words(const Game& game);

}  // namespace dgx::protocol
