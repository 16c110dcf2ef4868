#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/kernels/primitive.h"
#include "dgx/manifest/verdict.h"
#include "dgx/protocol/fold_levels.h"
#include "dgx/protocol/message.h"
#include "dgx/protocol/opened_tree.h"

namespace dgx::protocol {

/// The state of a dispute game as plain data: what is known of the steps in dispute, and the stage, which
/// says what the next move must be. Each stage holds what the moves that led to it have shown and named, and
/// nothing else. All digests are the defender's.

enum class Side : std::uint8_t { kDefender, kChallenger };
[[nodiscard]] std::string_view name_of(Side side);

/// The move that a stage awaits: whose turn it is and, for people, what they must do.
struct Due {
  Side side = Side::kDefender;
  std::string_view words;
};

/// A value of the step's table that the challenger named, with the program's line that computes it.
struct NamedValue {
  OpenedTree table;  ///< down to the list that the value is in
  kernels::ValueIndex index{};
  Digest digest;
  kernels::Primitive line;
};

// The stages. In all of them `table` is the step's value table, `tensor` the tree of the value's leaves,
// `entries` that of the entries of the state after the step, and `named` a node of the tree that was opened
// last.

// The defender must show something.

struct ShowRow {
  static constexpr Due kDue{Side::kDefender, "show the verdict's row of the segment"};
};
struct ShowInterior {
  static constexpr Due kDue{Side::kDefender, "show the state that the witness commits to"};
};
struct ShowStates {
  static constexpr Due kDue{Side::kDefender,
                            "show states between the last accepted and the first rejected one"};
};
struct ShowValues {
  static constexpr Due kDue{Side::kDefender, "show the value table of the step"};
};
struct ShowValueNodes {
  static constexpr Due kDue{Side::kDefender, "show a node of the value table"};
  OpenedTree table;
  NamedNode named;
};
struct ShowTensor {
  static constexpr Due kDue{Side::kDefender, "show the named value"};
  NamedValue value;
};
struct ShowTensorNodes {
  static constexpr Due kDue{Side::kDefender, "show a node of the value"};
  NamedValue value;
  OpenedTree tensor;
  NamedNode named;
};
struct ShowLeaf {
  static constexpr Due kDue{Side::kDefender, "show the named leaf"};
  NamedValue value;
  NamedNode named;
};
struct ShowNumbers {
  static constexpr Due kDue{Side::kDefender, "show the element's running results"};
  NamedValue value;
  std::int64_t element = 0;
  FoldLevels fold;
};
struct ShowEntries {
  static constexpr Due kDue{Side::kDefender, "show the entries of the state after the step"};
  OpenedTree table;
};
struct ShowEntryNodes {
  static constexpr Due kDue{Side::kDefender, "show a node of the entries"};
  OpenedTree table;
  OpenedTree entries;
  NamedNode named;
};
struct ShowEntry {
  static constexpr Due kDue{Side::kDefender, "show the named entry"};
  OpenedTree table;
  OpenedTree entries;
  NamedNode named;
};
struct ShowFault {
  static constexpr Due kDue{Side::kDefender, "show the fault that it claims"};
};
struct ShowChunk {
  static constexpr Due kDue{Side::kDefender, "answer with the chunk"};
};

// The challenger must reject part of what was shown, or claim what is wrong with it.

struct ChooseRow {  ///< index 0: the row's end, or why there is none; 1: its witness
  static constexpr Due kDue{Side::kChallenger, "name the rejected part of the row, its end or its witness"};
};
struct ChooseState {
  static constexpr Due kDue{Side::kChallenger, "name the first rejected state"};
  std::vector<Digest> states;  ///< stride_of_states() steps apart; the one at the end is not among them
};
struct ChooseValueNode {
  static constexpr Due kDue{Side::kChallenger,
                            "name the first rejected node of the value table, or accept it"};
  OpenedTree table;
};
struct ChooseValue {
  static constexpr Due kDue{Side::kChallenger, "name the first rejected value, or accept all"};
  OpenedTree table;
};
struct ChooseTensorNode {
  static constexpr Due kDue{Side::kChallenger, "name the first rejected node of the value"};
  NamedValue value;
  OpenedTree tensor;
};
struct ChooseElement {
  static constexpr Due kDue{Side::kChallenger, "name the first rejected element, or claim it"};
  NamedValue value;
  std::int64_t leaf = 0;
  Bytes bytes;  ///< the leaf's bytes

  /// The elements in the leaf.
  [[nodiscard]] std::int64_t count() const;
  /// The number in the value of the leaf's element `index`.
  [[nodiscard]] std::int64_t element_at(std::int64_t index) const;
};
struct ChooseNumber {
  static constexpr Due kDue{Side::kChallenger, "name the first rejected running result, or claim it"};
  NamedValue value;
  std::int64_t element = 0;
  FoldLevels fold;
};
struct ChooseEntryNode {
  static constexpr Due kDue{Side::kChallenger, "name the first rejected node of the entries"};
  OpenedTree table;
  OpenedTree entries;
};
struct ChooseEntry {
  static constexpr Due kDue{Side::kChallenger, "name the first rejected entry"};
  OpenedTree table;
  OpenedTree entries;
};
struct ClaimEntry {
  static constexpr Due kDue{Side::kChallenger, "claim what is wrong with the entry"};
  OpenedTree table;
  OpenedTree entries;
  std::int64_t index = 0;
  EntryPost shown;
};
struct ClaimLine {
  static constexpr Due kDue{Side::kChallenger, "show the line of the program whose input the entry is"};
  std::string entry;  ///< an entry of the start state that, the defender says, the program does not have
};

using Stage =
    std::variant<ShowRow, ShowInterior, ShowStates, ShowValues, ShowValueNodes, ShowTensor, ShowTensorNodes,
                 ShowLeaf, ShowNumbers, ShowEntries, ShowEntryNodes, ShowEntry, ShowFault, ShowChunk,
                 ChooseRow, ChooseState, ChooseValueNode, ChooseValue, ChooseTensorNode, ChooseElement,
                 ChooseNumber, ChooseEntryNode, ChooseEntry, ClaimEntry, ClaimLine>;
[[nodiscard]] const Due& due_of(const Stage& stage);

/// Steps between the states that a defender shows of an interval of `steps` steps: at most 254 lie inside it.
[[nodiscard]] inline std::int64_t stride_of_states(std::int64_t steps) { return (steps + 254) / 255; }

struct GameState {
  std::optional<manifest::VerdictRow> row;  ///< the row of the verdict that is played on
  // The steps in dispute, [first_step, end_step): the state before them is accepted, the one after rejected.
  std::int64_t first_step = 0, end_step = 0;
  Digest accepted, rejected;
  std::optional<Digest> non_finite;  ///< the digest of a state that the defender shows not to be finite
  Stage stage;  ///< the last one, if the game is over; meaningless if the challenge alone decides

  [[nodiscard]] std::int64_t steps() const { return end_step - first_step; }
  /// The value named in the step's table, once it is; else null.
  [[nodiscard]] const NamedValue* value() const;
};

}  // namespace dgx::protocol
