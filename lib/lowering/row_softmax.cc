#include "row_softmax.h"

#include "lowering.h"

namespace dgx::lowering {

using kernels::Kind;

SoftmaxParts softmax_parts(Builder& builder, const std::string& provenance, const TensorForm& form,
                           std::size_t dimension) {
  const TensorForm x = without_splat(builder, form);
  SoftmaxParts parts;
  const Reduction over = reduction_over(x.shape, {dimension});
  const auto fold = [&](Kind kind, const TensorForm& items) {
    LineWriter line(builder, provenance, kind, over.shape, over.fold);
    const Expression item = line.read(items, over.indices);
    return line.finish(DType::kF32, item);
  };
  const TensorForm maximum = fold(Kind::kMax, x);
  parts.maximum = over.restored(maximum);

  LineWriter numerators(builder, provenance, x.shape);
  parts.numerators = numerators.finish(DType::kF32, exp(numerators.read(x) - numerators.read(parts.maximum)));
  const TensorForm sum = fold(Kind::kSum, parts.numerators);
  parts.sum = over.restored(sum);

  LineWriter reciprocal(builder, provenance, over.shape);
  parts.reciprocal = over.restored(reciprocal.finish(DType::kF32, 1.0F / reciprocal.read(sum)));
  LineWriter log_sum(builder, provenance, over.shape);
  parts.log_sum = over.restored(log_sum.finish(DType::kF32, log(log_sum.read(sum))));
  return parts;
}

}  // namespace dgx::lowering
