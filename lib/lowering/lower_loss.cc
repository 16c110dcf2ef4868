#include "lower_loss.h"

#include <fmt/format.h>

#include "lowering.h"

namespace dgx::lowering {

namespace {

Shape without_ones(const Shape& shape) {
  Shape result;
  for (const std::int64_t size : shape) {
    if (size != 1) result.push_back(size);
  }
  return result;
}

/// The mean of squares, and its gradient 2 (x − y) / n.
Result<LossForms> mean_squared_error(Builder& builder, const TensorForm& output, const TensorForm& y,
                                     std::int64_t batch) {
  const std::string g = "loss mse";
  if (output.shape.empty() || output.shape[0] != batch ||
      without_ones(output.shape) != without_ones(y.shape)) {
    return usage_error(
        fmt::format("loss mse: the model's output is {}, y is {}: they must have one shape, batch first",
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
  loss.mean = mean_of(builder, g, squared, std::nullopt);

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
  if (recipe.loss.kind == program::LossKind::kCrossEntropy)
    return lower_cross_entropy(builder, recipe.loss, predicted, y);
  return mean_squared_error(builder, predicted, y, recipe.batch);
}

}  // namespace dgx::lowering
