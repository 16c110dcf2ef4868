#pragma once

#include <torch/csrc/jit/runtime/operator.h>

#include <span>
#include <string_view>

namespace dgx::torch_bridge {

/// An operator without a lowering of its own that is the same as several with one; libtorch's gradients of
/// those are its gradient. It works on TorchScript's stack as the operator does, or leaves the stack alone
/// and returns false where its arguments are beyond it: then the operator itself runs, and is refused by its
/// name.
struct Decomposition {
  std::string_view name;  ///< "aten::cdist"
  std::string_view overload;
  bool (*run)(torch::jit::Stack& stack);
};

[[nodiscard]] std::span<const Decomposition> decompositions();

}  // namespace dgx::torch_bridge
