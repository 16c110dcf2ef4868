// Functionalisation runs a call that writes into its argument on the meta device first, to check shapes.
// libtorch has no meta kernel in C++ for a few of these calls; their result has the shape of the argument
// that they write. The backward of max() and min() of a whole tensor makes some of them.
#include <ATen/core/stack.h>
#include <torch/library.h>

namespace dgx::torch_bridge {
namespace {

/// The meta kernel of an `….out` operator: returns the last argument, which the operator writes.
void give_last_argument(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::IValue out = stack->back();
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->push_back(out);
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  for (const char* name :
       {"abs.out", "addbmm.out", "floor_divide.out", "hardswish.out", "hardtanh.out", "logical_and.out",
        "logical_not.out", "logical_or.out", "logical_xor.out", "logit.out", "nan_to_num.out"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&give_last_argument>());
  }
}

}  // namespace
}  // namespace dgx::torch_bridge
