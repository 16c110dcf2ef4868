#include "dgx/program/specs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "spec_text.h"

namespace dgx::program {

using kernels::ScheduleKind;

namespace {

using Optimizer = OptimizerSpec::Kind;

constexpr std::pair<Optimizer, std::string_view> kOptimizers[] = {
    {Optimizer::kSgd, "sgd"},   {Optimizer::kAdam, "adam"},       {Optimizer::kAdamW, "adamw"},
    {Optimizer::kLion, "lion"}, {Optimizer::kRmsProp, "rmsprop"}, {Optimizer::kAdagrad, "adagrad"},
    {Optimizer::kDgc, "dgc"}};

std::string_view kind_name(Optimizer kind) {
  return std::ranges::find(kOptimizers, kind, &std::pair<Optimizer, std::string_view>::first)->second;
}

std::optional<Optimizer> optimizer_kind(std::string_view name) {
  const auto* const found =
      std::ranges::find(kOptimizers, name, &std::pair<Optimizer, std::string_view>::second);
  if (found == std::end(kOptimizers)) return std::nullopt;
  return found->first;
}

OptimizerSpec usual(Optimizer kind) {
  OptimizerSpec spec;
  spec.kind = kind;
  if (kind == Optimizer::kAdamW) spec.weight_decay = 0.01;
  if (kind == Optimizer::kLion) {
    spec.learning_rate = 1e-4;
    spec.beta2 = 0.99;
  }
  if (kind == Optimizer::kRmsProp || kind == Optimizer::kAdagrad) spec.learning_rate = 1e-2;
  if (kind == Optimizer::kAdagrad) spec.epsilon = 1e-10;
  if (kind == Optimizer::kDgc) spec.momentum = 0.9;
  return spec;
}

bool has_betas(Optimizer kind) {
  return kind == Optimizer::kAdam || kind == Optimizer::kAdamW || kind == Optimizer::kLion;
}
bool has_momentum(Optimizer kind) {
  return kind == Optimizer::kSgd || kind == Optimizer::kRmsProp || kind == Optimizer::kDgc;
}
bool has_epsilon(Optimizer kind) {
  return kind != Optimizer::kSgd && kind != Optimizer::kLion && kind != Optimizer::kDgc;
}

const double kBelowOne = std::nextafter(1.0, 0.0);
constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
/// The greatest momentum: any for torch's optimisers; dgc keeps what is not sent, which must not grow by
/// itself, nor by being rounded to binary32.
double most_momentum(Optimizer kind) { return kind == Optimizer::kDgc ? 1 - 0x1p-24 : kMostNumber; }
/// The least clip of dgc, far from what is 0 in binary32.
constexpr double kLeastClip = 1e-30;
constexpr std::int64_t kSentBits = 8;

void read_betas(SpecReader& in, OptimizerSpec& spec) {
  const auto betas = in.text("betas");
  if (!betas) return;
  const std::size_t slash = betas->find('/');
  auto first = parse_number<double>(betas->substr(0, slash));
  auto second =
      parse_number<double>(slash == std::string_view::npos ? std::string_view{} : betas->substr(slash + 1));
  const auto fits = [](const Result<double>& beta) { return beta.ok() && *beta >= 0 && *beta < 1; };
  if (!fits(first) || !fits(second)) {
    return in.fail(
        fmt::format("betas: '{}' is not two numbers from 0 to below 1, such as 0.9/0.999", *betas));
  }
  spec.beta1 = *first;
  spec.beta2 = *second;
}

}  // namespace

Result<OptimizerSpec> parse_optimizer_spec(std::string_view text) {
  SpecReader in(text);
  const auto kind = optimizer_kind(in.kind());
  if (!kind) {
    std::vector<std::string> names;
    for (const auto& [each, name] : kOptimizers) names.emplace_back(name);
    return usage_error(fmt::format("unknown optimizer '{}'", in.kind()),
                       hint_among(in.kind(), names, fmt::format("use {}", fmt::join(names, ", "))));
  }
  OptimizerSpec spec = usual(*kind);
  in.number("lr", spec.learning_rate, 0.0, kMostNumber);
  in.number("weight-decay", spec.weight_decay, 0.0, kMostNumber);
  if (has_momentum(*kind)) in.number("momentum", spec.momentum, 0.0, most_momentum(*kind));
  if (has_epsilon(*kind)) in.number("eps", spec.epsilon, 0.0, kMostNumber);
  if (has_betas(*kind)) read_betas(in, spec);
  if (*kind == Optimizer::kSgd) {
    in.flag("nesterov", spec.nesterov);
    if (spec.nesterov && spec.momentum == 0) in.fail("nesterov needs momentum");
  }
  if (*kind == Optimizer::kRmsProp) {
    in.number("alpha", spec.alpha, 0.0, kBelowOne);
    in.flag("centered", spec.centered);
  }
  if (*kind == Optimizer::kAdagrad) {
    in.number("lr-decay", spec.rate_decay, 0.0, kMostNumber);
    in.number("initial", spec.initial, 0.0, kMostNumber);
  }
  if (*kind == Optimizer::kDgc) {
    in.number("density", spec.density, kAboveZero, 1.0);
    in.number<std::int64_t>("warmup", spec.density_warmup, 0, kMostTaskSteps);
    double clip = 0;
    in.number("clip", clip, kLeastClip, kMostNumber);
    if (clip > 0) spec.clip = clip;
    in.number("bits", spec.bits, kSentBits, kSentBits);
  }
  DGX_CHECK(in.finish());
  return spec;
}

json::Value to_json(const OptimizerSpec& spec) {
  json::Object out;
  out["kind"] = kind_name(spec.kind);
  out["lr"] = hex_float(spec.learning_rate);
  out["weight_decay"] = hex_float(spec.weight_decay);
  if (has_momentum(spec.kind)) out["momentum"] = hex_float(spec.momentum);
  if (has_epsilon(spec.kind)) out["eps"] = hex_float(spec.epsilon);
  if (has_betas(spec.kind)) {
    out["beta1"] = hex_float(spec.beta1);
    out["beta2"] = hex_float(spec.beta2);
  }
  if (spec.kind == Optimizer::kSgd) out["nesterov"] = spec.nesterov;
  if (spec.kind == Optimizer::kRmsProp) {
    out["alpha"] = hex_float(spec.alpha);
    out["centered"] = spec.centered;
  }
  if (spec.kind == Optimizer::kAdagrad) {
    out["lr_decay"] = hex_float(spec.rate_decay);
    out["initial"] = hex_float(spec.initial);
  }
  if (spec.kind == Optimizer::kDgc) {
    out["density"] = hex_float(spec.density);
    out["warmup"] = spec.density_warmup;
    if (spec.clip) out["clip"] = hex_float(*spec.clip);
    if (spec.bits != 0) out["bits"] = spec.bits;
  }
  return out;
}

Result<OptimizerSpec> optimizer_from_json(const json::Value& value, const std::string& where) {
  json::Fields in(value, where);
  const std::string name = in.string("kind");
  const auto kind = optimizer_kind(name);
  if (!kind) in.fail("kind", fmt::format("unknown optimizer '{}'", name));
  OptimizerSpec spec = usual(kind.value_or(Optimizer::kSgd));
  spec.learning_rate = read_double(in, "lr", 0, kMostNumber);
  spec.weight_decay = read_double(in, "weight_decay", 0, kMostNumber);
  if (has_momentum(spec.kind)) spec.momentum = read_double(in, "momentum", 0, most_momentum(spec.kind));
  if (has_epsilon(spec.kind)) spec.epsilon = read_double(in, "eps", 0, kMostNumber);
  if (has_betas(spec.kind)) {
    spec.beta1 = read_double(in, "beta1", 0, kBelowOne);
    spec.beta2 = read_double(in, "beta2", 0, kBelowOne);
  }
  if (spec.kind == Optimizer::kSgd) {
    spec.nesterov = in.boolean("nesterov");
    if (spec.nesterov && spec.momentum == 0) in.fail("nesterov", "needs momentum");
  }
  if (spec.kind == Optimizer::kRmsProp) {
    spec.alpha = read_double(in, "alpha", 0, kBelowOne);
    spec.centered = in.boolean("centered");
  }
  if (spec.kind == Optimizer::kAdagrad) {
    spec.rate_decay = read_double(in, "lr_decay", 0, kMostNumber);
    spec.initial = read_double(in, "initial", 0, kMostNumber);
  }
  if (spec.kind == Optimizer::kDgc) {
    spec.density = read_double(in, "density", kAboveZero, 1);
    spec.density_warmup = in.integer("warmup", 0, kMostTaskSteps);
    if (in.has("clip")) spec.clip = read_double(in, "clip", kLeastClip, kMostNumber);
    if (in.has("bits")) spec.bits = in.integer("bits", kSentBits, kSentBits);
  }
  DGX_CHECK(in.finish());
  return spec;
}

namespace {

bool has_minimum(ScheduleKind kind) {
  return kind == ScheduleKind::kCosine || kind == ScheduleKind::kLinear ||
         kind == ScheduleKind::kPolynomial || kind == ScheduleKind::kWsd || kind == ScheduleKind::kPlateau;
}

/// Steps as typed: a number, or a share such as 5%, which goes to `percent`.
void read_steps(SpecReader& in, std::string_view key, std::int64_t least, std::int64_t& steps,
                std::optional<double>& percent) {
  const auto text = in.text(key);
  if (!text) return;
  const auto out_of_range = [&] { in.fail(fmt::format("{}: {} is out of range", key, *text)); };
  if (text->ends_with('%')) {
    const auto share = parse_number<double>(text->substr(0, text->size() - 1));
    if (!share) return in.fail(fmt::format("{}: {}", key, share.error().message));
    if (!(*share >= 0 && *share <= 100) || (*share == 0 && least > 0)) return out_of_range();
    percent = *share;
    return;
  }
  const auto number = parse_number<std::int64_t>(*text);
  if (!number) return in.fail(fmt::format("{}: {}", key, number.error().message));
  if (*number < least || *number > kMostTaskSteps) return out_of_range();
  percent.reset();
  steps = *number;
}

/// The number of steps nearest to a share of all.
Result<std::int64_t> share_of(std::string_view key, double percent, std::int64_t steps) {
  const double share = static_cast<double>(steps) * percent / 100;
  const auto number = static_cast<std::int64_t>(std::llround(share));
  if (number > 0 || percent == 0) return number;
  return usage_error(fmt::format("schedule: {}: {}% of {} steps is no step", key, percent, steps));
}

}  // namespace

Result<ScheduleText> parse_schedule_text(std::string_view text) {
  SpecReader in(text);
  auto kind = kernels::schedule_kind_from_name(in.kind());
  if (!kind) return std::move(kind).error();
  ScheduleText out;
  ScheduleSpec& spec = out.spec;
  spec.kind = *kind;
  if (spec.kind == ScheduleKind::kOneCycle) {
    // Out of range, so that it is seen whether a number was given.
    spec.start = spec.end = -1;
    in.number("up", spec.up, std::numeric_limits<double>::min(), 1.0);
    in.number("start", spec.start, 0.0, kMostNumber);
    in.number("end", spec.end, 0.0, kMostNumber);
    out.has_start = spec.start >= 0;
    out.has_end = spec.end >= 0;
  } else {
    const bool needs_warmup = spec.kind == ScheduleKind::kInverseSqrt;
    read_steps(in, "warmup", needs_warmup ? 1 : 0, spec.warmup, out.warmup_percent);
    if (needs_warmup && spec.warmup == 0 && !out.warmup_percent) in.fail("needs warmup");
  }
  if (spec.kind == ScheduleKind::kStep) {
    in.number<std::int64_t>("every", spec.every, 1, kMostTaskSteps);
    in.number("gamma", spec.gamma, 0.0, kMostNumber);
  }
  if (has_minimum(spec.kind)) in.number("min", spec.minimum, 0.0, kMostNumber);
  if (spec.kind == ScheduleKind::kCosine)
    in.number<std::int64_t>("cycles", spec.cycles, 1, kernels::kMaxCycles);
  if (spec.kind == ScheduleKind::kPolynomial) {
    in.number("power", spec.exponent, 0.5, kernels::kMaxExponent);
    if (2 * spec.exponent != std::floor(2 * spec.exponent))
      in.fail(fmt::format("power: {} is not a multiple of 0.5", spec.exponent),
              "so that the rate takes only products and a square root");
  }
  if (spec.kind == ScheduleKind::kWsd) {
    out.decay_percent = 10;
    read_steps(in, "decay", 1, spec.decay, out.decay_percent);
  }
  if (spec.kind == ScheduleKind::kPlateau) {
    spec.every = 0;
    in.number<std::int64_t>("every", spec.every, 1, kernels::kMaxWindow);
    if (spec.every == 0)
      in.fail("needs every", "the steps over which the loss is averaged, such as those of an epoch");
    in.number("factor", spec.factor, std::numeric_limits<double>::min(), kBelowOne);
    in.number<std::int64_t>("patience", spec.patience, 0, kernels::kMaxWindow);
    in.number("threshold", spec.threshold, 0.0, kBelowOne);
    in.number<std::int64_t>("cooldown", spec.cooldown, 0, kernels::kMaxWindow);
  }
  DGX_CHECK(in.finish());
  return out;
}

Result<ScheduleSpec> fix_schedule(const ScheduleText& text, double learning_rate, std::int64_t steps) {
  ScheduleSpec spec = text.spec;
  if (text.warmup_percent) {
    DGX_TRY(spec.warmup, share_of("warmup", *text.warmup_percent, steps));
  }
  if (text.decay_percent) {
    DGX_TRY(spec.decay, share_of("decay", *text.decay_percent, steps));
  }
  if (spec.kind != ScheduleKind::kOneCycle) return spec;
  if (!text.has_start) spec.start = learning_rate / 25;
  if (!text.has_end) spec.end = spec.start / 10'000;
  return spec;
}

json::Value to_json(const ScheduleSpec& spec) {
  json::Object out;
  out["kind"] = kernels::name_of(spec.kind);
  if (spec.kind == ScheduleKind::kOneCycle) {
    out["start"] = hex_float(spec.start);
    out["end"] = hex_float(spec.end);
    out["up"] = hex_float(spec.up);
  } else {
    out["warmup"] = spec.warmup;
  }
  if (spec.kind == ScheduleKind::kStep) {
    out["every"] = spec.every;
    out["gamma"] = hex_float(spec.gamma);
  }
  if (has_minimum(spec.kind)) out["min"] = hex_float(spec.minimum);
  if (spec.kind == ScheduleKind::kCosine && spec.cycles != 1) out["cycles"] = spec.cycles;
  if (spec.kind == ScheduleKind::kPolynomial) out["power"] = hex_float(spec.exponent);
  if (spec.kind == ScheduleKind::kWsd) out["decay"] = spec.decay;
  if (spec.kind == ScheduleKind::kPlateau) {
    out["every"] = spec.every;
    out["factor"] = hex_float(spec.factor);
    out["patience"] = spec.patience;
    out["threshold"] = hex_float(spec.threshold);
    out["cooldown"] = spec.cooldown;
  }
  return out;
}

Result<ScheduleSpec> schedule_from_json(const json::Value& value, const std::string& where) {
  json::Fields in(value, where);
  ScheduleSpec spec;
  auto kind = kernels::schedule_kind_from_name(in.string("kind"));
  if (!kind) in.fail("kind", kind.error().message);
  if (kind) spec.kind = *kind;
  if (spec.kind == ScheduleKind::kOneCycle) {
    spec.start = read_double(in, "start", 0, kMostNumber);
    spec.end = read_double(in, "end", 0, kMostNumber);
    spec.up = read_double(in, "up", 0, 1);
  } else {
    spec.warmup = in.integer("warmup", 0, kMostTaskSteps);
  }
  if (spec.kind == ScheduleKind::kStep) {
    spec.every = in.integer("every", 1, kMostTaskSteps);
    spec.gamma = read_double(in, "gamma", 0, kMostNumber);
  }
  if (has_minimum(spec.kind)) spec.minimum = read_double(in, "min", 0, kMostNumber);
  if (spec.kind == ScheduleKind::kCosine && in.has("cycles"))
    spec.cycles = in.integer("cycles", 2, kernels::kMaxCycles);
  if (spec.kind == ScheduleKind::kPolynomial) {
    spec.exponent = read_double(in, "power", 0.5, kernels::kMaxExponent);
    if (2 * spec.exponent != std::floor(2 * spec.exponent)) in.fail("power", "is not a multiple of 0.5");
  }
  if (spec.kind == ScheduleKind::kWsd) spec.decay = in.integer("decay", 1, kMostTaskSteps);
  if (spec.kind == ScheduleKind::kPlateau) {
    spec.every = in.integer("every", 1, kernels::kMaxWindow);
    spec.factor = read_double(in, "factor", std::numeric_limits<double>::min(), kBelowOne);
    spec.patience = in.integer("patience", 0, kernels::kMaxWindow);
    spec.threshold = read_double(in, "threshold", 0, kBelowOne);
    spec.cooldown = in.integer("cooldown", 0, kernels::kMaxWindow);
  }
  DGX_CHECK(in.finish());
  return spec;
}

Result<kernels::ScheduleParameters> schedule_parameters(const OptimizerSpec& optimizer,
                                                        const ScheduleSpec& schedule,
                                                        std::int64_t total_steps, const UpdateSpec& update) {
  kernels::ScheduleParameters out;
  out.learning_rate = optimizer.learning_rate;
  out.weight_decay = optimizer.weight_decay;
  if (optimizer.kind == Optimizer::kAdam || optimizer.kind == Optimizer::kAdamW) {
    out.beta1 = optimizer.beta1;
    out.beta2 = optimizer.beta2;
  }
  out.rate_decay = optimizer.rate_decay;
  out.kind = schedule.kind;
  out.every = schedule.every;
  out.gamma = schedule.gamma;
  out.warmup = schedule.warmup;
  out.minimum = schedule.minimum;
  out.cycles = schedule.cycles;
  out.exponent = schedule.exponent;
  out.decay = schedule.decay;
  out.start = schedule.start;
  out.end = schedule.end;
  out.up = schedule.up;
  out.factor = schedule.factor;
  out.threshold = schedule.threshold;
  out.patience = schedule.patience;
  out.cooldown = schedule.cooldown;
  out.total_steps = total_steps / update.accumulate;
  out.accumulate = update.accumulate;
  for (const ParameterGroup& group : update.groups)
    out.groups.push_back({group.rate, group.weight_decay.value_or(optimizer.weight_decay)});
  DGX_CHECK(kernels::check_schedule(out));
  return out;
}

}  // namespace dgx::program
