#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <tuple>

#include "dgx/exchange/exchange.h"
#include "dgx/exec/leading_executor.h"
#include "dgx/lowering/workers.h"
#include "exchanges.h"
#include "follower.h"
#include "instruction_sets.h"
#include "rank_threads.h"
#include "stored_steps.h"

namespace dgx::exec {
namespace {

using kernels::ValueIndex;
using test::Exchanges;
using test::Follower;
using test::LyingExchange;
using test::require_same;
using test::SlowExchange;
using test::states_of;
using test::Stored;

/// The states of each rank after each step, by threads of this process that are ranks. `lying` is used
/// instead of that rank's.
std::vector<std::vector<State>> on_ranks(const Stored& stored, const Exchanges& exchanges, int threads,
                                         int steps, LyingExchange* lying = nullptr) {
  std::vector<std::vector<State>> states(exchanges.size());
  test::check_ranks(exchanges, [&](std::size_t r) -> Status {
    exchange::Exchange& own =
        lying != nullptr && lying->rank() == static_cast<int>(r) ? *lying : *exchanges[r];
    DGX_TRY(auto executor, PartsExecutor::create_on(own, stored.program, stored.inputs(), threads));
    DGX_CHECK(executor->load(stored.state));
    for (int s = 0; s < steps; ++s) {
      DGX_CHECK(executor->step());
      DGX_TRY(State state, executor->state());
      states[r].push_back(std::move(state));
    }
    return {};
  });
  return states;
}

TEST_CASE("whole workers on ranks and in parts have the states of one process") {
  struct Case {
    const char* name;
    std::int64_t workers;
    bool goes_in_turn = true;
  };
  for (const auto& [name, workers, goes_in_turn] : {Case{"placement/regression", 6},
                                                    {"placement/clipped", 5},
                                                    {"placement/gpt", 6},
                                                    {"placement/switch", 3},
                                                    {"placement/convolutions", 7},
                                                    {"placement/counting", 3},
                                                    {"placement/normed", 3, false},
                                                    {"placement/resnet20", 5, false},
                                                    {"placement/encoder", 2, false}}) {
    CAPTURE(name, workers);
    Stored stored(name);
    stored.program =
        std::make_shared<program::Program>(lowering::divide_among_workers(*stored.program, workers).value());
    stored.slices = workers;
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 2);
    for (const auto& [ranks, threads] : {std::pair(1, 1), {2, 2}, {3, 1}, {5, 3}}) {
      if (ranks > workers) continue;
      CAPTURE(ranks, threads);
      const auto exchanges = exchange::make_local(ranks);
      for (const auto& found : on_ranks(stored, exchanges, threads, 2)) require_same(found, expected);
      auto parts = PartsExecutor::create(stored.program, stored.inputs(), threads, ranks);
      REQUIRE(parts.ok() == goes_in_turn);
      if (!parts.ok()) continue;
      require_same(states_of(**parts, stored.state, 2), expected);
      const std::vector<std::int64_t> samples = (*parts)->samples_of_parts();
      CHECK(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}) == stored.batch);
    }
    const auto refused = PartsExecutor::create(stored.program, stored.inputs(), 1, workers + 1);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message ==
          fmt::format("a batch of {0} workers cannot be cut into {1} parts", workers, workers + 1));
  }
}

TEST_CASE("the memory of a rank is known without its data") {
  const Stored stored("placement/gpt");
  const auto exchanges = exchange::make_local(3);
  const std::vector<std::int64_t> bounds = {0, 1, 3, 6};
  std::int64_t before = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto& own = exchanges[static_cast<std::size_t>(rank)];
    const auto made = PartsExecutor::create_on(*own, stored.program, stored.inputs(), 1, bounds);
    REQUIRE(made.ok());
    CHECK((*made)->samples_of_parts() == std::vector<std::int64_t>{1, 2, 3});
    const auto counted = PartsExecutor::bytes_of_rank(stored.program, stored.inputs(), 1, rank, bounds);
    REQUIRE(counted.ok());
    // Beside the plans, which planned_bytes() leaves out.
    CHECK(*counted >= (*made)->planned_bytes());
    CHECK(*counted > before);
    before = *counted;
  }
  Stored compressed("tasks/compressed");
  compressed.slices = 6;
  const auto alone = exchange::make_local(1);
  const auto made =
      PartsExecutor::create_on(*alone[0], compressed.program, compressed.inputs(), 1, {0, 6}).value();
  CHECK(PartsExecutor::bytes_of_rank(compressed.program, compressed.inputs(), 1, 0, {0, 6}).value() >=
        made->planned_bytes());
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{0, 3, 3, 6}, {0, 1, 3, 5}, {1, 2, 3, 6}, {0, 6}}) {
    const auto refused = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1, wrong);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInternal);
  }
}

