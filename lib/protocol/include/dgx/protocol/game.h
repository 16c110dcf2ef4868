#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/kernels/primitive.h"
#include "dgx/manifest/dispute.h"
#include "dgx/manifest/statement.h"
#include "dgx/protocol/fold_levels.h"
#include "dgx/protocol/node.h"
#include "dgx/protocol/say.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {

/// The dispute game (dgx-dispute(7)): a pure function of signed statements. Both parties, the referee and the
/// ledger hold the same state of the same game, and nobody in it is believed.

enum class Side : std::uint8_t { kDefender, kChallenger };
[[nodiscard]] std::string_view name_of(Side side);

/// The next thing that the game awaits: something that the defender must show, or a choice by the challenger.
enum class Stage : std::uint8_t {
  kRow,
  kInterior,
  kStates,
  kValues,
  kValueNodes,
  kTensor,
  kTensorNodes,
  kLeaf,
  kNumbers,
  kEntries,
  kEntryNodes,
  kEntry,
  kFault,
  kChunk,
  kChooseRow,         ///< name 0, the row's end or why there is none, or 1, its witness
  kChooseState,       ///< name a state, the last one shown or the end
  kChooseValueNode,   ///< name a node of the value table, or accept
  kChooseValue,       ///< name a value with its line, accept, or claim a or f
  kChooseTensorNode,  ///< name a node or leaf of the tensor
  kChooseElement,     ///< name an element of a fold, or claim c or d
  kChooseNumber,      ///< name a running result; at single positions claim d
  kChooseEntryNode,   ///< name a node of the state's entries, or claim b or f
  kChooseEntry,       ///< name an entry, or claim b or f
  kJudgeEntry,        ///< claim b
  kChooseLine,        ///< claim b with the line of the entry said to be foreign
  kOver,
};
[[nodiscard]] Side side_of(Stage stage);  ///< asserted: not kOver
/// Describes for people what the side at turn owes: "the states between step 3 and 7", ….
[[nodiscard]] std::string describe(Stage stage);

/// The end of a game.
struct Decision {
  bool falls = false;  ///< the defender's statement falls
  manifest::RulingReason reason = manifest::RulingReason::kClaim;
  std::optional<manifest::Claim> claim;
  std::optional<manifest::JudgedScalar> scalar;
  std::string words;
};

/// The children of a node, as the defender listed them: values' digests at the bottom of a value table, else
/// hashes.
struct Listed {
  Node node;
  std::vector<Digest> nodes;
};

/// Everything shown and named so far. All digests are the defender's.
struct Ground {
  std::optional<manifest::VerdictRow> row;  ///< the row of the verdict that is played on
  // States: the last one accepted, the first one rejected, and those shown between them.
  std::int64_t first_step = 0, end_step = 0;
  Digest accepted, rejected;
  std::vector<Digest> states;
  std::int64_t stride = 1;
  // The value table of step `first_step`; the node whose children are `nodes` (once a child is named: that
  // child, and its hash alone); the lists above it in the same tree; and the value named.
  Digest table;
  Node node;
  std::vector<Digest> nodes;
  std::vector<Listed> above;
  std::int64_t value = -1;
  std::vector<Listed> value_lists;  ///< of the value table, from the top to the list of the value named
  Digest value_digest;
  std::optional<kernels::Primitive> line;
  // The value's tensor: nodes as above, then a leaf, an element and its number.
  std::int64_t leaf = -1;
  Bytes leaf_bytes;
  std::int64_t element = -1;
  std::optional<FoldLevels> fold;
  // The entries of the state after the step, and the one named.
  std::int64_t entries = -1;
  std::int64_t entry = -1;
  std::optional<EntryPost> shown_entry;
  std::string foreign;                   ///< the entry of a start state said not to be the program's
  std::optional<Digest> non_finite;      ///< the digest of a state that the defender shows not to be finite
  std::optional<std::int64_t> position;  ///< the fold's position, once it is judged
};

/// A challenge with all the statements that it rests on.
struct Dispute {
  manifest::Signed<manifest::Task> task;
  manifest::Signed<manifest::Proof> proof;
  std::optional<manifest::Signed<manifest::Verdict>> verdict;
  std::optional<manifest::Signed<manifest::Beacon>> beacon;
  manifest::Signed<manifest::Challenge> challenge;

  [[nodiscard]] const Digest& defender() const { return verdict ? verdict->key_id : proof.key_id; }
  [[nodiscard]] const Digest& challenger() const { return challenge.key_id; }
};

/// Steps between the states that a defender shows of an interval of `steps` steps: at most 254 lie inside it.
[[nodiscard]] inline std::int64_t stride_of_states(std::int64_t steps) { return (steps + 254) / 255; }

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
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] const Ground& ground() const { return ground_; }
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
  Stage stage_ = Stage::kOver;
  Ground ground_;
  std::vector<Digest> moves_;  ///< ids of the moves taken
  std::optional<Decision> decision_;
};

/// True if two rulings agree on all that counts: falls, statement, game, moves, last and reason. Their other
/// fields are for people (dgx-dispute(7), "Rulings").
[[nodiscard]] bool same_ruling(const manifest::Ruling& a, const manifest::Ruling& b);

/// For people: "turn 5: the defender must show the value named", or how the game ended.
[[nodiscard]] std::string standing_in_words(const Game& game);

}  // namespace dgx::protocol
