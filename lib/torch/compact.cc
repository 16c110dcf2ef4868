#include "compact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace dgx::torch_bridge {
namespace {

using lowering::AtenCall;
using lowering::AtenSource;
using lowering::CapturedGraph;
using lowering::TensorId;

/// Calls `visit(TensorId&)` for each tensor among the arguments.
template <class Call, class Visit>
void each_argument(Call& call, const Visit& visit) {
  for (auto& argument : call.arguments) {
    if (auto* one = std::get_if<std::optional<TensorId>>(&argument); one && *one) visit(**one);
    if (auto* list = std::get_if<std::vector<std::optional<TensorId>>>(&argument)) {
      for (auto& item : *list) {
        if (item) visit(*item);
      }
    }
  }
}

/// Calls `visit(TensorId&)` for each tensor that the graph has to give.
template <class Graph, class Visit>
void each_root(Graph& graph, const Visit& visit) {
  visit(graph.output);
  if (graph.penalty) visit(*graph.penalty);
  for (auto& gradient : graph.gradients) {
    if (gradient) visit(*gradient);
  }
  for (auto& [source, tensor] : graph.buffer_updates) visit(tensor);
  if (graph.cut) {
    for (auto* const tensor :
         {&graph.cut->activation, &graph.cut->message, &graph.cut->gradient, &graph.cut->returned})
      visit(*tensor);
  }
}

std::size_t index(TensorId id) { return static_cast<std::size_t>(id); }

/// By TensorId: true if a tensor that the graph has to give depends on it.
std::vector<bool> needed_tensors(const CapturedGraph& graph) {
  std::vector<bool> needed(graph.tensors.size());
  const auto mark = [&](TensorId id) { needed[index(id)] = true; };
  each_root(graph, mark);
  for (auto call = graph.calls.rbegin(); call != graph.calls.rend(); ++call) {
    const bool used = std::any_of(call->results.begin(), call->results.end(),
                                  [&](const auto& result) { return result && needed[index(*result)]; });
    if (used) each_argument(*call, mark);
  }
  return needed;
}

void drop_unneeded(CapturedGraph& graph, const std::vector<bool>& needed) {
  std::erase_if(graph.calls, [&](const AtenCall& call) {
    return std::none_of(call.results.begin(), call.results.end(),
                        [&](const auto& result) { return result && needed[index(*result)]; });
  });
  std::erase_if(graph.sources, [&](const AtenSource& source) {
    return source.kind == AtenSource::Kind::kConstant && !needed[index(source.tensor)];
  });
  std::set<std::string> taken;
  for (const AtenSource& source : graph.sources) {
    if (source.kind != AtenSource::Kind::kConstant) taken.insert(source.name);
  }
  std::size_t literals = 0;
  for (AtenSource& source : graph.sources) {
    if (source.kind != AtenSource::Kind::kConstant) continue;
    do {
      source.name = fmt::format("constant.{}", literals++);
    } while (taken.contains(source.name));
  }
}

Status check_dtypes(CapturedGraph& graph, const std::vector<bool>& needed,
                    const std::vector<std::string>& unsupported) {
  constexpr const char* kHint = "tensors are float32, int64, int32, bool or uint8";
  for (const AtenSource& source : graph.sources) {
    if (const auto& dtype = unsupported[index(source.tensor)]; !dtype.empty()) {
      return usage_error(fmt::format("{}: a tensor of {} cannot be captured", source.name, dtype), kHint);
    }
  }
  for (AtenCall& call : graph.calls) {
    for (auto& result : call.results) {
      if (!result || unsupported[index(*result)].empty()) continue;
      if (needed[index(*result)]) {
        return usage_error(fmt::format("{}: {} gives a tensor of {}, which cannot be captured", call.place,
                                       call.name, unsupported[index(*result)]),
                           kHint);
      }
      result.reset();
    }
  }
  return {};
}

void sort_sources(CapturedGraph& graph) {
  std::vector<std::size_t> order(graph.sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(graph.sources[a].kind, graph.sources[a].name) <
           std::tie(graph.sources[b].kind, graph.sources[b].name);
  });
  std::vector<AtenSource> sources;
  std::vector<std::size_t> place_of(order.size());
  std::vector<std::optional<TensorId>> gradients(graph.gradients.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    place_of[order[place]] = place;
    sources.push_back(std::move(graph.sources[order[place]]));
    if (place < gradients.size()) gradients[place] = graph.gradients[order[place]];
  }
  for (auto& [source, tensor] : graph.buffer_updates) source = place_of[source];
  std::sort(graph.buffer_updates.begin(), graph.buffer_updates.end());
  graph.sources = std::move(sources);
  graph.gradients = std::move(gradients);
}

void renumber(CapturedGraph& graph) {
  std::vector<TensorId> number(graph.tensors.size(), -1);
  std::vector<lowering::AtenTensor> tensors;
  const auto use = [&](TensorId& id) {
    TensorId& known = number[index(id)];
    if (known < 0) {
      known = static_cast<TensorId>(tensors.size());
      tensors.push_back(std::move(graph.tensors[index(id)]));
    }
    id = known;
  };
  for (lowering::AtenInput& input : graph.inputs) use(input.tensor);
  if (graph.output_gradient) use(*graph.output_gradient);
  for (AtenSource& source : graph.sources) use(source.tensor);
  for (AtenCall& call : graph.calls) {
    each_argument(call, use);
    for (auto& result : call.results) {
      if (result) use(*result);
    }
  }
  each_root(graph, use);
  graph.tensors = std::move(tensors);
}

}  // namespace

Result<CapturedGraph> compact(CapturedGraph raw, const std::vector<std::string>& unsupported) {
  const std::vector<bool> needed = needed_tensors(raw);
  drop_unneeded(raw, needed);
  DGX_CHECK(check_dtypes(raw, needed, unsupported));
  sort_sources(raw);
  renumber(raw);
  return raw;
}

}  // namespace dgx::torch_bridge
