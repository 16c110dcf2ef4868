// Files of machines, and plans: what is accepted is written as it is read, and can be planned with.

#include <algorithm>
#include <functional>

#include "dgx/placement/plan.h"
#include "target.h"

using namespace dgx;

namespace {

void try_machines(const std::string& text) {
  const auto machines = placement::parse_machines(text);
  if (!machines.ok()) return;
  const std::string printed = placement::print_machines(*machines);
  const auto again = placement::parse_machines(printed);
  fuzz::require(again.ok() && placement::print_machines(*again) == printed,
                "machines are read as they are written");
  if (machines->machines.size() > 5) return;
  placement::StepWork work;
  work.slices = 6;
  work.phases = {{{{500, 1, placement::Stretch::Carry{2000, 6000}}}, {6000}}};
  work.broadcast = {3000};
  work.tail_gathered = {24};
  if (machines->connections.size() % 2 == 1) {
    work.phases.front().moved = {{0, placement::HomeRows::Way::kThere, 1200, 2}};
    work.tail.at_home = {700};
    work.given = {{0, 96}};
  }
  const auto choice = placement::choose_plan(*machines, [&](std::size_t) { return work; }, {});
  if (!choice.ok()) return;
  fuzz::require(choice->plan.bounds().back() == work.slices, "a plan has all slices");
  fuzz::require(choice->plan.ranks.size() <= machines->machines.size(), "a machine has one rank");
}

void try_plan(const std::string& text) {
  const auto plan = placement::parse_plan(text);
  if (!plan.ok()) return;
  const std::string printed = placement::print_plan(*plan);
  const auto again = placement::parse_plan(printed);
  fuzz::require(again.ok() && *again == *plan, "a plan is read as it is written");
  const auto bounds = plan->bounds();
  fuzz::require(bounds.back() == plan->slices, "a plan has all slices");
  fuzz::require(std::ranges::is_sorted(bounds, std::less_equal()), "parts have slices");
  fuzz::require(!plan->experts || !plan->pipeline, "stages have no experts at home");
  const std::size_t parts = plan->pipeline
                                ? plan->pipelines() * static_cast<std::size_t>(plan->pipeline->parts)
                                : plan->ranks.size();
  fuzz::require(bounds.size() == parts + 1, "a plan has bounds of all parts");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::string digest(64, '5');
  return {
      R"({"machines":[{"name":"a","region":"r","operations_per_second":9007199254740992,"memory_bytes":1}],)"
      R"("links":[]})",
      R"({"machines":[{"name":"a","region":"r","operations_per_second":1000,"memory_bytes":1},{"name":"b",)"
      R"("region":"s","operations_per_second":7,"memory_bytes":1}],"links":[{"between":["r","s"],)"
      R"("bits_per_second":1,"microseconds":3600000000},{"between":["a","s"],"bits_per_second":5,)"
      R"("microseconds":0}]})",
      R"({"predicted":{"alone":1,"by_region":2,"plan":3,"random":4},"program":")" + digest +
          R"(","ranks":[{"machine":"a","slices":2},{"machine":"b","slices":4}],"slices":6,"task":")" +
          digest + R"("})",
      R"({"experts":true,"predicted":{"alone":1,"by_region":2,"plan":3,"random":4},"program":")" + digest +
          R"(","ranks":[{"machine":"a","slices":2},{"machine":"b","slices":4}],"slices":6,"task":")" +
          digest + R"("})",
      R"({"experts":false,"pipeline":{"cuts":[12],"parts":1},"predicted":{"alone":1,"by_region":2,"plan":3,)"
      R"("random":4},"program":")" +
          digest +
          R"(","ranks":[{"machine":"a","slices":6},{"machine":"b","slices":6}],"slices":6,"task":")" +
          digest + R"("})",
      R"({"pipeline":{"cuts":[12,20],"parts":3},"predicted":{"alone":1,"by_region":2,"plan":3,"random":4},)"
      R"("program":")" +
          digest +
          R"(","ranks":[{"machine":"a","slices":9007199254740992},{"machine":"b","slices":9007199254740992},)"
          R"({"machine":"c","slices":9007199254740992}],"slices":9007199254740992,"task":")" +
          digest + R"("})",
      R"({"pipeline":{"cuts":[12],"parts":2},"predicted":{"alone":1,"by_region":2,"plan":3,"random":4},)"
      R"("program":")" +
          digest +
          R"(","ranks":[{"machine":"a","slices":2},{"machine":"b","slices":2},{"machine":"c","slices":4},)"
          R"({"machine":"d","slices":4}],"slices":6,"task":")" +
          digest + R"("})"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  try_machines(text);
  try_plan(text);
  return 0;
}
