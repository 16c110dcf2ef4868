#pragma once

#include <torch/csrc/jit/runtime/operator.h>

#include <span>
#include <string_view>

namespace dgx::torch_bridge {

/// An operator without a lowering of its own that equals several operators with one; its gradient is that
/// which libtorch derives from theirs. `run` works on TorchScript's stack as the operator does. If it cannot
/// handle the arguments it leaves the stack alone and returns false: then the operator itself runs, and is
/// refused by its name.
struct Decomposition {
  std::string_view name;  ///< "aten::cdist"
  std::string_view overload;
  bool (*run)(torch::jit::Stack& stack);
};

[[nodiscard]] std::span<const Decomposition> decompositions();

}  // namespace dgx::torch_bridge
