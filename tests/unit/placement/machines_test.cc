#include "dgx/placement/machines.h"

#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>

using namespace dgx;
using namespace dgx::placement;

namespace {

std::string machine(const std::string& name, const std::string& region) {
  return fmt::format(R"({{"memory_bytes":1000,"name":"{}","operations_per_second":5,"region":"{}"}})", name,
                     region);
}
std::string link(const std::string& a, const std::string& b, int microseconds) {
  return fmt::format(R"({{"between":["{}","{}"],"bits_per_second":8000,"microseconds":{}}})", a, b,
                     microseconds);
}
std::string file(const std::string& machines, const std::string& links) {
  return fmt::format(R"({{"links":[{}],"machines":[{}]}})", links, machines);
}

Machines parsed(const std::string& text) {
  auto machines = parse_machines(text);
  if (!machines.ok()) FAIL(machines.error().message);
  return *std::move(machines);
}

std::string refusal(const std::string& text) {
  const auto machines = parse_machines(text);
  REQUIRE_FALSE(machines.ok());
  CHECK(machines.error().code == ErrorCode::kMalformed);
  return machines.error().message;
}

const std::string kThree = machine("a", "north") + "," + machine("b", "north") + "," + machine("c", "south");

}  // namespace

TEST_CASE("machines are read, and written as they are read") {
  const std::string text = file(kThree, link("north", "south", 50) + "," + link("a", "b", 1));
  const Machines machines = parsed(text);
  REQUIRE(machines.machines.size() == 3);
  CHECK(machines.machines[2] == Machine{"c", "south", 5, 1000});
  CHECK(machines.connections[1].link.microseconds == 1);
  CHECK(print_machines(machines) == text + "\n");
}

TEST_CASE("the network between machines has the link that says most") {
  const Machines machines = parsed(file(
      kThree, link("north", "south", 50) + "," + link("north", "north", 2) + "," + link("a", "south", 7)));
  const std::array<std::size_t, 3> ranks = {2, 0, 1};  // c, a, b
  const auto network = network_of(machines, ranks);
  REQUIRE(network.ok());
  CHECK(network->link(0, 1).microseconds == 7);
  CHECK(network->link(1, 0).microseconds == 7);
  CHECK(network->link(0, 2).microseconds == 50);
  CHECK(network->link(1, 2).microseconds == 2);
  CHECK(network->link(1, 2).bits_per_second == 8000);
}

TEST_CASE("machines that nothing connects are named") {
  const std::array<std::size_t, 2> near = {0, 1}, far = {0, 2};
  const Machines machines = parsed(file(kThree, link("north", "north", 2)));
  CHECK(network_of(machines, near).ok());
  const auto refused = network_of(machines, far);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("'c' and 'a' are not connected"));
  const Machines twice = parsed(file(kThree, link("a", "south", 2) + "," + link("c", "north", 3)));
  CHECK_THAT(network_of(twice, far).error().message, Catch::Contains("'c' and 'a': a link of the one"));
}

TEST_CASE("a file of machines that makes no sense is refused with the place") {
  const std::string good = link("north", "south", 1);
  CHECK_THAT(refusal("{}"), Catch::Contains("machines"));
  CHECK_THAT(refusal(file("", "")), Catch::Contains("machines: is empty"));
  CHECK_THAT(refusal(file(kThree + "," + machine("b", "south"), good)), Catch::Contains("two are named 'b'"));
  CHECK_THAT(refusal(file(machine("a", "a"), "")), Catch::Contains("'a' is a machine and a region"));
  CHECK_THAT(refusal(file(kThree, good + "," + link("north", "west", 1))),
             Catch::Contains("links[1].between: there is no machine or region 'west'"));
  CHECK_THAT(refusal(file(kThree, link("a", "a", 1))), Catch::Contains("'a' is one machine"));
  CHECK_THAT(refusal(file(kThree, good + "," + link("south", "north", 9))),
             Catch::Contains("have a link already"));
  CHECK_THAT(refusal(file(machine("a b", "north"), "")), Catch::Contains("machines[0].name: is no name"));
  CHECK_THAT(refusal(file(machine(std::string(65, 'a'), "north"), "")), Catch::Contains("machines[0].name"));
  CHECK_THAT(
      refusal(
          R"({"links":[],"machines":[{"memory_bytes":1,"name":"a","operations_per_second":0,"region":"r"}]})"),
      Catch::Contains("machines[0]") && Catch::Contains("operations_per_second"));
  CHECK_THAT(refusal(R"({"links":[{"between":["r"],"bits_per_second":1,"microseconds":1}],"machines":[)" +
                     machine("a", "r") + "]}"),
             Catch::Contains("is not two places"));
  CHECK_THAT(refusal(R"({"links":[{"between":["r","r"],"bits_per_second":0,"microseconds":1}],"machines":[)" +
                     machine("a", "r") + "]}"),
             Catch::Contains("links[0]") && Catch::Contains("bits_per_second"));
  CHECK_THAT(refusal(file(kThree, good).substr(1)), Catch::Contains("position") || Catch::Contains("byte"));
}
