#include "plan/replaced_rows.h"

#include <algorithm>
#include <optional>

namespace dgx::exec {

using kernels::CompiledOperand;
using kernels::CompiledPrimitive;
using kernels::CompiledStep;
using kernels::CompiledSteps;
using kernels::Kind;
using kernels::NumberType;
using kernels::Operand;
using kernels::ScalarOp;
using kernels::ValueIndex;

namespace {

bool is_integer(const CompiledOperand& operand, std::int64_t number) {
  return operand.kind == Operand::Kind::kInteger && operand.literal.integer == number;
}

bool is_index(const CompiledOperand& operand, std::int32_t slot) {
  const bool is_fold = slot >= kernels::kFirstFoldSlot;
  return operand.kind == (is_fold ? Operand::Kind::kFold : Operand::Kind::kIndex) && operand.index == slot;
}

/// The access that an operand is; nullopt if it is none.
std::optional<std::size_t> access_of(const CompiledOperand& operand) {
  if (operand.kind != Operand::Kind::kAccess) return std::nullopt;
  return static_cast<std::size_t>(operand.index);
}

/// The step whose result is the operand; null if it is none.
const CompiledStep* step_of(const CompiledSteps& list, const CompiledOperand& operand) {
  if (operand.kind != Operand::Kind::kStep) return nullptr;
  return &list.steps[static_cast<std::size_t>(operand.index)];
}

class Recogniser {
 public:
  explicit Recogniser(const OperationGraph& graph) : graph_(graph) {}

  [[nodiscard]] std::optional<ReplacedRows> of_update(ValueIndex update) const {
    ReplacedRows out;
    out.out = update;
    const CompiledPrimitive& map = graph_.plan.compiled[update];
    if (!reads_own_entry(map, out) || !finds_place(map, out) || !is_made_of_positions(out))
      return std::nullopt;
    if (is_read_by_others(out.place, update) || graph_.wanted[out.place]) return std::nullopt;
    out.rows = map.iteration[0];
    out.row_bytes = map.count / out.rows * static_cast<std::int64_t>(size_of(map.dtype));
    StripCompiler compiler(map.iteration, {}, StripCompiler::Along::kIteration);
    compiler.keep_rows();
    compiler.add(update, map, *graph_.strips[update]);
    compiler.store(update, map.dtype);
    if (graph_.plan.checked[update]) compiler.check_finite(update);
    out.program = compiler.finish();
    return out;
  }

 private:
  /// The select that an update ends with; null if it is none, or has no rows of several elements.
  [[nodiscard]] static const CompiledStep* select_of(const CompiledPrimitive& map) {
    const bool has_rows = map.iteration.size() >= 2 && map.iteration == map.shape &&
                          map.count > map.iteration[0] && map.iteration[0] > 0;
    const CompiledStep* const last = has_rows ? step_of(map.steps, map.steps.result) : nullptr;
    return last != nullptr && last->op == ScalarOp::kSelect ? last : nullptr;
  }

  /// True if the update selects, where it does not replace, the element of the entry that it becomes.
  bool reads_own_entry(const CompiledPrimitive& map, ReplacedRows& out) const {
    const CompiledStep* const select = select_of(map);
    const auto own = select == nullptr ? std::nullopt : access_of(select->operands[2]);
    if (!own) return false;
    out.entry = map.accesses[*own].value;
    const kernels::Primitive& entry = graph_.at(out.entry);
    const StripAccess& access = (*graph_.strips[out.out])[*own];
    return entry.kind == Kind::kInput && entry.next == out.out && entry.shape == map.shape &&
           access.guarded.empty() && access.plain.base == 0 &&
           walks(access.plain.iteration, row_major_strides(map.iteration), map.iteration);
  }

  /// True if the update replaces where a number that there is one of for each row is at least 0.
  bool finds_place(const CompiledPrimitive& map, ReplacedRows& out) const {
    const CompiledStep* const condition = step_of(map.steps, select_of(map)->operands[0]);
    if (condition == nullptr || condition->op != ScalarOp::kGe ||
        condition->operand_type != NumberType::kInteger || !is_integer(condition->operands[1], 0))
      return false;
    const auto at = access_of(condition->operands[0]);
    if (!at) return false;
    const StripAccess& access = (*graph_.strips[out.out])[*at];
    std::vector<std::int64_t> by_row(map.iteration.size(), 0);
    by_row[0] = 1;
    out.place = access.plain.value;
    return graph_.at(out.place).shape == Shape{map.iteration[0]} && access.guarded.empty() &&
           access.plain.base == 0 && walks(access.plain.iteration, by_row, map.iteration);
  }

  /// True if the place is the last position whose key is the row, and -1 if there is none.
  bool is_made_of_positions(ReplacedRows& out) const {
    const CompiledPrimitive& chain = graph_.plan.compiled[out.place];
    if (chain.kind != Kind::kChain || chain.dtype != DType::kI64 || chain.iteration.size() != 1 ||
        chain.fold.size() != 1 || !chain.has_when || chain.accesses.size() != 1 || !graph_.strips[out.place])
      return false;
    const CompiledStep* const position = only_step(chain.steps);
    const CompiledStep* const is_named = only_step(chain.when);
    if (position == nullptr || is_named == nullptr || !is_integer(chain.init, -1)) return false;
    if (position->op != ScalarOp::kAdd || !is_index(position->operands[0], kernels::kFirstFoldSlot) ||
        !is_integer(position->operands[1], 0))
      return false;
    if (is_named->op != ScalarOp::kEq || !access_of(is_named->operands[0]) ||
        !is_index(is_named->operands[1], 0))
      return false;
    const StripAccess& key = graph_.strips[out.place]->front();
    if (!key.guarded.empty() || key.plain.iteration[0] != 0) return false;
    out.keys = key.plain.value;
    out.key_dtype = chain.accesses.front().dtype;
    out.key_base = key.plain.base;
    out.key_stride = key.plain.fold[0];
    out.positions = chain.fold_count;
    return true;
  }

  [[nodiscard]] static const CompiledStep* only_step(const CompiledSteps& list) {
    return list.steps.size() == 1 ? list.steps.data() : nullptr;
  }

  [[nodiscard]] bool is_read_by_others(ValueIndex value, ValueIndex reader) const {
    for (const ValueIndex v : graph_.types.indices()) {
      const auto& accesses = graph_.at(v).accesses;
      const auto reads = [&](const kernels::Access& access) { return access.value == value; };
      if (v != reader && graph_.needed[v] && std::ranges::any_of(accesses, reads)) return true;
    }
    return false;
  }

  [[nodiscard]] static bool walks(const std::vector<std::int64_t>& strides,
                                  const std::vector<std::int64_t>& wanted, const Shape& extents) {
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] > 1 && strides[d] != wanted[d]) return false;
    }
    return true;
  }

  const OperationGraph& graph_;
};

}  // namespace

std::map<ValueIndex, ReplacedRows> recognise_replaced_rows(const OperationGraph& graph) {
  std::map<ValueIndex, ReplacedRows> out;
  if (!graph.is_fused() || graph.is_on_device()) return out;
  const Recogniser recogniser(graph);
  for (const ValueIndex v : graph.types.indices()) {
    if (graph.at(v).kind != Kind::kMap || !graph.needed[v] || !graph.becomes_state[v] || !graph.strips[v])
      continue;
    if (auto replaced = recogniser.of_update(v)) out.emplace(v, *std::move(replaced));
  }
  return out;
}

}  // namespace dgx::exec
