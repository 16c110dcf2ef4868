#include "dgx/core/time_text.h"

#include <catch2/catch.hpp>

namespace dgx {

TEST_CASE("a time is told in UTC, to the second") {
  CHECK(utc_text(0) == "1970-01-01 00:00:00 UTC");
  CHECK(utc_text(1795356187999) == "2026-11-22 14:03:07 UTC");
  CHECK(utc_text(std::int64_t{1} << 53).ends_with(" UTC"));
}

TEST_CASE("a duration is told in the units that it has, and none is lost") {
  CHECK(duration_text(604'800'000) == "7 d");
  CHECK(duration_text(5'400'000) == "1 h 30 min");
  CHECK(duration_text(90'061'250) == "1 d 1 h 1 min 1.25 s");
  CHECK(duration_text(86'400'001) == "1 d 0.001 s");
  CHECK(duration_text(0) == "0 s");
}

TEST_CASE("a duration is read in the units that it is told in") {
  CHECK(parse_duration("1d1h1m1s").value() == std::chrono::seconds(90061));
  const auto refused = parse_duration("7 d");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kUsage);
}

}  // namespace dgx
