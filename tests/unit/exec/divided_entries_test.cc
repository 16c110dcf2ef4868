#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <string_view>
#include <vector>

#include "dgx/exchange/exchange.h"
#include "dgx/exec/leading_executor.h"
#include "follower.h"
#include "stored_steps.h"

namespace dgx::exec {
namespace {

using kernels::ValueIndex;
using test::Follower;
using test::require_same;
using test::states_of;
using test::Stored;

TEST_CASE("ranks that each have slices of divided entries do what one process does") {
  Stored stored("tasks/compressed");
  stored.slices = 6;
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  const auto expected = states_of(*whole, stored.state, 5);
  REQUIRE(whole->load(expected.back()).ok());
  const auto ranks = GENERATE(1, 2, 4, 6);
  CAPTURE(ranks);
  const auto exchanges = exchange::make_local(ranks);
  const StopFlag never;
  std::deque<Follower> followers;
  for (std::size_t rank = 1; rank < exchanges.size(); ++rank)
    followers.emplace_back(*exchanges[rank], stored, never);
  {
    auto own = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1).value();
    CHECK_FALSE(own->has_whole_state());
    LeadingExecutor leading(*exchanges[0], std::move(own), {});
    require_same(states_of(leading, stored.state, 5), expected);
    const auto copied = leading.snapshot([](std::string_view name) { return name.starts_with("model/"); });
    REQUIRE(copied.ok());
    State left = expected.back();
    std::erase_if(left, [](const Entry& entry) { return entry.name.starts_with("model/"); });
    require_same(std::vector<State>{(*copied)().value()}, std::vector<State>{left});
    CHECK(leading.digests(1)->state == whole->digests(1)->state);
    // A fault is rank 0's alone, who gives its state to all.
    const Fault fault{ValueIndex(132), 700, 20};
    REQUIRE(whole->trace(fault, {}).ok());
    REQUIRE(leading.trace(fault, {}).ok());
    REQUIRE(whole->step().ok());
    REQUIRE(leading.step().ok());
    CHECK(whole->digests(1)->state == leading.digests(1)->state);
    const auto work = leading.finish().value();
    REQUIRE(work.size() == exchanges.size());
    CHECK(work.back().saved_bytes > (ranks == 1 ? -1'000 : 6 * 1'000));  // of 3,400 a step
  }
  for (Follower& follower : followers) {
    follower.join();
    CHECK(follower.status.ok());
  }
}

TEST_CASE("slices that are not finite on one rank end the step of all") {
  Stored stored("tasks/compressed");
  stored.slices = 6;
  const auto residual = std::ranges::find(stored.state, "optimizer/residual/0.bias", &Entry::name);
  REQUIRE(residual != stored.state.end());
  residual->tensor.as<float>()[4 * 12 + 5] = 0x1p120F;  // of worker 4; rounded to 8 bits, it is no number
  const auto exchanges = exchange::make_local(3);
  const StopFlag never;
  Follower one(*exchanges[1], stored, never), two(*exchanges[2], stored, never);
  {
    auto own = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1).value();
    LeadingExecutor leading(*exchanges[0], std::move(own), {});
    REQUIRE(leading.load(stored.state).ok());
    const Status status = leading.step();
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kMalformed);
    CHECK_THAT(status.error().message, Catch::Matches("step 0: entry .* is not finite at element .*"));
    CHECK_FALSE(leading.is_broken());
  }
  for (Follower* follower : {&one, &two}) {
    follower->join();
    CHECK(follower->status.ok());
  }
}

}  // namespace
}  // namespace dgx::exec
