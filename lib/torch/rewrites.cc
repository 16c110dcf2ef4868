#include "rewrites.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decompositions.h"

namespace dgx::torch_bridge {
namespace {

using torch::jit::Operation;
using torch::jit::Operator;
using torch::jit::Stack;

/// The original operator, run on plain tensors. Its result is wrapped for functionalisation if other tensors
/// are, so that the capture sees a literal.
Operation made_of_host_numbers(const std::shared_ptr<Operator>& original) {
  return [operation = original->getOperation()](Stack& stack) mutable {
    const bool is_functional = c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Functionalize);
    {
      const c10::impl::ExcludeDispatchKeyGuard plain(
          c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::Fake}));
      operation(stack);
    }
    if (is_functional)
      stack.back() = at::functionalization::impl::to_functional_tensor(stack.back().toTensor());
  };
}

Operator renamed(const Operator& original, const std::string& name, Operation operation) {
  const c10::FunctionSchema& schema = original.schema();
  return Operator(name, schema.overload_name(), schema.arguments(), schema.returns(), std::move(operation),
                  c10::AliasAnalysisKind::CONSERVATIVE);
}

bool takes_tensor(const c10::FunctionSchema& schema) {
  return schema.arguments().at(0).type()->isSubtypeOf(*c10::TensorType::get());
}

Operation decomposed(const std::shared_ptr<Operator>& original, bool (*run)(Stack& stack)) {
  return [operation = original->getOperation(), run](Stack& stack) mutable {
    if (!run(stack)) operation(stack);
  };
}

/// The operation that replaces the operator, or an empty one if the operator stays as it is.
Operation replacement(const std::shared_ptr<Operator>& original) {
  const std::string& name = original->schema().name();
  for (const Decomposition& each : decompositions()) {
    if (name == each.name && original->schema().overload_name() == each.overload) {
      return decomposed(original, each.run);
    }
  }
  const bool makes_a_tensor = name == "aten::tensor" || name == "aten::as_tensor";
  return makes_a_tensor && !takes_tensor(original->schema()) ? made_of_host_numbers(original)
                                                             : Operation(nullptr);
}

std::set<std::string> replaced_names() {
  std::set<std::string> names = {"aten::tensor", "aten::as_tensor"};
  for (const Decomposition& each : decompositions()) names.emplace(each.name);
  return names;
}

/// The replacement of each operator that is replaced, by schema. Registers the replacements on first use.
const std::map<std::string, c10::Symbol>& replacements() {
  static const std::map<std::string, c10::Symbol> kReplacements = [] {
    std::map<std::string, c10::Symbol> replaced;
    for (const std::string& from : replaced_names()) {
      const std::string to = "dgx" + from.substr(from.find("::"));
      for (const auto& original : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(from))) {
        Operation operation = replacement(original);
        if (!operation) continue;
        torch::jit::registerOperator(renamed(*original, to, std::move(operation)));
        replaced.emplace(c10::toString(original->schema()), c10::Symbol::fromQualString(to));
      }
    }
    return replaced;
  }();
  return kReplacements;
}

void rewrite(torch::jit::Block* block) {
  std::vector<torch::jit::Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (torch::jit::Node* node : nodes) {
    for (torch::jit::Block* inside : node->blocks()) rewrite(inside);
    const c10::FunctionSchema* const schema = node->maybeSchema();
    const auto found = schema ? replacements().find(c10::toString(*schema)) : replacements().end();
    if (found == replacements().end()) continue;
    node->replaceWithNewSymbol(found->second);
    node->destroy();
  }
}

}  // namespace

void rewrite_for_capture(torch::jit::Module& module) {
  const auto graph = module.get_method("forward").graph();
  torch::jit::Inline(*graph);
  rewrite(graph->block());
}

}  // namespace dgx::torch_bridge
