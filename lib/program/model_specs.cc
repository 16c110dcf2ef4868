#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dgx/program/specs.h"
#include "spec_text.h"

namespace dgx::program {
namespace {

constexpr std::int64_t kMostWide = 1 << 24;
constexpr double kMostCapacity = 1024;
constexpr double kMostBalance = 1000;

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

void read_decoder(SpecReader& in, GptSpec& spec) {
  in.number<std::int64_t>("layers", spec.layers, 1, 1024);
  in.number<std::int64_t>("width", spec.width, 1, 1 << 16);
  in.number<std::int64_t>("heads", spec.heads, 1, 1 << 16);
  in.number<std::int64_t>("context", spec.context, 1, 1 << 20);
  in.number<std::int64_t>("vocab", spec.vocab, 1, kMostWide);
  in.number("dropout", spec.dropout, 0.0, std::nextafter(1.0, 0.0));
  in.flag("tied", spec.tied);
  if (spec.width % spec.heads != 0)
    in.fail(fmt::format("a width of {} is not a multiple of {} heads", spec.width, spec.heads));
}

Result<ModelSpec> parse_gpt(SpecReader& in) {
  GptSpec spec;
  read_decoder(in, spec);
  DGX_CHECK(in.finish());
  return ModelSpec(spec);
}

Result<ModelSpec> parse_switch(SpecReader& in) {
  SwitchSpec spec;
  read_decoder(in, spec.decoder);
  in.number<std::int64_t>("experts", spec.experts, 1, kMaxExperts);
  in.number("capacity", spec.capacity, std::numeric_limits<double>::denorm_min(), kMostCapacity);
  in.number("balance", spec.balance, 0.0, kMostBalance);
  in.number<std::int64_t>("every", spec.every, 1, 1024);
  const std::int64_t layers = spec.decoder.layers, blocks = layers / spec.every;
  if (blocks == 0) in.fail(fmt::format("every: of {} layers none is a multiple of {}", layers, spec.every));
  if (blocks * spec.experts > kMaxExperts)
    in.fail(
        fmt::format("{} blocks with {} experts each, at most {} in all", blocks, spec.experts, kMaxExperts));
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

void write_decoder(SpecWriter& out, const GptSpec& spec) {
  out.field(fmt::format("layers={}", spec.layers));
  out.field(fmt::format("width={}", spec.width));
  out.field(fmt::format("heads={}", spec.heads));
  if (spec.context != 0) out.field(fmt::format("context={}", spec.context));
  out.field(fmt::format("vocab={}", spec.vocab));
  out.number("dropout", spec.dropout, 0.0);
  if (spec.tied) out.field("tied");
}

std::string print(const GptSpec& spec) {
  SpecWriter out("gpt");
  write_decoder(out, spec);
  return out.text();
}

std::string print(const SwitchSpec& spec) {
  SpecWriter out("switch");
  write_decoder(out, spec.decoder);
  out.field(fmt::format("experts={}", spec.experts));
  out.number("capacity", spec.capacity, std::nullopt);
  out.number("balance", spec.balance, std::nullopt);
  out.field(fmt::format("every={}", spec.every));
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
  if (kind_of(text) == "switch") return ModelKind::kSwitch;
  return std::nullopt;
}

bool is_model_spec(std::string_view text) { return model_kind(text).has_value(); }

Result<ModelSpec> parse_model_spec(std::string_view text) {
  SpecReader in(text);
  if (in.kind() == "mlp") return parse_mlp(in);
  if (in.kind() == "resnet20") return parse_resnet(in);
  if (in.kind() == "gpt") return parse_gpt(in);
  if (in.kind() == "switch") return parse_switch(in);
  return usage_error(fmt::format("unknown built-in model '{}'", in.kind()), hint_for_model(text));
}

std::string hint_for_model(std::string_view text) {
  return hint_among(kind_of(text), {"mlp", "resnet20", "gpt", "switch"},
                    "use mlp:784-256-128-10, resnet20, gpt:layers=6, switch:experts=4, an archive of "
                    "torch.export (.pt2) or a TorchScript file");
}

GptSpec* decoder_of(ModelSpec& spec) {
  if (auto* const experts = std::get_if<SwitchSpec>(&spec)) return &experts->decoder;
  return std::get_if<GptSpec>(&spec);
}

const GptSpec* decoder_of(const ModelSpec& spec) {
  if (const auto* const experts = std::get_if<SwitchSpec>(&spec)) return &experts->decoder;
  return std::get_if<GptSpec>(&spec);
}

std::string print_model_spec(const ModelSpec& spec) {
  return std::visit([](const auto& one) { return print(one); }, spec);
}

}  // namespace dgx::program
