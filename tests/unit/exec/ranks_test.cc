#include <catch2/catch.hpp>
#include <deque>
#include <thread>
#include <tuple>

#include "dgx/exchange/exchange.h"
#include "dgx/exec/leading_executor.h"
#include "exchanges.h"
#include "instruction_sets.h"
#include "stored_steps.h"

namespace dgx::exec {
namespace {

using kernels::ValueIndex;
using test::LyingExchange;
using test::require_same;
using test::SlowExchange;
using test::states_of;
using test::Stored;

using Exchanges = std::vector<std::unique_ptr<exchange::Exchange>>;

/// The states of each rank after each step, by threads of this process that are ranks. `lying` is used
/// instead of that rank's.
std::vector<std::vector<State>> on_ranks(const Stored& stored, const Exchanges& exchanges, int threads,
                                         int steps, LyingExchange* lying = nullptr) {
  std::vector<std::vector<State>> states(exchanges.size());
  std::vector<std::string> errors(exchanges.size());
  std::vector<std::thread> all;
  for (std::size_t r = 0; r < exchanges.size(); ++r) {
    all.emplace_back([&, r] {
      exchange::Exchange& own =
          lying != nullptr && lying->rank() == static_cast<int>(r) ? *lying : *exchanges[r];
      const auto run = [&]() -> Status {
        DGX_TRY(auto executor, PartsExecutor::create_on(own, stored.program, stored.inputs(), threads));
        DGX_CHECK(executor->load(stored.state));
        for (int s = 0; s < steps; ++s) {
          DGX_CHECK(executor->step());
          DGX_TRY(State state, executor->state());
          states[r].push_back(std::move(state));
        }
        return {};
      };
      const Status status = run();
      if (status.ok()) return;
      errors[r] = status.error().message;
      own.give_up(1);
    });
  }
  for (std::thread& thread : all) thread.join();
  for (const std::string& error : errors) CHECK(error == "");
  return states;
}

TEST_CASE("ranks have the states of one process, for every kind of model") {
  for (const char* name : {"placement/regression", "placement/clipped", "placement/gpt",
                           "placement/convolutions", "placement/counting", "placement/recurrence",
                           "placement/encoder", "placement/normed", "placement/resnet20"}) {
    CAPTURE(name);
    const Stored stored(name);
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 2);
    for (const auto& [ranks, threads] : {std::pair(1, 1), {2, 2}, {3, 1}, {5, 3}}) {
      CAPTURE(ranks, threads);
      const auto exchanges = exchange::make_local(ranks);
      for (const auto& found : on_ranks(stored, exchanges, threads, 2)) require_same(found, expected);
    }
  }
}

TEST_CASE("ranks whose folds stop within blocks have the states of one process") {
  const Stored stored("tasks/quickstart");
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 2).value();
  const auto expected = states_of(*whole, stored.state, 2);
  test::with_every_instruction_set([&](auto) {
    for (const int ranks : {2, 7}) {
      CAPTURE(ranks);
      const auto exchanges = exchange::make_local(ranks);
      for (const auto& found : on_ranks(stored, exchanges, 2, 2)) require_same(found, expected);
    }
  });
}

/// A rank that follows, in a thread.
class Follower {
 public:
  Follower(exchange::Exchange& ranks, const Stored& stored, const StopFlag& stop)
      : thread_([&ranks, &stored, &stop, this] {
          auto executor = PartsExecutor::create_on(ranks, stored.program, stored.inputs(), 1);
          status = executor.ok() ? follow(ranks, **executor, stop) : Status(std::move(executor).error());
        }) {}
  void join() { thread_.join(); }

  Status status;

 private:
  std::thread thread_;
};

TEST_CASE("the executor of rank 0 does with the others what one process does") {
  const Stored stored("placement/clipped");
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  const auto exchanges = exchange::make_local(3);
  StopFlag stop, never;
  std::deque<Follower> followers;
  followers.emplace_back(*exchanges[1], stored, never);
  followers.emplace_back(*exchanges[2], stored, stop);
  int asked = 0;
  {
    auto own = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1).value();
    LeadingExecutor leading(*exchanges[0], std::move(own), {.asked = [&] { ++asked; }});
    require_same(states_of(leading, stored.state, 2), states_of(*whole, stored.state, 2));
    const Fault fault{ValueIndex(40), 0, 20};
    REQUIRE(whole->trace(fault, {}).ok());
    REQUIRE(leading.trace(fault, {}).ok());
    REQUIRE(whole->step().ok());
    REQUIRE(leading.step().ok());
    CHECK(whole->digests(1)->state == leading.digests(1)->state);
    CHECK(leading.snapshot({}).ok());
    CHECK(asked == 0);
    stop.request();
    REQUIRE(leading.step().ok());
    CHECK(asked == 1);
  }
  for (Follower& follower : followers) {
    follower.join();
    CHECK(follower.status.ok());
  }
}