TEST_CASE("ranks have the states of one process, for every kind of model") {
  for (const char* name : {"placement/regression", "placement/clipped", "placement/gpt", "placement/switch",
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

/// The state behind a step in which a rank lies, alike on all; nullopt if nobody can tell that lie.
std::optional<State> state_after_lie(const Stored& stored, const RankLie& lie, int ranks,
                                     std::optional<Fault>& fault) {
  const auto exchanges = exchange::make_local(ranks);
  std::vector<State> states(exchanges.size());
  std::vector<std::optional<Fault>> faults(exchanges.size());
  test::check_ranks(exchanges, [&](std::size_t r) -> Status {
    DGX_TRY(const auto executor, PartsExecutor::create_on(*exchanges[r], stored.program, stored.inputs(), 1));
    if (const auto found = executor->set_lie(lie); found.ok()) faults[r] = *found;
    if (!faults[r]) return {};
    DGX_CHECK(executor->load(stored.state));
    DGX_CHECK(executor->make_step_with_lie());
    executor->end_step();
    DGX_TRY(states[r], executor->state());
    return {};
  });
  fault = faults.front();
  if (!fault) return std::nullopt;
  for (const State& state : states) require_same({state}, {states.front()});
  return states.front();
}

TEST_CASE("a lie of a rank is a fault that one process can replay") {
  for (const auto& [name, workers] : {std::pair("placement/clipped", 0),
                                      {"placement/normed", 0},
                                      {"placement/gpt", 0},
                                      {"placement/counting", 0},
                                      {"placement/clipped", 5}}) {
    Stored stored(name);
    if (workers > 0) {
      stored.program = std::make_shared<program::Program>(
          lowering::divide_among_workers(*stored.program, workers).value());
      stored.slices = workers;
    }
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const State honest = states_of(*whole, stored.state, 1).front();
    using In = RankLie::In;
    std::map<In, int> told, changed;
    for (const ValueIndex v : stored.program->values.indices()) {
      const kernels::Primitive& line = stored.program->values[v];
      const std::int64_t elements = *element_count(line.shape);
      for (const auto& [in, rank] :
           {std::pair(In::kCarry, 0), {In::kCarry, 1}, {In::kGather, 1}, {In::kBroadcast, 2}}) {
        if (told[in] == 6) continue;  // enough of each kind
        const RankLie lie{rank, in, v, in == In::kGather ? elements / 2 : elements - 1, 22};
        CAPTURE(name, workers, static_cast<int>(in), rank, to_number(v));
        std::optional<Fault> fault;
        const auto state = state_after_lie(stored, lie, 3, fault);
        if (!state) continue;
        CHECK(fault->position.has_value() == (in == In::kCarry));
        REQUIRE(whole->load(stored.state).ok());
        REQUIRE(whole->trace(*fault, {}).ok());
        require_same({*state}, {whole->state().value()});
        ++told[in];
        changed[in] += std::ranges::equal(*state, honest,
                                          [](const Entry& a, const Entry& b) {
                                            return std::ranges::equal(a.tensor.bytes(), b.tensor.bytes());
                                          })
                           ? 0
                           : 1;
      }
    }
    CAPTURE(name, workers);
    for (const In in : {In::kCarry, In::kGather, In::kBroadcast}) {
      CHECK(told[in] > 0);
      CHECK(changed[in] > 0);
    }
  }
}

TEST_CASE("no lie is told in a gather for the tail that a later phase has read the truth of") {
  const Stored stored(Result<std::string>(
      R"({"k":"input","next":10,"s":[],"src":"state loss","t":"f32","v":0}
{"k":"input","next":3,"s":[],"src":"state step","t":"i64","v":1}
{"k":"input","s":[4,6],"src":"batch x","t":"f32","v":2}
{"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":3,"x":["1[]"]}
{"do":["add x0 0x1p0"],"k":"map","s":[4,6],"t":"f32","v":4,"x":["2[i0,i1]"]}
{"do":["mul x0 x0"],"k":"map","s":[4,6],"t":"f32","v":5,"x":["2[i0,i1]"]}
{"f":[4,6],"k":"sum","s":[],"t":"f32","v":6,"x":["5[k0,k1]"]}
{"do":["mul x0 x1"],"k":"map","s":[4,6],"t":"f32","v":7,"x":["4[i0,i1]","6[]"]}
{"f":[4,6],"k":"dot","s":[],"t":"f32","v":8,"x":["7[k0,k1]","7[k0,k1]"]}
{"f":[4,6],"k":"sum","s":[],"t":"f32","v":9,"x":["4[k0,k1]"]}
{"do":["add x0 x1"],"k":"map","s":[],"t":"f32","v":10,"x":["8[]","9[]"]}
)"));
  const auto exchanges = exchange::make_local(2);
  const auto executor = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1).value();
  const auto found = executor->set_lie({0, RankLie::In::kGather, ValueIndex(4), 3, 20});
  REQUIRE(!found.ok());
  CHECK(found.error().message == "value 4 is read by line 7 of each rank before it is gathered");
  CHECK(executor->set_lie({0, RankLie::In::kGather, ValueIndex(5), 3, 20}).ok());
}

TEST_CASE("a lie that a rank cannot tell is refused by name") {
  const Stored stored("placement/clipped");
  const auto exchanges = exchange::make_local(3);
  const auto executor = PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1).value();
  using In = RankLie::In;
  const auto refuses = [&](const RankLie& lie, const char* words) {
    const auto found = executor->set_lie(lie);
    REQUIRE(!found.ok());
    CHECK(found.error().code == ErrorCode::kUsage);
    CHECK_THAT(found.error().message, Catch::Matches(words));
    CHECK(!executor->has_lie());
  };
  const auto classes = program::classify(*stored.program, stored.batch).value();
  const auto of_class = [&](program::SampleClass wanted) {
    ValueIndex found = kernels::kNoValue;
    for (const ValueIndex v : stored.program->values.indices()) {
      const bool is_one = classes.of[v] == wanted && stored.program->values[v].kind != kernels::Kind::kInput;
      if (is_one && found == kernels::kNoValue) found = v;
    }
    return found;
  };
  const ValueIndex carried = of_class(program::SampleClass::kCarried);
  const ValueIndex sharded = of_class(program::SampleClass::kSharded);
  refuses({3, In::kCarry, carried, 0, 1}, "there is no rank 3, there are 3");
  refuses({2, In::kCarry, carried, 0, 1}, "rank 2 is the last, which carries nothing on");
  refuses({1, In::kBroadcast, carried, 0, 1}, "rank 1 broadcasts no value, the last rank does");
  refuses({0, In::kCarry, sharded, 0, 1}, "value .* is no fold that the ranks carry .*");
  refuses({0, In::kGather, sharded, 0, 1}, "value .* is none that the ranks gather");
  refuses({0, In::kCarry, carried, -1, 1}, "value .* has no element -1, .*");
  refuses({0, In::kCarry, carried, 0, 32}, "an element of value .* has no bit 32, .*");
  const auto in_turn = PartsExecutor::create(stored.program, stored.inputs(), 1, 2).value();
  CHECK(!in_turn->set_lie({0, In::kCarry, carried, 0, 1}).ok());
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
    // On a busy machine the others are as slow for a step now and then, and it counts from the beginning.
    for (int s = 0; s < 1000 && named.empty(); ++s) REQUIRE(leading.step().ok());
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
