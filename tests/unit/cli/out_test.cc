#include "dgx/cli/out.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <limits>

namespace dgx::cli {

TEST_CASE("integers that JSON readers would round are strings") {
  CHECK(Cell(std::int64_t{1} << 53).value.as_int() != nullptr);
  CHECK(Cell((std::int64_t{1} << 53) + 1).value == json::Output("9007199254740993"));
  CHECK(Cell(std::numeric_limits<std::uint64_t>::max()).value == json::Output("18446744073709551615"));
  CHECK(Cell(std::numeric_limits<std::int64_t>::min()).value == json::Output("-9223372036854775808"));
  CHECK(Cell(std::uint8_t{7}).value == json::Output(7));
}

TEST_CASE("floating-point numbers are numbers, and text has their shortest form") {
  CHECK(Cell(0.1).value == json::Output(0.1));
  CHECK(Cell(1e-300).text == "1e-300");
  CHECK(Cell(static_cast<double>(0.1F)).text == "0.10000000149011612");
}

TEST_CASE("a job that does not poll gets a stop flag that nobody sets") {
  Out out("dgx-x", {.threads = 3, .force = true, .trust = "keys"});
  const JobContext context = out.brief_job();
  CHECK(context.threads == 3);
  CHECK(context.clobber == Clobber::kForce);
  CHECK(context.trust == "keys");
  CHECK_FALSE(context.stop.requested());
}

TEST_CASE("a signal sets the flag of a job that polls it") {
  Out out("dgx-x", {});
  const JobContext context = out.job();
  CHECK_FALSE(context.stop.requested());
  REQUIRE(raise(SIGTERM) == 0);
  CHECK(context.stop.requested());
  CHECK_FALSE(out.brief_job().stop.requested());
}

}  // namespace dgx::cli
