#include "dgx/placement/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "dgx/exchange/exchange.h"
#include "rank_threads.h"
#include "stored_steps.h"

using namespace dgx;
using namespace dgx::placement;
using kernels::ValueIndex;
using test::Stored;

namespace {

exchange::Network even(int ranks, exchange::Link link) {
  return {ranks, std::vector<exchange::Link>(static_cast<std::size_t>(ranks * ranks), link)};
}

struct Task {
  Stored stored;
  program::Classes classes;
  StepWork whole;

  explicit Task(const std::string& name)
      : stored(name),
        classes(*program::classify(*stored.program, stored.batch)),
        whole(*work_of(*stored.program, classes)) {
    // Behind the first steps, in which a cut of the model sends plain activations.
    for (Entry& entry : stored.state)
      if (entry.name == "step") entry.tensor.as<std::int64_t>()[0] = 10;
  }

  [[nodiscard]] std::vector<ValueIndex> cuts(std::size_t stages) const {
    const auto forward = program::forward_lines(*stored.program, classes);
    std::vector<ValueIndex> out;
    for (std::size_t n = 1; n < stages; ++n) out.push_back(forward[n * forward.size() / stages]);
    return out;
  }
  [[nodiscard]] PipelineWork work(const std::vector<ValueIndex>& cuts, std::int64_t parts,
                                  std::int64_t pipelines = 1) const {
    const program::PipelineCut cut{cuts, parts, {}, pipelines};
    const auto stages = program::stages_of(*stored.program, classes, cut);
    if (!stages.ok()) FAIL(stages.error().message);
    return *work_of_stages(*stored.program, classes, *stages, cut);
  }
  [[nodiscard]] Choice chosen(const Machines& machines, const PipelineOptions& options) const {
    auto choice = choose_pipeline(machines, *stored.program, classes, whole, options);
    if (!choice.ok()) FAIL(choice.error().message);
    return *std::move(choice);
  }
};

/// The bytes that each rank sends in two steps, by the bounds of the pipelines' parts.
std::vector<std::int64_t> sent(const Stored& stored, const std::vector<ValueIndex>& cuts,
                               const std::vector<std::int64_t>& bounds, int pipelines) {
  const auto exchanges = exchange::make_local(pipelines * (static_cast<int>(cuts.size()) + 1));
  test::check_ranks(exchanges, [&](std::size_t r) -> Status {
    DGX_TRY(auto stage, exec::PartsExecutor::create_stage(*exchanges[r], stored.program, stored.inputs(), 1,
                                                          cuts, bounds));
    DGX_CHECK(stage->load(stored.state));
    DGX_CHECK(stage->step());
    return stage->step();
  });
  std::vector<std::int64_t> out;
  for (const auto& own : exchanges) out.push_back(own->traffic().sent);
  return out;
}

Machines scattered(std::size_t count) {
  Machines out;
  for (std::size_t n = 0; n < count; ++n)
    out.machines.push_back({fmt::format("m{}", n), n % 2 == 0 ? "east" : "west",
                            static_cast<std::int64_t>(50'000'000 + 9'000'000 * (n * 5 % 7)), 1 << 30});
  out.connections = {{"east", "east", {50, 1'000'000'000}},
                     {"west", "west", {50, 1'000'000'000}},
                     {"east", "west", {20'000, 50'000'000}}};
  return out;
}

}  // namespace

TEST_CASE("a play sends what stages send") {
  for (const char* name : {"placement/clipped", "placement/gpt", "placement/switch", "placement/counting",
                           "placement/convolutions", "placement/cut-gpt"}) {
    const Task task(name);
    for (const std::size_t stages : {2U, 3U, 5U}) {
      for (const std::int64_t parts : {1, 2, 4}) {
        CAPTURE(name, stages, parts);
        const auto cuts = task.cuts(stages);
        const std::vector<std::int64_t> rates(stages, 1000);
        const auto played = forecast(task.work(cuts, parts), rates, even(static_cast<int>(stages), {0, 0}));
        REQUIRE(played.ok());
        std::vector<std::int64_t> bounds = {0};
        append_parts(0, task.stored.batch, parts, bounds);
        const auto bytes = sent(task.stored, cuts, bounds, 1);
        for (std::size_t s = 0; s < stages; ++s) CHECK(2 * played->ranks[s].sent == bytes[s]);
      }
    }
  }
}

TEST_CASE("a play sends what pipelines side by side send") {
  for (const char* name : {"placement/clipped", "placement/gpt", "placement/counting",
                           "placement/convolutions", "placement/cut", "placement/cut-gpt"}) {
    const Task task(name);
    for (const std::size_t stages : {1U, 2U, 3U}) {
      for (const auto& [pipelines, parts] : {std::pair(2, 1), {2, 2}, {3, 2}, {5, 1}}) {
        CAPTURE(name, stages, pipelines, parts);
        const auto cuts = task.cuts(stages);
        // The first has one slice for each part, the last all that are left.
        std::vector<std::int64_t> shares = {0}, bounds = {0};
        for (int d = 0; d < pipelines; ++d) {
          const std::int64_t slices = d + 1 < pipelines ? parts : task.stored.batch - shares.back();
          append_parts(shares.back(), slices, parts, bounds);
          shares.push_back(shares.back() + slices);
        }
        const std::size_t ranks = stages * static_cast<std::size_t>(pipelines);
        const std::vector<std::int64_t> rates(ranks, 1000);
        const auto played =
            forecast(task.work(cuts, parts, pipelines), rates, even(static_cast<int>(ranks), {0, 0}), shares);
        REQUIRE(played.ok());
        const auto bytes = sent(task.stored, cuts, bounds, pipelines);
        for (std::size_t r = 0; r < ranks; ++r) CHECK(2 * played->ranks[r].sent == bytes[r]);
      }
    }
  }
}

TEST_CASE("few pipelines are planned as an exhaustive search plans them") {
  const Task task("placement/regression");
  const auto forward = program::forward_lines(*task.stored.program, task.classes);
  for (const auto& [stages, pipelines] : {std::pair(2U, 1U), {2U, 2U}, {3U, 1U}, {1U, 4U}, {2U, 3U}}) {
    CAPTURE(stages, pipelines);
    const std::size_t count = stages * pipelines;
    const Machines machines = scattered(count);
    const std::int64_t parts = pipelines == 3 ? 1 : 2;
    const Choice choice = task.chosen(machines, {stages, parts, 1, pipelines});
    double best = 1e9;
    std::vector<bool> is_cut(forward.size() - 1, false);
    std::fill(is_cut.end() - static_cast<std::ptrdiff_t>(stages - 1), is_cut.end(), true);
    do {
      std::vector<ValueIndex> cuts;
      for (std::size_t n = 0; n < is_cut.size(); ++n) {
        if (is_cut[n]) cuts.push_back(forward[n + 1]);
      }
      const PipelineWork work = task.work(cuts, parts, static_cast<std::int64_t>(pipelines));
      std::vector<std::size_t> order(count);
      std::iota(order.begin(), order.end(), std::size_t{0});
      do {
        std::vector<std::int64_t> rates, slowest, bounds = {0};
        for (const std::size_t m : order) rates.push_back(machines.machines[m].operations_per_second);
        for (std::size_t d = 0; d < pipelines; ++d) {
          const auto begin = rates.begin() + static_cast<std::ptrdiff_t>(d * stages);
          slowest.push_back(*std::min_element(begin, begin + static_cast<std::ptrdiff_t>(stages)));
        }
        const auto of_pipelines = static_cast<std::int64_t>(pipelines);
        for (const std::int64_t more : share_slices(task.stored.batch - (parts - 1) * of_pipelines, slowest))
          bounds.push_back(bounds.back() + more + parts - 1);
        best = std::min(best, forecast(work, rates, *network_of(machines, order), bounds)->seconds);
      } while (std::ranges::next_permutation(order).found);
    } while (std::next_permutation(is_cut.begin(), is_cut.end()));
    CHECK(choice.forecast.seconds == best);
    CHECK(choice.plan.pipelines() == pipelines);
    CHECK(parse_plan(print_plan(choice.plan)).value() == choice.plan);
  }
}

TEST_CASE("alone, a stage does all work once for each part") {
  const Task task("placement/convolutions");
  const std::vector<std::int64_t> rates = {1'000'000};
  const auto one = forecast(task.work({}, 1), rates, even(1, {0, 0}));
  const std::vector<std::int64_t> bounds = {0, task.stored.batch};
  CHECK(one->seconds == Approx(forecast(task.whole, bounds, rates, even(1, {0, 0})).seconds));
  CHECK(one->ranks[0].waits == 0);
}

TEST_CASE("behind a model's cut, a tail makes again what an entry keeps") {
  for (const char* name : {"placement/cut", "placement/cut-gpt"}) {
    CAPTURE(name);
    const Task task(name);
    const std::vector<std::int64_t> rates = {1'000'000}, bounds = {0, task.stored.batch};
    const auto one = forecast(task.work({}, 1), rates, even(1, {0, 0}));
    CHECK(one->seconds > 1.001 * forecast(task.whole, bounds, rates, even(1, {0, 0})).seconds);
  }
}

TEST_CASE("a chain of stages is played part by part") {
  // Two stages, of one operation forward and two back for each of four parts; the second does both at once.
  PipelineWork work;
  work.slices = work.parts = 4;
  using Move = PipelineWork::Move;
  work.moves = {{0, 1, 4000, Move::When::kEachPart}, {1, 0, 4000, Move::When::kEachPart}};
  work.stages.resize(2);
  work.stages[0].pieces = {{4, 0, {}, {0}}, {8, 0, {1}, {}}};
  work.stages[1].pieces = {{12, 0, {0}, {1}}};
  work.stages[1].last.whole = 1;
  work.cells = {{{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}, {0, 3}, {1, 2}, {1, 3}},
                {{0, 0}, {0, 1}, {0, 2}, {0, 3}}};
  const std::vector<std::int64_t> rates = {1, 1};
  const auto played = forecast(work, rates, even(2, {0, 0}));
  REQUIRE(played.ok());
  // The second begins after 1 s, never waits again, and makes the last part's gradient at 13 s.
  CHECK(played->seconds == Approx(15));
  CHECK(played->ranks[0].computes == Approx(12));
  CHECK(played->ranks[1].computes == Approx(13));
  CHECK(played->ranks[1].waits == Approx(2));  // and for the first one's report
  CHECK(played->ranks[0].sent == 4000);
  // Each message takes 1 s for its 1,000 bytes, and 0.5 s until it begins to arrive.
  const auto slow = forecast(work, rates, even(2, {500'000, 8000}));
  CHECK(slow->seconds > 17);
  std::swap(work.cells[0][0], work.cells[0][2]);
  const auto stuck = forecast(work, rates, even(2, {0, 0}));
  REQUIRE_FALSE(stuck.ok());
  CHECK_THAT(stuck.error().message, Catch::Contains("for ever"));
}

TEST_CASE("pipelines are planned for the machines, and alike each time") {
  const Task task("placement/gpt");
  for (const std::size_t stages : {1U, 2U, 3U, 5U}) {
    CAPTURE(stages);
    const Machines machines = scattered(5);
    const Choice choice = task.chosen(machines, {stages, {}, 3});
    CHECK(choice.plan == task.chosen(machines, {stages, {}, 3}).plan);
    REQUIRE(choice.plan.pipeline);
    CHECK(choice.plan.pipeline->cuts.size() + 1 == stages);
    CHECK(choice.plan.ranks.size() == stages);
    CHECK(choice.plan.predicted.plan <= choice.plan.predicted.by_region);
    CHECK(choice.plan.predicted.plan <= choice.plan.predicted.random);
    CHECK(program::stages_of(*task.stored.program, task.classes,
                             {choice.plan.pipeline->cuts, choice.plan.pipeline->parts})
              .ok());
    CHECK(choice.plan.bounds().size() == static_cast<std::size_t>(choice.plan.pipeline->parts) + 1);
    CHECK(choice.plan.bounds().back() == task.stored.batch);
    Plan written = choice.plan;
    CHECK(parse_plan(print_plan(written)).value() == written);
  }
  CHECK(task.chosen(scattered(12), {10, 3, 3}).plan.ranks.size() == 10);
}

TEST_CASE("no order and no cut within reach is faster than the plan's") {
  const Task task("placement/gpt");
  const Machines machines = scattered(3);
  const Choice choice = task.chosen(machines, {3, 2, 1});
  const auto forward = program::forward_lines(*task.stored.program, task.classes);
  std::vector<std::size_t> order = {0, 1, 2};
  double best = 1e9;
  do {
    std::vector<std::int64_t> rates;
    for (const std::size_t m : order) rates.push_back(machines.machines[m].operations_per_second);
    best = std::min(
        best,
        forecast(task.work(choice.plan.pipeline->cuts, 2), rates, *network_of(machines, order))->seconds);
  } while (std::ranges::next_permutation(order).found);
  CHECK(choice.forecast.seconds <= best * 1.05);
}

TEST_CASE("pipelines that cannot be are refused by name") {
  const Task task("placement/normed");
  const auto refusal = [&](const PipelineOptions& options) {
    const auto refused =
        choose_pipeline(scattered(9), *task.stored.program, task.classes, task.whole, options);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
    return refused.error().message;
  };
  CHECK(refusal({10, {}, 0}) == "10 stages, of 9 machines");
  CHECK_THAT(refusal({2, 2, 0}), Catch::Contains("of all samples before a part can go on"));
  CHECK_THAT(refusal({2, {}, 0, 2}), Catch::Contains("cannot go through several pipelines"));
  CHECK(refusal({5, {}, 0, 2}) == "2 pipelines of 5 stages, of 9 machines, and 1024 ranks at most");
  CHECK(refusal({1, {}, 0, 10}) == "10 pipelines, a batch has 9 slices for them");
  CHECK(refusal({1, {}, 0, 0}) == "0 pipelines, a batch has 9 slices for them");
  CHECK(task.chosen(scattered(9), {2, {}, 0}).plan.pipeline->parts == 1);
  const Task small("placement/regression");
  const auto places = program::forward_lines(*small.stored.program, small.classes).size();
  const auto refused =
      choose_pipeline(scattered(9), *small.stored.program, small.classes, small.whole, {8, {}, 0});
  CHECK_THAT(refused.error().message,
             Catch::Contains(fmt::format("8 stages, the task's program can be cut into 1 to {}", places)));
}

TEST_CASE("plans of pipelines are refused with the place") {
  const Task task("placement/gpt");
  Plan plan = task.chosen(scattered(3), {3, 2, 0}).plan;
  const auto refusal = [](const Plan& other) {
    const auto refused = parse_plan(print_plan(other));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kMalformed);
    return refused.error().message;
  };
  Plan other = plan;
  other.ranks[1].slices = 1;
  CHECK_THAT(refusal(other), Catch::Contains("ranks[1].slices: is 1, stage 0 of its pipeline has 6"));
  other = plan;
  other.pipeline->cuts.pop_back();
  CHECK_THAT(refusal(other), Catch::Contains("are 3, for 2 stages"));
  other = plan;
  std::swap(other.pipeline->cuts[0], other.pipeline->cuts[1]);
  CHECK_THAT(refusal(other), Catch::Contains("pipeline: cuts: item 1 is no line behind the one before"));
  other.pipeline->cuts = {ValueIndex(0), ValueIndex(7)};
  CHECK_THAT(refusal(other), Catch::Contains("pipeline: cuts: item"));
  other.pipeline->cuts = {ValueIndex(5), ValueIndex(65'536)};
  CHECK_THAT(refusal(other), Catch::Contains("pipeline: cuts: item"));
  other = plan;
  other.pipeline->parts = 7;
  CHECK_THAT(refusal(other), Catch::Contains("pipeline") && Catch::Contains("parts"));
  other.pipeline->parts = 0;
  CHECK_THAT(refusal(other), Catch::Contains("parts"));
  // Plans of several pipelines.
  plan = task.chosen(scattered(4), {2, 2, 0, 2}).plan;
  CHECK(parse_plan(print_plan(plan)).value() == plan);
  other = plan;
  other.ranks[1].slices = other.ranks[0].slices + 1;
  CHECK_THAT(refusal(other), Catch::Contains("ranks[1].slices: is "));
  other = plan;
  for (std::size_t r = 0; r < 2; ++r) other.ranks[r].slices = 1;
  CHECK_THAT(refusal(other), Catch::Contains("ranks[0].slices: is 1, fewer than the 2 parts"));
  other = plan;
  for (Seat& seat : other.ranks) seat.slices = 4;
  CHECK_THAT(refusal(other), Catch::Contains("do not have the 6 slices"));
  other = plan;
  other.ranks.pop_back();
  CHECK_THAT(refusal(other), Catch::Contains("are 3, for 2 stages"));
}
