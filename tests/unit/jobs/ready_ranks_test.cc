#include "task/ready_ranks.h"

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "exchanges.h"

using namespace dgx;
using jobs::Greeting;

namespace {

/// A rank whose machines are called host0, host1 ..., as those of processes have names of their own.
class NamedExchange final : public test::ForwardingExchange {
 public:
  using ForwardingExchange::ForwardingExchange;
  [[nodiscard]] std::string host_of(int rank) const override { return "host" + std::to_string(rank); }
};

/// One of the ranks: its greeting and its own status, and its answer from all_are_ready().
struct Rank {
  Greeting greeting = Greeting::of_this_version();
  Status own{};
  Result<bool> told = false;
  bool is_broken = false;
};
using Three = std::array<Rank, 3>;

/// Lets each rank of three say whether it can begin.
void greet(Three& ranks) {
  const auto exchanges = exchange::make_local(3);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      NamedExchange named(*exchanges[r]);
      Rank& rank = ranks[r];
      rank.told = jobs::all_are_ready(named, rank.own, rank.greeting, rank.is_broken);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Rank `which` alone is told this error, the others that one cannot begin; all can still end together.
void check_told(const Three& ranks, std::size_t which, ErrorCode code, const std::string& message) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    CAPTURE(r);
    CHECK_FALSE(ranks[r].is_broken);
    if (r != which) {
      REQUIRE(ranks[r].told.ok());
      CHECK_FALSE(*ranks[r].told);
      continue;
    }
    REQUIRE_FALSE(ranks[r].told.ok());
    CHECK(ranks[r].told.error().code == code);
    CHECK(ranks[r].told.error().message == message);
  }
}

}  // namespace

TEST_CASE("ranks that are alike begin") {
  Three ranks;
  for (Rank& rank : ranks) rank.greeting.task.bytes[0] = rank.greeting.plan.bytes[0] = 7;
  greet(ranks);
  for (const Rank& rank : ranks) {
    REQUIRE(rank.told.ok());
    CHECK(*rank.told);
    CHECK_FALSE(rank.is_broken);
  }
}

TEST_CASE("a rank that is not as rank 0 is named by it, with its machine and what differs") {
  const auto named = [](std::size_t which, const auto& change, const std::string& message) {
    Three ranks;
    change(ranks[which].greeting);
    greet(ranks);
    check_told(ranks, 0, ErrorCode::kMalformed, message);
    CHECK(exit_code(ranks[0].told.error().code) == 65);
  };
  const auto version = [](Greeting& greeting) { greeting.version.bytes[31] ^= 1; };
  const auto plan = [](Greeting& greeting) { greeting.plan.bytes[31] = 1; };
  const auto task = [](Greeting& greeting) { greeting.task.bytes[0] = 0xAB; };
  named(1, version, "rank 1 (host1): has another version of dgx than rank 0");
  named(2, version, "rank 2 (host2): has another version of dgx than rank 0");
  named(2, plan, "rank 2 (host2): has another plan, network, drill or choice of experts than rank 0");
  named(1, task, "rank 1 (host1): has another task than rank 0, ab0000000000 instead of 000000000000");
  // Another version may greet in another way: what it says else counts for nothing.
  const auto all = [&](Greeting& greeting) { version(greeting), plan(greeting), task(greeting); };
  named(2, all, "rank 2 (host2): has another version of dgx than rank 0");
}

TEST_CASE("of several ranks that differ the first is named") {
  Three ranks;
  ranks[1].greeting.task.bytes[0] = ranks[2].greeting.version.bytes[0] = 1;
  greet(ranks);
  check_told(ranks, 0, ErrorCode::kMalformed,
             "rank 1 (host1): has another task than rank 0, 010000000000 instead of 000000000000");
}

TEST_CASE("a rank that cannot begin says so itself, whatever else differs") {
  for (const auto& [code, exits] : {std::pair(ErrorCode::kMalformed, 65), {ErrorCode::kMissing, 66}}) {
    for (const std::size_t which : {0U, 1U, 2U}) {
      Three ranks;
      ranks[which].own = Error{code, "data.h5: dataset 1…, the task binds 2…", "use the dataset bundle"};
      ranks[2].greeting.task.bytes[0] = 1;
      greet(ranks);
      const std::string name = std::to_string(which);
      check_told(ranks, which, code,
                 "rank " + name + " (host" + name + "): data.h5: dataset 1…, the task binds 2…");
      CHECK(exit_code(ranks[which].told.error().code) == exits);
      CHECK(ranks[which].told.error().hint == "use the dataset bundle");
    }
  }
}

TEST_CASE("where rank 0 cannot begin either, it alone says why") {
  Three ranks;
  for (Rank& rank : ranks) rank.own = usage_error("no such plan");
  greet(ranks);
  check_told(ranks, 0, ErrorCode::kUsage, "rank 0 (host0): no such plan");
}

TEST_CASE("an error is a rank's alone where another has not said whether it can begin") {
  auto exchanges = exchange::make_local(2);
  exchanges.pop_back();
  bool is_broken = false;
  const auto told = jobs::all_are_ready(*exchanges[0], {}, Greeting::of_this_version(), is_broken);
  REQUIRE_FALSE(told.ok());
  CHECK(told.error().code == ErrorCode::kInternal);
  CHECK(is_broken);
}
