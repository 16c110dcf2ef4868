#include <fmt/format.h>

#include <algorithm>

#include "dgx/program/specs.h"
#include "spec_text.h"

namespace dgx::program {
namespace {

constexpr std::int64_t kMostWide = 1 << 24;

Result<std::vector<std::int64_t>> parse_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  while (true) {
    const std::size_t dash = text.find('-');
    auto size = parse_number<std::int64_t>(text.substr(0, dash));
    if (!size.ok()) return within("mlp", std::move(size).error());
    if (*size < 1 || *size > kMostWide)
      return usage_error(fmt::format("mlp: layer size {} is out of range", *size));
    sizes.push_back(*size);
    if (dash == std::string_view::npos) break;
    text.remove_prefix(dash + 1);
  }
  if (sizes.size() < 2 || sizes.size() > 256)
    return usage_error("mlp: needs 2 to 256 sizes", "for example mlp:784-256-128-10");
  return sizes;
}

Result<ModelSpec> parse_mlp(SpecReader& in) {
  MlpSpec spec;
  DGX_TRY(spec.sizes, parse_sizes(in.first()));
  if (const auto name = in.text("activation")) {
    std::vector<std::string> known;
    for (const auto activation : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                  Activation::kTanh, Activation::kSigmoid}) {
      known.emplace_back(name_of(activation));
      if (*name == name_of(activation)) spec.activation = activation;
    }
    if (std::find(known.begin(), known.end(), *name) == known.end())
      in.fail(fmt::format("unknown activation '{}'", *name), hint_among(*name, known));
  }
  DGX_CHECK(in.finish());
  return ModelSpec(spec);
}

Result<ModelSpec> parse_resnet(SpecReader& in) {
  ResNetSpec spec;
  in.number<std::int64_t>("classes", spec.classes, 1, kMostWide);
  DGX_CHECK(in.finish());
  return ModelSpec(spec);
}

Result<ModelSpec> parse_gpt(SpecReader& in) {
  GptSpec spec;
  in.number<std::int64_t>("layers", spec.layers, 1, 1024);
  in.number<std::int64_t>("width", spec.width, 1, 1 << 16);
  in.number<std::int64_t>("heads", spec.heads, 1, 1 << 16);
  in.number<std::int64_t>("context", spec.context, 1, 1 << 20);
  in.number<std::int64_t>("vocab", spec.vocab, 1, kMostWide);
  in.number("dropout", spec.dropout, 0.0, std::nextafter(1.0, 0.0));
  in.flag("tied", spec.tied);
  if (spec.width % spec.heads != 0)
    in.fail(fmt::format("a width of {} is not a multiple of {} heads", spec.width, spec.heads));
  DGX_CHECK(in.finish());
  return ModelSpec(spec);
}

std::string print(const MlpSpec& spec) {
  std::string text = fmt::format("mlp:{}", fmt::join(spec.sizes, "-"));
  if (spec.activation != Activation::kRelu) text += fmt::format(",activation={}", name_of(spec.activation));
  return text;
}

std::string print(const ResNetSpec& spec) {
  return spec.classes == 0 ? "resnet20" : fmt::format("resnet20:classes={}", spec.classes);
}

std::string print(const GptSpec& spec) {
  SpecWriter out("gpt");
  out.field(fmt::format("layers={}", spec.layers));
  out.field(fmt::format("width={}", spec.width));
  out.field(fmt::format("heads={}", spec.heads));
  if (spec.context != 0) out.field(fmt::format("context={}", spec.context));
  out.field(fmt::format("vocab={}", spec.vocab));
  out.number("dropout", spec.dropout, 0.0);
  if (spec.tied) out.field("tied");
  return out.text();
}

std::string_view kind_of(std::string_view text) { return text.substr(0, text.find(':')); }

}  // namespace

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::kRelu: return "relu";
    case Activation::kGelu: return "gelu";
    case Activation::kGeluTanh: return "gelu-tanh";
    case Activation::kTanh: return "tanh";
    case Activation::kSigmoid: return "sigmoid";
  }
  return {};
}

std::optional<ModelKind> model_kind(std::string_view text) {
  if (kind_of(text) == "mlp") return ModelKind::kMlp;
  if (kind_of(text) == "resnet20") return ModelKind::kResNet20;
  if (kind_of(text) == "gpt") return ModelKind::kGpt;
  return std::nullopt;
}

bool is_model_spec(std::string_view text) { return model_kind(text).has_value(); }

Result<ModelSpec> parse_model_spec(std::string_view text) {
  SpecReader in(text);
  if (in.kind() == "mlp") return parse_mlp(in);
  if (in.kind() == "resnet20") return parse_resnet(in);
  if (in.kind() == "gpt") return parse_gpt(in);
  return usage_error(fmt::format("unknown built-in model '{}'", in.kind()), hint_for_model(text));
}

std::string hint_for_model(std::string_view text) {
  return hint_among(kind_of(text), {"mlp", "resnet20", "gpt"},
                    "use mlp:784-256-128-10, resnet20, gpt:layers=6, an archive of torch.export (.pt2) or a "
                    "TorchScript file");
}

std::string print_model_spec(const ModelSpec& spec) {
  return std::visit([](const auto& one) { return print(one); }, spec);
}

}  // namespace dgx::program
