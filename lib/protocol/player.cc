#include "dgx/protocol/player.h"

#include <fmt/format.h>

#include <algorithm>

#include "claims.h"
#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "dgx/program/line.h"
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
  return usage_error(fmt::format("the verdict's row of segment {} is not at hand", segment));
}

/// A defender's moves: its own lists, whatever they are.
class Defence {
 public:
  Defence(PartyView& view, const Game& game) : view_(view), game_(game), ground_(game.ground()) {}

  Result<Say> show() {
    switch (game_.stage()) {
      case Stage::kRow: return row();
      case Stage::kInterior: return interior();
      case Stage::kStates: return states();
      case Stage::kValues: return values();
      case Stage::kValueNodes: return value_nodes();
      case Stage::kTensor: return tensor();
      case Stage::kTensorNodes: return tensor_nodes();
      case Stage::kLeaf: return leaf();
      case Stage::kNumbers: return numbers();
      case Stage::kEntries: return entries();
      case Stage::kEntryNodes: return entry_nodes();
      case Stage::kEntry: return entry();
      case Stage::kFault: return fault();
      default: return chunk();
    }
  }

 private:
  Result<Say> row() {
    DGX_TRY(manifest::OpenedRow opened, view_.party().row(game_.dispute().challenge.body.segment));
    return Say(RowPost{std::move(opened)});
  }
  Result<Say> interior() {
    DGX_TRY(const Digest digest, view_.party().state(ground_.end_step));
    return Say(InteriorPost{digest});
  }
  Result<Say> states() {
    StatesPost out;
    const std::int64_t stride = stride_of_states(ground_.end_step - ground_.first_step);
    for (std::int64_t step = ground_.first_step + stride; step < ground_.end_step; step += stride) {
      DGX_TRY(const Digest digest, view_.party().state(step));
      out.digests.push_back(digest);
    }
    return Say(std::move(out));
  }
  Result<Say> values() {
    DGX_TRY(const auto values, view_.party().values(ground_.first_step));
    DGX_TRY(const auto leaves, view_.value_leaves(ground_.first_step));
    const Node top{0, leaves.size()};
    return Say(ValuesPost{merkle::root_of(leaves), top.is_bottom() ? values : children_of(leaves, top)});
  }
  Result<Say> value_nodes() {
    const Node& node = ground_.node;
    DGX_TRY(const auto values, view_.party().values(ground_.first_step));
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(node.first);
    if (node.is_bottom()) return Say(NodesPost{{from, from + static_cast<std::ptrdiff_t>(node.count)}});
    DGX_TRY(const auto leaves, view_.value_leaves(ground_.first_step));
    return Say(NodesPost{children_of(leaves, node)});
  }
  Result<Say> tensor() {
    DGX_TRY(const Tensor* tensor, view_.value(ground_.first_step, ground_.value));
    const auto leaves = merkle::tensor_leaves(tensor->bytes());
    if (leaves.size() == 1)
      return Say(TensorPost{std::nullopt, {}, Bytes(tensor->bytes().begin(), tensor->bytes().end())});
    return Say(TensorPost{merkle::root_of(leaves), children_of(leaves, {0, leaves.size()}), {}});
  }
  Result<Say> tensor_nodes() {
    DGX_TRY(const Tensor* tensor, view_.value(ground_.first_step, ground_.value));
    const auto leaves = merkle::tensor_leaves(tensor->bytes());
    if (ground_.node.first + ground_.node.count > leaves.size()) return not_his("leaves of the value");
    return Say(NodesPost{children_of(leaves, ground_.node)});
  }
  Result<Say> leaf() {
    DGX_TRY(const Tensor* tensor, view_.value(ground_.first_step, ground_.value));
    const ByteView bytes = tensor->bytes();
    const std::size_t begin = static_cast<std::size_t>(ground_.leaf) * merkle::kTensorLeafBytes;
    if (begin >= bytes.size()) return malformed("the leaf named is not in the value");
    const ByteView part = bytes.subspan(begin, std::min(merkle::kTensorLeafBytes, bytes.size() - begin));
    return Say(LeafPost{Bytes(part.begin(), part.end())});
  }
  Result<Say> numbers() {
    DGX_TRY(const Tensor* tensor, view_.value(ground_.first_step, ground_.value));
    const Number mine = number_at(tensor->dtype(), tensor->bytes(),
                                  static_cast<std::size_t>(ground_.element) * size_of(tensor->dtype()));
    DGX_TRY(Bytes bytes, ground_.fold->compose([&](const FoldList& list) -> Result<std::vector<Running>> {
      DGX_TRY(auto entries, view_.numbers(ground_.first_step, ground_.value, ground_.element, list));
      if (ends_fold(view_.compiled(ground_.value), list)) defend(entries.back(), mine, tensor->dtype());
      return entries;
    }));
    return Say(NumbersPost{std::move(bytes)});
  }
  /// The error for a game whose earlier lists come from another replay.
  static Error not_his(std::string_view what) {
    return {ErrorCode::kMalformed, fmt::format("the {} shown before are not those of this replay", what), {}};
  }
  /// Sets the last result so that the element stands as claimed, whatever the party's own replay gives.
  void defend(Running& last, const Number& mine, DType dtype) const {
    if (ground_.line->kind == Kind::kArgmax) {
      last.where = mine.integer;
    } else if (dtype != DType::kU8 || kernels::to_u8(last.value.integer) != mine.integer) {
      last.value = mine;
    }
  }
  Result<Say> entries() {
    DGX_TRY(const auto leaves, view_.entry_leaves(ground_.first_step + 1));
    const auto count = static_cast<std::int64_t>(leaves.size());
    return Say(EntriesPost{count, merkle::root_of(leaves), children_of(leaves, {0, leaves.size()})});
  }
  Result<Say> entry_nodes() {
    DGX_TRY(const auto leaves, view_.entry_leaves(ground_.first_step + 1));
    if (ground_.node.first + ground_.node.count > leaves.size()) return not_his("entries");
    return Say(NodesPost{children_of(leaves, ground_.node)});
  }
  Result<Say> entry() {
    DGX_TRY(const auto entries, view_.party().entries(ground_.first_step + 1));
    if (ground_.entry >= static_cast<std::int64_t>(entries.size())) return not_his("entries");
    const merkle::NamedDigest& named = entries[static_cast<std::size_t>(ground_.entry)];
    const auto line = program::find_state_input(view_.program(), named.name);
    if (!line) return malformed("the program has no entry " + named.name);
    return Say(EntryPost{named.digest, view_.line(*line), named.name});
  }
  /// Shows the fault that row or proof says there is: of the start state's step, of its entries, or a state
  /// that is not finite.
  Result<Say> fault() {
    const auto reason = fault_shown(ground_);
    if (reason == manifest::RowReason::kNonFinite) return not_finite();
    DGX_TRY(const auto entries, view_.party().entries(ground_.first_step));
    if (reason == manifest::RowReason::kState) return wrong_state(entries);
    FaultPost out;
    DGX_TRY(out.entry, merkle::open_entry(entries, "step"));
    DGX_TRY(const Tensor step, view_.party().entry(ground_.first_step, "step"));
    DGX_TRY(out.tensor, merkle::open_tensor(step.view(), 0));
    return Say(std::move(out));
  }
  Result<Say> not_finite() {
    DGX_TRY(const auto broken, view_.party().non_finite_after());
    if (!broken) return usage_error("this replay gives no state that is not finite");
    DGX_TRY(auto claim, view_.non_finite(*broken + 1));
    if (!claim) return usage_error("this replay gives no state that is not finite");
    FaultPost out;
    out.step = *broken + 1;
    DGX_TRY(out.digest, view_.party().state(*broken + 1));
    out.entry = std::move(claim->entry);
    out.tensor = std::move(claim->tensor);
    return Say(std::move(out));
  }
  /// Shows the first way in which the start state's entries are not the program's.
  Result<Say> wrong_state(const std::vector<merkle::NamedDigest>& entries) {
    FaultPost out;
    const auto of_name = [](const merkle::NamedDigest& entry, std::string_view name) {
      return entry.name < name;
    };
    for (const kernels::ValueIndex value : program::state_inputs(view_.program())) {
      const Primitive& line = view_.program().values[static_cast<std::size_t>(value)];
      const auto at = std::lower_bound(entries.begin(), entries.end(), line.source.name, of_name);
      const bool found = at != entries.end() && at->name == line.source.name;
      if (found) {
        DGX_TRY(const Tensor tensor, view_.party().entry(ground_.first_step, at->name));
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
      out.line = view_.line(value);
      return Say(std::move(out));
    }
    for (const merkle::NamedDigest& entry : entries) {
      if (program::find_state_input(view_.program(), entry.name)) continue;
      DGX_TRY(out.entry, merkle::open_entry(entries, entry.name));
      return Say(std::move(out));
    }
    DGX_TRY(auto claim, view_.non_finite(ground_.first_step));
    if (!claim) return usage_error("the start state has the program's entries");
    out.entry = std::move(claim->entry);
    out.tensor = std::move(claim->tensor);
    return Say(std::move(out));
  }
  Result<Say> chunk() { return usage_error("a chunk is answered with where it lies", "give its location"); }

  PartyView& view_;
  const Game& game_;
  const Ground& ground_;
};

/// A challenger's moves: the first thing shown that its replay does not give.
class Objection {
 public:
  using Said = Result<std::optional<Say>>;
  Objection(PartyView& view, const Game& game) : view_(view), game_(game), ground_(game.ground()) {}

