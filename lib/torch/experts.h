#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/program/specs.h"
#include "models.h"

namespace dgx::torch_bridge {

/// The mixture of experts of a block of `switch` (dgx-lowerings(7), "Switch"), in place of a perceptron: a
/// router sends each token to one expert, which takes the first of a sample's tokens that it has slots for.
class Experts {
 public:
  /// Adds the entries, whose names begin with `prefix`, to `parameters`.
  Experts(const program::SwitchSpec& spec, const std::string& prefix, std::vector<NamedTensor>& parameters);

  struct Output {
    at::Tensor y;  ///< [batch, positions, width]; 0 for a token without a slot
    /// [batch]: of each sample, the sum over experts of how many tokens chose it, times the sum of its
    /// probabilities.
    at::Tensor balance;
  };
  /// The output for x [batch, positions, width].
  [[nodiscard]] Output forward(const at::Tensor& x) const;

 private:
  struct Expert {
    Affine up, down;
  };

  double capacity_;
  at::Tensor router_;
  std::vector<Expert> experts_;
};

}  // namespace dgx::torch_bridge
