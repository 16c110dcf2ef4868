#include "dgx/kernels/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "dgx/core/text.h"
#include "dgx/kernels/functions.h"

namespace dgx::kernels {
namespace {

constexpr std::array<std::string_view, 9> kKindNames = {
    "constant", "step", "cosine", "linear", "polynomial", "inverse-sqrt", "wsd", "one-cycle", "plateau"};

Status check_number(std::string_view name, double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return usage_error(fmt::format("{} is {}", name, value), "a finite number, not negative");
}

Status check_beta(std::string_view name, double value) {
  if (value >= 0 && value < 1) return {};
  return usage_error(fmt::format("{} is {}", name, value), "at least 0, below 1");
}

/// The names, and whether they may have a group.
constexpr std::array<std::pair<std::string_view, bool>, 6> kNames = {{{"lr", true},
                                                                      {"-lr", true},
                                                                      {"lr/(1-b1^t)", true},
                                                                      {"1/sqrt(1-b2^t)", false},
                                                                      {"1-lr*wd", true},
                                                                      {"-lr/(1+s*ld)", true}}};

double rate_at(const ScheduleParameters& p, std::int64_t step);

// One name's value for an update, before the last rounding. schedule.h, "schedule_scalars", states the
// sequences.
Result<double> scalar_of(std::string_view text, const ScheduleParameters& parameters, std::int64_t step) {
  const auto parsed = parse_schedule_name(text);
  if (!parsed || static_cast<std::size_t>(parsed->group) > parameters.groups.size())
    return usage_error(fmt::format("unknown schedule \"{}\"", text));
  const std::string_view name = parsed->base;
  const ScheduleGroup group = parsed->group == 0
                                  ? ScheduleGroup{1, parameters.weight_decay}
                                  : parameters.groups[static_cast<std::size_t>(parsed->group - 1)];
  const double rate = rate_at(parameters, step) * group.factor;
  const std::int64_t t = step + 1;
  if (name == "lr") return rate;
  if (name == "-lr") return -rate;
  if (name == "lr/(1-b1^t)") return rate / (1.0 - power(parameters.beta1, t));
  if (name == "1/sqrt(1-b2^t)") return 1.0 / std::sqrt(1.0 - power(parameters.beta2, t));
  if (name == "1-lr*wd") {
    const double product = rate * group.weight_decay;
    return 1.0 - product;
  }
  if (name == "-lr/(1+s*ld)") {
    const double product = static_cast<double>(step) * parameters.rate_decay;
    return -(rate / (1.0 + product));
  }
  return internal_error(fmt::format("schedule \"{}\" has no sequence", name));
}

/// Half a cosine wave, from `high` for a progress of 0 to `low` for 1.
double fall(double high, double low, double progress) {
  const auto angle = static_cast<float>(0x1.921fb54442d18p+1 * progress);
  const double half = 0.5 * (1.0 + static_cast<double>(cos_f32(angle)));
  const double above = (high - low) * half;
  return low + above;
}

/// The point at `rest` of the way from `low` up to `high`.
double above(double low, double high, double rest) {
  const double part = (high - low) * rest;
  return low + part;
}

/// x to the power of `exponent`, a multiple of 0.5.
double half_power(double x, double exponent) {
  const double whole = std::floor(exponent);
  const double result = power(x, static_cast<std::int64_t>(whole));
  return exponent == whole ? result : result * std::sqrt(x);
}

double stable_then_linear(const ScheduleParameters& p, std::int64_t step) {
  const std::int64_t start = p.total_steps - p.decay;
  if (step < start) return p.learning_rate;
  const double progress =
      step >= p.total_steps ? 1.0 : static_cast<double>(step - start) / static_cast<double>(p.decay);
  return above(p.minimum, p.learning_rate, 1.0 - progress);
}

/// The step, not a whole one, at which one-cycle has its greatest rate.
double turn_of(const ScheduleParameters& p) {
  const double rising = p.up * static_cast<double>(p.total_steps);
  return rising - 1.0;
}

double one_cycle(const ScheduleParameters& p, std::int64_t step) {
  const double turn = turn_of(p);
  const auto at = static_cast<double>(step);
  if (at <= turn) return fall(p.start, p.learning_rate, at / turn);
  const double rest = static_cast<double>(p.total_steps - 1) - turn;
  return fall(p.learning_rate, p.end, step >= p.total_steps ? 1.0 : (at - turn) / rest);
}

/// From 0 after the warm-up to 1 at the task's end; with cycles, as often from 0.
double progress_at(const ScheduleParameters& p, std::int64_t step) {
  if (step >= p.total_steps) return 1.0;
  const std::int64_t length = p.total_steps - p.warmup;
  std::int64_t past = step - p.warmup;
  if (p.kind == ScheduleKind::kCosine) past = p.cycles * past % length;
  return static_cast<double>(past) / static_cast<double>(length);
}

/// The rate of an update. schedule.h, "learning_rate_at".
double rate_at(const ScheduleParameters& p, std::int64_t step) {
  if (p.kind == ScheduleKind::kOneCycle) return one_cycle(p, step);
  if (step < p.warmup) {
    const double share = static_cast<double>(step + 1) / static_cast<double>(p.warmup);
    return p.learning_rate * share;
  }
  const std::int64_t after = step - p.warmup;
  if (p.kind == ScheduleKind::kConstant || p.kind == ScheduleKind::kPlateau) return p.learning_rate;
  if (p.kind == ScheduleKind::kStep) return p.learning_rate * power(p.gamma, after / p.every);

  if (p.kind == ScheduleKind::kInverseSqrt)
    return p.learning_rate / std::sqrt(static_cast<double>(step) / static_cast<double>(p.warmup));
  if (p.kind == ScheduleKind::kWsd) return stable_then_linear(p, step);
  const double progress = progress_at(p, step);
  if (p.kind == ScheduleKind::kCosine) return fall(p.learning_rate, p.minimum, progress);
  const double rest = 1.0 - progress;
  return above(p.minimum, p.learning_rate,
               p.kind == ScheduleKind::kPolynomial ? half_power(rest, p.exponent) : rest);
}

Status check_end(const ScheduleParameters& p, std::string_view name, double rate) {
  DGX_CHECK(check_number(name, rate));
  if (rate <= p.learning_rate) return {};
  return usage_error(fmt::format("{} is {}, above the learning rate {}", name, rate, p.learning_rate));
}

Status check_one_cycle(const ScheduleParameters& p) {
  DGX_CHECK(check_end(p, "start", p.start));
  DGX_CHECK(check_end(p, "end", p.end));
  if (!(p.up > 0 && p.up <= 1)) return usage_error(fmt::format("up is {}", p.up), "above 0, at most 1");
  if (turn_of(p) > 0) return {};
  return usage_error(
      fmt::format("up is {} of {} steps: the rate cannot rise in one step", p.up, p.total_steps));
}

/// Checks the fields of kinds that fall to a minimum after the warm-up.
Status check_fall(const ScheduleParameters& p) {
  if (p.warmup >= p.total_steps)
    return usage_error(fmt::format("warmup is {} of {} steps: none is left in which the rate could fall",
                                   p.warmup, p.total_steps));
  DGX_CHECK(check_end(p, "minimum", p.minimum));
  const std::int64_t rest = p.total_steps - p.warmup;
  if (p.kind == ScheduleKind::kWsd && (p.decay < 1 || p.decay > rest))
    return usage_error(fmt::format("decay is {} of {} steps after the warm-up", p.decay, rest),
                       "at least 1, at most these");
  if (p.kind == ScheduleKind::kCosine && (p.cycles < 1 || p.cycles > std::min(rest, kMaxCycles)))
    return usage_error(fmt::format("cycles is {} in {} steps after the warm-up", p.cycles, rest),
                       fmt::format("at least 1, at most these, and at most {}", kMaxCycles));
  const double halves = 2 * p.exponent;
  if (p.kind == ScheduleKind::kPolynomial &&
      !(halves >= 1 && halves <= 2 * kMaxExponent && halves == std::floor(halves)))
    return usage_error(fmt::format("power is {}", p.exponent),
                       fmt::format("a multiple of 0.5 from 0.5 to {}", kMaxExponent));
  return {};
}

Status check_plateau(const ScheduleParameters& p) {
  if (p.every < 1 || p.every > kMaxWindow / p.accumulate)
    return usage_error(fmt::format("every is {}", p.every),
                       fmt::format("at least 1, at most {} steps", kMaxWindow));
  if (!(p.factor > 0 && p.factor < 1))
    return usage_error(fmt::format("factor is {}", p.factor), "above 0, below 1");
  DGX_CHECK(check_beta("threshold", p.threshold));
  for (const auto& [name, windows] : {std::pair("patience", p.patience), std::pair("cooldown", p.cooldown)}) {
    if (windows < 0 || windows > kMaxWindow)
      return usage_error(fmt::format("{} is {}", name, windows), fmt::format("0 to {}", kMaxWindow));
  }
  if (p.minimum >= p.learning_rate)
    return usage_error(
        fmt::format("minimum is {}, not below the learning rate {}", p.minimum, p.learning_rate));
  // The first window only sets what the others are compared with.
  const std::int64_t first_fall = p.warmup + p.every * (p.patience + 2);
  if (first_fall < p.total_steps) return {};
  return usage_error(fmt::format("the rate could fall after {} steps at the earliest, and there are {}",
                                 first_fall, p.total_steps),
                     "lower every or patience");
}

}  // namespace

std::optional<ScheduleName> parse_schedule_name(std::string_view text) {
  const std::size_t colon = text.find(':');
  ScheduleName out{text.substr(0, colon), 0};
  const auto* const known = std::ranges::find(kNames, out.base, &std::pair<std::string_view, bool>::first);
  if (known == kNames.end()) return std::nullopt;
  if (colon == std::string_view::npos) return out;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.group);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size() && digits[0] != '0';
  if (!known->second || !is_number || out.group < 1 || out.group > kMaxScheduleGroups) return std::nullopt;
  return out;
}

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

