#pragma once

#include <torch/csrc/jit/api/module.h>

namespace dgx::torch_bridge {

/// Replaces, in forward() and all it calls, the operators of TorchScript that a pass under functionalisation
/// cannot run as they are: those that make a tensor from numbers of the host write into its memory, and
/// the others are decomposed (decompositions.h). Must be called before the module runs for the first time.
void rewrite_for_capture(torch::jit::Module& module);

}  // namespace dgx::torch_bridge
