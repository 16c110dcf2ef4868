#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/lowering/exported.h"

/// The calls of a torch.export graph: what each one's target names, and the walk that looks at all of them
/// before the first one runs.
namespace dgx::torch_bridge {

/// A function of one or two integers, for sizes that follow from the shape of a batch; nullopt for a result
/// that does not exist.
using IntegerFunction = std::optional<std::int64_t> (*)(std::int64_t a, std::int64_t b);

/// The function that a call's target names.
struct Callee {
  enum class Kind {
    kOperator,   ///< `op`, which may run (vetting.h)
    kIntegers,   ///< `function`
    kAssertion,  ///< computes nothing: asserts what the exporter assumed about sizes
    kGradMode,   ///< a graph inside, with gradients recorded or not
    kAutocast,   ///< a graph inside, with automatic types, which only "off" may be
    kRefused,    ///< anything else
  };
  Kind kind = Kind::kRefused;
  IntegerFunction function = nullptr;
  std::optional<c10::OperatorHandle> op;
};
[[nodiscard]] Callee callee_of(std::string_view target);

/// A node of kGradMode or kAutocast: the graph inside, whether the mode is on, and the position of the first
/// argument that is one of the graph's inputs.
struct Wrapper {
  const lowering::ExportedGraph* graph = nullptr;
  bool on = false;
  std::size_t first = 0;
};
/// kMalformed if the node's arguments are not those of its kind.
[[nodiscard]] Result<Wrapper> wrapper_of(const lowering::ExportedNode& node, Callee::Kind kind);

/// The argument with that name; nullptr if the call does not give it.
[[nodiscard]] const lowering::ExportedArgument* argument_named(const lowering::ExportedNode& node,
                                                               std::string_view name);
/// The target without what all have in common: "aten.conv2d.default".
[[nodiscard]] std::string name_of(const lowering::ExportedNode& node);
/// The target and the user's line, for messages: "aten.conv2d.default (net.py:9)".
[[nodiscard]] std::string title_of(const lowering::ExportedNode& node);

/// kUsage, naming operator and line, if a call of the graph cannot be captured; kMalformed if one does not
/// have the arguments that its target takes.
[[nodiscard]] Status check_graph(const lowering::ExportedGraph& graph);

/// The first call whose result differs between training and evaluation: it draws random numbers, or a norm
/// takes the batch's own statistics and keeps running ones. nullptr if there is none. Calls that
/// check_graph() refuses are passed over.
[[nodiscard]] const lowering::ExportedNode* find_training_call(const lowering::ExportedGraph& graph);

/// The first call that drops numbers or is a norm with running statistics, and does in this graph what it
/// does in evaluation. nullptr if there is none.
[[nodiscard]] const lowering::ExportedNode* find_evaluation_call(const lowering::ExportedGraph& graph);

}  // namespace dgx::torch_bridge
