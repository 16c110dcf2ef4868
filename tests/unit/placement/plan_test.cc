#include "dgx/placement/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "dgx/core/files.h"
#include "dgx/program/check.h"
#include "dgx/program/experts.h"

using namespace dgx;
using namespace dgx::placement;

namespace {

program::Program stored(const std::string& name) {
  const auto source = read_file(DGX_VECTORS "/" + name + ".program.jsonl", program::kMaxProgramBytes);
  REQUIRE(source.ok());
  return program::parse_program(*source).value();
}

StepWork work_of_stored(const std::string& name) {
  const program::Program program = stored(name);
  return work_of(program, *program::classify(program, *program::batch_samples(program))).value();
}

/// The work of a stored mixture whose experts are at home.
StepWork work_at_home(const std::string& name, std::size_t ranks) {
  const program::Program program = stored(name);
  program::Classes classes = program::classify(program, *program::batch_samples(program)).value();
  REQUIRE(program::place_experts(program, static_cast<int>(ranks), {}, classes).ok());
  return work_of(program, classes).value();
}

/// Machines of some regions, with links of their own between all of them.
Machines scattered(std::size_t count, std::size_t regions, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Machines out;
  for (std::size_t n = 0; n < count; ++n)
    out.machines.push_back({fmt::format("m{}", n), fmt::format("region{}", random() % regions),
                            static_cast<std::int64_t>(50'000'000 + random() % 100'000'000), 1 << 30});
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const bool near = out.machines[a].region == out.machines[b].region;
      out.connections.push_back(
          {out.machines[a].name,
           out.machines[b].name,
           {static_cast<std::int64_t>(near ? 50 : 5'000 + random() % 100'000),
            static_cast<std::int64_t>(near ? 1'000'000'000 : 10'000'000 + random() % 500'000'000)}});
    }
  }
  return out;
}

/// The same work on any number of ranks.
WorkOn any(StepWork work) {
  return [work = std::move(work)](std::size_t) { return work; };
}
WorkOn at_home(const std::string& name) {
  return [name](std::size_t ranks) -> Result<StepWork> { return work_at_home(name, ranks); };
}

Choice chosen(const Machines& machines, const StepWork& work, PlanOptions options = {}) {
  auto choice = choose_plan(machines, any(work), options);
  if (!choice.ok()) FAIL(choice.error().message);
  return *std::move(choice);
}

/// The shortest step of all orders, in seconds: of each, slices and network are put together here.
double best_of_all_orders(const Machines& machines, const StepWork& work) {
  std::vector<std::size_t> order(machines.machines.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::int64_t> rates;
  for (const Machine& machine : machines.machines) rates.push_back(machine.operations_per_second);
  const auto shares = share_slices(work.slices, rates);
  double best = 1e9;
  do {
    std::vector<std::int64_t> bounds = {0}, ordered;
    for (const std::size_t m : order) {
      bounds.push_back(bounds.back() + shares[m]);
      ordered.push_back(rates[m]);
    }
    best = std::min(best, forecast(work, bounds, ordered, *network_of(machines, order)).seconds);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

}  // namespace

TEST_CASE("slices are shared in proportion to speed, at least one each") {
  const auto shares = [](std::int64_t slices, const std::vector<std::int64_t>& rates) {
    return share_slices(slices, rates);
  };
  CHECK(shares(12, {1, 1, 1}) == std::vector<std::int64_t>{4, 4, 4});
  CHECK(shares(12, {3, 1}) == std::vector<std::int64_t>{9, 3});
  CHECK(shares(4, {1'000'000, 1, 1}) == std::vector<std::int64_t>{2, 1, 1});
  CHECK(shares(3, {5, 5, 5}) == std::vector<std::int64_t>{1, 1, 1});
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> rates(1 + random() % 20);
    for (auto& rate : rates) rate = static_cast<std::int64_t>(1 + random() % 1'000'000);
    const auto slices = static_cast<std::int64_t>(rates.size() + random() % 100);
    const auto found = share_slices(slices, rates);
    CHECK(std::reduce(found.begin(), found.end()) == slices);
    CHECK(*std::ranges::min_element(found) >= 1);
  }
}

TEST_CASE("up to eight machines have the best of all orders") {
  std::vector<std::pair<std::size_t, std::uint64_t>> drawn = {{8, 1}};  // 40,320 orders
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    for (const std::size_t count : {2U, 3U, 4U, 5U, 6U, 7U}) drawn.emplace_back(count, seed);
  }
  for (const auto& [count, seed] : drawn) {
    CAPTURE(seed, count);
    const Machines machines = scattered(count, 2, seed);
    const bool has_experts = seed == 3 && count <= 6;  // the stored mixture has as many samples
    const WorkOn work_on =
        has_experts ? at_home("placement/switch") : any(work_of_stored("tasks/quickstart"));
    const Choice found = choose_plan(machines, work_on, {count, 0}).value();
    CHECK(found.forecast.seconds == best_of_all_orders(machines, work_on(count).value()));
    CHECK(found.plan.predicted.plan <= found.plan.predicted.by_region);
    CHECK(found.plan.predicted.plan <= found.plan.predicted.random);
  }
}

TEST_CASE("many machines are ordered better than by chance or region, and alike each time") {
  const Machines machines = scattered(64, 4, 5);
  const StepWork work = work_of_stored("tasks/quickstart");
  const Choice found = chosen(machines, work, {64, 7}), again = chosen(machines, work, {64, 7});
  CHECK(found.plan == again.plan);
  CHECK(found.plan.ranks.size() == 64);
  CHECK(found.plan.bounds().back() == work.slices);
  CHECK(found.plan.predicted.plan <= found.plan.predicted.by_region);
  CHECK(found.plan.predicted.plan < found.plan.predicted.random);
}

TEST_CASE("a plan has the work of as many ranks as it tries") {
  const Machines machines = scattered(6, 2, 3);
  std::vector<std::size_t> asked;
  const WorkOn work_on = [&](std::size_t ranks) -> Result<StepWork> {
    asked.push_back(ranks);
    return work_at_home("placement/switch", ranks);
  };
  const Choice found = choose_plan(machines, work_on, {}).value();
  CHECK(asked == std::vector<std::size_t>{1, 6, 5, 4, 3, 2, 1});
  for (std::size_t ranks = 1; ranks <= 6; ++ranks)
    CHECK(found.forecast.seconds <= choose_plan(machines, work_on, {ranks, 0}).value().forecast.seconds);
  const WorkOn none = [](std::size_t ranks) -> Result<StepWork> {
    return ranks == 1 ? Result<StepWork>(work_at_home("placement/switch", 1)) : usage_error("no such work");
  };
  const auto refused = choose_plan(machines, none, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == "no such work");
}

TEST_CASE("the faster of two machines has the more of three experts") {
  Machines machines = scattered(2, 1, 1);
  machines.machines[0].operations_per_second = 50'000'000;
  machines.machines[1].operations_per_second = 150'000'000;
  const auto has_more = [](const Stretch& of) { return of.at_home.at(0) > of.at_home.at(1); };
  CHECK(has_more(work_at_home("placement/switch", 2).phases[1].stretches.front()));
  const Choice found = choose_plan(machines, at_home("placement/switch"), {2, 0}).value();
  CHECK(found.plan.ranks.front().machine == "m1");
  CHECK(found.plan.predicted.plan < found.plan.predicted.random);
}

TEST_CASE("the fastest machines are taken, and no more than there are slices") {
  const Machines machines = scattered(9, 2, 3);
  const StepWork work = work_of_stored("placement/gpt");  // 6 samples
  CHECK(chosen(machines, work, {6, 0}).plan.ranks.size() == 6);
  // Links may be too slow for all of them.
  const Choice free = chosen(machines, work);
  for (std::size_t ranks = 1; ranks <= 6; ++ranks)
    CHECK(free.forecast.seconds <= chosen(machines, work, {ranks, 0}).forecast.seconds);
  const Choice one = chosen(machines, work, {1, 0});
  const auto fastest = std::ranges::max_element(machines.machines, {}, &Machine::operations_per_second);
  CHECK(one.plan.ranks == std::vector<Seat>{{fastest->name, 6}});
  CHECK(one.plan.predicted.plan == one.plan.predicted.alone);
  for (const auto& [ranks, words] : {std::pair<std::size_t, const char*>{10, "10 ranks, of 9 machines"},
                                     {7, "7 ranks, a batch has 6 slices for them"}}) {
    const auto refused = choose_plan(machines, any(work), {ranks, 0});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
    CHECK(refused.error().message == words);
  }
}

TEST_CASE("plans are written as they are read, and refused with the place") {
  const Machines machines = scattered(3, 2, 3);
  Plan plan = chosen(machines, work_of_stored("placement/gpt"), {3, 0}).plan;
  plan.task.bytes[0] = 1;
  const std::string text = print_plan(plan);
  const auto read = parse_plan(text);
  REQUIRE(read.ok());
  CHECK(*read == plan);
  const auto refusal = [](const std::string& other) {
    const auto refused = parse_plan(other);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kMalformed);
    return refused.error().message;
  };
  Plan other = plan;
  other.ranks[1].slices += 1;
  CHECK_THAT(refusal(print_plan(other)), Catch::Contains("do not have the 6 slices"));
  other = plan;
  other.ranks[2].machine = other.ranks[0].machine;
  CHECK_THAT(refusal(print_plan(other)),
             Catch::Contains("ranks[2]") && Catch::Contains("has a rank already"));
  for (const char* const name : {"", "a\nevil slots=99", "\x1b[31m"}) {
    other = plan;
    other.ranks[1].machine = name;
    CHECK_THAT(refusal(print_plan(other)), Catch::Contains("ranks[1]: machine: is no name of a machine"));
  }
  other = plan;
  other.experts = true;
  CHECK(parse_plan(print_plan(other)).value() == other);
  other.pipeline = Plan::Pipeline{{}, 1};
  CHECK_THAT(refusal(print_plan(other)), Catch::Contains("experts: is there with a pipeline"));
  CHECK_THAT(refusal(R"({"experts":false,)" + text.substr(1)), Catch::Contains("experts: is false"));
  CHECK_THAT(refusal(R"({"experts":1,)" + text.substr(1)), Catch::Contains("experts"));
  other = plan;
  other.ranks = {{"a", 5}};
  CHECK_THAT(refusal(print_plan(other)), Catch::Contains("do not have the 6 slices"));
  other.slices = std::int64_t{1} << 53;
  other.ranks.clear();
  for (int n = 0; n < 1024; ++n) other.ranks.push_back({fmt::format("m{}", n), other.slices});
  CHECK_THAT(refusal(print_plan(other)), Catch::Contains("do not have the 9007199254740992 slices"));
  other.ranks.clear();
  CHECK_THAT(refusal(print_plan(other)), Catch::Contains("is empty"));
  CHECK_THAT(refusal("{}"), Catch::Contains("plan"));
}
