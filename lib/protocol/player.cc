#include "dgx/protocol/player.h"

#include <fmt/format.h>

#include <algorithm>

#include "claims.h"
#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "party_view.h"
#include "turn.h"

namespace dgx::protocol {

using kernels::Kind;
using kernels::Number;
using kernels::Primitive;
using kernels::Running;
using kernels::Source;

Result<manifest::OpenedRow> Party::row(std::int64_t segment) {
  return usage_error(fmt::format("the verdict's row of segment {} is not available", segment));
}

namespace {

using Next = Result<std::optional<Message>>;

Next send(Message what) { return std::optional<Message>(std::move(what)); }

// A defender's moves: what its own replay has, right or wrong. next_in() has one function for each stage.

/// The error for a game whose earlier lists come from another replay.
Error not_of_replay(std::string_view what) {
  return {ErrorCode::kMalformed, fmt::format("the {} shown before differ from this replay's", what), {}};
}

Next next_in(PartyView& view, const Game& game, const ShowRow&) {
  DGX_TRY(manifest::OpenedRow opened, view.party().row(game.dispute().challenge.body.segment));
  return send(RowPost{std::move(opened)});
}

Next next_in(PartyView& view, const Game& game, const ShowInterior&) {
  DGX_TRY(const Digest digest, view.party().state(game.state().end_step));
  return send(InteriorPost{digest});
}

Next next_in(PartyView& view, const Game& game, const ShowStates&) {
  const GameState& state = game.state();
  StatesPost out;
  const std::int64_t stride = stride_of_states(state.steps());
  for (std::int64_t step = state.first_step + stride; step < state.end_step; step += stride) {
    DGX_TRY(const Digest digest, view.party().state(step));
    out.digests.push_back(digest);
  }
  return send(std::move(out));
}

Next next_in(PartyView& view, const Game& game, const ShowValues&) {
  const std::int64_t step = game.state().first_step;
  DGX_TRY(const auto values, view.party().values(step));
  DGX_TRY(const auto leaves, view.value_leaves(step));
  const Node top{0, leaves.size()};
  return send(ValuesPost{merkle::root_of(leaves), top.is_bottom() ? values : children_of(leaves, top)});
}

Next next_in(PartyView& view, const Game& game, const ShowValueNodes& stage) {
  const Node& node = stage.named.node;
  const std::int64_t step = game.state().first_step;
  DGX_TRY(const auto values, view.party().values(step));
  const auto from = values.begin() + static_cast<std::ptrdiff_t>(node.first);
  if (node.is_bottom()) return send(NodesPost{{from, from + static_cast<std::ptrdiff_t>(node.count)}});
  DGX_TRY(const auto leaves, view.value_leaves(step));
  return send(NodesPost{children_of(leaves, node)});
}

Next next_in(PartyView& view, const Game& game, const ShowTensor& stage) {
  DGX_TRY(const Tensor* tensor, view.value(game.state().first_step, stage.value.index));
  const auto leaves = merkle::tensor_leaves(tensor->bytes());
  if (leaves.size() == 1)
    return send(TensorPost{std::nullopt, {}, Bytes(tensor->bytes().begin(), tensor->bytes().end())});
  return send(TensorPost{merkle::root_of(leaves), children_of(leaves, {0, leaves.size()}), {}});
}

Next next_in(PartyView& view, const Game& game, const ShowTensorNodes& stage) {
  DGX_TRY(const Tensor* tensor, view.value(game.state().first_step, stage.value.index));
  const auto leaves = merkle::tensor_leaves(tensor->bytes());
  const Node& node = stage.named.node;
  if (node.first + node.count > leaves.size()) return not_of_replay("leaves of the value");
  return send(NodesPost{children_of(leaves, node)});
}

Next next_in(PartyView& view, const Game& game, const ShowLeaf& stage) {
  DGX_TRY(const Tensor* tensor, view.value(game.state().first_step, stage.value.index));
  const ByteView bytes = tensor->bytes();
  const std::size_t begin = stage.named.node.first * merkle::kTensorLeafBytes;
  if (begin >= bytes.size()) return malformed("the named leaf is not in the value");
  const ByteView part = bytes.subspan(begin, std::min(merkle::kTensorLeafBytes, bytes.size() - begin));
  return send(LeafPost{Bytes(part.begin(), part.end())});
}

/// Sets the last result so that the element stands as claimed, whatever the party's own replay gives.
void defend(Running& last, const Number& mine, Kind kind, DType dtype) {
  if (kind == Kind::kArgmax) {
    last.where = mine.integer;
  } else if (dtype != DType::kU8 || kernels::to_u8(last.value.integer) != mine.integer) {
    last.value = mine;
  }
}

Next next_in(PartyView& view, const Game& game, const ShowNumbers& stage) {
  const std::int64_t step = game.state().first_step;
  const kernels::ValueIndex value = stage.value.index;
  DGX_TRY(const Tensor* tensor, view.value(step, value));
  const DType dtype = tensor->dtype();
  const Number mine =
      number_at(dtype, tensor->bytes(), static_cast<std::size_t>(stage.element) * size_of(dtype));
  DGX_TRY(Bytes bytes, stage.fold.compose([&](const FoldList& list) -> Result<std::vector<Running>> {
    DGX_TRY(auto entries, view.numbers(step, value, stage.element, list));
    if (ends_fold(view.compiled(value), list)) defend(entries.back(), mine, stage.value.line.kind, dtype);
    return entries;
  }));
  return send(NumbersPost{std::move(bytes)});
}

Next next_in(PartyView& view, const Game& game, const ShowEntries&) {
  DGX_TRY(const auto leaves, view.entry_leaves(game.state().first_step + 1));
  return send(
      EntriesPost{std::ssize(leaves), merkle::root_of(leaves), children_of(leaves, {0, leaves.size()})});
}

Next next_in(PartyView& view, const Game& game, const ShowEntryNodes& stage) {
  DGX_TRY(const auto leaves, view.entry_leaves(game.state().first_step + 1));
  const Node& node = stage.named.node;
  if (node.first + node.count > leaves.size()) return not_of_replay("entries");
  return send(NodesPost{children_of(leaves, node)});
}

Next next_in(PartyView& view, const Game& game, const ShowEntry& stage) {
  DGX_TRY(const auto entries, view.party().entries(game.state().first_step + 1));
  const std::size_t index = stage.named.node.first;
  if (index >= entries.size()) return not_of_replay("entries");
  const auto line = program::find_state_input(view.program(), entries[index].name);
  if (!line) return malformed("the program has no entry " + entries[index].name);
  return send(EntryPost{entries[index].digest, view.line(*line), entries[index].name});
}

Next show_non_finite(PartyView& view) {
  DGX_TRY(const auto broken, view.party().non_finite_after());
  if (!broken) return usage_error("this replay gives no state that is not finite");
  DGX_TRY(auto claim, view.non_finite(*broken + 1));
  if (!claim) return usage_error("this replay gives no state that is not finite");
  FaultPost out;
  out.step = *broken + 1;
  DGX_TRY(out.digest, view.party().state(*broken + 1));
  out.entry = std::move(claim->entry);
  out.tensor = std::move(claim->tensor);
  return send(std::move(out));
}

Next show_wrong_step(PartyView& view, std::int64_t step, const std::vector<merkle::NamedDigest>& entries) {
  FaultPost out;
  DGX_TRY(out.entry, merkle::open_entry(entries, "step"));
  DGX_TRY(const Tensor tensor, view.party().entry(step, "step"));
  DGX_TRY(out.tensor, merkle::open_tensor(tensor.view(), 0));
  return send(std::move(out));
}

/// Shows the first way in which the entries of the start state, at `step`, differ from the program's.
Next show_wrong_state(PartyView& view, std::int64_t step, const std::vector<merkle::NamedDigest>& entries) {
  FaultPost out;
  const auto of_name = [](const merkle::NamedDigest& entry, std::string_view name) {
    return entry.name < name;
  };
  for (const kernels::ValueIndex value : program::state_inputs(view.program())) {
    const Primitive& line = view.program().values[value];
    const auto at = std::lower_bound(entries.begin(), entries.end(), line.source.name, of_name);
    const bool found = at != entries.end() && at->name == line.source.name;
    if (found) {
      DGX_TRY(const Tensor tensor, view.party().entry(step, at->name));
      if (tensor.dtype() == line.dtype && tensor.shape() == line.shape) continue;
      out.root = merkle::root_of(merkle::tensor_leaves(tensor.bytes()));
      out.dtype = tensor.dtype();
      out.shape = tensor.shape();
      DGX_TRY(out.entry, merkle::open_entry(entries, at->name));
    } else {
      if (at != entries.begin()) {
        DGX_TRY(out.before, merkle::open_entry(entries, std::prev(at)->name));
      }
      if (at != entries.end()) {
        DGX_TRY(out.after, merkle::open_entry(entries, at->name));
      }
    }
    out.line = view.line(value);
    return send(std::move(out));
  }
  for (const merkle::NamedDigest& entry : entries) {
    if (program::find_state_input(view.program(), entry.name)) continue;
    DGX_TRY(out.entry, merkle::open_entry(entries, entry.name));
    return send(std::move(out));
  }
  DGX_TRY(auto claim, view.non_finite(step));
  if (!claim) return usage_error("the start state has the program's entries");
  out.entry = std::move(claim->entry);
  out.tensor = std::move(claim->tensor);
  return send(std::move(out));
}

/// Shows the fault that row or proof says there is.
Next next_in(PartyView& view, const Game& game, const ShowFault&) {
  const auto reason = fault_shown(game.state());
  if (reason == manifest::RowReason::kNonFinite) return show_non_finite(view);
  const std::int64_t step = game.state().first_step;
  DGX_TRY(const auto entries, view.party().entries(step));
  return reason == manifest::RowReason::kState ? show_wrong_state(view, step, entries)
                                               : show_wrong_step(view, step, entries);
}

Next next_in(PartyView&, const Game&, const ShowChunk&) {
  return usage_error("a chunk is answered with its location", "give its location");
}

// A challenger's moves: the first thing shown that its replay does not give.

Next nothing() { return std::optional<Message>(); }
Next name(std::size_t index) { return send(Name{static_cast<std::int64_t>(index), std::nullopt}); }

/// Rejects the first part of the row that is wrong: its end, or else its witness.
Next next_in(PartyView& view, const Game& game, const ChooseRow&) {
  const manifest::VerdictRow& row = *game.state().row;
  DGX_TRY(const auto broken, view.party().non_finite_after());
  const Dispute& dispute = game.dispute();
  if ((row.reason == manifest::RowReason::kNonFinite || says_diverged(dispute, row)) && broken)
    return nothing();
  if (broken || !was_replayed(row)) return name(0);
  DGX_TRY(const Digest end, view.party().state(game.state().end_step));
  if (end != row.recomputed) return name(0);
  if (!has_witness(dispute, row)) return nothing();
  DGX_TRY(const Digest interior, view.party().state(witness_step(game.segment())));
  return witness_due(dispute, interior) == row.witness ? nothing() : name(1);
}

Next next_in(PartyView& view, const Game& game, const ChooseState& stage) {
  const GameState& state = game.state();
  const std::int64_t stride = stride_of_states(state.steps());
  DGX_TRY(const auto broken, view.party().non_finite_after());
  std::size_t index = 0;
  for (; index < stage.states.size(); ++index) {
    const std::int64_t step = state.first_step + (static_cast<std::int64_t>(index) + 1) * stride;
    if (broken && step > *broken) break;
    DGX_TRY(const Digest mine, view.party().state(step));
    if (mine != stage.states[index]) break;
  }
  if (index < stage.states.size()) return name(index);
  if (broken && *broken < state.end_step) return name(index);
  DGX_TRY(const Digest end, view.party().state(state.end_step));
  return end == state.rejected ? nothing() : name(index);
}

/// The first child listed last that differs from the party's own, or none. Children beyond the party's leaves
/// differ.
std::optional<std::size_t> first_other(const OpenedTree& shown, std::span<const Digest> leaves) {
  const auto& [node, children] = shown.last();
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Node child = node.child(i);
    if (child.first + child.count > leaves.size()) return i;
    if (merkle::root_of(leaves.subspan(child.first, child.count)) != children[i]) return i;
  }
  return std::nullopt;
}

/// The challenger's move when all values are as they must be. Then either the state after the step does not
/// follow from them, or it is not finite.
Next accept_values(PartyView& view, const GameState& state) {
  const std::int64_t after = state.first_step + 1;
  DGX_TRY(const Digest mine, view.party().state(after));
  if (mine != state.rejected) return send(Accept{});
  DGX_TRY(const auto broken, view.party().non_finite_after());
  if (!broken || *broken != state.first_step) return nothing();
  DGX_TRY(auto claim, view.non_finite(after));
  return claim ? send(*std::move(claim)) : nothing();
}

Next next_in(PartyView& view, const Game& game, const ChooseValueNode& stage) {
  DGX_TRY(const auto leaves, view.value_leaves(game.state().first_step));
  const auto index = first_other(stage.table, leaves);
  return index ? name(*index) : accept_values(view, game.state());
}

Next reject_value(PartyView& view, std::int64_t step, const OpenedTree& table, std::size_t index) {
  const auto value = kernels::ValueIndex(table.last().node.first + index);
  const Primitive& line = view.program().values[value];
  if (!is_state_input(line)) return send(Name{static_cast<std::int64_t>(index), view.line(value)});
  DGX_TRY(const auto entries, view.party().entries(step));
  DGX_TRY(auto opening, merkle::open_entry(entries, line.source.name));
  return send(StateInputClaim{static_cast<std::int64_t>(index), view.line(value), std::move(opening)});
}

Next next_in(PartyView& view, const Game& game, const ChooseValue& stage) {
  const std::int64_t step = game.state().first_step;
  DGX_TRY(const auto values, view.party().values(step));
  const auto& [node, children] = stage.table.last();
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (values[node.first + i] != children[i]) return reject_value(view, step, stage.table, i);
  }
  return accept_values(view, game.state());
}

