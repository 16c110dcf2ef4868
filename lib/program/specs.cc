#include "dgx/program/specs.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <functional>

#include "dgx/program/number_text.h"

namespace dgx::program {

using kernels::ScheduleKind;

namespace {

/// The shortest decimal that reads back to the same number.
std::string decimal(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end};
}

template <class T>
Result<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return usage_error(fmt::format("'{}' is not a number", text));
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return usage_error(fmt::format("'{}' is not finite", text));
  }
  return value;
}

/// `kind:key=value,key,key=value`, taken apart key by key; what nobody took is an error.
class SpecReader {
 public:
  explicit SpecReader(std::string_view text) {
    const std::size_t colon = text.find(':');
    kind_ = text.substr(0, colon);
    has_fields_ = colon != std::string_view::npos;
    std::string_view rest = has_fields_ ? text.substr(colon + 1) : "";
    while (has_fields_) {
      const std::size_t comma = rest.find(',');
      fields_.push_back({rest.substr(0, comma), false});
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }

  [[nodiscard]] std::string_view kind() const { return kind_; }

  template <class T>
  void number(std::string_view key, T& out, T low, T high) {
    const auto text = take(key, true);
    if (!text) return;
    auto value = program::number<T>(*text);
    if (!value) return fail(fmt::format("{}: {}", key, value.error().message));
    if (*value < low || *value > high) return fail(fmt::format("{}: {} is out of range", key, *text));
    out = *value;
  }
  void flag(std::string_view key, bool& out) { out = take(key, false).has_value() || out; }
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) { return take(key, true); }
  /// The first field, which has no key.
  [[nodiscard]] std::string_view first() {
    if (fields_.empty()) return {};
    fields_[0].second = true;
    return fields_[0].first;
  }
  void fail(std::string message) {
    if (!error_) error_ = usage_error(fmt::format("{}: {}", kind_, message));
  }
  [[nodiscard]] Status finish() {
    for (const auto& [field, taken] : fields_) {
      if (!taken) fail(fmt::format("unknown field '{}'", field));
    }
    if (error_) return *error_;
    return {};
  }

 private:
  std::optional<std::string_view> take(std::string_view key, bool has_value) {
    std::optional<std::string_view> found;
    for (auto& [field, taken] : fields_) {
      const std::size_t equals = field.find('=');
      if (field.substr(0, equals) != key || (equals != std::string_view::npos) != has_value) continue;
      if (found) fail(fmt::format("a second '{}'", key));
      taken = true;
      found = has_value ? field.substr(equals + 1) : std::string_view{};
    }
    return found;
  }

  std::string_view kind_;
  bool has_fields_ = false;
  std::vector<std::pair<std::string_view, bool>> fields_;
  std::optional<Error> error_;
};

/// The same, written: fields that have their default are left out.
class SpecWriter {
 public:
  explicit SpecWriter(std::string kind) : text_(std::move(kind)) {}
  void field(const std::string& text) { text_ += (std::exchange(first_, false) ? ":" : ",") + text; }
  void number(std::string_view key, double value, std::optional<double> usual) {
    if (value != usual) field(fmt::format("{}={}", key, decimal(value)));
  }
  [[nodiscard]] std::string text() const { return text_; }

 private:
  std::string text_;
  bool first_ = true;
};

constexpr double kMost = 1e30;

double read_double(json::Fields& in, std::string_view key, double low, double high) {
  auto value = parse_hex_double(in.string(key));
  if (!value) {
    in.fail(key, value.error().message);
    return low;
  }
  if (!(*value >= low && *value <= high)) in.fail(key, "is out of range");
  return *value;
}

std::string_view kind_name(OptimizerSpec::Kind kind) {
  switch (kind) {
    case OptimizerSpec::Kind::kSgd:
      return "sgd";
    case OptimizerSpec::Kind::kAdam:
      return "adam";
    case OptimizerSpec::Kind::kAdamW:
      return "adamw";
  }
  return {};
}

std::optional<OptimizerSpec::Kind> optimizer_kind(std::string_view name) {
  for (const auto kind :
       {OptimizerSpec::Kind::kSgd, OptimizerSpec::Kind::kAdam, OptimizerSpec::Kind::kAdamW}) {
    if (name == kind_name(kind)) return kind;
  }
  return std::nullopt;
}

OptimizerSpec usual(OptimizerSpec::Kind kind) {
  OptimizerSpec spec;
  spec.kind = kind;
  if (kind == OptimizerSpec::Kind::kAdamW) spec.weight_decay = 0.01;
  return spec;
}

Result<std::vector<std::int64_t>> parse_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  while (true) {
    const std::size_t dash = text.find('-');
    auto size = number<std::int64_t>(text.substr(0, dash));
    if (!size.ok()) return within("mlp", std::move(size).error());
    if (*size < 1 || *size > (1 << 24)) return usage_error(fmt::format("mlp: a layer of {}", *size));
    sizes.push_back(*size);
    if (dash == std::string_view::npos) break;
    text.remove_prefix(dash + 1);
  }
  if (sizes.size() < 2 || sizes.size() > 256)
    return usage_error("mlp: needs from 2 to 256 sizes", "for example mlp:784-256-128-10");
  return sizes;
}

}  // namespace

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "relu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu-tanh";
    case Activation::kTanh:
      return "tanh";
    case Activation::kSigmoid:
      return "sigmoid";
  }
  return {};
}

