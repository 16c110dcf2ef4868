#include "lower_loss.h"

#include <fmt/format.h>

#include "dgx/program/line.h"
#include "lowering.h"

namespace dgx::lowering {

using kernels::ScalarOp;

namespace {

Shape without_ones(const Shape& shape) {
  Shape result;
  for (const std::int64_t size : shape) {
    if (size != 1) result.push_back(size);
  }
  return result;
}

/// A loss that is a mean over all numbers, each of which depends on one number of the output and one of y.
class ElementwiseLoss {
 public:
  /// `target` has the output's shape.
  ElementwiseLoss(Builder& builder, const program::LossSpec& spec, TensorForm output, TensorForm target)
      : builder_(builder),
        spec_(spec),
        name_(fmt::format("loss {}", program::name_of(spec.kind))),
        output_(std::move(output)),
        target_(std::move(target)) {
    if (!spec.weights.empty()) weights_ = weights_input();
  }

  LossForms forms() {
    LossForms loss;
    LineWriter line(builder_, name_, output_.shape);
    const TensorForm losses = line.finish(DType::kF32, loss_of(line));
    loss.mean = mean_of(builder_, name_, losses, std::nullopt);
    const TensorForm sums = sample_sums(losses);
    LineWriter sample(builder_, name_, sums.shape);
    const std::int64_t count = *element_count(output_.shape);
    loss.per_sample =
        sample.finish(DType::kF32, sample.read(sums) / static_cast<float>(count / output_.shape[0]));
    if (spec_.kind == LossKind::kBinaryCrossEntropy) loss.correct = sample_sums(hits());
    LineWriter gradient(builder_, name_, output_.shape);
    loss.gradient = gradient.finish(DType::kF32, slope(gradient) / static_cast<float>(count));
    return loss;
  }

 private:
  using LossKind = program::LossKind;

  TensorForm weights_input() {
    std::vector<std::string> numbers;
    for (const double weight : spec_.weights)
      numbers.push_back(program::print_literal(static_cast<float>(weight)));
    const Shape shape{static_cast<std::int64_t>(numbers.size())};
    return value_form(builder_.constant(DType::kF32, shape, std::move(numbers)), DType::kF32, shape);
  }
  /// The weight of a target of 1: of its place in the last dimension, or the only one.
  Expression weight(LineWriter& line) const {
    const bool is_one = spec_.weights.size() == 1;
    return line.read(*weights_, {is_one ? constant_index(0) : output_index(output_.shape.size() - 1)});
  }

  Expression loss_of(LineWriter& line) const {
    const Expression x = line.read(output_), t = to_float(line.read(target_));
    if (spec_.kind == LossKind::kBinaryCrossEntropy) {
      Expression soft = log1p(exp(-abs(x))) + max(-x, 0.0F);
      if (weights_) soft = fma(weight(line) - 1.0F, t, 1.0F) * soft;
      return fma(1.0F - t, x, soft);
    }
    const Expression d = x - t;
    if (spec_.kind == LossKind::kMeanSquaredError) return d * d;
    const Expression z = abs(d);
    if (spec_.kind == LossKind::kL1) return z;
    const auto delta = static_cast<float>(spec_.delta);
    return select(compare(ScalarOp::kLe, z, delta), (0.5F * z) * z,
                  delta * (z - static_cast<float>(0.5 * spec_.delta)));
  }

  /// The derivative of loss_of() by the output.
  Expression slope(LineWriter& line) const {
    const Expression x = line.read(output_), t = to_float(line.read(target_));
    if (spec_.kind == LossKind::kBinaryCrossEntropy) {
      const Expression s = 1.0F / (1.0F + exp(-x));
      if (!weights_) return s - t;
      const Expression w = weight(line);
      return fma(w - 1.0F, t, 1.0F) * s - w * t;
    }
    const Expression d = x - t;
    if (spec_.kind == LossKind::kMeanSquaredError) return d + d;
    if (spec_.kind == LossKind::kL1)
      return to_float(compare(ScalarOp::kGt, d, 0.0F)) - to_float(compare(ScalarOp::kLt, d, 0.0F));
    const auto delta = static_cast<float>(spec_.delta);
    return min(max(d, -delta), delta);
  }

  /// 1 where output and target are on the same side, else 0.
  TensorForm hits() {
    LineWriter line(builder_, name_, output_.shape);
    const Expression guess = compare(ScalarOp::kGt, line.read(output_), 0.0F);
    const Expression label = compare(ScalarOp::kGt, to_float(line.read(target_)), 0.5F);
    return line.finish(DType::kI64, compare(ScalarOp::kEq, guess, label));
  }

  TensorForm sample_sums(const TensorForm& numbers) {
    std::vector<std::size_t> inner;
    for (std::size_t n = 1; n < output_.shape.size(); ++n) inner.push_back(n);
    return reshaped(builder_, name_, sum_over(builder_, name_, numbers, inner), {output_.shape[0]});
  }

  Builder& builder_;
  const program::LossSpec& spec_;
  const std::string name_;
  const TensorForm output_, target_;
  std::optional<TensorForm> weights_;
};

Result<LossForms> lower_elementwise(Builder& builder, const program::LossSpec& spec, const TensorForm& output,
                                    const TensorForm& y, std::int64_t batch) {
  const std::string name = fmt::format("loss {}", program::name_of(spec.kind));
  if (output.shape.empty() || output.shape[0] != batch ||
      without_ones(output.shape) != without_ones(y.shape)) {
    return usage_error(
        fmt::format("{}: the model's output is {}, y is {}: they must have one shape, batch first", name,
                    to_string(output.shape), to_string(y.shape)));
  }
  if (y.dtype != DType::kF32 && spec.kind != program::LossKind::kBinaryCrossEntropy)
    return usage_error(fmt::format("{}: y is {}, must be f32", name, name_of(y.dtype)));
  const auto weights = static_cast<std::int64_t>(spec.weights.size());
  if (weights > 1 && (output.shape.size() < 2 || output.shape.back() != weights))
    return usage_error(fmt::format("{}: {} weights, the model's output has {} numbers in its last dimension",
                                   name, weights, output.shape.size() < 2 ? 1 : output.shape.back()));
  return ElementwiseLoss(builder, spec, output, reshaped(builder, name, y, output.shape)).forms();
}

}  // namespace

Result<LossForms> lower_loss(Builder& builder, const TrainingRecipe& recipe, const TensorForm& output,
                             const TensorForm& y) {
  if (output.dtype != DType::kF32)
    return usage_error(fmt::format("loss: the model's output is {}, must be f32", name_of(output.dtype)));
  const TensorForm predicted = without_splat(builder, output);
  if (recipe.loss.kind == program::LossKind::kCrossEntropy)
    return lower_cross_entropy(builder, recipe.loss, predicted, y);
  return lower_elementwise(builder, recipe.loss, predicted, y, recipe.batch);
}

}  // namespace dgx::lowering
