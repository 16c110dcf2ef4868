#include "plan/plan.h"

#include <algorithm>

#include "plan/operation_graph.h"
#include "rewrite/channels_last.h"
#include "rewrite/common_iteration.h"
#include "rewrite/read_through.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;

namespace {

constexpr double kSerialCycles = 6000;  // below this, sharing an operation costs more than it saves

/// Runs the passes. operation_graph.h says what each needs and leaves.
Result<Plan> planned(OperationGraph graph) {
  const bool fused = graph.is_fused(), device = graph.is_on_device();
  auto& program = graph.plan.program;
  // Passes from program to program. Channels move first: later passes then see the accesses that will run.
  if (fused && !device && graph.channels == Channels::kMayMove)
    program = with_channels_last(program, graph.keep);
  if (fused) program = read_through_copies(program);
  if (fused) program = share_iterations(program);  // without copies there are fewer maps, with longer rows
  DGX_CHECK(compile_lines(graph));
  // Operations: from one per value or group to their final members.
  find_needed(graph);
  form_operations(graph);
  if (fused) sink_updates(graph);
  find_stored(graph);
  if (fused && !device) choose_layouts(graph);
  if (fused && !device) follow_products(graph);
  compile_maps(graph);
  note_uses(graph);
  if (device) join_rows(graph);
  // The order of operations, then the threads that share them, then the places of their values.
  if (fused) free_sooner(graph);
  if (fused && !device) cut_slices(graph);
  if (!device) divide_into_sections(graph);
  plan_memory(graph);
  if (!device) plan_scratch(graph);
  return std::move(graph.plan);
}

}  // namespace

void number_operations(OperationGraph& graph) {
  graph.operation_of.assign(graph.types.size(), OperationGraph::kNone);
  for (std::size_t o = 0; o < graph.plan.operations.size(); ++o) {
    for (const ValueIndex v : values_of(graph.plan.operations[o])) graph.operation_of[v] = o;
  }
}

void reorder(OperationGraph& graph, const std::vector<std::size_t>& order) {
  std::vector<Operation> ordered;
  for (const std::size_t old : order) ordered.push_back(std::move(graph.plan.operations[old]));
  graph.plan.operations = std::move(ordered);
  number_operations(graph);
}

Status compile_lines(OperationGraph& graph) {
  const auto& values = graph.plan.program->values;
  for (const Primitive& value : values) graph.types.push_back({value.dtype, value.shape});
  graph.plan.compiled.resize(values.size());
  graph.plan.layouts.assign(values.size(), Layout::kRows);
  graph.linear.resize(values.size());
  graph.strips.resize(values.size());
  graph.plan.checked.resize(values.size());
  graph.becomes_state.resize(values.size());
  for (const ValueIndex v : values.indices()) {
    if (const auto next = values[v].next) {
      graph.becomes_state[*next] = true;
      graph.plan.checked[*next] = values[*next].dtype == DType::kF32;
    }
    if (values[v].kind == Kind::kInput) continue;
    auto compiled = kernels::compile(values[v], graph.types);
    if (!compiled) return within("value " + std::to_string(to_number(v)), std::move(compiled).error());
    graph.linear[v] = linear_accesses(*compiled);
    graph.strips[v] = strip_accesses(*compiled);
    graph.plan.compiled[v] = std::move(compiled).value();
  }
  graph.wanted = graph.becomes_state;
  for (const ValueIndex v : graph.keep) graph.wanted[v] = true;
  return {};
}

void find_needed(OperationGraph& graph) {
  graph.needed = graph.is_fused() ? graph.wanted : kernels::ByValue<bool>(graph.types.size(), true);
  for (std::size_t n = graph.needed.size(); n-- > 0;) {
    if (!graph.needed[ValueIndex(n)]) continue;
    for (const auto& access : graph.at(ValueIndex(n)).accesses) graph.needed[access.value] = true;
  }
}

