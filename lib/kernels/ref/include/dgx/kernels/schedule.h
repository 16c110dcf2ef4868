#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::kernels {

/// The rule by which the learning rate changes with the step. Tasks contain its name.
enum class ScheduleKind : std::uint8_t {
  kConstant,
  kStep,
  kCosine,
  kLinear,
  kPolynomial,
  kInverseSqrt,
  kWsd,  ///< warm-up, stable, decay
  kOneCycle,
  kPlateau  ///< as kConstant here; the step's program lowers the rate
};

/// "constant", "step", "cosine", "linear", "polynomial", "inverse-sqrt", "wsd", "one-cycle",
/// "plateau".
[[nodiscard]] std::string_view name_of(ScheduleKind kind);
/// kUsage for any other name.
[[nodiscard]] Result<ScheduleKind> schedule_kind_from_name(std::string_view name);

inline constexpr std::int64_t kMaxCycles = std::int64_t{1} << 20;
inline constexpr double kMaxExponent = 64;
/// Most steps in a window of kPlateau, whose mean loss is a sum in binary32, and most windows of its patience
/// and cooldown.
inline constexpr std::int64_t kMaxWindow = std::int64_t{1} << 20;

/// The rate and decay of a group of parameters, in place of the optimiser's.
struct ScheduleGroup {
  double factor = 1;  ///< of the rate
  double weight_decay = 0;
};

/// The optimiser's numbers as the task states them. All counts are in updates of the parameters, one every
/// `accumulate` steps.
struct ScheduleParameters {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0;  ///< Adam only, in [0, 1)
  double weight_decay = 0;
  double rate_decay = 0;  ///< Adagrad only
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t every = 1;   ///< kStep, kPlateau: at least 1
  double gamma = 1;         ///< kStep
  std::int64_t warmup = 0;  ///< any kind but kOneCycle; at least 0, for kInverseSqrt 1
  double minimum = 0;       ///< kCosine, kLinear, kPolynomial, kWsd: the rate at the end; kPlateau: the least
  std::int64_t cycles = 1;  ///< kCosine: how often it falls, 1 to kMaxCycles
  double exponent = 1;      ///< kPolynomial: a multiple of 0.5 up to kMaxExponent
  std::int64_t decay = 1;   ///< kWsd: steps of the fall, at least 1
  double start = 0;         ///< kOneCycle: the first rate
  double end = 0;           ///< kOneCycle: the last rate
  double up = 0.3;          ///< kOneCycle: the share of all steps in which the rate rises, at most 1
  double factor = 0.1;      ///< kPlateau: of a fall, above 0, below 1
  double threshold = 0;     ///< kPlateau: share by which a window must be better, 0 to below 1
  std::int64_t patience = 0;     ///< kPlateau: windows without improvement that do not lower the rate
  std::int64_t cooldown = 0;     ///< kPlateau: windows after a fall that do not count
  std::int64_t total_steps = 0;  ///< of the task; kConstant, kStep and kInverseSqrt do not need it
  std::vector<ScheduleGroup> groups = {};
  std::int64_t accumulate = 1;  ///< steps of an update, at least 1
};

/// Most groups that a schedule can have.
inline constexpr int kMaxScheduleGroups = 32;

/// One name of a `schedule` input: "-lr", or "-lr:2" for group 2. Groups count from 1.
struct ScheduleName {
  std::string_view base;  ///< "-lr"
  int group = 0;          ///< 0: none
};
/// nullopt for a text that is no name of dgx-program(5), "Inputs". Borrows from `text`.
[[nodiscard]] std::optional<ScheduleName> parse_schedule_name(std::string_view text);

/// x^t, t >= 0, in binary64 by square and multiply: r = 1, b = x; while t > 0: if t is odd then r = r · b;
/// t = ⌊t/2⌋; if t > 0 then b = b · b. The result is r.
[[nodiscard]] double power(double x, std::int64_t t);

/// The learning rate of step s, from 0, in binary64, one rounding an operation (dgx-numerics(7),
/// "Schedules"). Parameters must be valid (check_schedule).
[[nodiscard]] double learning_rate_at(const ScheduleParameters& parameters, std::int64_t step);

/// kUsage, naming the parameter, if a schedule with these has no meaning (dgx-numerics(7), "Schedules"): then
/// learning_rate_at() could divide by zero, or give a rate above the learning rate.
[[nodiscard]] Status check_schedule(const ScheduleParameters& parameters);

/// The `schedule` input of step `step` (from 0): one binary32 per name. With rate = learning_rate_at(step),
/// s = ⌊step / accumulate⌋ and t = s + 1, in binary64, one rounding an operation, the last to binary32:
/// - "lr":             rate
/// - "-lr":            −rate
/// - "lr/(1-b1^t)":    p = power(beta1, t);  d = 1 − p;  rate / d
/// - "1/sqrt(1-b2^t)": p = power(beta2, t);  d = 1 − p;  r = sqrt(d);  1 / r
/// - "1-lr*wd":        m = rate · weight_decay;  1 − m
/// - "-lr/(1+s*ld)":   m = s · rate_decay;  d = 1 + m;  r = rate / d;  −r
/// A name of group n takes the rate times its factor, and its decay. kUsage: a name not in this list or of no
/// group, a negative step, parameters that check_schedule refuses, or a result that
/// is not finite.
[[nodiscard]] Result<std::vector<float>> schedule_scalars(std::span<const std::string> names,
                                                          const ScheduleParameters& parameters,
                                                          std::int64_t step);

}  // namespace dgx::kernels
