#include "dgx/kernels/schedule.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "dgx/core/text.h"
#include "dgx/kernels/functions.h"

namespace dgx::kernels {
namespace {

constexpr std::array<std::string_view, 4> kKindNames = {"constant", "step", "cosine", "linear"};

bool ends_at_minimum(ScheduleKind kind) {
  return kind == ScheduleKind::kCosine || kind == ScheduleKind::kLinear;
}

Status check_number(std::string_view name, double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return usage_error(fmt::format("{} is {}", name, value), "a finite number, not negative");
}

Status check_beta(std::string_view name, double value) {
  if (value >= 0 && value < 1) return {};
  return usage_error(fmt::format("{} is {}", name, value), "at least 0, below 1");
}

// One name's value, before the last rounding. schedule.h, "schedule_scalars", states the sequences.
Result<double> scalar_of(std::string_view name, const ScheduleParameters& parameters, std::int64_t step) {
  const double rate = learning_rate_at(parameters, step);
  const std::int64_t t = step + 1;
  if (name == "lr") return rate;
  if (name == "-lr") return -rate;
  if (name == "lr/(1-b1^t)") return rate / (1.0 - power(parameters.beta1, t));
  if (name == "1/sqrt(1-b2^t)") return 1.0 / std::sqrt(1.0 - power(parameters.beta2, t));
  if (name == "1-lr*wd") {
    const double product = rate * parameters.weight_decay;
    return 1.0 - product;
  }
  return usage_error(fmt::format("unknown schedule \"{}\"", name));
}

}  // namespace

std::string_view name_of(ScheduleKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

Result<ScheduleKind> schedule_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == name) return static_cast<ScheduleKind>(i);
  }
  return usage_error(fmt::format("unknown schedule \"{}\"", name),
                     hint_among(name, {kKindNames.begin(), kKindNames.end()}));
}

double power(double x, std::int64_t t) {
  double result = 1;
  double base = x;
  while (t > 0) {
    if (t % 2 != 0) result *= base;
    t /= 2;
    if (t > 0) base *= base;
  }
  return result;
}

double learning_rate_at(const ScheduleParameters& p, std::int64_t step) {
  if (step < p.warmup) {
    const double share = static_cast<double>(step + 1) / static_cast<double>(p.warmup);
    return p.learning_rate * share;
  }
  const std::int64_t after = step - p.warmup;
  if (p.kind == ScheduleKind::kConstant) return p.learning_rate;
  if (p.kind == ScheduleKind::kStep) return p.learning_rate * power(p.gamma, after / p.every);

  const double progress = step >= p.total_steps
                              ? 1.0
                              : static_cast<double>(after) / static_cast<double>(p.total_steps - p.warmup);
  const double span = p.learning_rate - p.minimum;
  if (p.kind == ScheduleKind::kLinear) {
    const double rest = 1.0 - progress;
    const double above = span * rest;
    return p.minimum + above;
  }
  const auto angle = static_cast<float>(0x1.921fb54442d18p+1 * progress);
  const double half = 0.5 * (1.0 + static_cast<double>(cos_f32(angle)));
  const double above = span * half;
  return p.minimum + above;
}

Status check_schedule(const ScheduleParameters& p) {
  DGX_CHECK(check_number("learning rate", p.learning_rate));
  DGX_CHECK(check_number("weight decay", p.weight_decay));
  DGX_CHECK(check_number("gamma", p.gamma));
  DGX_CHECK(check_number("minimum", p.minimum));
  DGX_CHECK(check_beta("beta1", p.beta1));
  DGX_CHECK(check_beta("beta2", p.beta2));
  if (p.kind == ScheduleKind::kStep && p.every < 1)
    return usage_error(fmt::format("every is {}", p.every), "at least 1");
  if (p.warmup < 0) return usage_error(fmt::format("warmup is {}", p.warmup), "at least 0");
  if (!ends_at_minimum(p.kind)) return {};
  if (p.warmup >= p.total_steps) {
    return usage_error(fmt::format("warmup is {} of {} steps", p.warmup, p.total_steps));
  }
  if (p.minimum > p.learning_rate) {
    return usage_error(fmt::format("minimum is {}, above the learning rate {}", p.minimum, p.learning_rate));
  }
  return {};
}

Result<std::vector<float>> schedule_scalars(std::span<const std::string> names,
                                            const ScheduleParameters& parameters, std::int64_t step) {
  DGX_CHECK(check_schedule(parameters));
  if (step < 0) return usage_error(fmt::format("step is {}", step));
  std::vector<float> scalars;
  for (const std::string& name : names) {
    DGX_TRY(const double exact, scalar_of(name, parameters, step));
    const auto rounded = static_cast<float>(exact);
    if (!std::isfinite(rounded))
      return usage_error(fmt::format("schedule {} is not finite at step {}", name, step));
    scalars.push_back(rounded);
  }
  return scalars;
}

}  // namespace dgx::kernels
