#include "captured_text.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <optional>
#include <type_traits>
#include <variant>

namespace dgx::test {
namespace {

using lowering::AtenArgument;
using lowering::AtenCall;
using lowering::AtenSource;
using lowering::CapturedGraph;
using lowering::TensorId;

std::string text_of(const std::optional<TensorId>& id) { return id ? fmt::format("%{}", *id) : "undefined"; }

std::string text_of(const AtenArgument& argument) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "None";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return fmt::format("'{}'", value);
        } else if constexpr (std::is_same_v<T, std::optional<TensorId>>) {
          return text_of(value);
        } else if constexpr (std::is_same_v<T, std::vector<std::optional<TensorId>>>) {
          std::string list;
          for (const auto& id : value) list += (list.empty() ? "" : ", ") + text_of(id);
          return "[" + list + "]";
        } else if constexpr (std::is_same_v<T, double>) {
          return fmt::format("{:#}", value);
        } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t>) {
          return fmt::format("{}", value);
        } else {
          return fmt::format("[{}]", fmt::join(value, ", "));
        }
      },
      argument);
}

std::string typed(const CapturedGraph& graph, const std::optional<TensorId>& id) {
  if (!id) return "undefined";
  const auto& tensor = graph.tensors.at(static_cast<std::size_t>(*id));
  return fmt::format("%{} {}{}", *id, tensor.boolean ? "bool" : name_of(tensor.dtype),
                     to_string(tensor.shape));
}

std::string text_of(const CapturedGraph& graph, const AtenCall& call) {
  std::string results;
  for (const auto& result : call.results) results += (results.empty() ? "" : ", ") + typed(graph, result);
  std::string arguments;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    arguments +=
        fmt::format("{}{}={}", i == 0 ? "" : ", ", call.argument_names[i], text_of(call.arguments[i]));
  }
  const std::string dot = call.overload.empty() ? "" : ".";
  return fmt::format("{} = {}{}{}({})  # {}\n", results, call.name, dot, call.overload, arguments,
                     call.place);
}

}  // namespace

lowering::CaptureBackend* open_capture_backend(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library ? dlsym(library, program::kTorchModuleSymbol) : nullptr;
  if (!symbol) {
    std::fprintf(stderr, "%s\n", dlerror());
    return nullptr;
  }
  return static_cast<lowering::CaptureBackend*>(reinterpret_cast<program::TorchModuleFunction>(symbol)());
}

std::string captured_text(const CapturedGraph& graph) {
  static constexpr const char* kKinds[] = {"parameter", "buffer", "constant"};
  std::string text;
  for (const auto& input : graph.inputs)
    text += fmt::format("input {} {}\n", input.field, typed(graph, input.tensor));
  if (graph.output_gradient) text += fmt::format("output gradient {}\n", typed(graph, graph.output_gradient));
  for (const AtenSource& source : graph.sources) {
    text += fmt::format("{} {} {}", kKinds[static_cast<int>(source.kind)], source.name,
                        typed(graph, source.tensor));
    if (source.value.count() == 1 && source.value.dtype() == DType::kF32) {
      text += fmt::format(" = {}", source.value.as<float>()[0]);
    }
    if (source.value.count() == 1 && source.value.dtype() == DType::kI64) {
      text += fmt::format(" = {}", source.value.as<std::int64_t>()[0]);
    }
    text += "\n";
  }
  for (const AtenCall& call : graph.calls) text += text_of(graph, call);
  text += fmt::format("output {}\n", typed(graph, graph.output));
  for (std::size_t i = 0; i < graph.gradients.size(); ++i) {
    text += fmt::format("gradient {} {}\n", graph.sources[i].name, typed(graph, graph.gradients[i]));
  }
  for (const auto& [source, tensor] : graph.buffer_updates) {
    text += fmt::format("update {} {}\n", graph.sources[source].name, typed(graph, tensor));
  }
  return text;
}

}  // namespace dgx::test
