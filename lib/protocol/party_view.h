#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "dgx/protocol/player.h"
#include "fold_numbers.h"

namespace dgx::protocol {

/// The audit path of leaf `at` in a tree of which the defender has opened `lists`, from the top down. Below
/// these lists the path is made from `leaves`, the party's own. For a value table the lists must hold leaf
/// hashes, not digests.
[[nodiscard]] Result<merkle::Path> path_in_lists(std::span<const NodeList> lists,
                                                 std::span<const Digest> leaves, std::uint64_t at);

/// A player's view of its party's replay: trees over its digests, the program's lines with their paths, and
/// the openings of a claim. Keeps the numbers that were asked for, of one step.
class PartyView {
 public:
  PartyView(const program::Program& program, Party& party);

  [[nodiscard]] Party& party() { return party_; }
  [[nodiscard]] const program::Program& program() const { return program_; }
  [[nodiscard]] OpenedLine line(kernels::ValueIndex index) const;
  [[nodiscard]] const kernels::CompiledPrimitive& compiled(kernels::ValueIndex value);

  [[nodiscard]] Result<std::vector<Digest>> value_leaves(std::int64_t step);
  [[nodiscard]] Result<std::vector<Digest>> entry_leaves(std::int64_t step);
  /// Borrowed until another step is asked for.
  [[nodiscard]] Result<const Tensor*> value(std::int64_t step, kernels::ValueIndex value);
  [[nodiscard]] Result<std::vector<kernels::Running>> numbers(std::int64_t step, kernels::ValueIndex value,
                                                              std::int64_t element, const FoldList& list);
  /// The operands from which one element of the value named (a map), or one position of it (a fold), is
  /// computed. They are opened in the value table that the defender showed, which differs from the party's
  /// own from that value on.
  [[nodiscard]] Result<std::vector<Operand>> operands(std::int64_t step, const NamedValue& named,
                                                      std::int64_t element,
                                                      const std::optional<FoldLevels::Position>& position);
  /// A non-finite element of the state at `step`, opened; nullopt if there is none.
  [[nodiscard]] Result<std::optional<NonFiniteClaim>> non_finite(std::int64_t step);

 private:
  [[nodiscard]] Status load_operands(std::int64_t step, kernels::ValueIndex value);

  const program::Program& program_;
  Party& party_;
  kernels::ByValue<std::string> lines_;
  std::vector<Digest> line_leaves_;
  kernels::ByValue<kernels::ValueType> types_;
  std::map<kernels::ValueIndex, kernels::CompiledPrimitive> compiled_;
  std::int64_t step_ = -1;
  std::map<kernels::ValueIndex, Tensor> values_;
};

}  // namespace dgx::protocol