double learning_rate_at(const ScheduleParameters& parameters, std::int64_t step) {
  return rate_at(parameters, step / parameters.accumulate);
}

Status check_schedule(const ScheduleParameters& p) {
  DGX_CHECK(check_number("learning rate", p.learning_rate));
  DGX_CHECK(check_number("weight decay", p.weight_decay));
  DGX_CHECK(check_number("decay of the rate", p.rate_decay));
  DGX_CHECK(check_number("gamma", p.gamma));
  DGX_CHECK(check_number("minimum", p.minimum));
  DGX_CHECK(check_beta("beta1", p.beta1));
  DGX_CHECK(check_beta("beta2", p.beta2));
  for (const ScheduleGroup& group : p.groups) {
    DGX_CHECK(check_number("a group's factor", group.factor));
    DGX_CHECK(check_number("a group's weight decay", group.weight_decay));
  }
  if (p.accumulate < 1) return usage_error(fmt::format("accumulate is {}", p.accumulate), "at least 1");
  if (p.kind == ScheduleKind::kStep && p.every < 1)
    return usage_error(fmt::format("every is {}", p.every), "at least 1");
  const std::int64_t least_warmup = p.kind == ScheduleKind::kInverseSqrt ? 1 : 0;
  if (p.warmup < least_warmup)
    return usage_error(fmt::format("warmup is {}", p.warmup), fmt::format("at least {}", least_warmup));
  switch (p.kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kStep:
    case ScheduleKind::kInverseSqrt: return {};
    case ScheduleKind::kOneCycle: return check_one_cycle(p);
    case ScheduleKind::kPlateau: return check_plateau(p);
    default: return check_fall(p);
  }
}

Result<std::vector<float>> schedule_scalars(std::span<const std::string> names,
                                            const ScheduleParameters& parameters, std::int64_t step) {
  DGX_CHECK(check_schedule(parameters));
  if (step < 0) return usage_error(fmt::format("step is {}", step));
  std::vector<float> scalars;
  for (const std::string& name : names) {
    DGX_TRY(const double exact, scalar_of(name, parameters, step / parameters.accumulate));
    const auto rounded = static_cast<float>(exact);
    if (!std::isfinite(rounded))
      return usage_error(fmt::format("schedule {} is not finite at step {}", name, step));
    scalars.push_back(rounded);
  }
  return scalars;
}

}  // namespace dgx::kernels
