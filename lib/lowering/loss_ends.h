#pragma once

#include <optional>

#include "dgx/lowering/aten.h"
#include "dgx/program/specs.h"

namespace dgx::lowering {

/// The tensors at which a step's loss and the captured graph meet.
///
/// A loss outside the model starts from the model's output and y. So does one inside if the graph's last call
/// is torch's cross entropy of [targets, classes]: then that call and its gradient are not lowered, and the
/// loss is written from the logits like `cross-entropy`. Both ways to train give the same bits, and the
/// gradient, a softmax less one, costs one line instead of three. Any other loss inside is the model's
/// output, lowered call by call, and its gradient is 1.
struct LossEnds {
  program::LossSpec loss;            ///< what is computed from `output`; kOutput: it is the loss
  TensorId output = 0;               ///< what the forward pass has to give
  std::optional<TensorId> gradient;  ///< training: d loss / d output, given by the loss
  std::optional<TensorId> targets;   ///< what the forward pass has to give, too, instead of y
};
[[nodiscard]] LossEnds loss_ends(const CapturedGraph& graph, const program::LossSpec& loss);

}  // namespace dgx::lowering
