#include "plan/layouts.h"

#include <algorithm>
#include <map>
#include <set>

#include "dgx/kernels/cpu/matmul.h"
#include "plan/operation_graph.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;
using kernels::cpu::kPanelWidth;
using kernels::cpu::PackedMatrix;

PanelForm PanelForm::of(const Shape& shape, Layout layout) {
  return layout == Layout::kPanels ? PanelForm{shape[0], shape[1]} : PanelForm{shape[1], shape[0]};
}
std::int64_t PanelForm::count() const { return kernels::cpu::panel_count(columns); }
std::int64_t PanelForm::length() const { return depth * kPanelWidth; }
std::int64_t PanelForm::stride() const { return kernels::cpu::panel_stride(depth); }

std::int64_t bytes_of(const kernels::Primitive& value, Layout layout) {
  if (layout == Layout::kRows) return bytes_of(value);
  const PanelForm form = PanelForm::of(value.shape, layout);
  return PackedMatrix::size(form.depth, form.columns) * static_cast<std::int64_t>(sizeof(float));
}

Tensor pack(const Tensor& rows, Layout layout) {
  const PanelForm form = PanelForm::of(rows.shape(), layout);
  Tensor packed(DType::kF32, {PackedMatrix::size(form.depth, form.columns)});
  const kernels::cpu::Matrix matrix{rows.as<float>().data(), rows.shape()[1], 1};
  kernels::cpu::pack(layout == Layout::kPanels ? matrix : matrix.transposed(), form.depth, form.columns, 0,
                     form.count(), packed.as<float>().data());
  return packed;
}

Tensor unpack(const TensorView& packed, const Shape& shape, Layout layout) {
  const PanelForm form = PanelForm::of(shape, layout);
  Tensor rows(DType::kF32, shape);
  const bool transposed = layout == Layout::kTransposedPanels;
  const std::int64_t depth_step = transposed ? 1 : shape[1];
  const std::int64_t column_step = transposed ? shape[1] : 1;
  const auto* from = reinterpret_cast<const float*>(packed.bytes.data());
  float* to = rows.as<float>().data();
  for (std::int64_t c = 0; c < form.columns; ++c) {
    const float* panel = from + c / kPanelWidth * form.stride() + c % kPanelWidth;
    for (std::int64_t k = 0; k < form.depth; ++k)
      to[k * depth_step + c * column_step] = panel[k * kPanelWidth];
  }
  return rows;
}

namespace {

/// Chooses the layout of every value. Values that must lie alike form a class, which gets the layout that its
/// products ask for, unless one of its values must lie in rows.
///
/// look_at() asks every value once what its definition wants: a product wishes its right side packed and
/// allows its output to be packed; a map joins itself with what it reads element by element, and with its
/// group; an entry joins its next value; all others refuse, for what they read and for what they make. A
/// class with two different wishes lies in rows, as one with a refusal does. Classes are a union-find forest
/// over values.
class Chooser {
 public:
  explicit Chooser(const OperationGraph& graph)
      : graph_(graph), parent_(graph.types.size()), wishes_(parent_.size(), kAnything) {
    for (const ValueIndex v : parent_.indices()) parent_[v] = v;
  }

  kernels::ByValue<Layout> choose() {
    for (const ValueIndex v : parent_.indices()) look_at(v);
    for (const ValueIndex v : graph_.keep) refuse(v);
    for (const ValueIndex v : parent_.indices()) {
      // A transposed product exchanges its sides, and a left side must lie in rows.
      const Matmul* product = product_at(v);
      const bool exchanges =
          product != nullptr && wishes_[root(v)] == static_cast<int>(Layout::kTransposedPanels);
      if (exchanges && wishes_[root(product->b)] >= 0) refuse(v);
    }
    kernels::ByValue<Layout> layouts;
    for (const ValueIndex v : parent_.indices()) {
      const int wish = wishes_[root(v)];
      layouts.push_back(wish == kAnything || wish == kRefused ? Layout::kRows : static_cast<Layout>(wish));
    }
    return layouts;
  }

