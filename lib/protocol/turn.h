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

/// The fault that a defender has to show in Stage::kFault: the reason of the row played on, or, if row or
/// proof says that a step diverges, that the state after it is not finite.
[[nodiscard]] manifest::RowReason fault_shown(const Ground& ground);

/// The segments that the verdict's beacon draws, sorted; dispute.beacon must be set.
[[nodiscard]] Result<std::vector<std::int64_t>> drawn_segments(const Dispute& dispute);

/// Decides that the verdict falls if its row misstates what the proof says.
[[nodiscard]] std::optional<Decision> check_expected(const Dispute& dispute, const manifest::VerdictRow& row);

/// The stage in which the defender first has to back up ground.row; `about` selects its end (kSegment) or its
/// witness (kWitness).
[[nodiscard]] Stage play_on(const Dispute& dispute, manifest::About about, Ground& ground);

/// One move of the game: takes what a side says in its turn, and returns the decision if that ends the game.
class Turn {
 public:
  Turn(const Dispute& dispute, Stage& stage, Ground& ground)
      : dispute_(dispute), stage_(stage), ground_(ground) {}

  [[nodiscard]] std::optional<Decision> take(const Say& say);

 private:
  using Outcome = std::optional<Decision>;

  [[nodiscard]] Outcome show(const Say& say);
  [[nodiscard]] Outcome choose(const Say& say);

  [[nodiscard]] Outcome row(const RowPost& post);
  [[nodiscard]] Outcome interior(const InteriorPost& post);
  [[nodiscard]] Outcome states(const StatesPost& post);
  [[nodiscard]] Outcome values(const ValuesPost& post);
  [[nodiscard]] Outcome nodes(const NodesPost& post);
  [[nodiscard]] Outcome tensor(const TensorPost& post);
  [[nodiscard]] Outcome leaf(const LeafPost& post);
  [[nodiscard]] Outcome numbers(const NumbersPost& post);
  [[nodiscard]] Outcome entries(const EntriesPost& post);
  [[nodiscard]] Outcome entry(const EntryPost& post);
  [[nodiscard]] Outcome fault(const FaultPost& post);
  [[nodiscard]] Outcome chunk(const ChunkPost& post);

  [[nodiscard]] Outcome name(const Name& say);
  [[nodiscard]] Outcome name_in_row(std::int64_t index);
  [[nodiscard]] Outcome name_state(std::int64_t index);
  [[nodiscard]] Outcome name_node(std::int64_t index);
  [[nodiscard]] Outcome name_value(const Name& say);
  [[nodiscard]] Outcome name_element(std::int64_t index);
  [[nodiscard]] Outcome name_number(std::int64_t index);
  [[nodiscard]] Outcome name_entry(std::int64_t index);
  [[nodiscard]] Outcome accept();
  [[nodiscard]] Outcome claim(const StateInputClaim& say);
  [[nodiscard]] Outcome claim(const EntryClaim& say);
  [[nodiscard]] Outcome claim(const InputClaim& say);
  [[nodiscard]] Outcome claim(const OperationClaim& say);
  [[nodiscard]] Outcome claim(const NonFiniteClaim& say);
  [[nodiscard]] Outcome show_line(const EntryClaim& say);

  /// The side at turn loses: it says what it may not say, or contradicts what is known.
  [[nodiscard]] Decision lost(manifest::RulingReason reason, std::string words,
                              std::optional<manifest::Claim> claim = std::nullopt) const;
  [[nodiscard]] Decision unexpected(const Say& say) const;
  [[nodiscard]] Outcome not_children(const std::vector<Digest>& hashes, const Node& node,
                                     const Digest& root) const;
  [[nodiscard]] Outcome outside(std::int64_t index, std::int64_t count) const;
  /// Sets the stage after the interval of states was narrowed: more states, or the step's values.
  void next_states();
  [[nodiscard]] std::uint64_t lines() const {
    return static_cast<std::uint64_t>(dispute_.task.body.program.lines);
  }
  [[nodiscard]] std::uint64_t tensor_leaves() const;
  void show_nodes(const Node& node, std::vector<Digest> nodes, Stage at_inner, Stage at_bottom);

  const Dispute& dispute_;
  Stage& stage_;
  Ground& ground_;
};

}  // namespace dgx::protocol
