#include <catch2/catch.hpp>

#include "dgx/manifest/fields.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/verify.h"
#include "game.h"

using namespace dgx;
using namespace dgx::protocol;
using namespace dgx::manifest;
using test::TinyExecutor;

namespace {

/// The run's proof changed to end at `step`, with that many states.
Proof ending_at(const test::TinyRun& run, std::int64_t step, std::int64_t states) {
  Proof out = run.proof.body;
  out.diverged = true;
  out.steps = step;
  out.states.count = states;
  return out;
}

}  // namespace

TEST_CASE("the segments of a run that diverged cover its steps and the diverging one") {
  for (std::int64_t steps = 0; steps < 40; ++steps) {
    for (std::int64_t every = 2; every < 45; ++every) {
      const auto segments = *Segments::of_diverged(steps, every);
      std::int64_t next = 0;
      std::int64_t longest = 0;
      for (std::int64_t i = 0; i < segments.between(); ++i) {
        REQUIRE(segments[i].first == next);
        REQUIRE(segments[i].first == i * every);
        REQUIRE_FALSE(segments.diverges(i));
        REQUIRE(segments.state_at(next) == i);
        next = segments[i].end;
        longest = std::max(longest, segments[i].length());
      }
      REQUIRE(next == steps);
      REQUIRE(segments.longest() == longest);
      REQUIRE(segments.states() == segments.between() + 1);
      REQUIRE(segments.state_at(steps) == segments.between());
      REQUIRE(segments.count() == segments.between() + 1);
      REQUIRE(segments.diverges(segments.between()));
      REQUIRE(segments[segments.between()] == Segment{segments.between(), steps, steps + 1});
    }
  }
  CHECK_FALSE(Segments::of_diverged(-1, 10).ok());
  CHECK_FALSE(Segments::of_diverged(10, 1).ok());
}

TEST_CASE("a proof that diverged ends before the task does, with the states of its steps") {
  const auto run = test::tiny_run();
  for (const auto& [steps, states] :
       {std::pair(0, 1), {1, 2}, {9, 2}, {10, 2}, {11, 3}, {91, 11}, {99, 11}}) {
    CAPTURE(steps);
    const auto segments = segments_of(run.task.body, ending_at(run, steps, states));
    REQUIRE(segments.ok());
    CHECK(segments->diverged());
    CHECK_FALSE(segments_of(run.task.body, ending_at(run, steps, states + 1)).ok());
    CHECK_FALSE(segments_of(run.task.body, ending_at(run, steps, states - 1)).ok());
  }
  CHECK(segments_of(run.task.body, ending_at(run, 100, 11)).error().message ==
        "proof: steps: is 100, but a run of 100 steps diverges earlier");
}

TEST_CASE("a proof of one state has it first and last") {
  const auto run = test::tiny_run();
  const auto read = [&](auto change) {
    Proof body = run.proof.body;
    body.diverged = true;
    body.steps = 0;
    body.states = states_root({run.digests.data(), 1});
    body.final_state = body.initial;
    body.loss = test::loss_in(run.states.front());
    change(body);
    const auto sealed = seal(body, test::key(test::kSolver));
    return sealed.ok() ? std::string() : sealed.error().message;
  };
  CHECK(read([](Proof&) {}).empty());
  CHECK(read([](Proof& p) { p.diverged = false; }) == "predicate: steps: is 0, must be at least 2");
  CHECK(read([](Proof& p) { p.steps = 1; }) ==
        "predicate: states: count: must be 1 if and only if no step is committed");
  CHECK(read([](Proof& p) { p.states.count = 2; }) ==
        "predicate: states: count: must be 1 if and only if no step is committed");
  CHECK(read([](Proof& p) { p.states.root = test::digest("x"); }) ==
        "predicate: states: root: does not follow from the only state");
  CHECK(read([](Proof& p) { p.initial = test::digest("x"); }) ==
        "predicate: final: is not `initial`, the only state");
}

