#include "turn.h"

#include <fmt/format.h>

#include <algorithm>

#include "claims.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/scalar_text.h"

namespace dgx::protocol {

using kernels::Kind;
using manifest::RulingReason;

namespace {

constexpr std::int64_t kStatesInMove = 255;

std::int64_t stride_of(std::int64_t steps) { return (steps + kStatesInMove - 1) / kStatesInMove; }

std::vector<Digest> value_leaves(const std::vector<Digest>& values) {
  std::vector<Digest> out;
  for (const Digest& value : values) out.push_back(merkle::value_leaf(value));
  return out;
}

bool is_fold(Kind kind) { return kind != Kind::kInput && kind != Kind::kMap; }

Decision judged(const Judgement& judgement, char claim) {
  return {judgement.proven, RulingReason::kClaim, claim, judgement.scalar, judgement.words};
}

Step step_of(const Dispute& dispute, const Ground& ground) {
  return {dispute.task.body, ground.first_step, ground.accepted, ground.rejected, ground.table};
}

/// The tensor's bytes; the line's shape has been counted when it was opened.
std::uint64_t size_of(const kernels::Primitive& line) {
  return static_cast<std::uint64_t>(*element_count(line.shape)) * dgx::size_of(line.dtype);
}

}  // namespace

std::optional<Decision> Turn::take(const Say& say) {
  return side_of(stage_) == Side::kDefender ? show(say) : choose(say);
}

Decision Turn::lost(RulingReason reason, std::string words, std::optional<char> claim) const {
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

/// Whether digests are the children of a node of a tree that the defender is bound to.
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

// What the defender shows.

std::optional<Decision> Turn::show(const Say& say) {
  const auto on = [&]<class Post>(std::type_identity<Post>, Outcome (Turn::*take)(const Post&)) -> Outcome {
    const Post* post = std::get_if<Post>(&say);
    return post == nullptr ? Outcome(unexpected(say)) : (this->*take)(*post);
  };
  switch (stage_) {
    case Stage::kInterior:
      return on(std::type_identity<InteriorPost>{}, &Turn::interior);
    case Stage::kStates:
      return on(std::type_identity<StatesPost>{}, &Turn::states);
    case Stage::kValues:
      return on(std::type_identity<ValuesPost>{}, &Turn::values);
    case Stage::kValueNodes:
    case Stage::kTensorNodes:
    case Stage::kEntryNodes:
      return on(std::type_identity<NodesPost>{}, &Turn::nodes);
    case Stage::kTensor:
      return on(std::type_identity<TensorPost>{}, &Turn::tensor);
    case Stage::kLeaf:
      return on(std::type_identity<LeafPost>{}, &Turn::leaf);
    case Stage::kNumbers:
      return on(std::type_identity<NumbersPost>{}, &Turn::numbers);
    case Stage::kEntries:
      return on(std::type_identity<EntriesPost>{}, &Turn::entries);
    case Stage::kEntry:
      return on(std::type_identity<EntryPost>{}, &Turn::entry);
    case Stage::kChunk:
      return on(std::type_identity<ChunkPost>{}, &Turn::chunk);
    default:
      return unexpected(say);
  }
}

std::optional<Decision> Turn::interior(const InteriorPost& post) {
  const Digest& witness = dispute_.challenge.body.row->row.witness;
  if (witness_of(dispute_.defender(), post.digest) != witness) {
    return lost(RulingReason::kPost,
                fmt::format("state {} does not give the witness {}", post.digest.hex(), witness.hex()));
  }
  ground_.rejected = post.digest;
  stage_ = Stage::kChooseState;  // nothing shown yet but the end: the challenger rejects it
  return std::nullopt;
}

void Turn::next_states() {
  ground_.states.clear();
  stage_ = ground_.end_step - ground_.first_step == 1 ? Stage::kValues : Stage::kStates;
}

std::optional<Decision> Turn::states(const StatesPost& post) {
  const std::int64_t steps = ground_.end_step - ground_.first_step;
  ground_.stride = stride_of(steps);
  const std::int64_t count = (steps - 1) / ground_.stride;
  if (static_cast<std::int64_t>(post.digests.size()) != count) {
    return lost(RulingReason::kMalformed,
                fmt::format("shows {} states, they must be {}", post.digests.size(), count));
  }
  ground_.states = post.digests;
  stage_ = Stage::kChooseState;
  return std::nullopt;
}

void Turn::show_nodes(const Node& node, std::vector<Digest> nodes, Stage at_inner, Stage at_bottom) {
  ground_.node = node;
  ground_.nodes = std::move(nodes);
  stage_ = node.is_bottom() ? at_bottom : at_inner;
}

std::optional<Decision> Turn::values(const ValuesPost& post) {
  const Node top{0, lines()};
  if (auto bad = not_children(top.is_bottom() ? value_leaves(post.nodes) : post.nodes, top, post.root))
    return bad;
  ground_.table = post.root;
  ground_.above.clear();
  show_nodes(top, post.nodes, Stage::kChooseValueNode, Stage::kChooseValue);
  return std::nullopt;
}

/// The children of the node named, in any of the three trees.
std::optional<Decision> Turn::nodes(const NodesPost& post) {
  const bool values = stage_ == Stage::kValueNodes;
  const bool hash = values && ground_.node.is_bottom();
  const Digest named = ground_.nodes.at(0);  // name_node() leaves the node's own hash here
  if (auto bad = not_children(hash ? value_leaves(post.nodes) : post.nodes, ground_.node, named)) return bad;
  if (values) {
    show_nodes(ground_.node, post.nodes, Stage::kChooseValueNode, Stage::kChooseValue);
  } else if (stage_ == Stage::kTensorNodes) {
    show_nodes(ground_.node, post.nodes, Stage::kChooseTensorNode, Stage::kChooseTensorNode);
  } else {
    show_nodes(ground_.node, post.nodes, Stage::kChooseEntryNode, Stage::kChooseEntry);
  }
  return std::nullopt;
}

std::uint64_t Turn::tensor_leaves() const { return merkle::tensor_leaf_count(size_of(*ground_.line)); }

std::optional<Decision> Turn::tensor(const TensorPost& post) {
  const Node top{0, tensor_leaves()};
  if (post.root.has_value() == top.is_leaf()) {
    return lost(RulingReason::kMalformed, fmt::format("a value of {} leaves is shown {}", top.count,
                                                      top.is_leaf() ? "by its bytes" : "by root and nodes"));
  }
  const Digest root = post.root ? *post.root : merkle::leaf_hash(post.bytes);
  if (merkle::tensor_digest(ground_.line->dtype, ground_.line->shape, root) != ground_.value_digest) {
    return lost(RulingReason::kPost,
                fmt::format("value {} is not the digest of this tensor as {} {}, the line's type and shape",
                            ground_.value, dgx::name_of(ground_.line->dtype), to_string(ground_.line->shape)),
                'e');
  }
  ground_.tensor_root = root;
  if (top.is_leaf()) {
    ground_.nodes = {root};
    ground_.leaf = 0;
    return leaf(LeafPost{post.bytes});
  }
  if (auto bad = not_children(post.nodes, top, root)) return bad;
  ground_.above.clear();
  show_nodes(top, post.nodes, Stage::kChooseTensorNode, Stage::kChooseTensorNode);
  return std::nullopt;
}

std::optional<Decision> Turn::leaf(const LeafPost& post) {
  const std::uint64_t size = size_of(*ground_.line);
  const std::uint64_t begin = static_cast<std::uint64_t>(ground_.leaf) * merkle::kTensorLeafBytes;
  const std::uint64_t expected = std::min<std::uint64_t>(merkle::kTensorLeafBytes, size - begin);
  if (merkle::leaf_hash(post.bytes) != ground_.nodes.at(0))
    return lost(RulingReason::kPost, "the bytes do not hash to the leaf named");
  if (post.bytes.size() != expected)
    return lost(RulingReason::kPost,
                fmt::format("the leaf has {} bytes, not {}", post.bytes.size(), expected), 'e');
  ground_.leaf_bytes = post.bytes;
  stage_ = Stage::kChooseElement;
  return std::nullopt;
}

std::optional<Decision> Turn::numbers(const NumbersPost& post) {
  const auto contradiction = ground_.fold->post(post.numbers);
  if (!contradiction.ok()) return lost(RulingReason::kMalformed, contradiction.error().message);
  if (!*contradiction) {
    stage_ = Stage::kChooseNumber;
    return std::nullopt;
  }
  const FoldLevels::Contradiction& found = **contradiction;
  if (!found.scalar) return lost(RulingReason::kPost, found.words);
  Decision out = lost(RulingReason::kPost, {}, 'd');
  out.scalar = judged_scalar(*found.scalar, found.claimed);
  out.words = fmt::format("value {} element {}: {}", ground_.value, ground_.element, sentence(*out.scalar));
  ground_.position = found.position;
  return out;
}

std::optional<Decision> Turn::entries(const EntriesPost& post) {
  if (merkle::state_digest(static_cast<std::uint64_t>(post.count), post.root) != ground_.rejected) {
    return lost(RulingReason::kPost, "count and root are not those of the state after the step");
  }
  if (post.count == 0) return lost(RulingReason::kPost, "the state after the step has no entries");
  const Node top{0, static_cast<std::uint64_t>(post.count)};
  if (auto bad = not_children(post.nodes, top, post.root)) return bad;
  ground_.entries = post.count;
  ground_.entries_root = post.root;
  ground_.above.clear();
  show_nodes(top, post.nodes, Stage::kChooseEntryNode, Stage::kChooseEntry);
  return std::nullopt;
}

std::optional<Decision> Turn::entry(const EntryPost& post) {
  if (merkle::entry_leaf(post.name, post.digest) != ground_.nodes.at(0)) {
    return lost(RulingReason::kPost, "name and digest do not hash to the entry named");
  }
  const auto line = open_line(post.line, dispute_.task.body);
  if (!line.ok()) return lost(RulingReason::kPost, line.error().message);
  const bool is_input =
      line->kind == Kind::kInput && line->source.kind == kernels::Source::Kind::kState && line->next;
  if (!is_input || line->source.name != post.name) {
    return lost(RulingReason::kPost,
                fmt::format("entry {}: line {} is not its state input", post.name, post.line.index), 'b');
  }
  ground_.shown_entry = post;
  stage_ = Stage::kJudgeEntry;
  return std::nullopt;
}

std::optional<Decision> Turn::chunk(const ChunkPost& post) {
  const manifest::ChunkReference& wanted = *dispute_.challenge.body.chunk;
  const auto state = merkle::state_digest_of(post.entry);
  if (!state.ok() || *state != ground_.accepted || post.entry.name != wanted.entry) {
    return lost(RulingReason::kPost, "the entry opened is not the one demanded");
  }
  const auto part = static_cast<std::uint64_t>(wanted.part);
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(*element_count(post.shape)) * dgx::size_of(post.dtype);
  const auto root = merkle::root_from_path(post.root, part, merkle::tensor_part_count(bytes), post.path);
  if (!root.ok() || merkle::tensor_digest(post.dtype, post.shape, *root) != post.entry.tensor) {
    return lost(RulingReason::kPost, "the part opened is not of the entry");
  }
  return Decision{false, RulingReason::kClaim, std::nullopt, std::nullopt,
                  fmt::format("part {} of {} has root {} and lies at {}", wanted.part, wanted.entry,
                              post.root.hex(), post.location)};
}

// What the challenger chooses.

std::optional<Decision> Turn::choose(const Say& say) {
  if (const auto* named = std::get_if<Name>(&say)) {
    if (named->line.has_value() != (stage_ == Stage::kChooseValue)) {
      return lost(RulingReason::kMalformed,
                  named->line ? "opens a line where none is named" : "names a value without its line");
    }
    return stage_ == Stage::kJudgeEntry ? Outcome(unexpected(say)) : name(*named);
  }
  const bool values = stage_ == Stage::kChooseValue || stage_ == Stage::kChooseValueNode;
  const bool entries = stage_ == Stage::kChooseEntry || stage_ == Stage::kChooseEntryNode;
  if (std::holds_alternative<Accept>(say) && values) return accept();
  if (const auto* a = std::get_if<StateInputClaim>(&say); a != nullptr && stage_ == Stage::kChooseValue)
    return claim(*a);
  if (const auto* b = std::get_if<EntryClaim>(&say);
      b != nullptr && (entries || stage_ == Stage::kJudgeEntry))
    return claim(*b);
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
    case Stage::kChooseState:
      return name_state(say.index);
    case Stage::kChooseValue:
      return name_value(say);
    case Stage::kChooseElement:
      return name_element(say.index);
    case Stage::kChooseNumber:
      return name_number(say.index);
    case Stage::kChooseEntry:
      return name_entry(say.index);
    default:
      return name_node(say.index);
  }
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

/// Afterwards `node` is the node named and `nodes` its hash alone.
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
                'a');
}