void sink_updates(OperationGraph& graph) {
  const std::vector<Operation>& operations = graph.plan.operations;
  kernels::ByValue<std::size_t> last_read(graph.types.size(), 0);
  kernels::ByValue<bool> read(graph.types.size());  // by another operation
  for (std::size_t o = 0; o < operations.size(); ++o) {
    for (const ValueIndex v : values_of(operations[o])) {
      for (const auto& access : graph.at(v).accesses) {
        last_read[access.value] = std::max(last_read[access.value], o);
        if (graph.operation_of[access.value] != o) read[access.value] = true;
      }
    }
  }
  const auto entries = program::state_inputs(*graph.plan.program);
  std::vector<std::size_t> order, position(operations.size());
  for (std::size_t o = 0; o < operations.size(); ++o) {
    order.push_back(o);
    position[o] = o;
    const auto values = values_of(operations[o]);
    const bool only_updates =
        std::none_of(values.begin(), values.end(), [&](ValueIndex v) { return read[v]; });
    for (const ValueIndex entry : only_updates ? entries : std::vector<ValueIndex>{}) {
      const auto next = graph.at(entry).next;
      const bool made_here = next && std::find(values.begin(), values.end(), *next) != values.end();
      if (made_here) position[o] = std::max(position[o], last_read[entry]);
    }
  }
  // Operations sunk to a position come after the one that stayed there: they may overwrite what it reads.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(position[a], position[a] != a) < std::pair(position[b], position[b] != b);
  });
  reorder(graph, order);
}

void find_stored(OperationGraph& graph) {
  graph.stored = graph.is_fused() ? graph.wanted : kernels::ByValue<bool>(graph.types.size(), true);
  for (const ValueIndex v : graph.types.indices()) {
    for (const auto& access : graph.at(v).accesses) {
      if (graph.needed[v] && graph.operation_of[v] != graph.operation_of[access.value])
        graph.stored[access.value] = true;
    }
  }
  // A row finds its position there.
  for (const Operation& operation : graph.plan.operations)
    if (const auto* const replaced = on_cpu<ReplacedRows>(operation)) graph.stored[replaced->place] = true;
}

void note_uses(OperationGraph& graph) {
  for (Operation& operation : graph.plan.operations) {
    const std::vector<ValueIndex> values = values_of(operation);
    for (const ValueIndex v : values) {
      if (graph.stored[v]) operation.writes.push_back(v);
      for (const auto& access : graph.at(v).accesses) {
        if (std::find(values.begin(), values.end(), access.value) == values.end())
          operation.reads.push_back(access.value);
      }
    }
  }
}

void divide_into_sections(OperationGraph& graph) {
  Plan& plan = graph.plan;
  std::size_t next = 0;  // index into plan.sliced
  for (std::size_t o = 0; o < plan.operations.size(); ++o) {
    if (next < plan.sliced.size() && plan.sliced[next].begin == o) {
      plan.sections.push_back({o, plan.sliced[next].end, false, next});
      o = plan.sliced[next++].end - 1;
      continue;
    }
    const bool serial = graph.threads == 1 || plan.operations[o].cost < kSerialCycles;
    if (serial && !plan.sections.empty() && plan.sections.back().serial) {
      plan.sections.back().end = o + 1;
    } else {
      plan.sections.push_back({o, o + 1, serial, {}});
    }
  }
}

Result<Plan> make_plan(std::shared_ptr<const program::Program> program, Fusion fusion, int threads,
                       const std::vector<ValueIndex>& keep, const std::vector<ValueIndex>& resumed,
                       Channels channels) {
  OperationGraph graph{fusion, Backend::kCpu, threads, keep, {}};
  graph.plan.program = std::move(program);
  graph.resumed = resumed;
  graph.channels = channels;
  return planned(std::move(graph));
}

Result<Plan> make_device_plan(std::shared_ptr<const program::Program> program,
                              const std::vector<ValueIndex>& keep) {
  OperationGraph graph{Fusion::kFused, Backend::kDevice, 1, keep, {}};
  graph.plan.program = std::move(program);
  return planned(std::move(graph));
}

}  // namespace dgx::exec
