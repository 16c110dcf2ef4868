// Rehearsals of steps: ranks sleep instead of computing, and send what they would.
#include <catch2/catch.hpp>
#include <chrono>

#include "dgx/exchange/exchange.h"
#include "dgx/exec/parts_executor.h"
#include "dgx/program/stages.h"
#include "rank_threads.h"
#include "stored_steps.h"

namespace dgx::exec {

using kernels::ValueIndex;
using test::Stored;

TEST_CASE("a rehearsal sends what a step sends, and sleeps instead of computing") {
  struct Case {
    const char* name;
    bool has_stages = false;
    ExpertsAt experts = ExpertsAt::kEveryRank;
  };
  for (const auto& [name, has_stages, experts] : {Case{"placement/gpt"},
                                                  {"placement/gpt", true},
                                                  {"placement/normed"},
                                                  {"placement/switch", false, ExpertsAt::kHome}}) {
    CAPTURE(name, has_stages);
    const Stored stored(name);
    const auto forward =
        program::forward_lines(*stored.program, *program::classify(*stored.program, stored.batch));
    const std::vector<ValueIndex> cuts = {forward[forward.size() / 2]};
    const auto make = [&, has_stages = has_stages, experts = experts](exchange::Exchange& ranks) {
      return has_stages ? PartsExecutor::create_stage(ranks, stored.program, stored.inputs(), 1, cuts,
                                                      {0, 1, 3, 4, 6})
                        : PartsExecutor::create_on(ranks, stored.program, stored.inputs(), 1, {}, experts);
    };
    const auto exchanges = exchange::make_local(4);
    std::vector<std::int64_t> computed(4), slept(4);
    std::vector<double> seconds(4);
    std::vector<Rehearsal> told(4);
    test::check_ranks(exchanges, [&](std::size_t r) -> Status {
      exchange::Exchange& ranks = *exchanges[r];
      DGX_TRY(const auto executor, make(ranks));
      DGX_CHECK(executor->prepare_rehearsal({100, 1000}));
      DGX_CHECK(executor->load(stored.state));
      DGX_CHECK(executor->step());
      DGX_CHECK(executor->step());
      const std::int64_t before = ranks.traffic().sent;
      DGX_CHECK(executor->step());
      computed[r] = ranks.traffic().sent - before;
      DGX_TRY(told[r], executor->rehearse());
      const auto begin = std::chrono::steady_clock::now();
      const std::int64_t between = ranks.traffic().sent;
      DGX_CHECK(executor->step());
      slept[r] = ranks.traffic().sent - between;
      seconds[r] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      return {};
    });
    for (std::size_t r = 0; r < 4; ++r) {
      CAPTURE(r);
      CHECK(computed[r] == slept[r]);
      REQUIRE(told[r].sleeps.size() == 4);
      CHECK(told[r].sleeps == told[0].sleeps);
      CHECK(seconds[r] > told[r].sleeps[r] * 0.99);
    }
    // Seconds of 400 operations, 1000 a second.
    CHECK(told[0].sleeps[0] + told[0].sleeps[1] + told[0].sleeps[2] + told[0].sleeps[3] == Approx(0.4));
  }
}

TEST_CASE("a rehearsal needs one thread, and steps to go by") {
  const Stored stored("placement/clipped");
  const auto exchanges = exchange::make_local(1);
  const auto two = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 2).value();
  CHECK(two->prepare_rehearsal({1, 1}).error().code == ErrorCode::kUsage);
  CHECK_FALSE(two->rehearse().ok());
  const auto one = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1).value();
  CHECK_FALSE(one->rehearse().ok());
  REQUIRE(one->prepare_rehearsal({1, 1}).ok());
  CHECK_FALSE(one->rehearse().ok());
}

}  // namespace dgx::exec