  Said choose() {
    switch (game_.stage()) {
      case Stage::kChooseRow: return row();
      case Stage::kChooseState: return state();
      case Stage::kChooseValueNode: return value_node();
      case Stage::kChooseValue: return value();
      case Stage::kChooseTensorNode: return tensor_node();
      case Stage::kChooseElement: return element();
      case Stage::kChooseNumber: return number();
      case Stage::kChooseEntryNode:
      case Stage::kChooseEntry: return entry();
      case Stage::kChooseLine: return foreign();
      default: return judge_entry();
    }
  }

 private:
  static Said nothing() { return std::optional<Say>(); }
  static Said say(Say what) { return std::optional<Say>(std::move(what)); }
  static Said name(std::size_t index) { return say(Name{static_cast<std::int64_t>(index), std::nullopt}); }

  /// Rejects the first part of the row that is wrong: its end, or else its witness.
  Said row() {
    const manifest::VerdictRow& row = *ground_.row;
    DGX_TRY(const auto broken, view_.party().non_finite_after());
    const Dispute& dispute = game_.dispute();
    if ((row.reason == manifest::RowReason::kNonFinite || says_diverged(dispute, row)) && broken)
      return nothing();
    if (broken || !was_replayed(row)) return name(0);
    DGX_TRY(const Digest end, view_.party().state(ground_.end_step));
    if (end != row.recomputed) return name(0);
    if (!has_witness(dispute, row)) return nothing();
    const std::int64_t step =
        witness_step(dispute.beacon->body.value, dispute.proof.id, dispute.defender(), game_.segment());
    DGX_TRY(const Digest interior, view_.party().state(step));
    return witness_of(dispute.defender(), interior) == row.witness ? nothing() : name(1);
  }

