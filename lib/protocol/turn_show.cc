#include <fmt/format.h>

#include <algorithm>

#include "claims.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/scalar_text.h"
#include "row_faults.h"
#include "turn.h"

namespace dgx::protocol {

using kernels::Kind;
using manifest::Claim;
using manifest::RulingReason;

namespace {

std::vector<Digest> value_leaves(const std::vector<Digest>& values) {
  std::vector<Digest> out;
  for (const Digest& value : values) out.push_back(merkle::value_leaf(value));
  return out;
}

}  // namespace

// The defender's answers.

std::optional<Decision> Turn::show(const Say& say) {
  const auto on = [&]<class Post>(std::type_identity<Post>, Outcome (Turn::*take)(const Post&)) -> Outcome {
    const Post* post = std::get_if<Post>(&say);
    return post == nullptr ? Outcome(unexpected(say)) : (this->*take)(*post);
  };
  switch (stage_) {
    case Stage::kRow: return on(std::type_identity<RowPost>{}, &Turn::row);
    case Stage::kInterior: return on(std::type_identity<InteriorPost>{}, &Turn::interior);
    case Stage::kStates: return on(std::type_identity<StatesPost>{}, &Turn::states);
    case Stage::kValues: return on(std::type_identity<ValuesPost>{}, &Turn::values);
    case Stage::kValueNodes:
    case Stage::kTensorNodes:
    case Stage::kEntryNodes: return on(std::type_identity<NodesPost>{}, &Turn::nodes);
    case Stage::kTensor: return on(std::type_identity<TensorPost>{}, &Turn::tensor);
    case Stage::kLeaf: return on(std::type_identity<LeafPost>{}, &Turn::leaf);
    case Stage::kNumbers: return on(std::type_identity<NumbersPost>{}, &Turn::numbers);
    case Stage::kEntries: return on(std::type_identity<EntriesPost>{}, &Turn::entries);
    case Stage::kEntry: return on(std::type_identity<EntryPost>{}, &Turn::entry);
    case Stage::kFault: return on(std::type_identity<FaultPost>{}, &Turn::fault);
    case Stage::kChunk: return on(std::type_identity<ChunkPost>{}, &Turn::chunk);
    default: return unexpected(say);
  }
}

std::optional<Decision> Turn::row(const RowPost& post) {
  const manifest::Verdict& verdict = dispute_.verdict->body;
  const std::int64_t segment = dispute_.challenge.body.segment;
  const std::vector<std::int64_t> drawn = *drawn_segments(dispute_);  // Game::open() has drawn them, too
  const std::int64_t place = std::lower_bound(drawn.begin(), drawn.end(), segment) - drawn.begin();
  if (post.opened.row.index != segment || post.opened.index != place) {
    return lost(RulingReason::kPost, fmt::format("row {} of the verdict is of segment {}", place, segment));
  }
  const Digest leaf = merkle::leaf_hash(as_bytes(post.opened.row.to_json().dump()));
  const auto root = merkle::root_from_path(leaf, static_cast<std::uint64_t>(place),
                                           static_cast<std::uint64_t>(verdict.rows.count), post.opened.path);
  if (!root.ok() || *root != verdict.rows.root)
    return lost(RulingReason::kPost, "the row is not the verdict's");
  if (auto fallen = check_expected(dispute_, post.opened.row)) return fallen;
  if (verdict.outcome == manifest::Outcome::kAccepted && !post.opened.row.agrees) {
    return lost(RulingReason::kPost, "the verdict accepts, and this row of it does not agree");
  }
  ground_.row = post.opened.row;
  stage_ = Stage::kChooseRow;
  return std::nullopt;
}

std::optional<Decision> Turn::interior(const InteriorPost& post) {
  const Digest& witness = ground_.row->witness;
  if (witness_of(dispute_.defender(), post.digest) != witness) {
    return lost(RulingReason::kPost,
                fmt::format("state {} does not give the witness {}", post.digest.hex(), witness.hex()));
  }
  ground_.rejected = post.digest;
  stage_ = Stage::kChooseState;  // only the end is shown so far: the challenger rejects it
  return std::nullopt;
}

void Turn::next_states() {
  ground_.states.clear();
  stage_ = ground_.end_step - ground_.first_step == 1 ? Stage::kValues : Stage::kStates;
}

std::optional<Decision> Turn::states(const StatesPost& post) {
  const std::int64_t steps = ground_.end_step - ground_.first_step;
  ground_.stride = stride_of_states(steps);
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

std::uint64_t Turn::tensor_leaves() const { return merkle::tensor_leaf_count(tensor_bytes(*ground_.line)); }

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
                Claim::kTypeOrShape);
  }
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
  const std::uint64_t size = tensor_bytes(*ground_.line);
  const std::uint64_t begin = static_cast<std::uint64_t>(ground_.leaf) * merkle::kTensorLeafBytes;
  const std::uint64_t expected = std::min<std::uint64_t>(merkle::kTensorLeafBytes, size - begin);
  if (merkle::leaf_hash(post.bytes) != ground_.nodes.at(0))
    return lost(RulingReason::kPost, "the bytes do not hash to the leaf named");
  if (post.bytes.size() != expected)
    return lost(RulingReason::kPost,
                fmt::format("the leaf has {} bytes, not {}", post.bytes.size(), expected),
                Claim::kTypeOrShape);
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
  Decision out = lost(RulingReason::kPost, {}, Claim::kOperation);
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
  if (static_cast<std::uint64_t>(post.count) > lines()) {
    return lost(
        RulingReason::kPost,
        fmt::format("the state after the step has {} entries, the program {} lines", post.count, lines()));
  }
  const Node top{0, static_cast<std::uint64_t>(post.count)};
  if (auto bad = not_children(post.nodes, top, post.root)) return bad;
  ground_.entries = post.count;
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
                fmt::format("entry {}: line {} is not its state input", post.name, post.line.index),
                Claim::kEntry);
  }
  ground_.shown_entry = post;
  stage_ = Stage::kJudgeEntry;
  return std::nullopt;
}