Next next_in(PartyView& view, const Game& game, const ChooseTensorNode& stage) {
  DGX_TRY(const Tensor* tensor, view.value(game.state().first_step, stage.value.index));
  const auto index = first_other(stage.tensor, merkle::tensor_leaves(tensor->bytes()));
  return index ? name(*index) : nothing();
}

Next next_in(PartyView& view, const Game& game, const ChooseElement& stage) {
  const std::int64_t step = game.state().first_step;
  const Primitive& line = stage.value.line;
  DGX_TRY(const Tensor* tensor, view.value(step, stage.value.index));
  const ByteView mine = tensor->bytes().subspan(
      static_cast<std::size_t>(stage.leaf) * merkle::kTensorLeafBytes, stage.bytes.size());
  const auto at = std::mismatch(mine.begin(), mine.end(), stage.bytes.begin()).first;
  if (at == mine.end()) return nothing();
  const auto index =
      static_cast<std::int64_t>(static_cast<std::size_t>(at - mine.begin()) / size_of(tensor->dtype()));
  const std::int64_t element = stage.element_at(index);
  if (line.kind == Kind::kMap) {
    DGX_TRY(auto operands, view.operands(step, stage.value, element, std::nullopt));
    return send(OperationClaim{index, std::move(operands)});
  }
  if (line.kind != Kind::kInput) return name(static_cast<std::size_t>(index));
  InputClaim claim{index, std::nullopt};
  if (reads_data(game.dispute().task.body, line)) {
    DGX_TRY(const std::int64_t wanted, dataset_element(game.dispute().task.body, step, line, element));
    DGX_TRY(claim.data, view.party().data(line.source.name, wanted));
  }
  return send(std::move(claim));
}

