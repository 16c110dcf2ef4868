#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::kernels {

/// The rule by which the learning rate changes with the step. Tasks contain its name.
enum class ScheduleKind : std::uint8_t { kConstant, kStep, kCosine, kLinear };

/// "constant", "step", "cosine", "linear".
[[nodiscard]] std::string_view name_of(ScheduleKind kind);
/// kUsage for any other name.
[[nodiscard]] Result<ScheduleKind> schedule_kind_from_name(std::string_view name);

/// The optimiser's numbers as the task states them. All counts are in steps.
struct ScheduleParameters {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0;  ///< Adam only, in [0, 1)
  double weight_decay = 0;
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t every = 1;        ///< kStep: at least 1
  double gamma = 1;              ///< kStep
  std::int64_t warmup = 0;       ///< any kind; at least 0
  double minimum = 0;            ///< kCosine, kLinear: the rate at the end
  std::int64_t total_steps = 0;  ///< kCosine, kLinear: of the task
};

/// x^t, t >= 0, in binary64 by square and multiply: r = 1, b = x; while t > 0: if t is odd then r = r · b;
/// t = ⌊t/2⌋; if t > 0 then b = b · b. The result is r.
[[nodiscard]] double power(double x, std::int64_t t);

/// The learning rate of step s, from 0, in binary64; each line one rounding, w = warmup, T = total_steps.
/// - s < w:     a = (s + 1) / w;  rate = learning_rate · a      (from learning_rate / w up to learning_rate)
/// - constant:  rate = learning_rate
/// - step:      p = power(gamma, ⌊(s − w) / every⌋);  rate = learning_rate · p
/// - linear:    q = (s − w) / (T − w);  d = 1 − q;  e = learning_rate − minimum;  f = e · d;
///              rate = minimum + f
/// - cosine:    q = (s − w) / (T − w);  a = π · q with π = 0x1.921fb54442d18p+1;  a is rounded to binary32;
///              c = cos(a), correctly rounded to binary32;  d = 1 + c;  h = 0.5 · d;
///              e = learning_rate − minimum;  f = e · h;  rate = minimum + f
/// For cosine and linear, s >= T takes q = 1. Parameters must be valid (check_schedule).
[[nodiscard]] double learning_rate_at(const ScheduleParameters& parameters, std::int64_t step);

/// kUsage, naming the parameter: a number that is not finite or is negative, a beta outside [0, 1), `every`
/// below 1, a negative warmup, or for cosine and linear warmup >= total_steps or a minimum above the learning
/// rate.
[[nodiscard]] Status check_schedule(const ScheduleParameters& parameters);

/// The `schedule` input of step `step` (from 0): one binary32 per name. With rate = learning_rate_at(step)
/// and t = step + 1, in binary64, each operation rounded once, the last result rounded once to binary32:
/// - "lr":             rate
/// - "-lr":            −rate
/// - "lr/(1-b1^t)":    p = power(beta1, t);  d = 1 − p;  rate / d
/// - "1/sqrt(1-b2^t)": p = power(beta2, t);  d = 1 − p;  r = sqrt(d);  1 / r
/// - "1-lr*wd":        m = rate · weight_decay;  1 − m
/// kUsage: a name not in this list, a negative step, parameters that check_schedule refuses, or a result that
/// is not finite.
[[nodiscard]] Result<std::vector<float>> schedule_scalars(std::span<const std::string> names,
                                                          const ScheduleParameters& parameters,
                                                          std::int64_t step);

}  // namespace dgx::kernels