std::optional<Decision> Turn::claim(const EntryClaim& say) {
  const bool shown = stage_ == Stage::kJudgeEntry;
  if (shown && say.digest) ground_.value = *open_line(ground_.shown_entry->line, dispute_.task.body)->next;
  return judged(judge_entry(step_of(dispute_, ground_), say, shown ? &*ground_.shown_entry : nullptr,
                            ground_.entry, ground_.entries),
                'b');
}

std::optional<Decision> Turn::claim(const InputClaim& say) {
  const std::size_t size = dgx::size_of(ground_.line->dtype);
  if (auto bad = outside(say.index, static_cast<std::int64_t>(ground_.leaf_bytes.size() / size))) return bad;
  if (ground_.line->kind != Kind::kInput) return lost(RulingReason::kMalformed, "claim c is about inputs");
  ground_.element = ground_.leaf * static_cast<std::int64_t>(merkle::kTensorLeafBytes / size) + say.index;
  const kernels::Number claimed =
      number_at(ground_.line->dtype, ground_.leaf_bytes, static_cast<std::size_t>(say.index) * size);
  return judged(judge_input(step_of(dispute_, ground_), *ground_.line, ground_.element, claimed, say), 'c');
}

std::optional<Decision> Turn::claim(const OperationClaim& say) {
  const Step step = step_of(dispute_, ground_);
  if (stage_ == Stage::kChooseNumber) {
    if (auto bad = outside(say.index, static_cast<std::int64_t>(ground_.fold->shown().size()))) return bad;
    if (!ground_.fold->at_position())
      return lost(RulingReason::kMalformed, "claims a running result that is not one position's");
    const FoldLevels::Position position = ground_.fold->position(say.index);
    ground_.position = position.position;
    return judged(judge_position(step, *ground_.line, ground_.value, ground_.element, position, say), 'd');
  }
  const std::size_t size = dgx::size_of(ground_.line->dtype);
  if (auto bad = outside(say.index, static_cast<std::int64_t>(ground_.leaf_bytes.size() / size))) return bad;
  if (ground_.line->kind != Kind::kMap)
    return lost(RulingReason::kMalformed, "claims the element of a line that is no map");
  ground_.element = ground_.leaf * static_cast<std::int64_t>(merkle::kTensorLeafBytes / size) + say.index;
  const kernels::Number claimed =
      number_at(ground_.line->dtype, ground_.leaf_bytes, static_cast<std::size_t>(say.index) * size);
  return judged(judge_element(step, *ground_.line, ground_.value, ground_.element, claimed, say), 'd');
}

std::optional<Decision> Turn::claim(const NonFiniteClaim& say) {
  const Judgement judgement = judge_non_finite(step_of(dispute_, ground_), say);
  if (judgement.element) ground_.element = *judgement.element;
  return judged(judgement, 'f');
}

}  // namespace dgx::protocol
