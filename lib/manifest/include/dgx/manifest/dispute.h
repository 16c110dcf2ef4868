#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/subject.h"
#include "dgx/manifest/verdict.h"

namespace dgx::manifest {

/// The most nodes of an audit path.
inline constexpr std::size_t kMaxPath = 64;

/// The subject of a challenge. The names are written to files and never change.
enum class About {
  kSegment,  ///< the segment does not lead from its start to its end
  kWitness,  ///< the row's witness is not that of the segment's interior state; only of a verdict
  kInitial,  ///< the first committed state is not the task's; only of a proof
  kFinal,    ///< the last committed state is not the proof's final state; only of a proof
  kRow,      ///< the verdict's row of a drawn segment is demanded; only of a verdict
  kChunk,    ///< a piece of a committed state is demanded; only of a proof
};
[[nodiscard]] std::string_view name_of(About about);

/// A committed state, opened in the proof's tree.
struct CommittedState {
  Digest digest;
  std::vector<Digest> path;  ///< from the leaf up
  bool operator==(const CommittedState&) const = default;
};

/// A row of a verdict, opened in its tree of rows.
struct OpenedRow {
  std::int64_t index = 0;  ///< among the rows
  std::vector<Digest> path;
  VerdictRow row;
  bool operator==(const OpenedRow&) const = default;
};

/// A line of the task's program with its audit path.
struct OpenedLine {
  std::int64_t index = 0;
  std::vector<Digest> path;
  std::string text;
  bool operator==(const OpenedLine&) const = default;
};
[[nodiscard]] OpenedLine read_opened_line(json::Fields& in);
[[nodiscard]] json::Value opened_line_json(const OpenedLine& line);

[[nodiscard]] OpenedRow read_opened_row(json::Fields& in);
[[nodiscard]] json::Object opened_row_json(const OpenedRow& opened);

/// The part-th MiB, from 0, of the bytes of the entry whose state input the line is.
struct ChunkReference {
  OpenedLine line;
  std::int64_t part = 0;
  bool operator==(const ChunkReference&) const = default;
};

/// Claims that a verdict, or the proof, is wrong, and begins a game (dgx-dispute(7)). Its signer is the
/// challenger; the signer of the challenged statement is the defender. Reading checks each field on its own
/// and which are present; the game checks what they open.
struct Challenge {
  static constexpr Kind kKind = Kind::kChallenge;

  Digest task;
  Digest proof;
  std::optional<Digest> verdict;  ///< if absent, the proof is challenged
  About about = About::kSegment;
  std::int64_t segment = 0;  ///< for kChunk, the committed state's number
  CommittedState start;      ///< committed state `segment`
  /// Committed state `segment` + 1; absent for kChunk and for the diverging step.
  std::optional<CommittedState> end;
  std::optional<OpenedRow> row;         ///< present exactly with a verdict, except for kRow
  std::optional<ChunkReference> chunk;  ///< exactly for kChunk

  bool operator==(const Challenge&) const = default;
  /// Id of the challenged statement.
  [[nodiscard]] const Digest& statement() const { return verdict ? *verdict : proof; }
  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Challenge read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

inline constexpr std::int64_t kMaxTurn = 256;
/// The most bytes of a move's payload.
inline constexpr std::size_t kMaxMoveBytes = 64 * 1024;

/// One turn of a game.
struct Move {
  static constexpr Kind kKind = Kind::kMove;

  Digest task;
  Digest game;            ///< id of the challenge
  std::int64_t turn = 1;  ///< 1 to kMaxTurn; odd ones are the defender's
  Digest previous;        ///< id of the previous move; for turn 1, of the challenge
  json::Object say;       ///< any object: the game's rules check its content, and convict its signer

  bool operator==(const Move&) const = default;
  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Move read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// The reason why a game ended. The names are written to files and never change.
enum class RulingReason {
  kClaim,      ///< a claim was judged
  kPost,       ///< a move contradicts what is known
  kMalformed,  ///< a move is malformed
  kOutOfTurn,  ///< a move of the other side's turn
  kTwoMoves,   ///< two moves of one key for one turn
  kLate,       ///< a move missed its deadline
};
[[nodiscard]] std::string_view name_of(RulingReason reason);

/// The thing that was claimed, or shown, to be wrong, by its letter in files (dgx-dispute(7), "Moves and
/// claims", "Rulings"). The letters never change.
enum class Claim : char {
  kStateInput = 'a',      ///< a value is not the entry of the state before the step
  kEntry = 'b',           ///< an entry of the state after the step is wrong, missing or out of order
  kInput = 'c',           ///< an element of an input is not what task, line and step give
  kOperation = 'd',       ///< an element or a running result is not what its operands give
  kTypeOrShape = 'e',     ///< a value's tensor is not of its line's type and shape; no move claims it
  kNonFinite = 'f',       ///< the state after the step is not finite
  kCommittedState = 'g',  ///< the first or last committed state is wrong; a challenge claims it
  kTwoMoves = 'h',        ///< one side signed two moves for one turn; no move claims it
};
[[nodiscard]] std::string name_of(Claim claim);

/// An operand of the judged operation, and its source.
struct ScalarOperand {
  std::string bits;  ///< "0x" and 2, 8 or 16 lower-case hex digits, like all bits here
  std::string from;  ///< 1 to 64 characters
  bool operator==(const ScalarOperand&) const = default;
};

/// The scalar operation that a referee recomputed.
struct JudgedScalar {
  /// Number among the operations of the element or position; absent for input and copy.
  std::optional<std::int64_t> index;
  std::string operation;                ///< 1 to 16 characters
  std::string place;                    ///< 1 to 64 characters; empty exactly without index
  std::vector<ScalarOperand> operands;  ///< at most 3
  std::string claimed;                  ///< bits
  std::string result;                   ///< bits
  bool operator==(const JudgedScalar&) const = default;
};

/// The place at which a game ended, as deep as it went.
struct DisputePlace {
  std::int64_t segment = 0;
  std::optional<std::int64_t> step, value, element, position;
  bool operator==(const DisputePlace&) const = default;
};
/// The JSON form that a ruling has; programs print the same.
[[nodiscard]] json::Object place_json(const DisputePlace& at);

inline constexpr std::size_t kMaxRulingWords = 1024;

/// The end of a game: signed by a referee, recomputed by everyone from the transcript.
struct Ruling {
  static constexpr Kind kKind = Kind::kRuling;

  Digest task;
  Digest game;             ///< id of the challenge
  Digest statement;        ///< id of the statement challenged
  Digest defender;         ///< key id
  Digest challenger;       ///< key id
  std::int64_t moves = 0;  ///< number taken into account; at most kMaxTurn
  Digest last;             ///< id of the last of these, or of the challenge
  bool falls = false;      ///< true if the statement falls
  RulingReason reason = RulingReason::kClaim;
  std::optional<Claim> claim;
  DisputePlace at;
  std::optional<JudgedScalar> scalar;
  std::string words;  ///< 1 to 1024 characters

  bool operator==(const Ruling&) const = default;
  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Ruling read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

}  // namespace dgx::manifest
