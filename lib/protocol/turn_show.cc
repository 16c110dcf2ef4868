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

using manifest::Claim;
using manifest::RulingReason;

// The defender's answers. Whoever shows what the rules do not allow, or what contradicts what they are bound
// to, has lost: the statement falls.

namespace {

Decision lost(RulingReason reason, std::string words, std::optional<Claim> claim = std::nullopt) {
  return {true, reason, claim, std::nullopt, std::move(words)};
}

std::vector<Digest> value_leaves(const std::vector<Digest>& values) {
  std::vector<Digest> out;
  for (const Digest& value : values) out.push_back(merkle::value_leaf(value));
  return out;
}

std::uint64_t lines_of(const Turn& turn) {
  return static_cast<std::uint64_t>(turn.dispute.task.body.program.lines);
}

/// Checks that `hashes` are the children of a node of a tree that the defender is bound to.
std::optional<Decision> not_children(const std::vector<Digest>& hashes, const Node& node,
                                     const Digest& root) {
  if (hashes.size() != node.children()) {
    return lost(RulingReason::kMalformed,
                fmt::format("shows {} nodes of {}", hashes.size(), node.children()));
  }
  if (merkle::root_of(hashes) != root)
    return lost(RulingReason::kPost, "the nodes do not hash to their parent");
  return std::nullopt;
}

/// The children of a value table's node: at the bottom the values' digests, whose leaf hashes must fit.
std::optional<Decision> not_value_nodes(const std::vector<Digest>& nodes, const Node& node,
                                        const Digest& root) {
  return not_children(node.is_bottom() ? value_leaves(nodes) : nodes, node, root);
}

Stage choose_in_table(OpenedTree table) {
  if (table.last().node.is_bottom()) return ChooseValue{std::move(table)};
  return ChooseValueNode{std::move(table)};
}

Stage choose_in_entries(OpenedTree table, OpenedTree entries) {
  if (entries.last().node.is_bottom()) return ChooseEntry{std::move(table), std::move(entries)};
  return ChooseEntryNode{std::move(table), std::move(entries)};
}

Outcome show_in(const Turn& turn, const ShowRow&, const RowPost& post) {
  const manifest::Verdict& verdict = turn.dispute.verdict->body;
  const std::int64_t segment = turn.dispute.challenge.body.segment;
  const std::vector<std::int64_t> drawn = *drawn_segments(turn.dispute);  // Game::open() has drawn them, too
  const std::int64_t place = std::lower_bound(drawn.begin(), drawn.end(), segment) - drawn.begin();
  if (post.opened.row.index != segment || post.opened.index != place) {
    return lost(RulingReason::kPost,
                fmt::format("row {} of the verdict belongs to segment {}", place, segment));
  }
  const Digest leaf = merkle::leaf_hash(as_bytes(post.opened.row.to_json().dump()));
  const auto root = merkle::root_from_path(leaf, static_cast<std::uint64_t>(place),
                                           static_cast<std::uint64_t>(verdict.rows.count), post.opened.path);
  if (!root.ok() || *root != verdict.rows.root)
    return lost(RulingReason::kPost, "the row is not the verdict's");
  if (auto fallen = check_expected(turn.dispute, post.opened.row)) return *fallen;
  if (verdict.outcome == manifest::Outcome::kAccepted && !post.opened.row.agrees) {
    return lost(RulingReason::kPost, "the verdict accepts, but its row does not agree");
  }
  turn.state.row = post.opened.row;
  return ChooseRow{};
}

Outcome show_in(const Turn& turn, const ShowInterior&, const InteriorPost& post) {
  const Digest& witness = turn.state.row->witness;
  if (witness_due(turn.dispute, post.digest) != witness) {
    return lost(RulingReason::kPost,
                fmt::format("state {} does not yield the witness {}", post.digest.hex(), witness.hex()));
  }
  turn.state.rejected = post.digest;
  return ChooseState{};  // no state between is shown yet: the challenger rejects the end
}

Outcome show_in(const Turn& turn, const ShowStates&, const StatesPost& post) {
  const std::int64_t steps = turn.state.steps();
  const std::int64_t count = (steps - 1) / stride_of_states(steps);
  if (std::ssize(post.digests) != count) {
    return lost(RulingReason::kMalformed,
                fmt::format("shows {} states, they must be {}", post.digests.size(), count));
  }
  return ChooseState{post.digests};
}

Outcome show_in(const Turn& turn, const ShowValues&, const ValuesPost& post) {
  const Node top{0, lines_of(turn)};
  if (auto bad = not_value_nodes(post.nodes, top, post.root)) return *bad;
  return choose_in_table({post.root, {{top, post.nodes}}});
}

Outcome show_in(const Turn&, ShowValueNodes& stage, const NodesPost& post) {
  if (auto bad = not_value_nodes(post.nodes, stage.named.node, stage.named.hash)) return *bad;
  stage.table.lists.push_back({stage.named.node, post.nodes});
  return choose_in_table(std::move(stage.table));
}

/// The leaf of a value whose hash the defender is bound to.
Outcome show_leaf(NamedValue& value, const NamedNode& leaf, const Bytes& bytes) {
  const std::uint64_t begin = leaf.node.first * merkle::kTensorLeafBytes;
  const auto expected = std::min<std::uint64_t>(merkle::kTensorLeafBytes, tensor_bytes(value.line) - begin);
  if (merkle::leaf_hash(bytes) != leaf.hash)
    return lost(RulingReason::kPost, "the bytes do not hash to the named leaf");
  if (bytes.size() != expected)
    return lost(RulingReason::kPost, fmt::format("the leaf has {} bytes, not {}", bytes.size(), expected),
                Claim::kTypeOrShape);
  return ChooseElement{std::move(value), static_cast<std::int64_t>(leaf.node.first), bytes};
}

Outcome show_in(const Turn&, ShowTensor& stage, const TensorPost& post) {
  NamedValue& value = stage.value;
  const Node top{0, merkle::tensor_leaf_count(tensor_bytes(value.line))};
  if (post.root.has_value() == top.is_leaf()) {
    return lost(RulingReason::kMalformed, fmt::format("a value of {} leaves is shown {}", top.count,
                                                      top.is_leaf() ? "by its bytes" : "by root and nodes"));
  }
  const Digest root = post.root ? *post.root : merkle::leaf_hash(post.bytes);
  if (merkle::tensor_digest(value.line.dtype, value.line.shape, root) != value.digest) {
    return lost(RulingReason::kPost,
                fmt::format("value {} is not the digest of this tensor as {} {}, the line's type and shape",
                            value.index, dgx::name_of(value.line.dtype), to_string(value.line.shape)),
                Claim::kTypeOrShape);
  }
  if (top.is_leaf()) return show_leaf(value, {top, root}, post.bytes);
  if (auto bad = not_children(post.nodes, top, root)) return *bad;
  return ChooseTensorNode{std::move(value), {root, {{top, post.nodes}}}};
}

Outcome show_in(const Turn&, ShowTensorNodes& stage, const NodesPost& post) {
  if (auto bad = not_children(post.nodes, stage.named.node, stage.named.hash)) return *bad;
  stage.tensor.lists.push_back({stage.named.node, post.nodes});
  return ChooseTensorNode{std::move(stage.value), std::move(stage.tensor)};
}

Outcome show_in(const Turn&, ShowLeaf& stage, const LeafPost& post) {
  return show_leaf(stage.value, stage.named, post.bytes);
}

Outcome show_in(const Turn&, ShowNumbers& stage, const NumbersPost& post) {
  const auto contradiction = stage.fold.post(post.numbers);
  if (!contradiction.ok()) return lost(RulingReason::kMalformed, contradiction.error().message);
  if (!*contradiction) return ChooseNumber{std::move(stage.value), stage.element, std::move(stage.fold)};
  const FoldLevels::Contradiction& found = **contradiction;
  if (!found.scalar) return lost(RulingReason::kPost, found.words);
  Decision out = lost(RulingReason::kPost, {}, Claim::kOperation);
  out.scalar = judged_scalar(*found.scalar, found.claimed);
  out.words = fmt::format("value {} element {}: {}", stage.value.index, stage.element, sentence(*out.scalar));
  out.at.position = found.position;
  return out;
}

Outcome show_in(const Turn& turn, ShowEntries& stage, const EntriesPost& post) {
  const auto count = static_cast<std::uint64_t>(post.count);
  if (merkle::state_digest(count, post.root) != turn.state.rejected) {
    return lost(RulingReason::kPost, "count and root are not those of the state after the step");
  }
  if (count == 0) return lost(RulingReason::kPost, "the state after the step has no entries");
  if (count > lines_of(turn)) {
    return lost(RulingReason::kPost,
                fmt::format("the state after the step has {} entries, the program {} lines", post.count,
                            lines_of(turn)));
  }
  const Node top{0, count};
  if (auto bad = not_children(post.nodes, top, post.root)) return *bad;
  return choose_in_entries(std::move(stage.table), {post.root, {{top, post.nodes}}});
}

Outcome show_in(const Turn&, ShowEntryNodes& stage, const NodesPost& post) {
  if (auto bad = not_children(post.nodes, stage.named.node, stage.named.hash)) return *bad;
  stage.entries.lists.push_back({stage.named.node, post.nodes});
  return choose_in_entries(std::move(stage.table), std::move(stage.entries));
}

Outcome show_in(const Turn& turn, ShowEntry& stage, const EntryPost& post) {
  if (merkle::entry_leaf(post.name, post.digest) != stage.named.hash) {
    return lost(RulingReason::kPost, "name and digest do not hash to the named entry");
  }
  const auto line = open_line(post.line, turn.dispute.task.body);
  if (!line.ok()) return lost(RulingReason::kPost, line.error().message);
  if (!is_state_input(*line) || !line->next || line->source.name != post.name) {
    return lost(RulingReason::kPost,
                fmt::format("entry {}: line {} is not its state input", post.name, post.line.index),
                Claim::kEntry);
  }
  return ClaimEntry{std::move(stage.table), std::move(stage.entries),
                    static_cast<std::int64_t>(stage.named.node.first), post};
}

Outcome show_in(const Turn& turn, const ShowFault&, const FaultPost& post) {
  GameState& state = turn.state;
  const manifest::RowReason reason = fault_shown(state);
  if (!is_form_of(reason, post))
    return lost(RulingReason::kMalformed, "the fields do not fit a fault of this reason");
  RowFault found =
      judge_row_fault(reason, post, state.accepted, state.first_step, state.end_step, turn.dispute.task.body);
  switch (found.shown) {
    case RowFault::Shown::kNot: break;
    case RowFault::Shown::kFault:
      return Decision{false, RulingReason::kClaim, std::nullopt, std::nullopt, std::move(found.words)};
    case RowFault::Shown::kForeign: return ClaimLine{post.entry->name};
    case RowFault::Shown::kState:
      state.end_step = *post.step;
      state.rejected = *post.digest;
      state.non_finite = *post.digest;
      return ChooseState{};
  }
  return lost(RulingReason::kPost, std::move(found.words));
}

Outcome show_in(const Turn& turn, const ShowChunk&, const ChunkPost& post) {
  const manifest::ChunkReference& wanted = *turn.dispute.challenge.body.chunk;
  const kernels::Primitive line = *open_line(wanted.line, turn.dispute.task.body);  // Game::open() has, too
  const auto state = merkle::state_digest_of(post.entry);
  if (!state.ok() || *state != turn.state.accepted || post.entry.name != line.source.name) {
    return lost(RulingReason::kPost, "the opened entry is not the one demanded");
  }
  const auto part = static_cast<std::uint64_t>(wanted.part);
  const auto root =
      merkle::root_from_path(post.root, part, merkle::tensor_part_count(tensor_bytes(line)), post.path);
  if (!root.ok() || merkle::tensor_digest(line.dtype, line.shape, *root) != post.entry.tensor) {
    return lost(RulingReason::kPost, "the opened part does not belong to the entry");
  }
  return Decision{false, RulingReason::kClaim, std::nullopt, std::nullopt,
                  fmt::format("part {} of {} has root {} and is stored at {}", wanted.part, post.entry.name,
                              post.root.hex(), post.location)};
}

}  // namespace

Outcome show(const Turn& turn, const Message& message) {
  return std::visit(
      [&](auto& stage, const auto& said) -> Outcome {
        if constexpr (requires { show_in(turn, stage, said); }) {
          return show_in(turn, stage, said);
        } else {
          return unexpected(stage.kDue, message);
        }
      },
      turn.state.stage, message);
}

}  // namespace dgx::protocol
