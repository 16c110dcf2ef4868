#pragma once

#include <string>

#include "line_writer.h"

namespace dgx::lowering {

/// The parts of softmax, log-softmax and cross entropy over one dimension. Asked for again, they are the same
/// lines.
struct SoftmaxParts {
  TensorForm maximum;     ///< the dimension is 1
  TensorForm numerators;  ///< exp(x − maximum)
  TensorForm sum;         ///< sum of the numerators; the dimension is 1
  TensorForm reciprocal;  ///< 1 / sum
  TensorForm log_sum;     ///< log sum
};
[[nodiscard]] SoftmaxParts softmax_parts(Builder& builder, const std::string& provenance, const TensorForm& x,
                                         std::size_t dimension);

}  // namespace dgx::lowering
