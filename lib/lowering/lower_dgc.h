#pragma once

#include <cstdint>
#include <vector>

#include "dgx/lowering/lower.h"
#include "dgx/program/specs.h"
#include "tensor_form.h"

namespace dgx::lowering {

class Builder;

/// The positions of a worker's tensor by which its threshold is found: 0, stride, 2 stride, …, `count` of
/// them (dgx-lowerings(7), "DGC").
struct DgcSample {
  std::int64_t stride = 1;
  std::int64_t count = 1;
  bool operator==(const DgcSample&) const = default;
};
/// Those of a tensor of so many elements, at least 1.
[[nodiscard]] DgcSample dgc_sample(std::int64_t elements);

/// The least number of `count` positions that a worker sends, in each quarter of the warm-up and after it.
[[nodiscard]] std::vector<std::int64_t> dgc_wanted(const program::OptimizerSpec& spec, std::int64_t count);

/// kUsage if the recipe has what the optimiser dgc does not go with, and if the workers do not divide the
/// batch.
[[nodiscard]] Status check_dgc(const TrainingRecipe& recipe);

/// The numbers that dgc's workers keep and send of one parameter in a step.
struct DgcStep {
  TensorForm velocity;  ///< f32 [workers, shape]: the entry's next; nothing without momentum
  TensorForm residual;  ///< f32 [workers, shape]: the entry's next
  TensorForm update;    ///< f32 [shape]: the sum of what they send
};
/// Writes the lines of the parameter `name`. `gradients`, the workers', velocity and residual are f32
/// [workers, shape]; without momentum velocity is not read.
[[nodiscard]] DgcStep lower_dgc(Builder& builder, const program::OptimizerSpec& spec, const std::string& name,
                                const TensorForm& gradients, const TensorForm& velocity,
                                const TensorForm& residual);

}  // namespace dgx::lowering
