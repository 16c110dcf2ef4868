#include "loss_ends.h"

#include <algorithm>
#include <string_view>

namespace dgx::lowering {
namespace {

const AtenArgument* argument(const AtenCall& call, std::string_view name) {
  const auto found = std::ranges::find(call.argument_names, name);
  return found == call.argument_names.end()
             ? nullptr
             : &call.arguments[static_cast<std::size_t>(found - call.argument_names.begin())];
}

std::optional<TensorId> tensor(const AtenCall& call, std::string_view name) {
  const AtenArgument* const value = argument(call, name);
  const auto* const id = value ? std::get_if<std::optional<TensorId>>(value) : nullptr;
  return id ? *id : std::nullopt;
}

std::optional<std::int64_t> integer(const AtenCall& call, std::string_view name) {
  const AtenArgument* const value = argument(call, name);
  const auto* const number = value ? std::get_if<std::int64_t>(value) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

/// The call of that name whose first result passes `test`; nullptr if there is none.
template <class Test>
const AtenCall* find_call(const CapturedGraph& graph, std::string_view name, const Test& test) {
  const auto found = std::ranges::find_if(graph.calls, [&](const AtenCall& call) {
    return call.name == name && !call.results.empty() && call.results[0] && test(call);
  });
  return found == graph.calls.end() ? nullptr : &*found;
}
const AtenCall* find_maker(const CapturedGraph& graph, std::string_view name,
                           std::optional<TensorId> result) {
  return find_call(graph, name, [&](const AtenCall& call) { return call.results[0] == result; });
}

const Shape& shape_of(const CapturedGraph& graph, TensorId id) {
  return graph.tensors[static_cast<std::size_t>(id)].shape;
}

/// The gradient of the logits, if nothing but the loss takes part in it.
std::optional<TensorId> logits_gradient(const CapturedGraph& graph, TensorId logarithms) {
  const AtenCall* const loss = find_call(graph, "aten::nll_loss_backward", [&](const AtenCall& call) {
    return tensor(call, "self") == logarithms && tensor(call, "grad_output") == graph.output_gradient;
  });
  if (!loss) return std::nullopt;
  const AtenCall* const softmax =
      find_call(graph, "aten::_log_softmax_backward_data", [&](const AtenCall& call) {
        return tensor(call, "grad_output") == loss->results[0] && tensor(call, "output") == logarithms;
      });
  return softmax ? softmax->results[0] : std::nullopt;
}

/// The ends of a cross entropy inside the model; nullopt if its loss is another.
std::optional<LossEnds> ends_of_cross_entropy(const CapturedGraph& graph) {
  constexpr std::int64_t kMean = 1;
  const AtenCall* const loss = find_maker(graph, "aten::nll_loss_forward", graph.output);
  if (!loss || integer(*loss, "reduction") != kMean || tensor(*loss, "weight")) return std::nullopt;
  const AtenCall* const softmax = find_maker(graph, "aten::_log_softmax", tensor(*loss, "self"));
  const auto logits = softmax ? tensor(*softmax, "self") : std::nullopt;
  const auto targets = tensor(*loss, "target");
  const auto ignored = integer(*loss, "ignore_index");
  if (!logits || !targets || !ignored || shape_of(graph, *logits).size() != 2) return std::nullopt;
  const auto dimension = integer(*softmax, "dim");
  if (dimension != 1 && dimension != -1) return std::nullopt;
  LossEnds ends{program::LossSpec(program::LossKind::kCrossEntropy), *logits, std::nullopt, targets};
  ends.loss.ignore = ignored;
  if (!graph.output_gradient) return ends;
  ends.gradient = logits_gradient(graph, *tensor(*loss, "self"));
  return ends.gradient ? std::optional(ends) : std::nullopt;
}

}  // namespace

LossEnds loss_ends(const CapturedGraph& graph, const program::LossSpec& loss) {
  if (loss.kind == program::LossKind::kOutput) {
    if (auto ends = ends_of_cross_entropy(graph)) return *std::move(ends);
  }
  return {loss, graph.output, graph.output_gradient, std::nullopt};
}

}  // namespace dgx::lowering
