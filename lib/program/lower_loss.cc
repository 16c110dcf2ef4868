#include "lower_loss.h"

#include <fmt/format.h>

#include "lowering.h"
#include "row_softmax.h"

namespace dgx::program {

using kernels::Kind;
using kernels::ScalarOp;

namespace {

TensorForm mean_of(Builder& builder, const std::string& provenance, const TensorForm& numbers) {
  LineWriter sum(builder, provenance, Kind::kSum, {}, numbers.shape);
  std::vector<kernels::Coordinate> indices;
  for (std::size_t n = 0; n < numbers.shape.size(); ++n) indices.push_back(fold_index(n));
  const Expression item = sum.read(numbers, indices);
  const TensorForm total = sum.finish(DType::kF32, item);
  std::int64_t count = 1;
  for (const std::int64_t size : numbers.shape) count *= size;
  LineWriter line(builder, provenance, Shape{});
  return line.finish(DType::kF32, line.read(total) / static_cast<float>(count));
}

/// log Σ exp(x − max) − (x[y] − max), its gradient (softmax − onehot) / n.
Result<LossForms> cross_entropy(Builder& builder, const TensorForm& output, const TensorForm& y,
                                std::int64_t batch) {
  const std::string provenance = "loss cross-entropy";
  if (output.shape.size() != 2 || output.shape[0] != batch) {
    return usage_error(fmt::format("loss cross-entropy: the model's output is {}, must be [{},classes]",
                                   to_string(output.shape), batch));
  }
  if (y.dtype == DType::kF32)
    return usage_error("loss cross-entropy: y is f32, must hold class numbers (u8 or i64)");
  const auto labels = reshape(y, {batch});
  if (!labels || labels->shape != Shape{batch} || y.shape[0] != batch) {
    return usage_error(
        fmt::format("loss cross-entropy: y is {}, must be one class number a sample", to_string(y.shape)));
  }
  const std::string& g = provenance;
  const SoftmaxParts parts = softmax_parts(builder, g, output, 1);
  LossForms loss;

  LineWriter sample(builder, g, Shape{batch});
  // Access 1 is the label, which access 0 uses as its column.
  kernels::Access picked =
      access_at(output, {output_index(0), {{{kernels::Term::Symbol::kAccess, 1, 1}}, 0, {}, 1}});
  picked.fill = 0.0F;
  const Expression chosen = sample.read(picked, DType::kF32);
  (void)sample.read(*labels);
  const auto per_row = [&](const TensorForm& form) {
    return sample.read(form, {output_index(0), constant_index(0)});
  };
  loss.per_sample = sample.finish(DType::kF32, per_row(parts.log_sum) - (chosen - per_row(parts.maximum)));

  LineWriter best(builder, g, Kind::kArgmax, Shape{batch}, {output.shape[1]});
  const Expression item = best.read(output, {output_index(0), fold_index(0)});
  const TensorForm guess = best.finish(DType::kI64, item);
  LineWriter hit(builder, g, Shape{batch});
  loss.correct = hit.finish(DType::kI64, compare(ScalarOp::kEq, hit.read(guess), hit.read(*labels)));

  LineWriter gradient(builder, g, output.shape);
  const Expression probability = gradient.read(parts.numerators) * gradient.read(parts.reciprocal);
  const Expression is_class =
      compare(ScalarOp::kEq, gradient.read(*labels, {output_index(0)}), gradient.index(1));
  loss.gradient =
      gradient.finish(DType::kF32, (probability - to_float(is_class)) / static_cast<float>(batch));
  loss.mean = mean_of(builder, g, loss.per_sample);
  return loss;
}

Shape without_ones(const Shape& shape) {
  Shape result;
  for (const std::int64_t size : shape) {
    if (size != 1) result.push_back(size);
  }
  return result;
}

/// The mean of squares, its gradient 2 (x − y) / n.
Result<LossForms> mean_squared_error(Builder& builder, const TensorForm& output, const TensorForm& y,
                                     std::int64_t batch) {
  const std::string g = "loss mse";
  if (output.shape.empty() || output.shape[0] != batch ||
      without_ones(output.shape) != without_ones(y.shape)) {
    return usage_error(
        fmt::format("loss mse: the model's output is {}, y is {}: they must be alike, batch first",
                    to_string(output.shape), to_string(y.shape)));
  }
  if (y.dtype != DType::kF32)
    return usage_error(fmt::format("loss mse: y is {}, must be f32", name_of(y.dtype)));
  const TensorForm target = reshaped(builder, g, y, output.shape);
  std::int64_t size = 1;
  for (std::size_t n = 1; n < output.shape.size(); ++n) size *= output.shape[n];
  LossForms loss;

  LineWriter squares(builder, g, output.shape);
  const Expression error = squares.read(output) - squares.read(target);
  const TensorForm squared = squares.finish(DType::kF32, error * error);
  loss.mean = mean_of(builder, g, squared);

  std::vector<std::size_t> inner;
  for (std::size_t n = 1; n < output.shape.size(); ++n) inner.push_back(n);
  const TensorForm sums = reshaped(builder, g, sum_over(builder, g, squared, inner), {batch});
  LineWriter sample(builder, g, Shape{batch});
  loss.per_sample = sample.finish(DType::kF32, sample.read(sums) / static_cast<float>(size));

  LineWriter gradient(builder, g, output.shape);
  const Expression difference = gradient.read(output) - gradient.read(target);
  loss.gradient = gradient.finish(DType::kF32, (difference + difference) / static_cast<float>(batch * size));
  return loss;
}

}  // namespace

Result<LossForms> lower_loss(Builder& builder, const TrainingRecipe& recipe, const TensorForm& output,
                             const TensorForm& y) {
  if (output.dtype != DType::kF32)
    return usage_error(fmt::format("loss: the model's output is {}, must be f32", name_of(output.dtype)));
  const TensorForm predicted = without_splat(builder, output);
  return recipe.loss == LossKind::kCrossEntropy ? cross_entropy(builder, predicted, y, recipe.batch)
                                                : mean_squared_error(builder, predicted, y, recipe.batch);
}

}  // namespace dgx::program