TEST_CASE("a rank that holds another state is named by rank 0") {
  const Stored stored("placement/clipped");
  const auto exchanges = exchange::make_local(3);
  // Its memory flips a bit of the state that it was given: the first broadcast is the order to load.
  LyingExchange lying(*exchanges[2], LyingExchange::Where::kReceivedBroadcast, 3);
  const StopFlag never;
  Follower honest(*exchanges[1], stored, never), other(lying, stored, never);
  {
    auto own = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1).value();
    LeadingExecutor leading(*exchanges[0], std::move(own), {});
    REQUIRE(leading.load(stored.state).ok());
    const auto copied = leading.snapshot({});
    REQUIRE(!copied.ok());
    CHECK(copied.error().code == ErrorCode::kInternal);
    CHECK_THAT(copied.error().message,
               Catch::Matches("rank 2 \\(.*\\): holds another state after step 0 than rank 0, first in .*"));
  }
  for (Follower* follower : {&honest, &other}) {
    follower->join();
    CHECK(follower->status.ok());  // rank 0 says it for all
  }
}

TEST_CASE("what one rank says falsely changes the state of all alike") {
  // So no comparison of copies finds it, and whoever replays the segment does.
  const Stored stored("placement/normed");
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  const auto expected = states_of(*whole, stored.state, 1);
  using Where = LyingExchange::Where;
  for (const auto& [where, rank, number] : {std::tuple(Where::kSend, 0, 1),
                                            {Where::kSend, 1, 2},
                                            {Where::kGather, 1, 0},
                                            {Where::kGather, 2, 3},
                                            {Where::kBroadcast, 2, 1}}) {
    CAPTURE(static_cast<int>(where), rank, number);
    const auto exchanges = exchange::make_local(3);
    LyingExchange lying(*exchanges[static_cast<std::size_t>(rank)], where, number);
    const auto found = on_ranks(stored, exchanges, 1, 1, &lying);
    CHECK(lying.has_lied());
    for (const auto& states : found) require_same(states, found.front());
    REQUIRE(found.front().size() == 1);
    const auto same = [](const Entry& a, const Entry& b) {
      return std::ranges::equal(a.tensor.bytes(), b.tensor.bytes());
    };
    CHECK(!std::ranges::equal(found.front().front(), expected.front(), same));
  }
}

TEST_CASE("a rank that is lost ends the step of the others with an error") {
  const Stored stored("placement/gpt");
  auto exchanges = exchange::make_local(3);
  std::vector<Status> found(2);
  std::vector<std::thread> others;
  for (std::size_t r = 0; r < 2; ++r) {
    others.emplace_back([&, r] {
      auto executor = PartsExecutor::create_on(*exchanges[r], stored.program, stored.inputs(), 2);
      found[r] = (*executor)->load(stored.state);
      while (found[r].ok()) found[r] = (*executor)->step();
    });
  }
  exchanges[2]->give_up(1);
  for (std::thread& thread : others) thread.join();
  for (const Status& status : found) CHECK(status.error().code == ErrorCode::kInternal);
}

TEST_CASE("a rank that is slow for long is named once") {
  const Stored stored("placement/regression");
  const auto exchanges = exchange::make_local(3);
  const auto milliseconds = [](int count) { return std::chrono::milliseconds(count); };
  SlowExchange first(*exchanges[0], milliseconds(2)), slow(*exchanges[1], milliseconds(10)),
      last(*exchanges[2], milliseconds(2));
  const StopFlag never;
  Follower sleeper(slow, stored, never), other(last, stored, never);
  std::vector<std::string> named;
  {
    auto own = PartsExecutor::create_on(first, stored.program, stored.inputs(), 1).value();
    const auto name = [&](const std::string& words) { named.push_back(words); };
    LeadingExecutor leading(first, std::move(own), {.slow = name});
    REQUIRE(leading.load(stored.state).ok());
    for (int s = 0; s < LeadingExecutor::kSlowSteps - 1; ++s) REQUIRE(leading.step().ok());
    CHECK(named.empty());
    for (int s = 0; s < 2 * LeadingExecutor::kSlowSteps; ++s) REQUIRE(leading.step().ok());
  }
  for (Follower* follower : {&sleeper, &other}) {
    follower->join();
    CHECK(follower->status.ok());
  }
  REQUIRE(named.size() == 1);
  CHECK_THAT(named.front(), Catch::StartsWith("rank 1 ("));
}

TEST_CASE("ranks refuse more of them than there are samples") {
  const Stored stored("placement/regression");
  const auto exchanges = exchange::make_local(static_cast<int>(stored.batch) + 1);
  const auto executor = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1);
  REQUIRE(!executor.ok());
  CHECK(executor.error().code == ErrorCode::kUsage);
}

}  // namespace
}  // namespace dgx::exec
