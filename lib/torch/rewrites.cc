#include "rewrites.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/library.h>

#include <map>
#include <string>
#include <vector>

namespace dgx::torch_bridge {
namespace {

using torch::jit::Operation;
using torch::jit::Operator;
using torch::jit::Stack;

/// The same, run on plain tensors; its result is wrapped for functionalisation if others are, so that the
/// capture sees a literal.
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

/// Without a number of classes it is libtorch's, which asks the tensor's numbers and is refused by name.
void one_hot(Stack& stack) {
  const std::int64_t classes = torch::jit::pop(stack).toInt();
  const at::Tensor self = torch::jit::pop(stack).toTensor();
  if (classes < 1) return torch::jit::push(stack, at::one_hot(self, classes));
  const at::Tensor numbers = at::arange(classes, at::TensorOptions(at::kLong));
  torch::jit::push(stack, at::eq(self.unsqueeze(-1), numbers).to(at::kLong));
}

Operator renamed(const Operator& original, const std::string& name, Operation operation) {
  const c10::FunctionSchema& schema = original.schema();
  return Operator(name, schema.overload_name(), schema.arguments(), schema.returns(), std::move(operation),
                  c10::AliasAnalysisKind::CONSERVATIVE);
}

bool takes_tensor(const c10::FunctionSchema& schema) {
  return schema.arguments().at(0).type()->isSubtypeOf(*c10::TensorType::get());
}

/// Which operators are replaced, and by which. Registers those on first use.
const std::map<c10::Symbol, c10::Symbol>& replacements() {
  static const std::map<c10::Symbol, c10::Symbol> kReplacements = {
      {c10::Symbol::fromQualString("aten::tensor"), c10::Symbol::fromQualString("dgx::tensor")},
      {c10::Symbol::fromQualString("aten::as_tensor"), c10::Symbol::fromQualString("dgx::as_tensor")},
      {c10::Symbol::fromQualString("aten::one_hot"), c10::Symbol::fromQualString("dgx::one_hot")}};
  static const bool registered = [] {
    for (const auto& [from, to] : kReplacements) {
      for (const auto& original : torch::jit::getAllOperatorsFor(from)) {
        const std::string name = to.toQualString();
        if (name == "dgx::one_hot") {
          torch::jit::registerOperator(renamed(*original, name, one_hot));
        } else if (!takes_tensor(original->schema())) {
          torch::jit::registerOperator(renamed(*original, name, made_of_host_numbers(original)));
        }
      }
    }
    return true;
  }();
  (void)registered;
  return kReplacements;
}

void rewrite(torch::jit::Block* block) {
  std::vector<torch::jit::Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (torch::jit::Node* node : nodes) {
    for (torch::jit::Block* inside : node->blocks()) rewrite(inside);
    const auto found = replacements().find(node->kind());
    if (found == replacements().end()) continue;
    const bool is_one_hot = found->second.toUnqualString() == std::string("one_hot");
    if (!is_one_hot && node->inputs()[0]->type()->isSubtypeOf(*c10::TensorType::get())) continue;
    node->replaceWithNewSymbol(found->second);
    node->destroy();
  }
}

// Functionalisation runs an in-place call on the meta device first, to learn its shape. These have no kernel
// there, and the backward of max() and min() of a whole tensor calls them.
at::Tensor& binary_on_meta(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  out.resize_(at::infer_size(self.sizes(), other.sizes()));
  return out;
}
at::Tensor& unary_on_meta(const at::Tensor& self, at::Tensor& out) {
  out.resize_(self.sizes());
  return out;
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("logical_and.out", &binary_on_meta);
  library.impl("logical_or.out", &binary_on_meta);
  library.impl("logical_xor.out", &binary_on_meta);
  library.impl("logical_not.out", &unary_on_meta);
}

}  // namespace

void rewrite_for_capture(torch::jit::Module& module) {
  const auto graph = module.get_method("forward").graph();
  torch::jit::Inline(*graph);
  rewrite(graph->block());
}

}  // namespace dgx::torch_bridge
