#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "device/device_dots.h"
#include "device/device_operations.h"
#include "plan/concatenation.h"
#include "plan/operation_graph.h"
#include "plan/recognise.h"
#include "plan/replaced_rows.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;

namespace {

constexpr std::size_t kMaxMembers = 24;  // of one fused group: keeps its registers in the first-level cache

using Groups = std::multimap<Shape, std::size_t>;  // iteration shape → operation

/// True if another access takes an index from this one: indices are read before anything is computed.
bool is_index(const StripAccess& access, const std::vector<StripAccess>& all) {
  const std::int64_t number = &access - all.data();
  return std::any_of(all.begin(), all.end(), [&](const StripAccess& other) {
    return std::any_of(other.guarded.begin(), other.guarded.end(), [&](const auto& coordinate) {
      const auto& terms = coordinate.terms;
      return std::any_of(terms.begin(), terms.end(), [&](const auto& t) { return t.access == number; });
    });
  });
}

bool same_walk(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b, const Shape& extents) {
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

/// Adds v to the latest group of its iteration shape such that all v reads from outside is made before the
/// group, and all it reads from the group it reads element by element.
bool join_group(OperationGraph& graph, Groups& groups, ValueIndex v) {
  const Shape& shape = graph.at(v).iteration_shape();
  const auto identity = row_major_strides(shape);
  const auto& accesses = *graph.strips[v];
  const auto maker = [&](const StripAccess& access) { return graph.operation_of[access.plain.value]; };
  std::size_t latest = 0;  // the last operation that v waits for: no group before it can take v
  for (const StripAccess& access : accesses)
    if (maker(access) != OperationGraph::kNone) latest = std::max(latest, maker(access));
  auto [first, last] = groups.equal_range(shape);
  for (auto it = last; it != first;) {
    --it;
    const std::size_t group = it->second;
    std::vector<ValueIndex>& members = maps_of(graph.plan.operations[group])->members;
    if (group < latest || members.size() >= kMaxMembers) continue;
    const bool fits = std::all_of(accesses.begin(), accesses.end(), [&](const StripAccess& access) {
      return maker(access) != group ||
             (access.guarded.empty() && !is_index(access, accesses) && access.plain.base == 0 &&
              same_walk(access.plain.iteration, identity, shape));
    });
    if (!fits) continue;
    members.push_back(v);
    graph.operation_of[v] = group;
    return true;
  }
  groups.emplace(shape, graph.plan.operations.size());
  return false;
}

/// An operation of a form that both backends have.
template <class Form>
Operation of_backend(const OperationGraph& graph, Form form, double cost) {
  if (graph.is_on_device()) return {DeviceOperation{std::move(form)}, cost};
  return {CpuOperation{std::move(form)}, cost};
}

/// Estimated cycles: eight elements take one cycle per instruction, and a row of operands 200 to set up.
double cost_of(const Fold& fold) {
  const auto operations = static_cast<double>(fold.program.instructions.size() + 1);
  const auto count = static_cast<double>(fold.count);
  return count * operations * static_cast<double>(fold.length) / 8 +
         (fold.along == Fold::Along::kFold ? 200 * count : 0);
}

/// The operation on the CPU of a value that is no map, product or column sum.
Operation recognise_on_cpu(const OperationGraph& graph, ValueIndex v, double positions) {
  const auto& compiled = graph.plan.compiled[v];
  if (const auto& strips = graph.strips[v]) {
    if (auto fold = recognise_fold(v, compiled, *strips)) {
      const double cost = cost_of(*fold);
      return {CpuOperation{std::move(*fold)}, cost};
    }
    if (auto chain = recognise_chain(v, compiled, *strips)) {
      const double visits =
          chain->key ? 2 * static_cast<double>(chain->length) / static_cast<double>(chain->key->extent) : 1;
      const auto operations = static_cast<double>(chain->body.instructions.size() + 2);
      return {CpuOperation{std::move(*chain)}, positions * operations / 8 * std::min(1.0, visits)};
    }
  }
  if (auto windows = recognise_windows(v, compiled)) return {std::move(*windows), positions / 16};
  const auto steps = static_cast<double>(compiled.steps.steps.size() + 4);
  return {CpuOperation{Generic{v, compiled.count}}, positions * steps * 10};
}

/// The operation of a value that joins no group of maps.
Operation recognise(const OperationGraph& graph, ValueIndex v) {
  const auto& compiled = graph.plan.compiled[v];
  const auto positions = static_cast<double>(compiled.count) * static_cast<double>(compiled.fold_count);
  const auto& accesses = graph.linear[v];
  if (const auto product = accesses ? recognise_matmul(v, compiled, *accesses) : std::nullopt) {
    // A column sum does not read its ones, so where every value counts, a fault in them would be lost.
    const auto sum = graph.is_fused() ? recognise_column_sum(*graph.plan.program, *product) : std::nullopt;
    if (sum) return of_backend(graph, *sum, positions / 8);
    if (graph.is_on_device()) return {DeviceOperation{in_tiles(*product)}, positions / 16};
    return {CpuOperation{*product}, positions / 16};
  }
  if (graph.is_resumed(v)) {
    auto windows = recognise_window_gradients(v, compiled);
    if (!windows) return {CpuOperation{Generic{v, compiled.count}}, positions * 10};
    windows->resumed = true;
    return {CpuOperation{std::move(*windows)}, positions / 16};
  }
  if (!graph.is_on_device()) return recognise_on_cpu(graph, v, positions);
  return {recognise_on_device(v, compiled, graph.strips[v]), positions};
}

/// The accesses of a map over packed values, within one of their panels: its consecutive numbers, or a number
/// that is the same throughout.
std::vector<StripAccess> packed_accesses(const OperationGraph& graph, ValueIndex v) {
  std::vector<StripAccess> out;
  for (const LinearAccess& access : *graph.linear[v]) {
    const bool packed = graph.plan.layouts[access.value] != Layout::kRows;
    out.push_back({{access.value, access.base, {packed ? 1 : 0}, {}}, {}, {}});
  }
  return out;
}

/// Compiles the strip program of a group: over the whole iteration or, for packed values, over one panel.
void compile(const OperationGraph& graph, Maps& maps) {
  const ValueIndex first = maps.members.front();
  const Layout layout = graph.plan.layouts[first];
  Shape extents = graph.at(first).iteration_shape();
  if (layout != Layout::kRows) {
    maps.panels = PanelForm::of(extents, layout);
    extents = {maps.panels->length()};
  }
  StripCompiler compiler(extents, {}, StripCompiler::Along::kIteration);
  for (const ValueIndex v : maps.members) {
    compiler.add(v, graph.plan.compiled[v], maps.panels ? packed_accesses(graph, v) : *graph.strips[v]);
    if (!graph.stored[v]) continue;
    compiler.store(v, graph.at(v).dtype);
    if (graph.plan.checked[v]) compiler.check_finite(v);
  }
  maps.program = compiler.finish();
}

double cost_of(const Maps& maps) {
  const std::int64_t panels = maps.panels ? maps.panels->count() : 1;
  const auto registers = static_cast<std::int64_t>(maps.program.registers.size());
  return static_cast<double>(panels) *
         (static_cast<double>(maps.program.work()) / 8 +
          static_cast<double>(StripRunner::unit_count(maps.program) * registers) * 8);
}

/// Cycles for rows that lie anywhere, and for each their instructions.
double cost_of(const ReplacedRows& replaced) {
  constexpr double kRow = 300;
  const double share = static_cast<double>(replaced.positions) / static_cast<double>(replaced.rows);
  return static_cast<double>(replaced.positions) * kRow +
         std::min(share, 1.0) * static_cast<double>(replaced.program.work()) / 8;
}

}  // namespace

void form_operations(OperationGraph& graph) {
  Groups groups;
  std::vector<Operation>& operations = graph.plan.operations;
  graph.operation_of.assign(graph.types.size(), OperationGraph::kNone);
  std::map<ValueIndex, ReplacedRows> replaced = recognise_replaced_rows(graph);
  std::set<ValueIndex> places;  // made with the update that reads them
  for (const auto& [update, rows] : replaced) places.insert(rows.place);
  for (const ValueIndex v : graph.types.indices()) {
    if (graph.at(v).kind == Kind::kInput || !graph.needed[v] || places.contains(v)) continue;
    if (const auto rows = replaced.find(v); rows != replaced.end()) {
      graph.operation_of[v] = graph.operation_of[rows->second.place] = operations.size();
      const double cost = cost_of(rows->second);
      operations.push_back({CpuOperation{std::move(rows->second)}, cost});
      continue;
    }
    const bool is_map = graph.at(v).kind == Kind::kMap && graph.strips[v];
    auto pieces = graph.is_fused() && !graph.is_on_device()
                      ? recognise_concatenation(v, graph.at(v), graph.types)
                      : std::nullopt;
    if (!pieces && is_map && graph.is_fused() && join_group(graph, groups, v)) continue;
    graph.operation_of[v] = operations.size();
    if (pieces) {
      const double cost = static_cast<double>(graph.plan.compiled[v].count) / 4;
      operations.push_back({CpuOperation{std::move(*pieces)}, cost});
    } else {
      operations.push_back(is_map ? of_backend(graph, Maps{{v}, {}, {}}, 0) : recognise(graph, v));
    }
  }
}

void compile_maps(OperationGraph& graph) {
  for (Operation& operation : graph.plan.operations) {
    Maps* const maps = maps_of(operation);
    if (maps == nullptr) continue;
    compile(graph, *maps);
    operation.cost += cost_of(*maps);
  }
}

}  // namespace dgx::exec
