#include "submit_data.h"

#include <algorithm>
#include <string>
#include <variant>

namespace dgx::jobs {
namespace {

/// Refuses a token outside the vocabulary: it has no embedding.
Status check_tokens(const bundle::Dataset& data, const program::ModelSpec& spec) {
  const auto* gpt = std::get_if<program::GptSpec>(&spec);
  if (gpt == nullptr || !data.x_range || (data.x_range->low >= 0 && data.x_range->high < gpt->vocab))
    return {};
  return usage_error("tokens go from " + std::to_string(data.x_range->low) + " to " +
                     std::to_string(data.x_range->high) + ", the model has 0 to " +
                     std::to_string(gpt->vocab - 1));
}

}  // namespace

std::optional<bundle::IntegerRange> label_range(const bundle::Dataset& data, const program::LossSpec& loss) {
  if (!data.y_range || !loss.ignore) return data.y_range;
  std::optional<bundle::IntegerRange> range;
  const auto take = [&](std::int64_t label) {
    if (label == *loss.ignore) return;
    if (!range) range = {label, label};
    range = {std::min(range->low, label), std::max(range->high, label)};
  };
  if (data.y.dtype() == DType::kU8) {
    for (const std::uint8_t label : data.y.as<std::uint8_t>()) take(label);
  } else {
    for (const std::int64_t label : data.y.as<std::int64_t>()) take(label);
  }
  return range;
}

program::DatasetField field_of(const TensorView& tensor) {
  return {tensor.dtype, Shape(tensor.shape.begin() + 1, tensor.shape.end())};
}

Status check_labels(const bundle::Dataset& data, const program::CapturedGraph& graph,
                    const program::LossSpec& loss, std::int64_t batch) {
  if (loss.kind != program::LossKind::kCrossEntropy) return {};
  if (!data.y_range)
    return usage_error("cross-entropy needs integer labels, y is f32", "--loss mse takes numbers");
  const Shape& output = graph.tensors[static_cast<std::size_t>(graph.output)].shape;
  Shape targets = data.y.shape();
  targets[0] = batch;
  const auto dimension = program::class_dimension(output, targets);
  if (!dimension) return {};  // lowering reports what does not fit
  const std::int64_t classes = output[*dimension];
  const auto range = label_range(data, loss);
  if (!range)
    return usage_error("every label is " + std::to_string(*loss.ignore) + ", which the loss ignores");
  if (range->low < 0 || range->high >= classes) {
    return usage_error("labels go from " + std::to_string(range->low) + " to " + std::to_string(range->high) +
                       ", the model has classes 0 to " + std::to_string(classes - 1));
  }
  return {};
}

Result<program::ModelSpec> fitted(program::ModelSpec spec, const bundle::Dataset& data,
                                  const program::LossSpec& loss) {
  if (auto* net = std::get_if<program::ResNetSpec>(&spec); net != nullptr && net->classes == 0) {
    const auto range = label_range(data, loss);
    if (loss.kind != program::LossKind::kCrossEntropy || !range || range->high < 0)
      return usage_error("model resnet20: how many outputs does not follow from y", "resnet20:classes=10");
    net->classes = range->high + 1;
  }
  if (auto* gpt = std::get_if<program::GptSpec>(&spec); gpt != nullptr && gpt->context == 0) {
    if (data.x.shape().size() != 2)
      return usage_error("model gpt takes tokens [positions], a sample of x is " +
                         to_string(field_of(data.x.view()).sample_shape));
    gpt->context = data.x.shape()[1];
  }
  DGX_CHECK(check_tokens(data, spec));
  return spec;
}

}  // namespace dgx::jobs
