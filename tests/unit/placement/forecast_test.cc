#include "dgx/placement/forecast.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "dgx/core/files.h"
#include "dgx/placement/step_work.h"
#include "dgx/program/check.h"
#include "dgx/program/cost.h"
#include "dgx/program/pieces.h"
#include "dgx/program/ranks.h"
#include "rewrite/phases.h"

using namespace dgx;
using namespace dgx::placement;

namespace {

program::Program stored(const std::string& name) {
  const auto source = read_file(DGX_VECTORS "/" + name + ".program.jsonl", program::kMaxProgramBytes);
  REQUIRE(source.ok());
  auto parsed = program::parse_program(*source);
  REQUIRE(parsed.ok());
  return *std::move(parsed);
}

/// The same link between all ranks.
exchange::Network even(int ranks, exchange::Link link) {
  const auto count = static_cast<std::size_t>(ranks);
  return {ranks, std::vector<exchange::Link>(count * count, link)};
}

constexpr exchange::Link kInstant = {0, 0};
/// 1 MB a second, 1 ms.
constexpr exchange::Link kSlow = {1000, 8'000'000};

}  // namespace

TEST_CASE("the work of a step is that of all its lines, in the phases that ranks run") {
  for (const char* name :
       {"placement/regression", "placement/clipped", "placement/gpt", "placement/switch",
        "placement/convolutions", "placement/counting", "placement/normed", "placement/recurrence",
        "placement/encoder", "placement/resnet20", "tasks/quickstart"}) {
    CAPTURE(name);
    const program::Program program = stored(name);
    const auto classes = program::classify(program, *program::batch_samples(program));
    REQUIRE(classes.ok());
    const auto work = work_of(program, *classes);
    REQUIRE(work.ok());
    double sum = work->tail;
    std::size_t carried = 0;
    for (const StepWork::Phase& phase : work->phases) {
      for (const Stretch& stretch : phase.stretches) {
        sum += stretch.of_slices + stretch.whole;
        carried += stretch.carry ? 1 : 0;
      }
    }
    CHECK(sum == static_cast<double>(program::cost_of(program).total_operations));
    CHECK(carried ==
          static_cast<std::size_t>(std::ranges::count(classes->of, program::SampleClass::kCarried)));
    const auto local = program::local_program(program, *classes, {0, 1});
    REQUIRE(local.ok());
    CHECK(work->phases.size() == exec::phases_of(*local, program::waits_of(program, *classes)).size());
  }
}

TEST_CASE("what workers of dgc keep is not gathered, and what they send counts as coded") {
  const program::Program program = stored("tasks/compressed");
  const program::Classes classes = program::classify(program, 6).value();
  const StepWork known = work_of(program, classes, 0.01).value(), unknown = work_of(program, classes).value();
  // Each worker's numbers of the first weight, [12, 64], were most of it.
  CHECK(std::reduce(known.tail_gathered.begin(), known.tail_gathered.end()) < 100);
  const std::int64_t weight = 12 * 64 * 4;
  CHECK(std::ranges::count(unknown.broadcast, weight + 8) == 1);
  CHECK(std::ranges::count(known.broadcast, std::llround(weight * 0.06 * 43.5 / 32) + 8) == 1);
  std::vector<std::int64_t> carried;
  for (const StepWork::Phase& phase : known.phases) {
    for (const Stretch& stretch : phase.stretches) {
      if (!stretch.carry) continue;
      CHECK(stretch.carry->density == 0.01);
      carried.push_back(carried_bytes(*stretch.carry, 2, 6));
    }
  }
  CHECK(carried.size() == 4);
  CHECK(std::ranges::count(carried, std::llround(weight * 0.02 * 43.5 / 32) + 8) == 1);
}

TEST_CASE("a step is played message by message") {
  // 1,000 operations of the samples, half of them in a fold that is carried, 100 of the tail.
  StepWork work;
  work.slices = 10;
  work.phases = {{{{500, 0, std::nullopt}, {500, 0, Stretch::Carry{2000, std::nullopt}}}, {}}};
  work.broadcast = {3000};
  work.tail = 100;
  const std::vector<std::int64_t> bounds = {0, 5, 10}, rates = {1000, 1000};
  const Forecast instant = forecast(work, bounds, rates, even(2, kInstant));
  // The second rank waits for the first one's fold, 0.25 s, and the first for the second's value.
  CHECK(instant.seconds == Approx(0.25 + 0.25 + 0.25 + 0.1));
  CHECK(instant.ranks[0].computes == Approx(0.6));
  CHECK(instant.ranks[0].waits == Approx(0.25));
  CHECK(instant.ranks[1].waits == Approx(0.25));
  CHECK(instant.ranks[0].sent == 2000);
  CHECK(instant.ranks[1].sent == 0);
  CHECK(instant.ranks[1].broadcast == 3000);
  // 2,000 bytes are carried, 3,000 given back, and 16 reported by each to the other. The order, before all of
  // it, is there before the fold.
  const Forecast slow = forecast(work, bounds, rates, even(2, kSlow));
  CHECK(slow.seconds == Approx(0.85 + 0.003 + 0.004 + 0.001016));
}

TEST_CASE("a gather waits for the slowest, and sends each rank's slices to all") {
  StepWork work;
  work.slices = 10;
  work.phases = {{{{1000, 10, std::nullopt}}, {40'000}}, {{{100, 0, std::nullopt}}, {}}};
  const std::vector<std::int64_t> bounds = {0, 3, 10}, rates = {1000, 1000};
  const Forecast found = forecast(work, bounds, rates, even(2, kInstant));
  CHECK(found.ranks[0].gathered == 12'000 + 16);
  CHECK(found.ranks[1].gathered == 28'000 + 16);
  CHECK(found.seconds == Approx(0.71 + 0.07));
  CHECK(found.ranks[0].waits == Approx(0.4 + 0.04));
  const Forecast slow = forecast(work, bounds, rates, even(2, kSlow));
  // The order is late by 1 ms, and the report.
  CHECK(slow.seconds == Approx(0.001001 + 0.71 + 0.07 + 0.001016));
  CHECK(slow.ranks[0].waits == Approx(0.740001 - 0.31 + 0.782017 - 0.770001));
}

TEST_CASE("alone, a rank waits for nobody") {
  const program::Program program = stored("placement/gpt");
  const auto work = work_of(program, *program::classify(program, 6));
  REQUIRE(work.ok());
  const std::vector<std::int64_t> bounds = {0, 6}, rates = {1'000'000};
  const Forecast alone = forecast(*work, bounds, rates, even(1, kSlow));
  CHECK(alone.seconds == Approx(static_cast<double>(program::cost_of(program).total_operations) / 1e6));
  CHECK(alone.ranks[0].waits == 0);
  CHECK(alone.ranks[0].sent == 0);
}