 private:
  static constexpr int kAnything = -1;
  static constexpr int kRefused = -2;

  [[nodiscard]] const kernels::Primitive& at(ValueIndex v) const { return graph_.at(v); }
  [[nodiscard]] const Operation* maker(ValueIndex v) const {
    const std::size_t o = graph_.operation_of[v];
    return o == OperationGraph::kNone ? nullptr : &graph_.plan.operations[o];
  }
  [[nodiscard]] const Matmul* product_at(ValueIndex v) const {
    const Operation* const made = maker(v);
    return made == nullptr ? nullptr : on_cpu<Matmul>(*made);
  }

  ValueIndex root(ValueIndex v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void wish(ValueIndex v, int layout) {
    int& now = wishes_[root(v)];
    if (layout != kAnything) now = now == kAnything || now == layout ? layout : kRefused;
  }
  void refuse(ValueIndex v) { wishes_[root(v)] = kRefused; }
  void join(ValueIndex a, ValueIndex b) {
    const ValueIndex from = root(a);
    if (from == root(b)) return;
    parent_[from] = root(b);
    wish(b, wishes_[from]);
  }

  void look_at(ValueIndex v) {
    if (at(v).kind == Kind::kInput) {
      look_at_input(v);
    } else if (const Matmul* product = product_at(v)) {
      refuse(product->a);
      ask_for_right_side(*product);
      if (product->batch.extents != Shape{1} || at(v).shape.size() != 2 || !has_product_shape(v, *product))
        refuse(v);
    } else if (maker(v) != nullptr && maps_of(*maker(v)) != nullptr) {
      look_at_map(v);
    } else {
      for (const auto& access : at(v).accesses) refuse(access.value);
      refuse(v);
    }
  }

  [[nodiscard]] bool has_product_shape(ValueIndex v, const Matmul& product) const {
    return at(v).shape == Shape{product.shape.rows, product.shape.columns} &&
           product.out_row == product.shape.columns;
  }

  /// State that changes may be packed, and its next value with it, unless that is another entry's next value
  /// too.
  void look_at_input(ValueIndex v) {
    const auto& next = at(v).next;
    if (!next || at(v).dtype != DType::kF32 || at(v).shape.size() != 2 || at(*next).kind == Kind::kInput) {
      if (next) refuse(*next);  // copied as it lies
      return refuse(v);
    }
    if (!becomes_.insert(*next).second) refuse(*next);
    join(v, *next);
  }

  void ask_for_right_side(const Matmul& product) {
    const auto& b = at(product.b);
    const auto& [rows, columns, depth] = product.shape;
    const bool whole = product.b_base == 0 && product.batch.extents == Shape{1} && columns % kPanelWidth == 0;
    if (whole && b.shape == Shape{depth, columns} && product.b_depth == columns && product.b_column == 1) {
      wish(product.b, static_cast<int>(Layout::kPanels));
    } else if (whole && b.shape == Shape{columns, depth} && product.b_depth == 1 &&
               product.b_column == depth) {
      wish(product.b, static_cast<int>(Layout::kTransposedPanels));
    } else {
      refuse(product.b);
    }
  }

  void look_at_map(ValueIndex v) {
    const Shape shape = at(v).iteration_shape();
    if (shape.size() != 2 || at(v).shape != shape || at(v).dtype != DType::kF32 || names_index(at(v)))
      refuse(v);
    // A group is one loop nest, so its values lie alike.
    const auto [first, is_first] = group_.emplace(graph_.operation_of[v], v);
    if (!is_first) join(v, first->second);
    const auto identity = row_major_strides(shape);
    if (!graph_.linear[v]) {
      for (const auto& access : at(v).accesses) refuse(access.value);
      return refuse(v);
    }
    for (const LinearAccess& access : *graph_.linear[v]) {
      const ValueIndex read = access.value;
      const bool splat =
          std::all_of(access.iteration.begin(), access.iteration.end(), [](auto s) { return s == 0; });
      if (access.base == 0 && access.iteration == identity && at(read).shape == shape &&
          at(read).dtype == DType::kF32) {
        join(read, v);
      } else if (splat) {
        refuse(read);
      } else {
        refuse(read);
        refuse(v);
      }
    }
  }

  static bool names_index(const kernels::Primitive& primitive) {
    const auto is_index = [](const kernels::Operand& operand) {
      return operand.kind == kernels::Operand::Kind::kIndex || operand.kind == kernels::Operand::Kind::kFold;
    };
    return std::any_of(primitive.steps.begin(), primitive.steps.end(), [&](const kernels::Step& step) {
      return std::any_of(step.operands.begin(), step.operands.end(), is_index);
    });
  }

  const OperationGraph& graph_;
  kernels::ByValue<ValueIndex> parent_;
  kernels::ByValue<int> wishes_;             // of roots
  std::set<ValueIndex> becomes_;             // next values
  std::map<std::size_t, ValueIndex> group_;  // operation → its first value
};

/// The group of maps that can follow a packed product: the only operation that reads it, and it overwrites
/// neither side. Else kNone.
std::size_t only_group_behind(const OperationGraph& graph, const Matmul& product) {
  if (!product.out_packed || graph.wanted[product.out]) return OperationGraph::kNone;
  std::size_t group = OperationGraph::kNone;
  for (const ValueIndex v : graph.types.indices()) {
    const auto& accesses = graph.at(v).accesses;
    const bool reads = std::any_of(accesses.begin(), accesses.end(),
                                   [&](const auto& access) { return access.value == product.out; });
    if (!reads) continue;
    if (group != OperationGraph::kNone && group != graph.operation_of[v]) return OperationGraph::kNone;
    group = graph.operation_of[v];
  }
  const Maps* const maps =
      group == OperationGraph::kNone ? nullptr : on_cpu<Maps>(graph.plan.operations[group]);
  if (maps == nullptr) return OperationGraph::kNone;
  // Maps that make a side of the product, or the next value of one, might write it in place.
  const bool overwrites = std::any_of(maps->members.begin(), maps->members.end(), [&](ValueIndex v) {
    return graph.at(product.a).next == v || graph.at(product.b).next == v || product.a == v || product.b == v;
  });
  return overwrites ? OperationGraph::kNone : group;
}

}  // namespace

void choose_layouts(OperationGraph& graph) {
  graph.plan.layouts = Chooser(graph).choose();
  const auto layout = [&](ValueIndex v) { return graph.plan.layouts[v]; };
  for (Operation& operation : graph.plan.operations) {
    auto* const product = on_cpu<Matmul>(operation);
    if (product == nullptr) continue;
    if (layout(product->out) == Layout::kTransposedPanels) *product = product->transposed();
    product->out_packed = layout(product->out) != Layout::kRows;
    product->b_packed = layout(product->b) != Layout::kRows;
  }
}

void follow_products(OperationGraph& graph) {
  std::vector<Operation>& operations = graph.plan.operations;
  std::vector<std::size_t> others;
  for (std::size_t o = 0; o < operations.size(); ++o) {
    const auto* const product = on_cpu<Matmul>(operations[o]);
    const std::size_t group = product == nullptr ? OperationGraph::kNone : only_group_behind(graph, *product);
    if (group == OperationGraph::kNone) {
      others.push_back(o);
      continue;
    }
    graph.stored[product->out] = false;
    auto& maps = *on_cpu<Maps>(operations[group]);
    operations[group] = {CpuOperation{ProductMaps{*product, std::move(maps)}}, operations[o].cost};
  }
  reorder(graph, others);
}

}  // namespace dgx::exec