Next next_in(PartyView& view, const Game& game, const ChooseNumber& stage) {
  const std::int64_t step = game.state().first_step;
  const FoldLevels& fold = stage.fold;
  DGX_TRY(const auto mine, view.numbers(step, stage.value.index, stage.element, fold.list()));
  const bool argmax = stage.value.line.kind == Kind::kArgmax;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i].value == fold.shown()[i].value && (!argmax || mine[i].where == fold.shown()[i].where))
      continue;
    if (!fold.at_position()) return name(i);
    const FoldLevels::Position position = fold.position(static_cast<std::int64_t>(i));
    DGX_TRY(auto operands, view.operands(step, stage.value, stage.element, position));
    return send(OperationClaim{static_cast<std::int64_t>(i), std::move(operands)});
  }
  return nothing();
}

/// Opens the entry before `index`, which both parties have, in the defender's tree.
Result<merkle::EntryOpening> entry_before(PartyView& view, std::int64_t after, const OpenedTree& shown,
                                          std::size_t index) {
  DGX_TRY(const auto entries, view.party().entries(after));
  DGX_TRY(const auto leaves, view.entry_leaves(after));
  const std::size_t at = index - 1;
  if (at >= entries.size()) return malformed("the game belongs to another replay");
  merkle::EntryOpening out{entries[at].name, entries[at].digest, at, shown.top().count, {}};
  DGX_TRY(out.path, path_in_lists(shown.lists, leaves, at));
  return out;
}

