#pragma once

#include "dgx/core/result.h"
#include "dgx/kernels/primitive.h"
#include "dgx/lowering/lower.h"

namespace dgx::lowering {

struct LoweringState;

/// Writes the lines of the recipe's cut in place of the copy that the graph has there (dgx-lowerings(7),
/// "AQ-SGD"): the activation's message, and the entry that keeps it. kUsage, with both numbers, if a program
/// cannot hold that entry.
[[nodiscard]] Status lower_cut_forward(LoweringState& state, const TrainingRecipe& recipe);
/// The same of the gradient, of which nothing is kept.
[[nodiscard]] Status lower_cut_backward(LoweringState& state, const TrainingRecipe& recipe);

/// True for a line of a cut: what crosses it is to be a value of its own.
[[nodiscard]] bool is_of_cut(const kernels::Primitive& line);

}  // namespace dgx::lowering
