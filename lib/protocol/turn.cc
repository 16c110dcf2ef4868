#include "turn.h"

#include <fmt/format.h>

#include <concepts>

#include "claims.h"
#include "dgx/merkle/tree.h"

namespace dgx::protocol {

using kernels::Kind;
using manifest::Claim;
using manifest::RulingReason;

Decision unexpected(const Due& due, const Message& message) {
  return {due.side == Side::kDefender, RulingReason::kMalformed, std::nullopt, std::nullopt,
          fmt::format("\"{}\", where the {} must {}", name_of(message), name_of(due.side), due.words)};
}

Outcome take(const Turn& turn, const Message& message) {
  return due_of(turn.state.stage).side == Side::kDefender ? show(turn, message) : choose(turn, message);
}

// The challenger's choices and claims. Whoever chooses what the rules do not allow has lost: the statement
// stands.

namespace {

template <class S>
concept OfValueTable = std::same_as<S, ChooseValueNode> || std::same_as<S, ChooseValue>;
template <class S>
concept OfEntries = std::same_as<S, ChooseEntryNode> || std::same_as<S, ChooseEntry>;

bool is_fold(Kind kind) { return kind != Kind::kInput && kind != Kind::kMap; }

Decision lost(RulingReason reason, std::string words) {
  return {false, reason, std::nullopt, std::nullopt, std::move(words)};
}

Decision judged(const Judgement& judgement, Claim claim, manifest::DisputePlace at = {}) {
  return {judgement.proven, RulingReason::kClaim, claim, judgement.scalar, judgement.words, at};
}

manifest::DisputePlace at_value(std::int64_t value) { return {0, {}, value, {}, {}}; }
manifest::DisputePlace at_element(std::optional<std::int64_t> element) { return {0, {}, {}, element, {}}; }
manifest::DisputePlace at_position(std::int64_t position) { return {0, {}, {}, {}, position}; }

Step step_of(const Turn& turn, const OpenedTree& table) {
  return {turn.dispute.task.body, turn.state.first_step, turn.state.accepted, turn.state.rejected,
          table.root};
}

std::optional<Decision> outside(std::int64_t index, std::int64_t count) {
  if (index < count) return std::nullopt;
  return lost(RulingReason::kMalformed, fmt::format("names {} of {}", index, count));
}

std::optional<Decision> outside(std::int64_t index, const OpenedTree& tree) {
  return outside(index, std::ssize(tree.last().children));
}

/// The element `index` of the leaf, which has it, as the defender shows it.
kernels::Number shown_at(const ChooseElement& stage, std::int64_t index) {
  const DType dtype = stage.value.line.dtype;
  return number_at(dtype, stage.bytes, static_cast<std::size_t>(index) * dgx::size_of(dtype));
}

// Names.

Outcome choose_in(const Turn& turn, const ChooseRow&, const Name& name) {
  if (auto bad = outside(name.index, has_witness(turn.dispute, *turn.state.row) ? 2 : 1)) return *bad;
  const auto about = name.index == 0 ? manifest::About::kSegment : manifest::About::kWitness;
  return play_on(turn.dispute, about, turn.state);
}

Outcome choose_in(const Turn& turn, const ChooseState& stage, const Name& name) {
  const std::int64_t shown = std::ssize(stage.states);
  if (auto bad = outside(name.index, shown + 1)) return *bad;
  GameState& state = turn.state;
  const std::int64_t first = state.first_step, stride = stride_of_states(state.steps());
  const auto at = static_cast<std::size_t>(name.index);
  if (name.index > 0) {
    state.first_step = first + name.index * stride;
    state.accepted = stage.states[at - 1];
  }
  if (name.index < shown) {
    state.end_step = first + (name.index + 1) * stride;
    state.rejected = stage.states[at];
  }
  return show_interval(state);
}

Outcome choose_in(const Turn&, ChooseValueNode& stage, const Name& name) {
  if (auto bad = outside(name.index, stage.table)) return *bad;
  const NamedNode named = stage.table.child(name.index);
  return ShowValueNodes{std::move(stage.table), named};
}

Outcome choose_in(const Turn& turn, ChooseValue& stage, const Name& name) {
  if (auto bad = outside(name.index, stage.table)) return *bad;
  const NamedNode named = stage.table.child(name.index);
  const auto value = static_cast<std::int64_t>(named.node.first);
  const auto line = open_line(*name.line, turn.dispute.task.body);
  if (!line.ok()) return lost(RulingReason::kPost, line.error().message);
  if (name.line->index != value)
    return lost(RulingReason::kPost, fmt::format("names value {} with line {}", value, name.line->index));
  if (is_state_input(*line)) return lost(RulingReason::kMalformed, "a state input is claimed (a), not named");
  return ShowTensor{{std::move(stage.table), kernels::ValueIndex(value), named.hash, *line}};
}

Outcome choose_in(const Turn&, ChooseTensorNode& stage, const Name& name) {
  if (auto bad = outside(name.index, stage.tensor)) return *bad;
  const NamedNode named = stage.tensor.child(name.index);
  if (named.node.is_leaf()) return ShowLeaf{std::move(stage.value), named};
  return ShowTensorNodes{std::move(stage.value), std::move(stage.tensor), named};
}

Outcome choose_in(const Turn&, ChooseElement& stage, const Name& name) {
  if (auto bad = outside(name.index, stage.count())) return *bad;
  const kernels::Primitive& line = stage.value.line;
  if (!is_fold(line.kind))
    return lost(RulingReason::kMalformed, "an element of an input or a map is claimed, not named");
  const std::int64_t element = stage.element_at(name.index);
  const auto positions = element_count(line.fold);
  if (!positions.ok() || *positions == 0) {
    Decision out = lost(RulingReason::kMalformed, "the line's fold has no positions");
    out.at = at_element(element);
    return out;
  }
  FoldLevels fold(line, *positions, shown_at(stage, name.index));
  return ShowNumbers{std::move(stage.value), element, std::move(fold)};
}

Outcome choose_in(const Turn&, ChooseNumber& stage, const Name& name) {
  if (auto bad = outside(name.index, std::ssize(stage.fold.shown()))) return *bad;
  if (stage.fold.at_position())
    return lost(RulingReason::kMalformed, "a single position is claimed (d), not named");
  stage.fold.name(name.index);
  return ShowNumbers{std::move(stage.value), stage.element, std::move(stage.fold)};
}

template <OfEntries S>
Outcome choose_in(const Turn&, S& stage, const Name& name) {
  if (auto bad = outside(name.index, stage.entries)) return *bad;
  const NamedNode named = stage.entries.child(name.index);
  if (named.node.is_leaf()) return ShowEntry{std::move(stage.table), std::move(stage.entries), named};
  return ShowEntryNodes{std::move(stage.table), std::move(stage.entries), named};
}

template <OfValueTable S>
Outcome choose_in(const Turn&, S& stage, const Accept&) {
  return ShowEntries{std::move(stage.table)};
}

// Claims.

Outcome choose_in(const Turn& turn, const ChooseValue& stage, const StateInputClaim& claim) {
  if (auto bad = outside(claim.index, stage.table)) return *bad;
  const NamedNode named = stage.table.child(claim.index);
  const auto value = static_cast<std::int64_t>(named.node.first);
  return judged(judge_state_input(step_of(turn, stage.table), claim, value, named.hash), claim.kClaim,
                at_value(value));
}

template <OfEntries S>
Outcome choose_in(const Turn& turn, const S& stage, const EntryClaim& claim) {
  const auto count = static_cast<std::int64_t>(stage.entries.top().count);
  return judged(judge_entry(step_of(turn, stage.table), claim, nullptr, count, count), claim.kClaim);
}

Outcome choose_in(const Turn& turn, const ClaimEntry& stage, const EntryClaim& claim) {
  const auto count = static_cast<std::int64_t>(stage.entries.top().count);
  Decision out =
      judged(judge_entry(step_of(turn, stage.table), claim, &stage.shown, stage.index, count), claim.kClaim);
  if (claim.digest) out.at.value = to_number(*open_line(stage.shown.line, turn.dispute.task.body)->next);
  return out;
}

/// Claim b against an entry of a start state that is said not to be the program's: shows its line.
Outcome choose_in(const Turn& turn, const ClaimLine& stage, const EntryClaim& claim) {
  const auto decided = [](bool falls, std::string words) {
    return Decision{falls, RulingReason::kClaim, EntryClaim::kClaim, std::nullopt, std::move(words)};
  };
  if (!claim.line) return decided(false, "no line was opened");
  const auto line = open_line(*claim.line, turn.dispute.task.body);
  if (!line.ok()) return decided(false, "the evidence proves nothing: " + line.error().message);
  if (!is_state_input(*line) || line->source.name != stage.entry)
    return decided(false, fmt::format("line {} is not the entry {}", claim.line->index, stage.entry));
  return decided(true, fmt::format("entry {} is line {} of the program", stage.entry, claim.line->index));
}

Outcome choose_in(const Turn& turn, const ChooseElement& stage, const InputClaim& claim) {
  if (auto bad = outside(claim.index, stage.count())) return *bad;
  const kernels::Primitive& line = stage.value.line;
  if (line.kind != Kind::kInput) return lost(RulingReason::kMalformed, "claim c is about inputs");
  const std::int64_t element = stage.element_at(claim.index);
  return judged(
      judge_input(step_of(turn, stage.value.table), line, element, shown_at(stage, claim.index), claim),
      claim.kClaim, at_element(element));
}

Outcome choose_in(const Turn& turn, const ChooseElement& stage, const OperationClaim& claim) {
  if (auto bad = outside(claim.index, stage.count())) return *bad;
  const kernels::Primitive& line = stage.value.line;
  if (line.kind != Kind::kMap)
    return lost(RulingReason::kMalformed, "claims the element of a line that is not a map");
  const std::int64_t element = stage.element_at(claim.index);
  return judged(judge_element(step_of(turn, stage.value.table), line, stage.value.index, element,
                              shown_at(stage, claim.index), claim),
                claim.kClaim, at_element(element));
}

Outcome choose_in(const Turn& turn, const ChooseNumber& stage, const OperationClaim& claim) {
  if (auto bad = outside(claim.index, std::ssize(stage.fold.shown()))) return *bad;
  if (!stage.fold.at_position())
    return lost(RulingReason::kMalformed, "claims a running result that is not one position's");
  const FoldLevels::Position position = stage.fold.position(claim.index);
  return judged(judge_position(step_of(turn, stage.value.table), stage.value.line, stage.value.index,
                               stage.element, position, claim),
                claim.kClaim, at_position(position.position));
}

template <class S>
requires OfValueTable<S> || OfEntries<S> Outcome choose_in(const Turn& turn, const S& stage,
                                                           const NonFiniteClaim& claim) {
  if (turn.state.non_finite == turn.state.rejected) {
    return Decision{false, RulingReason::kClaim, claim.kClaim, std::nullopt,
                    "the defender also says that the state after the step is not finite"};
  }
  const Judgement judgement = judge_non_finite(step_of(turn, stage.table), claim);
  return judged(judgement, claim.kClaim, at_element(judgement.element));
}

}  // namespace

Outcome choose(const Turn& turn, const Message& message) {
  if (const auto* named = std::get_if<Name>(&message)) {
    const bool names_value = std::holds_alternative<ChooseValue>(turn.state.stage);
    if (named->line.has_value() != names_value) {
      return lost(RulingReason::kMalformed,
                  named->line ? "opens a line where none is named" : "names a value without its line");
    }
  }
  return std::visit(
      [&](auto& stage, const auto& said) -> Outcome {
        if constexpr (requires { choose_in(turn, stage, said); }) {
          return choose_in(turn, stage, said);
        } else {
          return unexpected(stage.kDue, message);
        }
      },
      turn.state.stage, message);
}

}  // namespace dgx::protocol