  Said state() {
    DGX_TRY(const auto broken, view_.party().non_finite_after());
    std::size_t index = 0;
    for (; index < ground_.states.size(); ++index) {
      const std::int64_t step = ground_.first_step + (static_cast<std::int64_t>(index) + 1) * ground_.stride;
      if (broken && step > *broken) break;
      DGX_TRY(const Digest mine, view_.party().state(step));
      if (mine != ground_.states[index]) break;
    }
    if (index < ground_.states.size()) return name(index);
    if (broken && *broken < ground_.end_step) return name(index);
    DGX_TRY(const Digest end, view_.party().state(ground_.end_step));
    return end == ground_.rejected ? nothing() : name(index);
  }

  /// The first child that differs from the party's own, or none. Children beyond the party's leaves differ.
  static std::optional<std::size_t> first_other(std::span<const Digest> shown, std::span<const Digest> leaves,
                                                const Node& node) {
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const Node child = node.child(i);
      if (child.first + child.count > leaves.size()) return i;
      if (merkle::root_of(leaves.subspan(child.first, child.count)) != shown[i]) return i;
    }
    return std::nullopt;
  }

  Said value_node() {
    DGX_TRY(const auto leaves, view_.value_leaves(ground_.first_step));
    const auto index = first_other(ground_.nodes, leaves, ground_.node);
    return index ? name(*index) : all_values();
  }
  Said value() {
    DGX_TRY(const auto values, view_.party().values(ground_.first_step));
    for (std::size_t i = 0; i < ground_.nodes.size(); ++i) {
      if (values[ground_.node.first + i] != ground_.nodes[i]) return reject_value(i);
    }
    return all_values();
  }
  Said reject_value(std::size_t index) {
    const auto value = static_cast<kernels::ValueIndex>(ground_.node.first + index);
    const Primitive& line = view_.program().values[static_cast<std::size_t>(value)];
    if (line.kind != Kind::kInput || line.source.kind != Source::Kind::kState) {
      return say(Name{static_cast<std::int64_t>(index), view_.line(value)});
    }
    DGX_TRY(const auto entries, view_.party().entries(ground_.first_step));
    DGX_TRY(auto opening, merkle::open_entry(entries, line.source.name));
    return say(StateInputClaim{static_cast<std::int64_t>(index), view_.line(value), std::move(opening)});
  }

