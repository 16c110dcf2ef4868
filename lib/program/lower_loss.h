#pragma once

#include "dgx/core/result.h"
#include "dgx/program/lower.h"
#include "line_writer.h"

namespace dgx::program {

/// The loss of a batch, written as primitives from the model's output and y.
struct LossForms {
  TensorForm per_sample;              ///< f32 [batch]
  std::optional<TensorForm> correct;  ///< i64 [batch], cross entropy: whether the largest output is y's
  TensorForm mean;                    ///< f32 []
  TensorForm gradient;                ///< of the mean, f32, the output's shape
};

/// Builds all of it; what is not used is dropped with the rest of the dead lines. kUsage if output and y do
/// not fit the loss.
[[nodiscard]] Result<LossForms> lower_loss(Builder& builder, const TrainingRecipe& recipe,
                                           const TensorForm& output, const TensorForm& y);

}  // namespace dgx::program