TEST_CASE("the policy always draws the diverging step") {
  const auto draw = [](std::int64_t steps, std::int64_t ppm) {
    const auto segments = *Segments::of_diverged(steps, 10);
    Task task = test::task();
    task.steps = 100;
    task.checkpoint_every = 10;
    task.policy.sample_ppm = ppm;
    const auto out =
        *policy_draw(task, segments, test::digest("beacon"), test::digest("proof"), test::digest("key"));
    CHECK(std::ssize(out) == drawn_count(task, segments));
    CHECK(out.back() == segments.between());
    return std::ssize(out);
  };
  CHECK(draw(0, 1'000'000) == 1);
  CHECK(draw(1, 1) == 2);
  CHECK(draw(95, 300'000) == 4);
  CHECK(draw(95, 1'000'000) == 11);
}

TEST_CASE("a diverging step agrees exactly if the state after it is not finite") {
  const auto run = test::tiny_run();
  const auto who = *assign(run.task, run.proof, std::nullopt, test::key_id(test::kVerifier));
  const Segment step{3, 30, 31};
  TinyExecutor diverging(TinyExecutor::Lie::kNonFinite, 30);
  const auto agrees = replay_segment(diverging, run.states[3], step, run.digests[3], std::nullopt, who);
  CHECK(agrees->agrees);
  CHECK(agrees->expected == diverged_end());
  CHECK(agrees->recomputed == diverged_end());
  CHECK(agrees->witness == Digest{});
  TinyExecutor finite;
  const auto refutes = replay_segment(finite, run.states[3], step, run.digests[3], std::nullopt, who);
  CHECK_FALSE(refutes->agrees);
  CHECK(refutes->reason == RowReason::kDigest);
  CHECK(refutes->expected == diverged_end());
  CHECK(refutes->recomputed == test::state_digest(finite.state().value()));
  // If a proof commits to the diverged end as if it were a state, no segment leads there.
  TinyExecutor again(TinyExecutor::Lie::kNonFinite, 34);
  const auto committed =
      replay_segment(again, run.states[3], {3, 30, 40}, run.digests[3], diverged_end(), who);
  CHECK_FALSE(committed->agrees);
  CHECK(committed->reason == RowReason::kNonFinite);
}

TEST_CASE("what a diverged proof is worth grows with its steps, up to the task's estimate") {
  for (const std::int64_t every : {2, 3, 7, 10, 33, 100}) {
    for (const std::int64_t ppm : {1, 50'000, 300'000, 1'000'000}) {
      for (const std::int64_t steps : {2, 3, 10, 31, 60, 100}) {
        CAPTURE(every, ppm, steps);
        Task task = test::task();
        task.steps = steps;
        task.checkpoint_every = every;
        task.price = 1'000'000'000;
        task.policy.sample_ppm = ppm;
        task.policy.miss_ppm = ppm / 6;
        task.estimate = *estimate({1000, 400, steps, every, task.price}, task.policy);
        task.caps.bytes = 400;
        Proof proof;
        proof.steps = steps;
        CHECK(earned(task, proof) == task.estimate);
        proof.diverged = true;
        std::int64_t before = 0;
        for (proof.steps = 0; proof.steps < steps; ++proof.steps) {
          const Estimate worth = earned(task, proof);
          REQUIRE(worth.reward > before);
          REQUIRE(worth.reward <= task.estimate.reward);
          REQUIRE(worth.fee <= task.estimate.fee);
          REQUIRE(worth.tax <= task.estimate.tax);
          REQUIRE(worth.treasury <= task.estimate.treasury);
          REQUIRE(worth.train == (proof.steps + 1) * 1000);
          before = worth.reward;
        }
      }
    }
  }
}

TEST_CASE("a diverged proof is worth what was done even if its verification alone exceeds 2^53") {
  Task task = test::task();
  task.steps = 8;
  task.checkpoint_every = 4;
  task.price = 1;
  task.policy.sample_ppm = 1'000'000;
  task.caps.bytes = 400;
  task.estimate = *estimate({std::int64_t{1} << 50, 400, 8, 4, task.price}, task.policy);
  Proof proof;
  proof.diverged = true;
  proof.steps = 6;  // 2 segments of at most 4 steps and the diverging step are replayed: 9 steps of 2^50
  const Estimate worth = earned(task, proof);
  CHECK(worth.train == 7 * task.estimate.step_operations);
  CHECK(worth.reward < task.estimate.reward);
  CHECK(worth.fee == task.estimate.fee);
}

TEST_CASE("chances are those of the segments between states") {
  const auto segments = *Segments::of_diverged(95, 10);
  const std::vector<std::int64_t> replayed{0, 4, 7, 10};
  CHECK(miss_probabilities(segments, replayed).one_segment == "0.7");
  const std::vector<std::int64_t> nothing{0};
  CHECK(miss_probabilities(*Segments::of_diverged(0, 10), nothing).one_segment == "0");
}