  /// All values are as they must be: then the state after the step does not follow, or is not finite.
  Said all_values() {
    const std::int64_t after = ground_.first_step + 1;
    DGX_TRY(const Digest mine, view_.party().state(after));
    if (mine != ground_.rejected) return say(Accept{});
    DGX_TRY(const auto broken, view_.party().non_finite_after());
    if (!broken || *broken != ground_.first_step) return nothing();
    DGX_TRY(auto claim, view_.non_finite(after));
    return claim ? say(*std::move(claim)) : nothing();
  }

  Said tensor_node() {
    DGX_TRY(const Tensor* tensor, view_.value(ground_.first_step, ground_.value));
    const auto index = first_other(ground_.nodes, merkle::tensor_leaves(tensor->bytes()), ground_.node);
    return index ? name(*index) : nothing();
  }

  Said element() {
    DGX_TRY(const Tensor* tensor, view_.value(ground_.first_step, ground_.value));
    const ByteView mine = tensor->bytes().subspan(
        static_cast<std::size_t>(ground_.leaf) * merkle::kTensorLeafBytes, ground_.leaf_bytes.size());
    const auto at = std::mismatch(mine.begin(), mine.end(), ground_.leaf_bytes.begin()).first;
    if (at == mine.end()) return nothing();
    const std::size_t size = size_of(tensor->dtype());
    const auto index = static_cast<std::int64_t>(static_cast<std::size_t>(at - mine.begin()) / size);
    const std::int64_t flat =
        ground_.leaf * static_cast<std::int64_t>(merkle::kTensorLeafBytes / size) + index;
    if (ground_.line->kind == Kind::kMap) {
      DGX_TRY(auto operands, view_.operands(ground_, flat, std::nullopt));
      return say(OperationClaim{index, std::move(operands)});
    }
    if (ground_.line->kind != Kind::kInput) return name(static_cast<std::size_t>(index));
    InputClaim claim{index, std::nullopt};
    if (ground_.line->source.kind == Source::Kind::kBatch) {
      DGX_TRY(const std::int64_t wanted,
              dataset_element(game_.dispute().task.body, ground_.first_step, *ground_.line, flat));
      DGX_TRY(claim.data, view_.party().data(ground_.line->source.name, wanted));
    }
    return say(std::move(claim));
  }

