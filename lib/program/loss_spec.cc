#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dgx/program/specs.h"
#include "spec_text.h"

namespace dgx::program {
namespace {

constexpr std::int64_t kMostInteger = std::int64_t{1} << 53;

constexpr double kLeastDelta = 1e-30;
constexpr std::pair<LossKind, std::string_view> kLosses[] = {{LossKind::kCrossEntropy, "cross-entropy"},
                                                             {LossKind::kBinaryCrossEntropy, "bce"},
                                                             {LossKind::kMeanSquaredError, "mse"},
                                                             {LossKind::kHuber, "huber"},
                                                             {LossKind::kL1, "l1"},
                                                             {LossKind::kOutput, "output"}};

std::optional<LossKind> loss_kind(std::string_view name) {
  const auto* const found = std::ranges::find(kLosses, name, &std::pair<LossKind, std::string_view>::second);
  if (found == std::end(kLosses)) return std::nullopt;
  return found->first;
}

Result<std::vector<double>> parse_weights(std::string_view text) {
  std::vector<double> weights;
  while (true) {
    const std::size_t slash = text.find('/');
    DGX_TRY(const double weight, parse_number<double>(text.substr(0, slash)));
    weights.push_back(weight);
    if (slash == std::string_view::npos) return weights;
    text.remove_prefix(slash + 1);
  }
}

/// Checks weights, of which there is at least one. Of classes one must be above 0, else the mean divides by
/// 0.
Status check_weights(const std::vector<double>& weights, LossKind kind) {
  if (weights.size() > kMaxClassWeights)
    return usage_error(fmt::format("{} class weights, at most {} allowed", weights.size(), kMaxClassWeights));
  const auto bad =
      std::find_if(weights.begin(), weights.end(), [](double w) { return !(w >= 0 && w <= kMostNumber); });
  if (bad != weights.end())
    return usage_error(fmt::format("the weight of class {} is out of range", bad - weights.begin()));
  if (kind == LossKind::kCrossEntropy &&
      std::all_of(weights.begin(), weights.end(), [](double w) { return w == 0; }))
    return usage_error("no class has a weight above 0");
  return {};
}

constexpr std::string_view kOutputNamed = "output=";

/// A name in a model's tree of outputs: it is written in the task, so it is short and printable.
bool is_output_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxOutputName &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

Result<LossSpec> parse_output_loss(std::string_view name) {
  if (!is_output_name(name))
    return usage_error(fmt::format("loss output: a name has 1 to {} printable letters", kMaxOutputName));
  LossSpec spec(LossKind::kOutput);
  spec.output = name;
  return spec;
}

Result<LossSpec> output_from_json(json::Fields& in) {
  LossSpec spec(LossKind::kOutput);
  spec.output = in.string("name", kMaxOutputName);
  if (!is_output_name(spec.output)) in.fail("name", "is no name of an output");
  DGX_CHECK(in.finish());
  return spec;
}

void read_weights(SpecReader& in, std::string_view key, LossSpec& spec) {
  const auto list = in.text(key);
  if (!list) return;
  auto weights = parse_weights(*list);
  const Status fit = weights ? check_weights(*weights, spec.kind) : Status(std::move(weights).error());
  if (!fit) return in.fail(fmt::format("{}: {}", key, fit.error().message));
  spec.weights = *weights;
}

void read_weights(json::Fields& in, std::string_view key, LossSpec& spec) {
  if (!in.has(key)) return;
  const json::Array& list = in.array(key, kMaxClassWeights);
  if (list.empty()) in.fail(key, "is empty, the default, and must be left out");
  for (const json::Value& item : list) {
    const std::string* text = item.as_string();
    auto weight = parse_hex_double(text ? *text : "");
    if (!weight) in.fail(key, weight.error().message);
    spec.weights.push_back(weight ? *weight : 1.0);
  }
  if (list.empty()) return;
  if (const Status fit = check_weights(spec.weights, spec.kind); !fit) in.fail(key, fit.error().message);
}

}  // namespace

std::string_view name_of(LossKind loss) {
  return std::ranges::find(kLosses, loss, &std::pair<LossKind, std::string_view>::first)->second;
}

Result<LossSpec> parse_loss_spec(std::string_view text) {
  if (text.starts_with(kOutputNamed)) return parse_output_loss(text.substr(kOutputNamed.size()));
  SpecReader in(text);
  const auto kind = loss_kind(in.kind());
  if (!kind) {
    std::vector<std::string> names;
    for (const auto& [each, name] : kLosses) names.emplace_back(name);
    return usage_error(fmt::format("unknown loss '{}'", in.kind()),
                       hint_among(in.kind(), names, fmt::format("use {}", fmt::join(names, ", "))));
  }
  LossSpec spec(*kind);
  if (*kind == LossKind::kCrossEntropy) {
    in.number("label-smoothing", spec.label_smoothing, 0.0, 1.0);
    std::int64_t ignored = kMostInteger + 1;
    in.number<std::int64_t>("ignore", ignored, -kMostInteger, kMostInteger);
    if (ignored <= kMostInteger) spec.ignore = ignored;
    read_weights(in, "weights", spec);
  }
  if (*kind == LossKind::kBinaryCrossEntropy) read_weights(in, "pos-weights", spec);
  if (*kind == LossKind::kHuber) in.number("delta", spec.delta, kLeastDelta, kMostNumber);
  DGX_CHECK(in.finish());
  return spec;
}

json::Value to_json(const LossSpec& spec) {
  if (spec.is_plain()) return name_of(spec.kind);
  json::Object out;
  out["kind"] = name_of(spec.kind);
  if (spec.label_smoothing != 0) out["label_smoothing"] = hex_float(spec.label_smoothing);
  if (spec.ignore) out["ignore"] = *spec.ignore;
  json::Array weights;
  for (const double weight : spec.weights) weights.emplace_back(hex_float(weight));
  const bool is_binary = spec.kind == LossKind::kBinaryCrossEntropy;
  if (!weights.empty()) out[is_binary ? "pos_weights" : "weights"] = std::move(weights);
  if (spec.delta != 1) out["delta"] = hex_float(spec.delta);
  if (!spec.output.empty()) out["name"] = spec.output;
  return out;
}

Result<LossSpec> loss_from_json(const json::Value& value, const std::string& where) {
  if (const std::string* name = value.as_string()) {
    const auto kind = loss_kind(*name);
    if (!kind) return malformed(fmt::format("{}: unknown loss '{}'", where, *name));
    return LossSpec(*kind);
  }
  json::Fields in(value, where);
  const auto kind = loss_kind(in.string("kind", 64));
  if (kind == LossKind::kOutput) return output_from_json(in);
  if (!kind) in.fail("kind", "no loss of this name has options");
  LossSpec spec(kind.value_or(LossKind::kCrossEntropy));
  if (spec.kind == LossKind::kCrossEntropy) {
    if (in.has("label_smoothing")) {
      spec.label_smoothing = read_double(in, "label_smoothing", 0, 1);
      if (spec.label_smoothing == 0) in.fail("label_smoothing", "is 0, the default, and must be left out");
    }
    if (in.has("ignore")) spec.ignore = in.integer("ignore", -kMostInteger, kMostInteger);
    read_weights(in, "weights", spec);
  }
  if (spec.kind == LossKind::kBinaryCrossEntropy) read_weights(in, "pos_weights", spec);
  if (spec.kind == LossKind::kHuber && in.has("delta"))
    spec.delta = read_double(in, "delta", kLeastDelta, kMostNumber);
  if (spec.is_plain()) in.fail("kind", "a loss without options must be its name alone");
  DGX_CHECK(in.finish());
  return spec;
}

}  // namespace dgx::program