std::optional<Decision> Turn::fault(const FaultPost& post) {
  const manifest::RowReason reason = fault_shown(ground_);
  if (!is_form_of(reason, post))
    return lost(RulingReason::kMalformed, "the fields are not those of a fault of this reason");
  RowFault found = judge_row_fault(reason, post, ground_.accepted, ground_.first_step, ground_.end_step,
                                   dispute_.task.body);
  switch (found.shown) {
    case RowFault::Shown::kNot: return lost(RulingReason::kPost, std::move(found.words));
    case RowFault::Shown::kFault:
      return Decision{false, RulingReason::kClaim, std::nullopt, std::nullopt, std::move(found.words)};
    case RowFault::Shown::kForeign:
      ground_.foreign = post.entry->name;
      stage_ = Stage::kChooseLine;
      return std::nullopt;
    case RowFault::Shown::kState:
      ground_.end_step = *post.step;
      ground_.rejected = *post.digest;
      ground_.non_finite = *post.digest;
      stage_ = Stage::kChooseState;
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Decision> Turn::chunk(const ChunkPost& post) {
  const manifest::ChunkReference& wanted = *dispute_.challenge.body.chunk;
  const kernels::Primitive line = *open_line(wanted.line, dispute_.task.body);  // Game::open() has, too
  const auto state = merkle::state_digest_of(post.entry);
  if (!state.ok() || *state != ground_.accepted || post.entry.name != line.source.name) {
    return lost(RulingReason::kPost, "the entry opened is not the one demanded");
  }
  const auto part = static_cast<std::uint64_t>(wanted.part);
  const auto root =
      merkle::root_from_path(post.root, part, merkle::tensor_part_count(tensor_bytes(line)), post.path);
  if (!root.ok() || merkle::tensor_digest(line.dtype, line.shape, *root) != post.entry.tensor) {
    return lost(RulingReason::kPost, "the part opened is not of the entry");
  }
  return Decision{false, RulingReason::kClaim, std::nullopt, std::nullopt,
                  fmt::format("part {} of {} has root {} and lies at {}", wanted.part, post.entry.name,
                              post.root.hex(), post.location)};
}

}  // namespace dgx::protocol
