#include "turn.h"

#include <fmt/format.h>

#include "claims.h"
#include "dgx/merkle/tree.h"

namespace dgx::protocol {

using kernels::Kind;
using manifest::Claim;
using manifest::RulingReason;

namespace {

bool is_fold(Kind kind) { return kind != Kind::kInput && kind != Kind::kMap; }

Decision judged(const Judgement& judgement, Claim claim) {
  return {judgement.proven, RulingReason::kClaim, claim, judgement.scalar, judgement.words};
}

Step step_of(const Dispute& dispute, const Ground& ground) {
  return {dispute.task.body, ground.first_step, ground.accepted, ground.rejected, ground.table};
}

}  // namespace

std::optional<Decision> Turn::take(const Say& say) {
  return side_of(stage_) == Side::kDefender ? show(say) : choose(say);
}

Decision Turn::lost(RulingReason reason, std::string words, std::optional<Claim> claim) const {
  return {side_of(stage_) == Side::kDefender, reason, claim, std::nullopt, std::move(words)};
}

Decision Turn::unexpected(const Say& say) const {
  return lost(RulingReason::kMalformed, fmt::format("\"{}\", where the {} must {}", name_of(say),
                                                    name_of(side_of(stage_)), describe(stage_)));
}

std::optional<Decision> Turn::outside(std::int64_t index, std::int64_t count) const {
  if (index < count) return std::nullopt;
  return lost(RulingReason::kMalformed, fmt::format("names {} of {}", index, count));
}

/// Checks that `hashes` are the children of a node of a tree that the defender is bound to.
std::optional<Decision> Turn::not_children(const std::vector<Digest>& hashes, const Node& node,
                                           const Digest& root) const {
  if (hashes.size() != node.children()) {
    return lost(RulingReason::kMalformed,
                fmt::format("shows {} nodes of {}", hashes.size(), node.children()));
  }
  if (merkle::root_of(hashes) != root)
    return lost(RulingReason::kPost, "the nodes do not hash to the one that they are children of");
  return std::nullopt;
}

// The challenger's choices.

std::optional<Decision> Turn::choose(const Say& say) {
  if (const auto* named = std::get_if<Name>(&say)) {
    if (named->line.has_value() != (stage_ == Stage::kChooseValue)) {
      return lost(RulingReason::kMalformed,
                  named->line ? "opens a line where none is named" : "names a value without its line");
    }
    const bool nothing_to_name = stage_ == Stage::kJudgeEntry || stage_ == Stage::kChooseLine;
    return nothing_to_name ? Outcome(unexpected(say)) : name(*named);
  }
  const bool values = stage_ == Stage::kChooseValue || stage_ == Stage::kChooseValueNode;
  const bool entries = stage_ == Stage::kChooseEntry || stage_ == Stage::kChooseEntryNode;
  if (std::holds_alternative<Accept>(say) && values) return accept();
  if (const auto* a = std::get_if<StateInputClaim>(&say); a != nullptr && stage_ == Stage::kChooseValue)
    return claim(*a);
  if (const auto* b = std::get_if<EntryClaim>(&say);
      b != nullptr && (entries || stage_ == Stage::kJudgeEntry))
    return claim(*b);
  if (const auto* b = std::get_if<EntryClaim>(&say); b != nullptr && stage_ == Stage::kChooseLine)
    return show_line(*b);
  if (const auto* c = std::get_if<InputClaim>(&say); c != nullptr && stage_ == Stage::kChooseElement)
    return claim(*c);
  const bool operation = stage_ == Stage::kChooseElement || stage_ == Stage::kChooseNumber;
  if (const auto* d = std::get_if<OperationClaim>(&say); d != nullptr && operation) return claim(*d);
  if (const auto* f = std::get_if<NonFiniteClaim>(&say); f != nullptr && (values || entries))
    return claim(*f);
  return unexpected(say);
}

std::optional<Decision> Turn::name(const Name& say) {
  switch (stage_) {
    case Stage::kChooseRow: return name_in_row(say.index);
    case Stage::kChooseState: return name_state(say.index);
    case Stage::kChooseValue: return name_value(say);
    case Stage::kChooseElement: return name_element(say.index);
    case Stage::kChooseNumber: return name_number(say.index);
    case Stage::kChooseEntry: return name_entry(say.index);
    default: return name_node(say.index);
  }
}

std::optional<Decision> Turn::name_in_row(std::int64_t index) {
  if (auto bad = outside(index, has_witness(dispute_, *ground_.row) ? 2 : 1)) return bad;
  stage_ = play_on(dispute_, index == 0 ? manifest::About::kSegment : manifest::About::kWitness, ground_);
  return std::nullopt;
}

std::optional<Decision> Turn::name_state(std::int64_t index) {
  const auto shown = static_cast<std::int64_t>(ground_.states.size());
  if (auto bad = outside(index, shown + 1)) return bad;
  const std::int64_t first = ground_.first_step;
  if (index > 0) {
    ground_.first_step = first + index * ground_.stride;
    ground_.accepted = ground_.states[static_cast<std::size_t>(index) - 1];
  }
  if (index < shown) {
    ground_.end_step = first + (index + 1) * ground_.stride;
    ground_.rejected = ground_.states[static_cast<std::size_t>(index)];
  }
  next_states();
  return std::nullopt;
}

/// Afterwards `node` is the node named, and `nodes` holds its hash alone.
std::optional<Decision> Turn::name_node(std::int64_t index) {
  if (auto bad = outside(index, static_cast<std::int64_t>(ground_.nodes.size()))) return bad;
  const Digest named = ground_.nodes[static_cast<std::size_t>(index)];
  const Node child = ground_.node.child(static_cast<std::uint64_t>(index));
  ground_.above.push_back({ground_.node, std::move(ground_.nodes)});
  ground_.node = child;
  ground_.nodes = {named};
  if (stage_ == Stage::kChooseValueNode) {
    stage_ = Stage::kValueNodes;
  } else if (stage_ == Stage::kChooseEntryNode) {
    stage_ = child.is_leaf() ? Stage::kEntry : Stage::kEntryNodes;
    ground_.entry = static_cast<std::int64_t>(child.first);
  } else {
    stage_ = ground_.node.is_leaf() ? Stage::kLeaf : Stage::kTensorNodes;
    if (ground_.node.is_leaf()) ground_.leaf = static_cast<std::int64_t>(ground_.node.first);
  }
  return std::nullopt;
}

std::optional<Decision> Turn::name_value(const Name& say) {
  if (auto bad = outside(say.index, static_cast<std::int64_t>(ground_.nodes.size()))) return bad;
  const std::int64_t value = static_cast<std::int64_t>(ground_.node.first) + say.index;
  const auto line = open_line(*say.line, dispute_.task.body);
  if (!line.ok()) return lost(RulingReason::kPost, line.error().message);
  if (say.line->index != value)
    return lost(RulingReason::kPost, fmt::format("names value {} with line {}", value, say.line->index));
  if (line->kind == Kind::kInput && line->source.kind == kernels::Source::Kind::kState) {
    return lost(RulingReason::kMalformed, "a state input is claimed (a), not named");
  }
  ground_.value = value;
  ground_.value_digest = ground_.nodes[static_cast<std::size_t>(say.index)];
  ground_.value_lists = std::move(ground_.above);
  ground_.value_lists.push_back({ground_.node, std::move(ground_.nodes)});
  ground_.line = *line;
  stage_ = Stage::kTensor;
  return std::nullopt;
}

std::optional<Decision> Turn::name_element(std::int64_t index) {
  const auto in_leaf =
      static_cast<std::int64_t>(ground_.leaf_bytes.size() / dgx::size_of(ground_.line->dtype));
  if (auto bad = outside(index, in_leaf)) return bad;
  if (!is_fold(ground_.line->kind))
    return lost(RulingReason::kMalformed, "an element of an input or a map is claimed, not named");
  ground_.element =
      ground_.leaf * static_cast<std::int64_t>(merkle::kTensorLeafBytes / dgx::size_of(ground_.line->dtype)) +
      index;
  const auto positions = element_count(ground_.line->fold);
  if (!positions.ok() || *positions == 0)
    return lost(RulingReason::kMalformed, "the line's fold has no positions");
  const std::size_t offset = static_cast<std::size_t>(index) * dgx::size_of(ground_.line->dtype);
  ground_.fold.emplace(*ground_.line, *positions, number_at(ground_.line->dtype, ground_.leaf_bytes, offset));
  stage_ = Stage::kNumbers;
  return std::nullopt;
}

std::optional<Decision> Turn::name_number(std::int64_t index) {
  if (auto bad = outside(index, static_cast<std::int64_t>(ground_.fold->shown().size()))) return bad;
  if (ground_.fold->at_position())
    return lost(RulingReason::kMalformed, "a single position is claimed (d), not named");
  ground_.fold->name(index);
  stage_ = Stage::kNumbers;
  return std::nullopt;
}

std::optional<Decision> Turn::name_entry(std::int64_t index) {
  if (auto bad = outside(index, static_cast<std::int64_t>(ground_.nodes.size()))) return bad;
  ground_.entry = static_cast<std::int64_t>(ground_.node.first) + index;
  const Digest named = ground_.nodes[static_cast<std::size_t>(index)];
  ground_.above.push_back({ground_.node, std::move(ground_.nodes)});
  ground_.nodes = {named};
  stage_ = Stage::kEntry;
  return std::nullopt;
}

std::optional<Decision> Turn::accept() {
  ground_.nodes.clear();
  stage_ = Stage::kEntries;
  return std::nullopt;
}

std::optional<Decision> Turn::claim(const StateInputClaim& say) {
  if (auto bad = outside(say.index, static_cast<std::int64_t>(ground_.nodes.size()))) return bad;
  ground_.value = static_cast<std::int64_t>(ground_.node.first) + say.index;
  return judged(judge_state_input(step_of(dispute_, ground_), say, ground_.value,
                                  ground_.nodes[static_cast<std::size_t>(say.index)]),
                Claim::kStateInput);
}

std::optional<Decision> Turn::claim(const EntryClaim& say) {
  const bool shown = stage_ == Stage::kJudgeEntry;
  if (shown && say.digest) ground_.value = *open_line(ground_.shown_entry->line, dispute_.task.body)->next;
  return judged(judge_entry(step_of(dispute_, ground_), say, shown ? &*ground_.shown_entry : nullptr,
                            ground_.entry, ground_.entries),
                Claim::kEntry);
}

std::optional<Decision> Turn::claim(const InputClaim& say) {
  const std::size_t size = dgx::size_of(ground_.line->dtype);
  if (auto bad = outside(say.index, static_cast<std::int64_t>(ground_.leaf_bytes.size() / size))) return bad;
  if (ground_.line->kind != Kind::kInput) return lost(RulingReason::kMalformed, "claim c is about inputs");
  ground_.element = ground_.leaf * static_cast<std::int64_t>(merkle::kTensorLeafBytes / size) + say.index;
  const kernels::Number claimed =
      number_at(ground_.line->dtype, ground_.leaf_bytes, static_cast<std::size_t>(say.index) * size);
  return judged(judge_input(step_of(dispute_, ground_), *ground_.line, ground_.element, claimed, say),
                Claim::kInput);
}

std::optional<Decision> Turn::claim(const OperationClaim& say) {
  const Step step = step_of(dispute_, ground_);
  if (stage_ == Stage::kChooseNumber) {
    if (auto bad = outside(say.index, static_cast<std::int64_t>(ground_.fold->shown().size()))) return bad;
    if (!ground_.fold->at_position())
      return lost(RulingReason::kMalformed, "claims a running result that is not one position's");
    const FoldLevels::Position position = ground_.fold->position(say.index);
    ground_.position = position.position;
    return judged(judge_position(step, *ground_.line, ground_.value, ground_.element, position, say),
                  Claim::kOperation);
  }
  const std::size_t size = dgx::size_of(ground_.line->dtype);
  if (auto bad = outside(say.index, static_cast<std::int64_t>(ground_.leaf_bytes.size() / size))) return bad;
  if (ground_.line->kind != Kind::kMap)
    return lost(RulingReason::kMalformed, "claims the element of a line that is no map");
  ground_.element = ground_.leaf * static_cast<std::int64_t>(merkle::kTensorLeafBytes / size) + say.index;
  const kernels::Number claimed =
      number_at(ground_.line->dtype, ground_.leaf_bytes, static_cast<std::size_t>(say.index) * size);
  return judged(judge_element(step, *ground_.line, ground_.value, ground_.element, claimed, say),
                Claim::kOperation);
}

std::optional<Decision> Turn::claim(const NonFiniteClaim& say) {
  if (ground_.non_finite == ground_.rejected) {
    return Decision{false, RulingReason::kClaim, Claim::kNonFinite, std::nullopt,
                    "that the state after the step is not finite is what the defender says"};
  }
  const Judgement judgement = judge_non_finite(step_of(dispute_, ground_), say);
  if (judgement.element) ground_.element = *judgement.element;
  return judged(judgement, Claim::kNonFinite);
}

/// Claim b against an entry of a start state that is said not to be the program's: shows its line.
std::optional<Decision> Turn::show_line(const EntryClaim& say) {
  const auto stands = [](std::string words) {
    return Decision{false, RulingReason::kClaim, Claim::kEntry, std::nullopt, std::move(words)};
  };
  if (!say.line) return stands("no line was opened");
  const auto line = open_line(*say.line, dispute_.task.body);
  if (!line.ok()) return stands("the evidence proves nothing: " + line.error().message);
  const bool is_input = line->kind == Kind::kInput && line->source.kind == kernels::Source::Kind::kState;
  if (!is_input || line->source.name != ground_.foreign)
    return stands(fmt::format("line {} is not the entry {}", say.line->index, ground_.foreign));
  return Decision{true, RulingReason::kClaim, Claim::kEntry, std::nullopt,
                  fmt::format("entry {} is line {} of the program", ground_.foreign, say.line->index)};
}

}  // namespace dgx::protocol
