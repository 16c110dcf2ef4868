#include <catch2/catch.hpp>

#include "dgx/jobs/simulate.h"

using namespace dgx;
using namespace dgx::jobs;

namespace {

std::string refused(std::string_view text) {
  const auto out = parse_agents(text);
  return out.ok() ? "accepted" : out.error().message;
}

}  // namespace

TEST_CASE("a file of people says how many there are of each kind") {
  const auto agents = parse_agents(
      R"({"honest": {"count": 3, "bond": 8796093022208}, "cheat": {"count": 64, "false_ppm": 1},
          "colluder": {"count": 2, "share_ppm": 999999}, "sybil": {"count": 1, "keys": 5}})");
  REQUIRE(agents.ok());
  REQUIRE(agents->size() == 4);
  CHECK((*agents)[0].kind == AgentKind::kCheat);
  CHECK((*agents)[0].count == 64);
  CHECK((*agents)[0].false_ppm == 1);
  CHECK((*agents)[1].share_ppm == 999'999);
  CHECK((*agents)[2].bond == std::int64_t{1} << 43);
  CHECK((*agents)[3].keys == 5);
}

TEST_CASE("what is no file of people is refused, with the place") {
  CHECK(refused("").find("at byte 0") != std::string::npos);
  CHECK(refused(R"({"honest": {"count": 1.5}})") == "json: float is not allowed before byte 25");
  CHECK(refused("[]") == "agents: must be an object, is array");
  CHECK(refused("{}") == "agents: names nobody");
  CHECK(refused(R"({"honest": 3})") == "agents: honest: is an integer, expected an object");
  CHECK(refused(R"({"honest": {}})") == "agents: honest: count: is missing");
  CHECK(refused(R"({"honest": {"count": 0}})") == "agents: honest: count: is 0, must be 1 to 64");
  CHECK(refused(R"({"honest": {"count": 65}})") == "agents: honest: count: is 65, must be 1 to 64");
  CHECK(refused(R"({"honest": {"count": 9007199254740993}})").starts_with("json: "));
  CHECK(refused(R"({"honest": {"count": 1, "bond": 8796093022209}})") ==
        "agents: honest: bond: is 8796093022209, must be 0 to 8796093022208");
  CHECK(refused(R"({"submitter": {"count": 1}})") == "agents: submitter: no such kind");
  CHECK(refused(R"({"honst": {"count": 1}})") == "agents: honst: no such kind");
  CHECK(refused(R"({"sybil": {"count": 1}})") == "agents: sybil: keys: is missing");
  CHECK(refused(R"({"colluder": {"count": 1, "share_ppm": 1000000}})") ==
        "agents: colluder: share_ppm: is 1000000, must be 1 to 999999");
  // A field without effect on the kind.
  CHECK(refused(R"({"honest": {"count": 1, "false_ppm": 5}})") == "agents: honest: false_ppm: unknown field");
  CHECK(refused(R"({"honest": {"count": 1}, "honest": {"count": 2}})").find("duplicate") !=
        std::string::npos);
}