/// Claims that the party's entry `index` is missing.
Next claim_missing(PartyView& view, std::int64_t after, const OpenedTree& shown, std::size_t index) {
  DGX_TRY(const auto entries, view.party().entries(after));
  if (index >= entries.size()) return malformed("the game belongs to another replay");
  const auto line = program::find_state_input(view.program(), entries[index].name);
  if (!line) return malformed("the program has no entry " + entries[index].name);
  EntryClaim claim;
  claim.line = view.line(*line);
  if (index > 0) {
    DGX_TRY(claim.before, entry_before(view, after, shown, index));
  }
  return send(std::move(claim));
}

Next choose_entry(PartyView& view, const Game& game, const OpenedTree& shown) {
  const std::int64_t after = game.state().first_step + 1;
  DGX_TRY(const auto leaves, view.entry_leaves(after));
  if (const auto index = first_other(shown, leaves)) return name(*index);
  if (shown.top().count >= leaves.size()) return nothing();
  return claim_missing(view, after, shown, shown.top().count);
}
Next next_in(PartyView& view, const Game& game, const ChooseEntryNode& stage) {
  return choose_entry(view, game, stage.entries);
}
Next next_in(PartyView& view, const Game& game, const ChooseEntry& stage) {
  return choose_entry(view, game, stage.entries);
}

