#include "graph_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <variant>

#include "dgx/core/checked.h"
#include "dgx/core/text.h"
#include "vetting.h"

namespace dgx::torch_bridge {
namespace {

using lowering::ExportedArgument;
using lowering::ExportedGraph;
using lowering::ExportedNode;

constexpr std::string_view kOperators = "torch.ops.aten.";
constexpr std::string_view kGradMode = "torch.ops.higher_order.wrap_with_set_grad_enabled";
constexpr std::string_view kAutocast = "torch.ops.higher_order.wrap_with_autocast";

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

const std::map<std::string_view, IntegerFunction>& integer_functions() {
  using N = std::int64_t;
  static const std::map<std::string_view, IntegerFunction> kFunctions = {
      {"_operator.add", [](N a, N b) { return checked_add(a, b); }},
      {"_operator.sub", [](N a, N b) { return b == kLowest ? std::nullopt : checked_add(a, -b); }},
      {"_operator.mul", [](N a, N b) { return checked_mul(a, b); }},
      {"_operator.floordiv",
       [](N a, N b) { return b == 0 || b == -1 ? std::nullopt : std::optional(floor_div(a, b)); }},
      {"_operator.mod",
       [](N a, N b) { return b == 0 || b == -1 ? std::nullopt : std::optional(a - floor_div(a, b) * b); }},
      {"_operator.neg", [](N a, N) { return a == kLowest ? std::nullopt : std::optional(-a); }},
      {"_operator.eq", [](N a, N b) { return std::optional<N>(a == b); }},
      {"_operator.ne", [](N a, N b) { return std::optional<N>(a != b); }},
      {"_operator.lt", [](N a, N b) { return std::optional<N>(a < b); }},
      {"_operator.le", [](N a, N b) { return std::optional<N>(a <= b); }},
      {"_operator.gt", [](N a, N b) { return std::optional<N>(a > b); }},
      {"_operator.ge", [](N a, N b) { return std::optional<N>(a >= b); }},
      {"torch.sym_max", [](N a, N b) { return std::optional(std::max(a, b)); }},
      {"torch.sym_min", [](N a, N b) { return std::optional(std::min(a, b)); }}};
  return kFunctions;
}

/// True for calls that compute nothing: they assert what the exporter assumed about sizes, types and devices.
bool only_asserts(std::string_view target) {
  if (!target.starts_with(kOperators)) return target == "torch._check";
  const std::string_view name = target.substr(kOperators.size());
  return name.starts_with("_assert_") || name.starts_with("sym_constrain_range");
}

/// libtorch's operator that a target "torch.ops.aten.NAME.OVERLOAD" names.
std::optional<c10::OperatorHandle> operator_of(std::string_view target) {
  if (!target.starts_with(kOperators)) return std::nullopt;
  const std::string_view rest = target.substr(kOperators.size());
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string overload(rest.substr(dot + 1));
  return c10::Dispatcher::singleton().findSchema(
      {"aten::" + std::string(rest.substr(0, dot)), overload == "default" ? "" : overload});
}

bool is_true(const ExportedNode& node, std::string_view name) {
  const ExportedArgument* const value = argument_named(node, name);
  return value && std::get_if<bool>(value) && *std::get_if<bool>(value);
}

Status check_operator(const ExportedNode& node, const c10::OperatorHandle& op) {
  for (const auto& [name, value] : node.inputs) {
    if (std::holds_alternative<std::shared_ptr<ExportedGraph>>(value))
      return malformed(fmt::format("{}: takes no graph", title_of(node)));
    if (!op.schema().argumentIndexWithName(name)) {
      return usage_error(
          fmt::format("{}: libtorch here knows no argument {} of it", title_of(node), printable(name)),
          "the file is of a newer torch: export it with the libtorch that dgx-submit uses");
    }
  }
  return {};
}

Status check_wrapper(const ExportedNode& node, Callee::Kind kind) {
  DGX_TRY(const Wrapper wrapper, wrapper_of(node, kind));
  if (kind == Callee::Kind::kAutocast && wrapper.on) {
    return usage_error(title_of(node) + ": computes in a narrower type, which cannot be captured",
                       "export the model without torch.autocast");
  }
  return check_graph(*wrapper.graph);
}

Status check_node(const ExportedNode& node) {
  const Callee callee = callee_of(node.target);
  switch (callee.kind) {
    case Callee::Kind::kIntegers:
    case Callee::Kind::kAssertion: return {};
    case Callee::Kind::kGradMode:
    case Callee::Kind::kAutocast: return check_wrapper(node, callee.kind);
    case Callee::Kind::kOperator: return check_operator(node, *callee.op);
    case Callee::Kind::kRefused: break;
  }
  return usage_error("no exact lowering for " + title_of(node));
}

/// True if a call that drops a share of its numbers drops none.
bool drops_nothing(const ExportedNode& node) {
  for (const char* name : {"dropout_p", "dropout", "p"}) {
    const ExportedArgument* const share = argument_named(node, name);
    const auto* const number = share ? std::get_if<double>(share) : nullptr;
    if (number) return *number == 0;
  }
  return false;
}

/// True if a call gives other numbers in training than in evaluation.
bool is_for_training(const ExportedNode& node, const c10::OperatorHandle& op) {
  const auto takes = [&](const char* name) { return op.schema().argumentIndexWithName(name).has_value(); };
  if (takes("running_mean")) {
    // A norm without running statistics takes the batch's own in evaluation, too.
    const ExportedArgument* const running = argument_named(node, "running_mean");
    const bool keeps = running && !std::holds_alternative<std::monostate>(*running);
    return keeps && (is_true(node, "training") || is_true(node, "train") || is_true(node, "use_input_stats"));
  }
  if (takes("train") || takes("training"))
    return !drops_nothing(node) && (is_true(node, "train") || is_true(node, "training"));
  if (takes("dropout_p")) return argument_named(node, "dropout_p") && !drops_nothing(node);
  return op.hasTag(at::Tag::nondeterministic_seeded);
}

/// True if a call gives other numbers in evaluation than in training.
bool is_for_evaluation(const ExportedNode& node, const c10::OperatorHandle& op) {
  const auto takes = [&](const char* name) { return op.schema().argumentIndexWithName(name).has_value(); };
  const auto is_off = [&](const char* name) { return argument_named(node, name) && !is_true(node, name); };
  if (takes("running_mean")) {
    const ExportedArgument* const running = argument_named(node, "running_mean");
    return running && !std::holds_alternative<std::monostate>(*running) &&
           (is_off("training") || is_off("use_input_stats"));
  }
  return (takes("p") || takes("dropout")) && is_off("train") && !drops_nothing(node);
}

/// The first call of an operator for which `test` is true; nullptr if there is none.
const ExportedNode* find_operator(const ExportedGraph& graph,
                                  bool (*test)(const ExportedNode& node, const c10::OperatorHandle& op)) {
  for (const ExportedNode& node : graph.nodes) {
    const Callee callee = callee_of(node.target);
    for (const auto& [name, value] : node.inputs) {
      const auto* const inside = std::get_if<std::shared_ptr<ExportedGraph>>(&value);
      const ExportedNode* const found = inside ? find_operator(**inside, test) : nullptr;
      if (found) return found;
    }
    if (callee.kind == Callee::Kind::kOperator && test(node, *callee.op)) return &node;
  }
  return nullptr;
}

}  // namespace

std::string name_of(const ExportedNode& node) {
  std::string_view name = node.target;
  for (const std::string_view prefix : {std::string_view("torch.ops."), std::string_view("higher_order.")}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  return printable(name);
}

std::string title_of(const ExportedNode& node) {
  return name_of(node) + (node.place.empty() ? "" : " (" + node.place + ")");
}

Callee callee_of(std::string_view target) {
  using Kind = Callee::Kind;
  if (only_asserts(target)) return {Kind::kAssertion, nullptr, {}};
  if (target == kGradMode) return {Kind::kGradMode, nullptr, {}};
  if (target == kAutocast) return {Kind::kAutocast, nullptr, {}};
  const auto function = integer_functions().find(target);
  if (function != integer_functions().end()) return {Kind::kIntegers, function->second, {}};
  auto op = operator_of(target);
  if (!op || !may_run(*op)) return {};
  return {Kind::kOperator, nullptr, std::move(op)};
}

Result<Wrapper> wrapper_of(const ExportedNode& node, Callee::Kind kind) {
  // Before the graph: whether gradients are recorded; or a device, an element type, on or off, a cache.
  const std::size_t words = kind == Callee::Kind::kGradMode ? 1 : 4;
  const std::size_t mode = kind == Callee::Kind::kGradMode ? 0 : 2;
  const auto misfit = [&] { return malformed(title_of(node) + ": has other arguments than it takes"); };
  if (node.inputs.size() <= words) return misfit();
  const auto* const graph = std::get_if<std::shared_ptr<ExportedGraph>>(&node.inputs[words].second);
  const auto* const on = std::get_if<bool>(&node.inputs[mode].second);
  if (!graph || !on || node.inputs.size() != words + 1 + (*graph)->inputs.size()) return misfit();
  return Wrapper{graph->get(), *on, words + 1};
}

const ExportedArgument* argument_named(const ExportedNode& node, std::string_view name) {
  const auto found =
      std::ranges::find(node.inputs, name, [](const auto& input) { return std::string_view(input.first); });
  return found == node.inputs.end() ? nullptr : &found->second;
}

Status check_graph(const ExportedGraph& graph) {
  for (const ExportedNode& node : graph.nodes) DGX_CHECK(check_node(node));
  return {};
}

const ExportedNode* find_training_call(const ExportedGraph& graph) {
  return find_operator(graph, is_for_training);
}

const ExportedNode* find_evaluation_call(const ExportedGraph& graph) {
  return find_operator(graph, is_for_evaluation);
}

}  // namespace dgx::torch_bridge
