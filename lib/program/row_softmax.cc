#include "row_softmax.h"

#include "lowering.h"

namespace dgx::program {

using kernels::Kind;
using kernels::ScalarOp;

SoftmaxParts softmax_parts(Builder& builder, const std::string& provenance, const TensorForm& form,
                           std::size_t dimension) {
  const TensorForm x = without_splat(builder, form);
  SoftmaxParts parts;
  Shape reduced = x.shape;
  reduced[dimension] = 1;
  auto indices = output_indices(x.shape.size());
  indices[dimension] = fold_index(0);

  LineWriter maximum(builder, provenance, Kind::kMax, reduced, {x.shape[dimension]});
  const Expression item = maximum.read(x, indices);
  parts.maximum = maximum.finish(DType::kF32, item);

  LineWriter numerators(builder, provenance, x.shape);
  parts.numerators = numerators.finish(
      DType::kF32, function(ScalarOp::kExp, numerators.read(x) - numerators.read(parts.maximum)));

  LineWriter sum(builder, provenance, Kind::kSum, reduced, {x.shape[dimension]});
  const Expression term = sum.read(parts.numerators, indices);
  parts.sum = sum.finish(DType::kF32, term);

  LineWriter reciprocal(builder, provenance, reduced);
  parts.reciprocal = reciprocal.finish(DType::kF32, 1.0F / reciprocal.read(parts.sum));
  LineWriter log_sum(builder, provenance, reduced);
  parts.log_sum = log_sum.finish(DType::kF32, function(ScalarOp::kLog, log_sum.read(parts.sum)));
  return parts;
}

}  // namespace dgx::program
