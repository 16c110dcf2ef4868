#include "dgx/placement/forecast.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "dgx/core/files.h"
#include "dgx/placement/step_work.h"
#include "dgx/program/check.h"
#include "dgx/program/cost.h"
#include "dgx/program/experts.h"
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
    double sum = work->tail.whole;
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
    CHECK(work->phases.size() == exec::phases_of(*local, program::waits_of(program, *classes), {}).size());
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
  work.tail.whole = 100;
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

TEST_CASE("experts at home are the work of their homes, and their rows are moved as the page says") {
  const program::Program program = stored("placement/switch");  // three experts, alike but for their number
  const program::Classes classes = program::classify(program, 6).value();
  for (const int ranks : {1, 2, 3, 6}) {
    CAPTURE(ranks);
    program::Classes placed = classes;
    REQUIRE(program::place_experts(program, ranks, {}, placed).ok());
    const StepWork work = work_of(program, placed).value();
    double sum = work.tail.whole;
    std::vector<double> at_home(6);
    const auto add = [&](const Stretch& stretch) {
      for (std::size_t r = 0; r < stretch.at_home.size(); ++r) at_home.at(r) += stretch.at_home[r];
    };
    add(work.tail);
    for (const StepWork::Phase& phase : work.phases) {
      for (const Stretch& stretch : phase.stretches) {
        sum += stretch.of_slices + stretch.whole;
        add(stretch);
      }
    }
    const double of_experts = std::reduce(at_home.begin(), at_home.end());
    CHECK(sum + of_experts == static_cast<double>(program::cost_of(program).total_operations));
    std::vector<double> shares;
    for (const double each : at_home)
      if (each > 0) shares.push_back(each / of_experts);
    std::ranges::sort(shares);
    const auto expected = ranks == 1   ? std::vector<double>{1}
                          : ranks == 2 ? std::vector{1.0 / 3, 2.0 / 3}
                                       : std::vector{1.0 / 3, 1.0 / 3, 1.0 / 3};
    REQUIRE(shares.size() == expected.size());
    for (std::size_t n = 0; n < shares.size(); ++n) CHECK(shares[n] == Approx(expected[n]));
    // Slots of [6, 3, 16] floats, to homes and back, forward and backward.
    REQUIRE(work.phases.size() == 5);
    for (std::size_t n = 0; n < 4; ++n) {
      std::int64_t bytes = 0, messages = 0;
      for (const HomeRows& rows : work.phases[n].moved) {
        CHECK((rows.way == HomeRows::Way::kBack) == (n % 2 == 1));
        CHECK(rows.bytes == 1152 * rows.messages);
        bytes += rows.bytes;
        messages += rows.messages;
      }
      CHECK(bytes == 3456);
      CHECK(messages == 3);
      CHECK(work.phases[n].moved.size() == static_cast<std::size_t>(std::min(ranks, 3)));
    }
    CHECK(work.phases[4].moved.empty());
    // The gradients of two weights and two biases of each, for the norm of all.
    CHECK(work.given.size() == 12);
    std::int64_t given = 0;
    for (const StepWork::Given& each : work.given) given += each.bytes;
    CHECK(given == 3 * 4 * (2 * 64 * 16 + 64 + 16));
  }
}

