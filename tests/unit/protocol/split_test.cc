#include "dgx/protocol/split.h"

#include <catch2/catch.hpp>
#include <random>

#include "dgx/protocol/estimate.h"
#include "dgx/protocol/segments.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;

namespace {

constexpr std::int64_t kBytes = 548;
constexpr std::int64_t kConstantBytes = 148;  // each part hashes them once
constexpr std::int64_t kOperations = 2'653;

/// A task that passes check_estimate().
Task task_of(std::int64_t steps, std::int64_t every, std::int64_t price, const Policy& policy) {
  Task out;
  out.steps = steps;
  out.checkpoint_every = every;
  out.price = price;
  out.policy = policy;
  out.caps.bytes = kBytes;
  out.caps.constant_bytes = kConstantBytes;
  out.estimate.step_operations = kOperations;
  auto made = estimate(estimate_input(out, steps), policy);
  REQUIRE(made.ok());
  out.estimate = *made;
  return out;
}

/// Steps that the draws of parts replay, less those of the whole task's draw, from the definitions.
std::int64_t more_replayed(const Task& task, const Split& split) {
  const auto replayed = [&](std::int64_t steps, std::int64_t sampled) {
    return Segments::of(steps, task.checkpoint_every)->longest() * sampled;
  };
  const std::int64_t whole = std::max<std::int64_t>(
      1, (Segments::of(task.steps, task.checkpoint_every)->count() * task.policy.sample_ppm + 999'999) /
             1'000'000);
  std::int64_t out = -replayed(task.steps, whole);
  for (const Split::Part& part : split.parts) out += replayed(part.steps, part.sampled);
  return out;
}

}  // namespace

TEST_CASE("K parts cost K - 1 states and fees more than the whole, and what rounding up their draws takes") {
  std::mt19937_64 random(3);
  for (int n = 0; n < 2'000; ++n) {
    Policy policy = test::policy();
    policy.sample_ppm = 1 + static_cast<std::int64_t>(random() % 1'000'000);
    const auto every = 2 + static_cast<std::int64_t>(random() % 5);
    const auto steps = 2 * every + static_cast<std::int64_t>(random() % 200);
    const std::int64_t count = Segments::of(steps, every)->count();
    const auto parts = 2 + static_cast<std::int64_t>(random()) % std::max<std::int64_t>(1, count - 1);
    if (parts < 2 || parts > count) continue;
    // 1 base unit an operation: nothing is rounded.
    const Task task = task_of(steps, every, kPriceUnit, policy);
    const auto made = split(task, parts);
    REQUIRE(made.ok());
    CAPTURE(steps, every, parts, policy.sample_ppm);
    const Estimate& more = made->more.estimate;
    REQUIRE(made->parts.size() == static_cast<std::size_t>(parts));
    REQUIRE(made->more.steps == 0);
    REQUIRE(made->more.segments == 0);
    REQUIRE(more.train == 0);
    REQUIRE(more.prove == (parts - 1) * 8 * kBytes);
    REQUIRE(more.verify == more_replayed(task, *made) * kOperations);
    REQUIRE(more.reward == more.prove);
    REQUIRE(more.fee == (parts - 1) * policy.verifier_fee + more.verify);
    REQUIRE(made->sum.estimate.reward + made->sum.estimate.fee ==
            task.estimate.reward + task.estimate.fee + (parts - 1) * (8 * kBytes + policy.verifier_fee) +
                more.verify);
  }
}

TEST_CASE("with a price that does not divide, each amount of a part is rounded down by less than one") {
  std::mt19937_64 random(4);
  for (int n = 0; n < 500; ++n) {
    const auto price = static_cast<std::int64_t>(random() % 3'000'000'000);
    const Task task = task_of(100 + static_cast<std::int64_t>(random() % 50), 4, price, test::policy());
    const std::int64_t parts = 2 + static_cast<std::int64_t>(random() % 20);
    const auto made = split(task, parts);
    REQUIRE(made.ok());
    const Estimate& more = made->more.estimate;
    const auto exact = [&](std::int64_t work) { return static_cast<__int128>(price) * work; };
    const auto off = [&](std::int64_t money, std::int64_t work) {
      return static_cast<__int128>(money) * kPriceUnit - exact(work);
    };
    const auto most = static_cast<__int128>(kPriceUnit) * parts;
    REQUIRE(off(more.reward, more.prove) > -most);
    REQUIRE(off(more.reward, more.prove) < kPriceUnit);
    REQUIRE(off(more.fee - (parts - 1) * task.policy.verifier_fee, more.verify) > -most);
    REQUIRE(off(more.fee - (parts - 1) * task.policy.verifier_fee, more.verify) < kPriceUnit);
  }
}

TEST_CASE("parts have the whole's segments, the first of them one more") {
  const auto made = split(task_of(21, 2, 1'000, test::policy()), 4);
  REQUIRE(made.ok());
  std::vector<std::int64_t> steps, segments;
  for (const Split::Part& part : made->parts) {
    steps.push_back(part.steps);
    segments.push_back(part.segments);
  }
  CHECK(steps == std::vector<std::int64_t>{6, 6, 4, 5});
  CHECK(segments == std::vector<std::int64_t>{3, 3, 2, 2});
  CHECK(made->sum.steps == 21);
}

TEST_CASE("a task is cut into 2 parts at least, and into as many as it has segments at most") {
  const Task task = task_of(21, 2, 1'000, test::policy());
  CHECK(split(task, 10).ok());
  for (const std::int64_t parts : {-1, 0, 1, 11}) {
    const auto made = split(task, parts);
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::kUsage);
    CHECK(made.error().message ==
          std::to_string(parts) + " parts of a task that has 10 segments: each part has at least one");
  }
  Policy dear = test::policy();
  dear.verifier_fee = std::int64_t{1} << 43;
  CHECK(split(task_of(65'536 * 2, 2, 0, dear), 65'536).error().message ==
        "the sum of all parts exceeds 2^53");
}
