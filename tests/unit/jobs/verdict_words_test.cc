#include "dgx/jobs/verdict_words.h"

#include <catch2/catch.hpp>

#include <cmath>

#include "dgx/protocol/draw.h"

using namespace dgx;
using namespace dgx::jobs;

namespace {

manifest::Verdict accepted(std::int64_t replayed, std::int64_t segments) {
  manifest::Verdict out;
  out.replayed = replayed;
  out.segments = segments;
  out.miss_probability = protocol::miss_probabilities(segments, replayed);
  return out;
}

}  // namespace

TEST_CASE("a chance is never told smaller than it is") {
  CHECK(times_in_100("1") == "more than 99 times in 100");
  CHECK(times_in_100("0.990001") == "more than 99 times in 100");
  CHECK(times_in_100("0.99") == "99 times in 100");
  CHECK(times_in_100("0.916667") == "92 times in 100");
  CHECK(times_in_100("0.07") == "7 times in 100");
  CHECK(times_in_100("0.070001") == "8 times in 100");
  CHECK(times_in_100("0.01") == "once in 100");
  CHECK(times_in_100("0.00999999") == "less than once in 100");
  CHECK(times_in_100("0.001") == "less than once in 100");
  CHECK(times_in_100("0.00099") == "less than once in 1000");
  CHECK(times_in_100("1.5e-20") == "less than once in 1000000");
  CHECK(times_in_100("0") == "never");
}

TEST_CASE("a verdict says first what it is and how far it looked") {
  CHECK(words_of(accepted(2, 24)) ==
        "accepted: 2 of 24 segments replayed (8 %); a solver who cheated in one segment goes unnoticed 92 "
        "times "
        "in 100, in 10 % of them 84 times in 100");
  CHECK(words_of(accepted(3, 10)) ==
        "accepted: 3 of 10 segments replayed (30 %); a solver who cheated in one segment goes unnoticed 70 "
        "times "
        "in 100");
  CHECK(words_of(accepted(5, 1000)).starts_with("accepted: 5 of 1000 segments replayed (less than 1 %); "));
  CHECK(words_of(accepted(999, 1000)).starts_with("accepted: 999 of 1000 segments replayed (99 %); "));
  CHECK(words_of(accepted(7, 7)) == "accepted: all 7 segments replayed; no cheat goes unnoticed");
  CHECK(words_of(accepted(1, 1)) == "accepted: the only segment replayed; no cheat goes unnoticed");
  manifest::Verdict refuted = accepted(3, 10);
  refuted.outcome = manifest::Outcome::kRefuted;
  refuted.first_disagreement.emplace().index = 7;
  CHECK(words_of(refuted) == "refuted: segment 7 is wrong; 3 of 10 segments replayed (30 %)");
}

TEST_CASE("a verdict that states better chances than its counts give is not believed") {
  manifest::Verdict verdict = accepted(2, 24);
  const std::string words = words_of(verdict);
  verdict.miss_probability = {"0", "0", "0"};
  CHECK(words_of(verdict) == words);
  CHECK_FALSE(judge_miss(verdict, 0.5).enough);
  // The chance of a proof that diverged counts the diverging step in neither number.
  verdict.miss_probability = protocol::miss_probabilities(23, 1);
  CHECK(
      words_of_miss(verdict) ==
      "a solver who cheated in one segment goes unnoticed 96 times in 100, in 10 % of them 92 times in 100");
}

TEST_CASE("replaying nothing but the step at which a run diverged misses every other cheat") {
  manifest::Verdict verdict = accepted(1, 2);
  verdict.miss_probability = protocol::miss_probabilities(1, 0);
  CHECK_FALSE(judge_miss(verdict, 0.99).enough);
}

TEST_CASE("a reader's limit says how many segments would do") {
  const Sufficiency found = judge_miss(accepted(2, 24), 0.05);
  CHECK_FALSE(found.enough);
  CHECK(found.needed == 19);
  CHECK(found.words ==
        "no, for --max-miss 0.05 it takes 19 of 24 segments: dgx-verify --fraction 0.8, or a policy with "
        "miss_ppm "
        "50000");
  CHECK_FALSE(judge_miss(accepted(18, 24), 0.05).enough);
  CHECK(judge_miss(accepted(19, 24), 0.05).enough);
  CHECK(judge_miss(accepted(25, 100), 0.05).words == "yes");
  CHECK(judge_miss(accepted(1, 24), 1).enough);
  CHECK(judge_miss(accepted(22, 24), 0).needed == 23);
  CHECK(judge_miss(accepted(23, 24), 0).enough);
  CHECK_FALSE(judge_miss(accepted(22, 24), 0).enough);
  CHECK(check_max_miss(std::nullopt).ok());
  CHECK(check_max_miss(0).ok());
  CHECK(check_max_miss(1).ok());
  CHECK_FALSE(check_max_miss(1.001).ok());
  CHECK_FALSE(check_max_miss(-0.001).ok());
}

TEST_CASE("a verdict on a proof that diverged promises nothing without its diverging step") {
  manifest::Verdict verdict = accepted(20, 24);
  verdict.miss_probability = protocol::kMissedForCertain;
  CHECK(words_of(verdict) ==
        "accepted: 20 of 24 segments replayed (83 %); not the step at which the run is said to diverge: a "
        "solver who only says so goes unnoticed");
  const Sufficiency found = judge_miss(verdict, 0.99);
  CHECK_FALSE(found.enough);
  // With all of 23 segments but the diverging step it takes 1 of 23 drawn ones, and that step.
  CHECK(found.needed == 2);
}

TEST_CASE("what would be enough counts the diverging step as --fraction replays it") {
  for (std::int64_t between = 1; between <= 130; ++between) {
    for (const double most : {0.5, 0.05, 1e-3, 2.5e-7, 0.0}) {
      manifest::Verdict verdict = accepted(1, between + 1);
      verdict.miss_probability = protocol::kMissedForCertain;
      const Sufficiency found = judge_miss(verdict, most);
      REQUIRE_FALSE(found.enough);
      const auto at = found.words.find("--fraction ") + 11;
      const double fraction = number_of(found.words.substr(at, found.words.find(',', at) - at));
      const auto drawn = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(between)));
      INFO(between << " " << most << " " << found.words);
      REQUIRE(drawn >= found.needed - 1);
      REQUIRE(number_of(protocol::miss_probabilities(between, drawn).ten_percent) <= most);
      REQUIRE((found.needed == 2 ||
               number_of(protocol::miss_probabilities(between, found.needed - 2).ten_percent) > most));
    }
  }
}

TEST_CASE("a limit below a millionth is no policy's") {
  CHECK(judge_miss(accepted(2, 500), 1e-6).words.ends_with(", or a policy with miss_ppm 1"));
  const Sufficiency found = judge_miss(accepted(2, 500), 5e-7);
  CHECK(found.words.find("policy") == std::string::npos);
  CHECK(found.needed == 120);
  CHECK(judge_miss(accepted(2, 500), 0).words.find("policy") == std::string::npos);
}
