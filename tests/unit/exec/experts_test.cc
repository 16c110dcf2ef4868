// Ranks of which each has some experts whole: the states of one process, and what crosses.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <thread>

#include "dgx/exchange/exchange.h"
#include "dgx/exec/leading_executor.h"
#include "dgx/lowering/workers.h"
#include "dgx/program/experts.h"
#include "drawn_program.h"
#include "exchanges.h"
#include "follower.h"
#include "rank_threads.h"
#include "stored_steps.h"

namespace dgx::exec {
namespace {

using kernels::ValueIndex;
using test::Follower;
using test::LyingExchange;
using test::require_same;
using test::states_of;
using test::Stored;

/// The work of ranks with these experts in some steps, whose states must be those of one process.
std::vector<RankWork> work_of(const Stored& stored, const std::vector<State>& expected, int ranks,
                              ExpertsAt experts, const std::vector<std::int64_t>& bounds = {}) {
  const auto exchanges = exchange::make_local(ranks);
  const StopFlag never;
  std::deque<Follower> followers;
  for (std::size_t rank = 1; rank < exchanges.size(); ++rank)
    followers.emplace_back(*exchanges[rank], stored, never, experts, bounds);
  std::vector<RankWork> work;
  {
    auto own =
        PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1, bounds, experts).value();
    LeadingExecutor leading(*exchanges[0], std::move(own), {});
    require_same(states_of(leading, stored.state, static_cast<int>(expected.size())), expected);
    const auto copied = leading.snapshot({});
    REQUIRE(copied.ok());
    require_same({(*copied)().value()}, {expected.back()});
    work = leading.finish().value();
  }
  for (Follower& follower : followers) {
    follower.join();
    if (!follower.status.ok()) FAIL(follower.status.error().message);
  }
  return work;
}

/// Bytes that all ranks together receive in a step, and how many more they would without coding.
struct StepBytes {
  std::int64_t received = 0, saved = 0;
};

StepBytes bytes_of_step(const Stored& stored, int ranks, ExpertsAt experts) {
  const auto exchanges = exchange::make_local(ranks);
  std::deque<Result<StepBytes>> all;
  std::vector<std::thread> threads;
  for (const auto& own : exchanges) {
    auto& bytes = all.emplace_back(StepBytes());
    threads.emplace_back([&, ranks] {
      const auto run = [&]() -> Result<StepBytes> {
        DGX_TRY(auto executor,
                PartsExecutor::create_on(*own, stored.program, stored.inputs(), 1, {}, experts));
        DGX_CHECK(executor->load(stored.state));
        DGX_CHECK(executor->step());
        const exchange::Traffic traffic = own->traffic();
        return StepBytes{traffic.sent + (traffic.broadcast + traffic.gathered) * (ranks - 1),
                         executor->saved_bytes()};
      };
      bytes = run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  StepBytes out;
  for (const auto& bytes : all) {
    out.received += bytes.value().received;
    out.saved += bytes.value().saved;
  }
  return out;
}

struct Case {
  const char* name;
  std::int64_t slices = 0;
  std::int64_t workers = 0;  // to divide it among
};

Stored stored_as(const Case& of) {
  Stored out(of.name);
  out.slices = of.slices;
  if (of.workers == 0) return out;
  out.program =
      std::make_shared<program::Program>(lowering::divide_among_workers(*out.program, of.workers).value());
  out.slices = of.workers;
  return out;
}

TEST_CASE("ranks on which experts are at home do what one process does") {
  for (const Case& each : {Case{"placement/switch"},
                           {"experts/two-blocks"},
                           {"experts/averages"},
                           {"experts/workers", 3},
                           {"experts/corners"},
                           {"placement/switch", 0, 3},
                           {"experts/two-blocks", 0, 2}}) {
    const Stored stored = stored_as(each);
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 3);
    for (const int ranks : {1, 2, 3, 4, 6}) {
      if (stored.slices > 0 && ranks > stored.slices) continue;
      CAPTURE(each.name, each.workers, ranks);
      work_of(stored, expected, ranks, ExpertsAt::kHome);
    }
  }
  const Stored stored("experts/two-blocks");
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  work_of(stored, states_of(*whole, stored.state, 2), 3, ExpertsAt::kHome, {0, 3, 4, 6});
}

TEST_CASE("drawn programs do on ranks what one process does, wherever their experts are") {
  int made = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const Stored stored(Result<std::string>(test::DrawnProgram(seed).text()));
    const auto classes = program::classify(*stored.program, 6).value();
    if (program::find_experts(*stored.program, classes).all.empty()) continue;
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    REQUIRE(whole->load(stored.state).ok());
    if (!whole->step().ok() || !whole->step().ok()) continue;  // its numbers are not finite
    const auto expected = states_of(*whole, stored.state, 2);
    for (const int ranks : {1, 2, 3, 6}) {
      CAPTURE(seed, ranks);
      work_of(stored, expected, ranks, ExpertsAt::kHome);
    }
    ++made;
  }
  CHECK(made > 10);
}

TEST_CASE("only tokens go to experts that are at home") {
  const Stored stored("experts/two-blocks");
  for (const int ranks : {2, 3, 6}) {
    CAPTURE(ranks);
    // The slots of all experts, of which each rank has its own share at home; and their gradients, of which
    // one word goes to the next rank, and the values to all.
    constexpr std::int64_t kSlots = 30'720, kGradients = 34'048;
    const StepBytes without = bytes_of_step(stored, ranks, ExpertsAt::kEveryRank);
    const StepBytes home = bytes_of_step(stored, ranks, ExpertsAt::kHome);
    CHECK(without.saved == 0);
    CHECK(home.received + home.saved ==
          without.received - 2 * kGradients * (ranks - 1) + kSlots * (ranks - 1) / ranks);
    CHECK(home.saved > 1'000);  // empty slots, but for the lengths of messages
  }
}

TEST_CASE("a damaged message is the failure of a machine, and no finding about the step") {
  const Stored stored("experts/two-blocks");
  int failed = 0;
  for (int number = 0; number < 12; ++number) {
    const auto exchanges = exchange::make_local(3);
    LyingExchange lying(*exchanges[1], LyingExchange::Where::kSend, number);
    const auto statuses = test::run_ranks(exchanges, [&](std::size_t r) -> Status {
      exchange::Exchange& own = r == 1 ? lying : *exchanges[r];
      DGX_TRY(auto executor,
              PartsExecutor::create_on(own, stored.program, stored.inputs(), 1, {}, ExpertsAt::kHome));
      DGX_CHECK(executor->load(stored.state));
      return executor->step();
    });
    CAPTURE(number);
    CHECK(lying.has_lied());
    for (const Status& status : statuses) {
      if (status.ok()) continue;
      CHECK(status.error().code == ErrorCode::kInternal);
      failed += status.error().message.starts_with("a message of another rank: ") ? 1 : 0;
    }
  }
  CHECK(failed >= 6);  // the lengths
}

TEST_CASE("a rank has the entries of its own experts alone, and its memory is known before") {
  const Stored stored("experts/two-blocks");
  const std::vector<std::int64_t> bounds = {0, 2, 4, 6};
  const auto exchanges = exchange::make_local(3);
  std::int64_t entries = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto& own = exchanges[static_cast<std::size_t>(rank)];
    const auto made =
        PartsExecutor::create_on(*own, stored.program, stored.inputs(), 1, bounds, ExpertsAt::kHome);
    REQUIRE(made.ok());
    CHECK_FALSE((*made)->has_whole_state());
    CHECK((*made)->has_experts_at_home());
    REQUIRE((*made)->load(stored.state).ok());
    const State held = (*made)->state().value();
    entries += std::ranges::count_if(
        held, [](const Entry& entry) { return entry.name.find(".experts.") != entry.name.npos; });
    const auto counted =
        PartsExecutor::bytes_of_rank(stored.program, stored.inputs(), 1, rank, bounds, ExpertsAt::kHome);
    REQUIRE(counted.ok());
    CHECK(*counted >= (*made)->planned_bytes());
  }
  CHECK(entries == 32);  // each once: four experts of four weights, with a momentum each
}

TEST_CASE("programs without experts are refused") {
  const Stored stored("placement/gpt");
  const auto exchanges = exchange::make_local(2);
  const auto refused =
      PartsExecutor::create_on(*exchanges[0], stored.program, stored.inputs(), 1, {}, ExpertsAt::kHome);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kUsage);
  CHECK(refused.error().message == "the task's model has no experts (dgx-placement(7), EXPERTS)");
}

}  // namespace
}  // namespace dgx::exec
