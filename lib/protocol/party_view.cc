#include "party_view.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "claims.h"
#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "dgx/program/line.h"

namespace dgx::protocol {

using kernels::ValueIndex;

namespace {

/// Reads elements of values in memory, and notes which leaves were read.
class Noting final : public kernels::ValueSource {
 public:
  explicit Noting(const std::map<ValueIndex, Tensor>& values) : values_(values) {}

  kernels::Number element(ValueIndex value, std::int64_t index) override {
    const Tensor& tensor = values_.at(value);
    leaves.insert({value, merkle::place_of(tensor.dtype(), static_cast<std::uint64_t>(index)).leaf});
    return number_at(tensor.dtype(), tensor.bytes(),
                     static_cast<std::size_t>(index) * size_of(tensor.dtype()));
  }
  void located(ValueIndex value) override { evaluated.insert(value); }

  std::set<std::pair<ValueIndex, std::uint64_t>> leaves;
  std::set<ValueIndex> evaluated;

 private:
  const std::map<ValueIndex, Tensor>& values_;
};

std::optional<std::int64_t> first_non_finite(const TensorView& tensor) {
  if (tensor.dtype != DType::kF32) return std::nullopt;
  const auto numbers = tensor.as<float>();
  const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
  if (bad == numbers.end()) return std::nullopt;
  return bad - numbers.begin();
}

}  // namespace

Result<merkle::Path> path_in_lists(std::span<const NodeList> lists, std::span<const Digest> leaves,
                                   std::uint64_t at) {
  merkle::Path out;
  for (auto list = lists.rbegin(); list != lists.rend(); ++list) {
    const Node& node = list->node;
    if (at < node.first || at >= node.first + node.count) continue;
    const std::uint64_t child = (at - node.first) / node.child_size();
    if (out.empty() && !node.is_bottom()) {
      const Node part = node.child(child);
      if (part.first + part.count > leaves.size()) return malformed("the game belongs to another replay");
      DGX_TRY(out, merkle::inclusion_path(leaves.subspan(part.first, part.count), at - part.first));
    }
    DGX_TRY(const merkle::Path up, merkle::inclusion_path(list->children, child));
    out.insert(out.end(), up.begin(), up.end());
  }
  return out;
}

PartyView::PartyView(const program::Program& program, Party& party) : program_(program), party_(party) {
  for (const ValueIndex v : program.values.indices()) {
    lines_.push_back(program::print_line(program.values[v], v));
    line_leaves_.push_back(merkle::leaf_hash(as_bytes(lines_[v])));
    types_.push_back({program.values[v].dtype, program.values[v].shape});
  }
}

OpenedLine PartyView::line(ValueIndex index) const {
  return {to_number(index), *merkle::inclusion_path(line_leaves_, static_cast<std::uint64_t>(index)),
          lines_[index]};
}

const kernels::CompiledPrimitive& PartyView::compiled(ValueIndex value) {
  auto found = compiled_.find(value);
  if (found == compiled_.end()) {
    // The program has been checked: every line that is not an input compiles.
    found = compiled_.emplace(value, *kernels::compile(program_.values[value], types_)).first;
  }
  return found->second;
}

Result<std::vector<Digest>> PartyView::value_leaves(std::int64_t step) {
  DGX_TRY(std::vector<Digest> out, party_.values(step));
  for (Digest& digest : out) digest = merkle::value_leaf(digest);
  return out;
}

Result<std::vector<Digest>> PartyView::entry_leaves(std::int64_t step) {
  DGX_TRY(const auto entries, party_.entries(step));
  std::vector<Digest> out;
  for (const merkle::NamedDigest& entry : entries)
    out.push_back(merkle::entry_leaf(entry.name, entry.digest));
  return out;
}

Result<const Tensor*> PartyView::value(std::int64_t step, ValueIndex value) {
  if (step != step_) values_.clear();
  step_ = step;
  auto found = values_.find(value);
  if (found == values_.end()) {
    DGX_TRY(Tensor tensor, party_.value(step, value));
    found = values_.emplace(value, std::move(tensor)).first;
  }
  return &found->second;
}

Status PartyView::load_operands(std::int64_t step, ValueIndex value) {
  for (const kernels::Access& access : program_.values[value].accesses) {
    DGX_CHECK(this->value(step, access.value));
  }
  return {};
}

Result<std::vector<kernels::Running>> PartyView::numbers(std::int64_t step, ValueIndex value,
                                                         std::int64_t element, const FoldList& list) {
  DGX_CHECK(load_operands(step, value));
  kernels::ByValue<TensorView> views(program_.values.size());
  for (const auto& [index, tensor] : values_) views[index] = tensor.view();
  return fold_numbers(compiled(value), views, element, list);
}

Result<std::vector<Operand>> PartyView::operands(std::int64_t step, const NamedValue& named,
                                                 std::int64_t element,
                                                 const std::optional<FoldLevels::Position>& position) {
  const ValueIndex value = named.index;
  DGX_CHECK(load_operands(step, value));
  Noting source(values_);
  if (position) {
    const kernels::Running before =
        position->before ? *position->before : kernels::fold_start(compiled(value), source, element);
    static_cast<void>(kernels::trace_position(compiled(value), source, element, position->position, before));
  } else {
    static_cast<void>(kernels::trace_element(compiled(value), source, element, {}));
  }
  DGX_TRY(const auto table, value_leaves(step));
  std::vector<NodeList> lists = named.table.lists;
  for (Digest& digest : lists.back().children) digest = merkle::value_leaf(digest);
  std::set<ValueIndex> accessed;
  for (const kernels::Access& access : program_.values[value].accesses) accessed.insert(access.value);
  std::vector<Operand> out;
  for (const ValueIndex v : accessed) {
    const Tensor& tensor = values_.at(v);
    Operand operand{to_number(v), tensor.dtype(), tensor.shape(), std::nullopt, std::nullopt, 0, {}, {}};
    if (!source.evaluated.contains(v)) {
      out.push_back(std::move(operand));
      continue;
    }
    DGX_TRY(operand.table, path_in_lists(lists, table, static_cast<std::uint64_t>(v)));
    const auto first = source.leaves.lower_bound({v, 0});
    if (first == source.leaves.end() || first->first != v) {
      operand.root = merkle::root_of(merkle::tensor_leaves(tensor.bytes()));
      out.push_back(std::move(operand));
      continue;
    }
    for (auto leaf = first; leaf != source.leaves.end() && leaf->first == v; ++leaf) {
      DGX_TRY(merkle::TensorOpening opening, merkle::open_tensor(tensor.view(), leaf->second));
      operand.leaf = static_cast<std::int64_t>(leaf->second);
      operand.bytes = std::move(opening.data);
      operand.path = std::move(opening.path);
      out.push_back(operand);
    }
  }
  return out;
}

Result<std::optional<NonFiniteClaim>> PartyView::non_finite(std::int64_t step) {
  DGX_TRY(const auto entries, party_.entries(step));
  for (const merkle::NamedDigest& entry : entries) {
    DGX_TRY(const Tensor tensor, party_.entry(step, entry.name));
    const auto bad = first_non_finite(tensor.view());
    if (!bad) continue;
    NonFiniteClaim out;
    DGX_TRY(out.entry, merkle::open_entry(entries, entry.name));
    DGX_TRY(out.tensor,
            merkle::open_tensor(tensor.view(),
                                merkle::place_of(DType::kF32, static_cast<std::uint64_t>(*bad)).leaf));
    return std::optional(std::move(out));
  }
  return std::optional<NonFiniteClaim>();
}

}  // namespace dgx::protocol
