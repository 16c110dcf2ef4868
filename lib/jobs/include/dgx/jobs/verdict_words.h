#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/manifest/verdict.h"

namespace dgx::jobs {

/// A verdict's chance, 0 to 1, as a number.
[[nodiscard]] double number_of(std::string_view chance);
/// A chance as people count, never less than it is: "never", "84 times in 100", "less than once in 1000",
/// "more than 99 times in 100".
[[nodiscard]] std::string times_in_100(std::string_view chance);

/// The words for the cheats that an acceptance would have missed: "a solver who cheated in one segment goes
/// unnoticed 92 times in 100, in 10 % of them 84 times in 100". The chances are those that follow from the
/// verdict's counts, whatever it states: only a ledger refuses a verdict that states others.
[[nodiscard]] std::string words_of_miss(const manifest::Verdict& verdict);

/// A verdict in one line, the outcome first: how much was replayed and, for an acceptance, what
/// that would have missed: "accepted: 2 of 24 segments replayed (8 %); a solver who …".
[[nodiscard]] std::string words_of(const manifest::Verdict& verdict);

/// The chances of a replay, done or planned, and the segments that they are of.
enum class Diverged { kNo, kYes };
struct Chances {
  manifest::MissProbability miss;
  std::int64_t between = 0;  ///< segments between committed states, among which those replayed are drawn
  Diverged diverged = Diverged::kNo;  ///< kYes: the proof has one segment more, the diverging step
};

/// The judgement whether a replay, done or planned, is enough for a reader who accepts to miss a cheat on 10
/// % of the segments with a chance of at most `most` (--max-miss).
struct Sufficiency {
  bool enough = false;
  std::int64_t needed = 0;  ///< the fewest segments that are, replayed as a draw, with the diverging step
  std::string words;        ///< "yes", or what would be
};
/// For a verdict, with the chances of words_of_miss(); or for a plan's own. Asserted: check_max_miss() of
/// `most`.
[[nodiscard]] Sufficiency judge_miss(const manifest::Verdict& verdict, double most);
[[nodiscard]] Sufficiency judge_miss(const Chances& chances, double most);
/// kUsage unless it is 0 to 1, or not given.
[[nodiscard]] Status check_max_miss(const std::optional<double>& most);

}  // namespace dgx::jobs
