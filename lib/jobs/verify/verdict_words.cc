#include "dgx/jobs/verdict_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>

#include "dgx/core/checked.h"
#include "dgx/protocol/draw.h"

namespace dgx::jobs {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
/// The words for the number of replayed segments, with a percentage that never says more than that.
std::string share_replayed(std::int64_t replayed, std::int64_t segments) {
  if (replayed == segments)
    return segments == 1 ? "the only segment replayed" : fmt::format("all {} segments replayed", segments);
  const double percent = 100 * static_cast<double>(replayed) / static_cast<double>(segments);
  const std::string part = percent < 1 ? "less than 1" : fmt::format("{}", std::floor(percent));
  return fmt::format("{} of {} segments replayed ({} %)", replayed, segments, part);
}

/// The chances that follow from a verdict's counts. It does not say whether its proof diverged: its own
/// chances do, which are then the greater ones.
Chances chances_of(const manifest::Verdict& verdict) {
  const std::int64_t between = verdict.segments - 1;
  if (verdict.miss_probability == protocol::kMissedForCertain)
    return {protocol::kMissedForCertain, between, Diverged::kYes};
  if (verdict.replayed >= 1 && verdict.segments > 1) {
    const auto diverged = protocol::miss_probabilities(between, verdict.replayed - 1);
    if (verdict.miss_probability == diverged) return {diverged, between, Diverged::kYes};
  }
  return {protocol::miss_probabilities(verdict.segments, verdict.replayed), verdict.segments, Diverged::kNo};
}

/// The fewest of n segments that, drawn, miss a cheat on 10 % of them with a chance of at most `most`, as
/// verdicts state it.
std::int64_t least_drawn(std::int64_t n, double most) {
  std::int64_t too_few = std::min<std::int64_t>(0, n - 1);
  std::int64_t enough = n;
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    const bool is_enough = number_of(protocol::miss_probabilities(n, middle).ten_percent) <= most;
    (is_enough ? enough : too_few) = middle;
  }
  return enough;
}

}  // namespace

double number_of(std::string_view chance) { return std::strtod(std::string(chance).c_str(), nullptr); }

std::string times_in_100(std::string_view chance) {
  const double number = number_of(chance);
  if (number <= 0) return "never";
  if (number < 0.01) {
    std::int64_t one_in = 100;
    while (one_in < kMillion && number * 10 * static_cast<double>(one_in) < 1) one_in *= 10;
    return fmt::format("less than once in {}", one_in);
  }
  // Chances have six digits, so anything below half of the last is a rounding of the product.
  const auto times = static_cast<std::int64_t>(std::ceil(number * 100 - 5e-7));
  if (times > 99) return "more than 99 times in 100";
  return times == 1 ? "once in 100" : fmt::format("{} times in 100", times);
}

std::string words_of_miss(const manifest::Verdict& verdict) {
  if (verdict.replayed == verdict.segments) return "no cheat goes unnoticed";
  const manifest::MissProbability chances = chances_of(verdict).miss;
  if (chances == protocol::kMissedForCertain && verdict.replayed > 1)
    return "not the step at which the run is said to diverge: a solver who only says so goes unnoticed";
  const std::string one =
      fmt::format("a solver who cheated in one segment goes unnoticed {}", times_in_100(chances.one_segment));
  if (chances.ten_percent == chances.one_segment) return one;
  return fmt::format("{}, in 10 % of them {}", one, times_in_100(chances.ten_percent));
}

std::string words_of(const manifest::Verdict& verdict) {
  const std::string replayed = share_replayed(verdict.replayed, verdict.segments);
  if (verdict.first_disagreement)
    return fmt::format("refuted: segment {} is wrong; {}", verdict.first_disagreement->index, replayed);
  return fmt::format("accepted: {}; {}", replayed, words_of_miss(verdict));
}

Sufficiency judge_miss(const manifest::Verdict& verdict, double most) {
  return judge_miss(chances_of(verdict), most);
}

Sufficiency judge_miss(const Chances& chances, double most) {
  assert(most >= 0 && most <= 1);
  const std::int64_t always = chances.diverged == Diverged::kYes ? 1 : 0;
  const std::int64_t drawn = least_drawn(chances.between, most);
  Sufficiency out;
  out.enough = number_of(chances.miss.ten_percent) <= most;
  out.needed = drawn + always;
  if (out.enough) return out.words = "yes", out;
  const std::int64_t percent = ceil_div(100 * drawn, std::max<std::int64_t>(1, chances.between));
  out.words = fmt::format("no, for --max-miss {} it takes {} of {} segments: dgx-verify --fraction {}", most,
                          out.needed, chances.between + always,
                          static_cast<double>(std::max<std::int64_t>(1, percent)) / 100);
  // A policy cannot promise less than a millionth, and of a diverged proof nothing exactly: its draw is
  // rounded.
  const auto most_ppm = static_cast<std::int64_t>(most * static_cast<double>(kMillion) + 1e-6);
  if (most_ppm > 0 && chances.diverged == Diverged::kNo)
    out.words += fmt::format(", or a policy with miss_ppm {}", most_ppm);
  return out;
}

Status check_max_miss(const std::optional<double>& most) {
  if (!most || (*most >= 0 && *most <= 1)) return {};
  return usage_error("--max-miss must be 0 to 1");
}

}  // namespace dgx::jobs