  Said number() {
    const FoldLevels& fold = *ground_.fold;
    DGX_TRY(const auto mine, view_.numbers(ground_.first_step, ground_.value, ground_.element, fold.list()));
    const bool argmax = ground_.line->kind == Kind::kArgmax;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (mine[i].value == fold.shown()[i].value && (!argmax || mine[i].where == fold.shown()[i].where))
        continue;
      if (!fold.at_position()) return name(i);
      const FoldLevels::Position position = fold.position(static_cast<std::int64_t>(i));
      DGX_TRY(auto operands, view_.operands(ground_, ground_.element, position));
      return say(OperationClaim{static_cast<std::int64_t>(i), std::move(operands)});
    }
    return nothing();
  }

  Said entry() {
    DGX_TRY(const auto leaves, view_.entry_leaves(ground_.first_step + 1));
    if (const auto index = first_other(ground_.nodes, leaves, ground_.node)) return name(*index);
    if (ground_.entries >= static_cast<std::int64_t>(leaves.size())) return nothing();
    return missing(static_cast<std::size_t>(ground_.entries));
  }

  /// Claims that the party's entry `index` is missing.
  Said missing(std::size_t index) {
    DGX_TRY(const auto entries, view_.party().entries(ground_.first_step + 1));
    if (index >= entries.size()) return malformed("the game is not that of this replay");
    const auto line = program::find_state_input(view_.program(), entries[index].name);
    if (!line) return malformed("the program has no entry " + entries[index].name);
    EntryClaim claim;
    claim.line = view_.line(*line);
    if (index > 0) {
      DGX_TRY(claim.before, before(index));
    }
    return say(std::move(claim));
  }
  /// The entry before `index`, which both parties have, in the defender's tree.
  Result<merkle::EntryOpening> before(std::size_t index) {
    DGX_TRY(const auto entries, view_.party().entries(ground_.first_step + 1));
    DGX_TRY(const auto leaves, view_.entry_leaves(ground_.first_step + 1));
    const std::size_t at = index - 1;
    if (at >= entries.size()) return malformed("the game is not that of this replay");
    merkle::EntryOpening out{
        entries[at].name, entries[at].digest, at, static_cast<std::uint64_t>(ground_.entries), {}};
    std::vector<Listed> lists = ground_.above;
    if (ground_.nodes.size() > 1 || lists.empty()) lists.push_back({ground_.node, ground_.nodes});
    DGX_TRY(out.path, path_in_lists(lists, leaves, at));
    return out;
  }

  Said foreign() {
    const auto value = program::find_state_input(view_.program(), ground_.foreign);
    if (!value) return nothing();
    EntryClaim claim;
    claim.line = view_.line(*value);
    return say(std::move(claim));
  }

  Said judge_entry() {
    DGX_TRY(const auto entries, view_.party().entries(ground_.first_step + 1));
    const EntryPost& shown = *ground_.shown_entry;
    const auto index = static_cast<std::size_t>(ground_.entry);
    EntryClaim claim;
    if (index < entries.size() && entries[index].name == shown.name) {
      const Primitive& line = view_.program().values[static_cast<std::size_t>(shown.line.index)];
      DGX_TRY(const auto values, view_.party().values(ground_.first_step));
      DGX_TRY(const auto leaves, view_.value_leaves(ground_.first_step));
      claim.digest = values[static_cast<std::size_t>(*line.next)];
      DGX_TRY(claim.path, merkle::inclusion_path(leaves, static_cast<std::uint64_t>(*line.next)));
      return say(std::move(claim));
    }
    if (index < entries.size() && entries[index].name < shown.name) return missing(index);
    if (index == 0) return nothing();  // no entry of the program has a name below the party's first
    DGX_TRY(claim.before, before(index));
    return say(std::move(claim));
  }

  PartyView& view_;
  const Game& game_;
  const Ground& ground_;
};

Player::Player(const program::Program& program, Party& party)
    : view_(std::make_unique<PartyView>(program, party)) {}
Player::~Player() = default;

Result<std::optional<Say>> Player::next(const Game& game) {
  if (game.decision()) return usage_error("the game is over");
  if (side_of(game.stage()) == Side::kChallenger) return Objection(*view_, game).choose();
  DGX_TRY(Say say, Defence(*view_, game).show());
  return std::optional<Say>(std::move(say));
}

}  // namespace dgx::protocol