bool is_model_spec(std::string_view text) {
  const std::string_view kind = text.substr(0, text.find(':'));
  return kind == "mlp" || kind == "resnet20" || kind == "gpt";
}

Result<ModelSpec> parse_model_spec(std::string_view text) {
  SpecReader in(text);
  if (in.kind() == "resnet20" || in.kind() == "gpt") {
    return usage_error(fmt::format("model {}: comes later", in.kind()),
                       "mlp:SIZES or a TorchScript file work now");
  }
  if (in.kind() != "mlp")
    return usage_error(fmt::format("no built-in model '{}'", in.kind()),
                       "mlp:784-256-128-10, or a TorchScript file");
  ModelSpec spec;
  DGX_TRY(spec.sizes, parse_sizes(in.first()));
  if (const auto name = in.text("activation")) {
    bool known = false;
    for (const auto activation : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                  Activation::kTanh, Activation::kSigmoid}) {
      if (*name != name_of(activation)) continue;
      spec.activation = activation;
      known = true;
    }
    if (!known) in.fail(fmt::format("no activation '{}'", *name));
  }
  DGX_CHECK(in.finish());
  return spec;
}

std::string print_model_spec(const ModelSpec& spec) {
  std::string text = fmt::format("mlp:{}", fmt::join(spec.sizes, "-"));
  if (spec.activation != Activation::kRelu) text += fmt::format(",activation={}", name_of(spec.activation));
  return text;
}

Result<OptimizerSpec> parse_optimizer_spec(std::string_view text) {
  SpecReader in(text);
  const auto kind = optimizer_kind(in.kind());
  if (!kind) return usage_error(fmt::format("no optimizer '{}'", in.kind()), "sgd:…, adam:… or adamw:…");
  OptimizerSpec spec = usual(*kind);
  in.number("lr", spec.learning_rate, 0.0, kMost);
  in.number("weight-decay", spec.weight_decay, 0.0, kMost);
  if (spec.kind == OptimizerSpec::Kind::kSgd) {
    in.number("momentum", spec.momentum, 0.0, kMost);
    in.flag("nesterov", spec.nesterov);
    if (spec.nesterov && spec.momentum == 0) in.fail("nesterov needs momentum");
  } else {
    in.number("eps", spec.epsilon, 0.0, kMost);
    if (const auto betas = in.text("betas")) {
      const std::size_t slash = betas->find('/');
      auto first = number<double>(betas->substr(0, slash));
      auto second =
          number<double>(slash == std::string_view::npos ? std::string_view{} : betas->substr(slash + 1));
      const auto fits = [](const Result<double>& beta) { return beta.ok() && *beta >= 0 && *beta < 1; };
      if (!fits(first) || !fits(second)) {
        in.fail(fmt::format("betas: '{}' is not two numbers from 0 to below 1, such as 0.9/0.999", *betas));
      } else {
        spec.beta1 = *first;
        spec.beta2 = *second;
      }
    }
  }
  DGX_CHECK(in.finish());
  return spec;
}

std::string print_optimizer_spec(const OptimizerSpec& spec) {
  const OptimizerSpec common = usual(spec.kind);
  SpecWriter out{std::string(kind_name(spec.kind))};
  out.number("lr", spec.learning_rate, std::nullopt);
  if (spec.kind == OptimizerSpec::Kind::kSgd) {
    out.number("momentum", spec.momentum, common.momentum);
    if (spec.nesterov) out.field("nesterov");
  } else {
    if (spec.beta1 != common.beta1 || spec.beta2 != common.beta2)
      out.field(fmt::format("betas={}/{}", decimal(spec.beta1), decimal(spec.beta2)));
    out.number("eps", spec.epsilon, common.epsilon);
  }
  out.number("weight-decay", spec.weight_decay, common.weight_decay);
  return out.text();
}

json::Value to_json(const OptimizerSpec& spec) {
  json::Object out;
  out["kind"] = kind_name(spec.kind);
  out["lr"] = hex_float(spec.learning_rate);
  out["weight_decay"] = hex_float(spec.weight_decay);
  if (spec.kind == OptimizerSpec::Kind::kSgd) {
    out["momentum"] = hex_float(spec.momentum);
    out["nesterov"] = spec.nesterov;
  } else {
    out["beta1"] = hex_float(spec.beta1);
    out["beta2"] = hex_float(spec.beta2);
    out["eps"] = hex_float(spec.epsilon);
  }
  return out;
}

