#include "train/submit_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>

namespace dgx::jobs {
namespace {

/// Refuses a token outside the vocabulary: it has no embedding.
Status check_tokens(const bundle::Dataset& data, const program::ModelSpec& spec) {
  const program::GptSpec* const decoder = program::decoder_of(spec);
  const auto& range = data.x().range;
  if (decoder == nullptr || !range || (range->low >= 0 && range->high < decoder->vocab)) return {};
  return usage_error("tokens range from " + std::to_string(range->low) + " to " +
                     std::to_string(range->high) + ", the model has 0 to " +
                     std::to_string(decoder->vocab - 1));
}

}  // namespace

std::optional<bundle::IntegerRange> label_range(const bundle::Dataset& data, const program::LossSpec& loss) {
  const bundle::Field* const y = data.find("y");
  if (y == nullptr || !y->range || !loss.ignore) return y == nullptr ? std::nullopt : y->range;
  std::optional<bundle::IntegerRange> range;
  const auto take = [&](std::int64_t label) {
    if (label == *loss.ignore) return;
    if (!range) range = {label, label};
    range = {std::min(range->low, label), std::max(range->high, label)};
  };
  if (y->numbers.dtype() == DType::kU8) {
    for (const std::uint8_t label : y->numbers.as<std::uint8_t>()) take(label);
  } else {
    for (const std::int64_t label : y->numbers.as<std::int64_t>()) take(label);
  }
  return range;
}

Status check_probabilities(const bundle::Dataset& data) {
  const bundle::Field* const y = data.find("y");
  if (y == nullptr) return usage_error("bce needs targets, the data has no y");
  if (y->range) {
    if (y->range->low >= 0 && y->range->high <= 1) return {};
    return usage_error("bce: y ranges from " + std::to_string(y->range->low) + " to " +
                           std::to_string(y->range->high) + ", must be from 0 to 1",
                       "--loss cross-entropy takes class numbers");
  }
  const auto numbers = y->numbers.as<float>();
  const auto bad = std::ranges::find_if(numbers, [](float y) { return !(y >= 0 && y <= 1); });
  if (bad == numbers.end()) return {};
  return usage_error(
      fmt::format("bce: number {} of y is {}, must be from 0 to 1", bad - numbers.begin(), *bad),
      "--loss mse takes any number");
}

Result<program::ModelSpec> fitted(program::ModelSpec spec, const bundle::Dataset& data,
                                  const program::LossSpec& loss) {
  if (auto* net = std::get_if<program::ResNetSpec>(&spec); net != nullptr && net->classes == 0) {
    const auto range = label_range(data, loss);
    if (loss.kind != program::LossKind::kCrossEntropy || !range || range->high < 0)
      return usage_error("model resnet20: the number of outputs does not follow from y",
                         "give it, for example resnet20:classes=10");
    net->classes = range->high + 1;
  }
  if (program::GptSpec* const decoder = program::decoder_of(spec);
      decoder != nullptr && decoder->context == 0) {
    const Shape& shape = data.x().numbers.shape();
    if (shape.size() != 2)
      return usage_error(fmt::format("model {} takes tokens [positions], a sample of x is {}",
                                     std::holds_alternative<program::GptSpec>(spec) ? "gpt" : "switch",
                                     to_string(Shape(shape.begin() + 1, shape.end()))));
    decoder->context = shape[1];
  }
  DGX_CHECK(check_tokens(data, spec));
  return spec;
}

}  // namespace dgx::jobs