TEST_CASE("a step with experts at home is played message by message") {
  using Way = HomeRows::Way;
  StepWork work;
  work.slices = 10;
  work.phases.resize(3);
  work.phases[0].stretches = {{1000, 0}};
  work.phases[0].moved = {{0, Way::kThere, 10'000, 2}, {1, Way::kThere, 20'000, 1}};
  work.phases[1].stretches = {{.at_home = {200, 500}}};
  work.phases[1].moved = {{0, Way::kBack, 10'000, 2}, {1, Way::kBack, 20'000, 1}};
  work.phases[2].stretches = {{500, 0, Stretch::Carry{2000, std::nullopt}}};
  work.broadcast = {3000};
  work.given = {{0, 1000}};
  work.tail = {.whole = 100, .at_home = {50}};
  const std::vector<std::int64_t> bounds = {0, 4, 10}, rates = {1000, 1000};
  const Forecast instant = forecast(work, bounds, rates, even(2, kInstant));
  // Rank 0 waits for the slices of rank 1, for its expert, and for its fold; rank 1 for the fold of rank 0,
  // and for its tail.
  CHECK(instant.seconds == Approx(0.6 + 0.5 + 0.2 + 0.3 + 0.15));
  CHECK(instant.ranks[0].computes == Approx(0.4 + 0.2 + 0.2 + 0.15));
  CHECK(instant.ranks[0].waits == Approx(0.2 + 0.3 + 0.3));
  CHECK(instant.ranks[1].computes == Approx(0.6 + 0.5 + 0.3 + 0.1));
  CHECK(instant.ranks[1].waits == Approx(0.2 + 0.05));
  // To the other's home its own slices, from its own home the other's; a length of 8 bytes a message.
  CHECK(instant.ranks[0].sent == (8'000 + 8) + (6'000 + 16) + 2'000);
  CHECK(instant.ranks[1].sent == (6'000 + 16) + (8'000 + 8));
  CHECK(instant.ranks[0].broadcast == 1 + 1'000);
  CHECK(instant.ranks[1].broadcast == 3'000);
  const Forecast slow = forecast(work, bounds, rates, even(2, kSlow));
  // Rank 0 has what rank 1 sends it at 0.601001 + 0.006016 + 0.001, what comes back at 1.101001 + 0.008008 +
  // 0.001; its fold is at rank 1 0.003 after 1.310009; what rank 1 gives to all is there 0.004
  // after 1.613009, and what rank 0 does, long before.
  CHECK(slow.seconds == Approx(1.617009 + 0.15 + 0.001016).epsilon(1e-9));
  CHECK(slow.ranks[0].sent == instant.ranks[0].sent);
}

TEST_CASE("folds behind the beginning of a gather are made while it is waited for") {
  StepWork work;
  work.slices = 10;
  work.phases.resize(2);
  work.phases[0].stretches = {{1000, 0}, {500, 0, Stretch::Carry{2000, std::nullopt}}};
  work.phases[0].gathered = {1000};
  work.phases[1].stretches = work.phases[0].stretches;
  const std::vector<std::int64_t> bounds = {0, 5, 10}, rates = {1000, 1000};
  // Rank 1 has its fold when rank 0 has its own, and rank 0 waits for that.
  CHECK(forecast(work, bounds, rates, even(2, kInstant)).seconds == Approx(0.75 + 0.25 + 0.75 + 0.25));
  work.phases[0].behind = 1;
  // Rank 0 goes on, so rank 1 need not wait again.
  const Forecast instant = forecast(work, bounds, rates, even(2, kInstant));
  CHECK(instant.seconds == Approx(0.75 + 0.25 + 0.5 + 0.25));
  CHECK(instant.ranks[0].waits == Approx(0.25));
  CHECK(instant.ranks[1].waits == Approx(0.25));
  CHECK(instant.ranks[0].gathered == 500 + 16);
  // The gathers are there long before they are waited for. Running states are at rank 1 at 0.75 + 0.003 and,
  // when it needs it, at 1.5 + 0.003.
  const Forecast slow = forecast(work, bounds, rates, even(2, kSlow));
  CHECK(slow.seconds == Approx(0.75 + 0.003 + 0.25 + 0.5 + 0.25 + 0.001016).epsilon(1e-9));
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
  const program::Program mixture = stored("placement/switch");
  program::Classes placed = program::classify(mixture, 6).value();
  REQUIRE(program::place_experts(mixture, 1, {}, placed).ok());
  const Forecast at_home = forecast(work_of(mixture, placed).value(), bounds, rates, even(1, kSlow));
  CHECK(at_home.seconds == Approx(static_cast<double>(program::cost_of(mixture).total_operations) / 1e6));
  CHECK(at_home.ranks[0].sent == 0);
}
