#include "dgx/program/specs.h"

#include <fmt/format.h>

#include <cmath>

#include "spec_text.h"

namespace dgx::program {

using kernels::ScheduleKind;

namespace {

std::string_view kind_name(OptimizerSpec::Kind kind) {
  switch (kind) {
    case OptimizerSpec::Kind::kSgd: return "sgd";
    case OptimizerSpec::Kind::kAdam: return "adam";
    case OptimizerSpec::Kind::kAdamW: return "adamw";
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

}  // namespace

Result<OptimizerSpec> parse_optimizer_spec(std::string_view text) {
  SpecReader in(text);
  const auto kind = optimizer_kind(in.kind());
  if (!kind)
    return usage_error(fmt::format("unknown optimizer '{}'", in.kind()),
                       hint_among(in.kind(), {"sgd", "adam", "adamw"}, "use sgd:…, adam:… or adamw:…"));
  OptimizerSpec spec = usual(*kind);
  in.number("lr", spec.learning_rate, 0.0, kMostNumber);
  in.number("weight-decay", spec.weight_decay, 0.0, kMostNumber);
  if (spec.kind == OptimizerSpec::Kind::kSgd) {
    in.number("momentum", spec.momentum, 0.0, kMostNumber);
    in.flag("nesterov", spec.nesterov);
    if (spec.nesterov && spec.momentum == 0) in.fail("nesterov needs momentum");
  } else {
    in.number("eps", spec.epsilon, 0.0, kMostNumber);
    if (const auto betas = in.text("betas")) {
      const std::size_t slash = betas->find('/');
      auto first = parse_number<double>(betas->substr(0, slash));
      auto second = parse_number<double>(slash == std::string_view::npos ? std::string_view{}
                                                                         : betas->substr(slash + 1));
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
  if (!kind) in.fail("kind", fmt::format("unknown optimizer '{}'", name));
  OptimizerSpec spec = usual(kind.value_or(OptimizerSpec::Kind::kSgd));
  spec.learning_rate = read_double(in, "lr", 0, kMostNumber);
  spec.weight_decay = read_double(in, "weight_decay", 0, kMostNumber);
  if (spec.kind == OptimizerSpec::Kind::kSgd) {
    spec.momentum = read_double(in, "momentum", 0, kMostNumber);
    spec.nesterov = in.boolean("nesterov");
    if (spec.nesterov && spec.momentum == 0) in.fail("nesterov", "needs momentum");
  } else {
    const double below_one = std::nextafter(1.0, 0.0);
    spec.beta1 = read_double(in, "beta1", 0, below_one);
    spec.beta2 = read_double(in, "beta2", 0, below_one);
    spec.epsilon = read_double(in, "eps", 0, kMostNumber);
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
    in.number("gamma", spec.gamma, 0.0, kMostNumber);
  }
  if (spec.kind == ScheduleKind::kCosine || spec.kind == ScheduleKind::kLinear)
    in.number("min", spec.minimum, 0.0, kMostNumber);
  DGX_CHECK(in.finish());
  return spec;
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
    spec.gamma = read_double(in, "gamma", 0, kMostNumber);
  }
  if (spec.kind == ScheduleKind::kCosine || spec.kind == ScheduleKind::kLinear)
    spec.minimum = read_double(in, "min", 0, kMostNumber);
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

}  // namespace dgx::program
