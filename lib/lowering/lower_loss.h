#pragma once

#include "dgx/core/result.h"
#include "dgx/lowering/lower.h"
#include "line_writer.h"

namespace dgx::lowering {

/// The loss of a batch, written as primitives from the model's output and y.
struct LossForms {
  TensorForm per_sample;  ///< f32 [batch]: the mean over a sample's targets; with `counted` their sum
  std::optional<TensorForm> correct;  ///< i64 [batch], cross entropy and bce: targets that the output meets
  std::optional<TensorForm> counted;  ///< i64 [batch], if targets can be ignored: those that are not
  TensorForm mean;                    ///< f32 []
  TensorForm gradient;                ///< the mean's gradient: f32, the output's shape
};

/// Builds all parts; those not used are dropped with the other dead lines. kUsage if output and y do not fit
/// the loss.
[[nodiscard]] Result<LossForms> lower_loss(Builder& builder, const TrainingRecipe& recipe,
                                           const TensorForm& output, const TensorForm& y);

/// lower_loss() for cross entropy; `output` must not be a splat.
[[nodiscard]] Result<LossForms> lower_cross_entropy(Builder& builder, const program::LossSpec& spec,
                                                    const TensorForm& output, const TensorForm& y);

/// The mean of all numbers: their sum divided by `divisor` (f32 []), or by their count.
[[nodiscard]] TensorForm mean_of(Builder& builder, const std::string& provenance, const TensorForm& numbers,
                                 const std::optional<TensorForm>& divisor);

}  // namespace dgx::lowering