Result<OptimizerSpec> optimizer_from_json(const json::Value& value, const std::string& where) {
  json::Fields in(value, where);
  const std::string name = in.string("kind");
  const auto kind = optimizer_kind(name);
  if (!kind) in.fail("kind", fmt::format("no optimizer '{}'", name));
  OptimizerSpec spec = usual(kind.value_or(OptimizerSpec::Kind::kSgd));
  spec.learning_rate = read_double(in, "lr", 0, kMost);
  spec.weight_decay = read_double(in, "weight_decay", 0, kMost);
  if (spec.kind == OptimizerSpec::Kind::kSgd) {
    spec.momentum = read_double(in, "momentum", 0, kMost);
    spec.nesterov = in.boolean("nesterov");
    if (spec.nesterov && spec.momentum == 0) in.fail("nesterov", "needs momentum");
  } else {
    const double below_one = std::nextafter(1.0, 0.0);
    spec.beta1 = read_double(in, "beta1", 0, below_one);
    spec.beta2 = read_double(in, "beta2", 0, below_one);
    spec.epsilon = read_double(in, "eps", 0, kMost);
  }
  DGX_CHECK(in.finish());
  return spec;
}

Result<ScheduleSpec> parse_schedule_spec(std::string_view text) {
  SpecReader in(text);
  auto kind = kernels::schedule_kind_from_name(in.kind());
  if (!kind) return std::move(kind).error();
  ScheduleSpec spec;
  spec.kind = *kind;
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
  in.number<std::int64_t>("warmup", spec.warmup, 0, kMostSteps);
  if (spec.kind == ScheduleKind::kStep) {
    in.number<std::int64_t>("every", spec.every, 1, kMostSteps);
    in.number("gamma", spec.gamma, 0.0, kMost);
  }
  if (spec.kind == ScheduleKind::kCosine || spec.kind == ScheduleKind::kLinear)
    in.number("min", spec.minimum, 0.0, kMost);
  DGX_CHECK(in.finish());
  return spec;
}

std::string print_schedule_spec(const ScheduleSpec& spec) {
  SpecWriter out{std::string(kernels::name_of(spec.kind))};
  if (spec.kind == ScheduleKind::kStep) {
    out.field(fmt::format("every={}", spec.every));
    out.number("gamma", spec.gamma, std::nullopt);
  }
  if (spec.warmup != 0) out.field(fmt::format("warmup={}", spec.warmup));
  if (spec.kind == ScheduleKind::kCosine || spec.kind == ScheduleKind::kLinear)
    out.number("min", spec.minimum, 0);
  return out.text();
}

json::Value to_json(const ScheduleSpec& spec) {
  json::Object out;
  out["kind"] = kernels::name_of(spec.kind);
  out["warmup"] = spec.warmup;
  if (spec.kind == ScheduleKind::kStep) {
    out["every"] = spec.every;
    out["gamma"] = hex_float(spec.gamma);
  }
  if (spec.kind == ScheduleKind::kCosine || spec.kind == ScheduleKind::kLinear)
    out["min"] = hex_float(spec.minimum);
  return out;
}

Result<ScheduleSpec> schedule_from_json(const json::Value& value, const std::string& where) {
  json::Fields in(value, where);
  ScheduleSpec spec;
  auto kind = kernels::schedule_kind_from_name(in.string("kind"));
  if (!kind) in.fail("kind", kind.error().message);
  if (kind) spec.kind = *kind;
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
  spec.warmup = in.integer("warmup", 0, kMostSteps);
  if (spec.kind == ScheduleKind::kStep) {
    spec.every = in.integer("every", 1, kMostSteps);
    spec.gamma = read_double(in, "gamma", 0, kMost);
  }
  if (spec.kind == ScheduleKind::kCosine || spec.kind == ScheduleKind::kLinear)
    spec.minimum = read_double(in, "min", 0, kMost);
  DGX_CHECK(in.finish());
  return spec;
}

Result<kernels::ScheduleParameters> schedule_parameters(const OptimizerSpec& optimizer,
                                                        const ScheduleSpec& schedule,
                                                        std::int64_t total_steps) {
  kernels::ScheduleParameters out;
  out.learning_rate = optimizer.learning_rate;
  out.weight_decay = optimizer.weight_decay;
  if (optimizer.kind != OptimizerSpec::Kind::kSgd) {
    out.beta1 = optimizer.beta1;
    out.beta2 = optimizer.beta2;
  }
  out.kind = schedule.kind;
  out.every = schedule.every;
  out.gamma = schedule.gamma;
  out.warmup = schedule.warmup;
  out.minimum = schedule.minimum;
  out.total_steps = total_steps;
  DGX_CHECK(kernels::check_schedule(out));
  return out;
}

std::string_view name_of(LossKind loss) { return loss == LossKind::kCrossEntropy ? "cross-entropy" : "mse"; }

Result<LossKind> parse_loss(std::string_view text) {
  for (const auto loss : {LossKind::kCrossEntropy, LossKind::kMeanSquaredError}) {
    if (text == name_of(loss)) return loss;
  }
  return usage_error(fmt::format("no loss '{}'", text), "cross-entropy or mse");
}

}  // namespace dgx::program