Next next_in(PartyView& view, const Game& game, const ClaimEntry& stage) {
  const std::int64_t before = game.state().first_step, after = before + 1;
  DGX_TRY(const auto entries, view.party().entries(after));
  const EntryPost& shown = stage.shown;
  const auto index = static_cast<std::size_t>(stage.index);
  EntryClaim claim;
  if (index < entries.size() && entries[index].name == shown.name) {
    const Primitive& line = view.program().values[kernels::ValueIndex(shown.line.index)];
    DGX_TRY(const auto values, view.party().values(before));
    DGX_TRY(const auto leaves, view.value_leaves(before));
    claim.digest = values[static_cast<std::size_t>(*line.next)];
    DGX_TRY(claim.path, merkle::inclusion_path(leaves, static_cast<std::uint64_t>(*line.next)));
    return send(std::move(claim));
  }
  if (index < entries.size() && entries[index].name < shown.name)
    return claim_missing(view, after, stage.entries, index);
  if (index == 0) return nothing();  // no entry of the program has a name below the party's first
  DGX_TRY(claim.before, entry_before(view, after, stage.entries, index));
  return send(std::move(claim));
}

Next next_in(PartyView& view, const Game&, const ClaimLine& stage) {
  const auto value = program::find_state_input(view.program(), stage.entry);
  if (!value) return nothing();
  EntryClaim claim;
  claim.line = view.line(*value);
  return send(std::move(claim));
}

}  // namespace

Player::Player(const program::Program& program, Party& party)
    : view_(std::make_unique<PartyView>(program, party)) {}
Player::~Player() = default;

Result<std::optional<Message>> Player::next(const Game& game) {
  if (game.decision()) return not_allowed("the game is over");
  return std::visit([&](const auto& stage) { return next_in(*view_, game, stage); }, game.state().stage);
}

}  // namespace dgx::protocol
