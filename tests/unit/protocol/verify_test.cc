#include "dgx/protocol/verify.h"

#include <catch2/catch.hpp>

#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/shards.h"
#include "game.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::TinyExecutor;

namespace {

Result<VerdictRow> replay(const test::TinyRun& run, std::int64_t index, TinyExecutor& executor,
                          const State& start) {
  const auto who = assign(run.task, run.proof, std::nullopt, test::key_id(test::kVerifier));
  const auto i = static_cast<std::size_t>(index);
  return replay_segment(executor, start, (*Segments::of(100, 10))[index], run.digests[i], run.digests[i + 1],
                        *who);
}

}  // namespace

TEST_CASE("an honest run is accepted with the policy's draw") {
  const auto run = test::tiny_run();
  const auto verdict = test::verdict(run);
  CHECK(verdict.body.outcome == Outcome::kAccepted);
  CHECK(verdict.body.draw == Draw::kPolicy);
  CHECK(verdict.body.replayed == 3);
  CHECK(verdict.body.work == 30'000);
  CHECK(verdict.body.miss_probability.one_segment == "0.7");
}

TEST_CASE("a prover whose executor lies in one step is refuted in that segment") {
  const auto run = test::tiny_run("tiny", TinyExecutor(TinyExecutor::Lie::kWrongStep, 57));
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto verdict = test::verdict(run, all);
  REQUIRE(verdict.body.outcome == Outcome::kRefuted);
  CHECK(verdict.body.draw == Draw::kChosen);
  CHECK(verdict.body.first_disagreement->index == 5);
  CHECK(verdict.body.first_disagreement->reason == RowReason::kDigest);
}

TEST_CASE("only a replay gives the witness, and each key has its own") {
  const auto run = test::tiny_run();
  TinyExecutor executor;
  const auto row = replay(run, 3, executor, run.states[3]);
  REQUIRE(row.ok());
  CHECK(row->agrees);
  TinyExecutor again;
  REQUIRE(again.load(run.states[3]).ok());
  for (std::int64_t s = 30; s < witness_step({3, 30, 40}); ++s) REQUIRE(again.step().ok());
  CHECK(row->witness == witness_of(test::key_id(test::kVerifier), test::state_digest(again.state().value())));
  CHECK(row->witness != witness_of(test::key_id(9), test::state_digest(again.state().value())));
}

TEST_CASE("a start state that is not the committed one is an error, not a verdict") {
  const auto run = test::tiny_run();
  TinyExecutor executor;
  const auto row = replay(run, 3, executor, run.states[4]);
  REQUIRE_FALSE(row.ok());
  CHECK(row.error().message == "segment 3: the given start state is not the committed one");
}

TEST_CASE("faults of a committed state are rows that disagree") {
  auto run = test::tiny_run();
  TinyExecutor executor;
  SECTION("step counter") {
    run.states[3] = test::tiny_state(31, 5);
    run.digests[3] = test::state_digest(run.states[3]);
    CHECK(replay(run, 3, executor, run.states[3])->reason == RowReason::kStep);
  }
  SECTION("other entries") {
    run.states[3].erase(run.states[3].begin() + 1);
    run.digests[3] = test::state_digest(run.states[3]);
    CHECK(replay(run, 3, executor, run.states[3])->reason == RowReason::kState);
  }
  SECTION("entries the program does not have") {
    TinyExecutor strict(TinyExecutor::Lie::kRefuseLoad);
    CHECK(replay(run, 3, strict, run.states[3])->reason == RowReason::kState);
  }
  SECTION("non-finite step") {
    TinyExecutor strict(TinyExecutor::Lie::kNonFinite, 34);
    const auto row = replay(run, 3, strict, run.states[3]);
    CHECK(row->reason == RowReason::kNonFinite);
    CHECK(row->recomputed == Digest{});
    CHECK_FALSE(row->agrees);
  }
}

TEST_CASE("proofs of another task, start or length are refused") {
  const auto run = test::tiny_run();
  const auto other = test::tiny_run("other");
  CHECK(check_proof(run.task, run.proof).ok());
  CHECK_FALSE(check_proof(run.task, other.proof).ok());
  const auto changed = [&](auto change) {
    Proof body = run.proof.body;
    change(body);
    return check_proof(run.task, *seal(body, test::key(test::kSolver))).error().message;
  };
  CHECK(changed([](Proof& p) { p.initial = test::digest("x"); }) ==
        "proof: initial: is not the task's initial state");
  CHECK(changed([](Proof& p) { p.steps = 99; }) == "proof: steps: is 99, the task has 100");
  CHECK(changed([](Proof& p) { p.states.count = 10; }) == "proof: states: count: is 10, its steps give 11");
  CHECK_FALSE(assign(run.task, run.proof, other.beacon, test::key_id(test::kVerifier)).ok());
  CHECK(assign(run.task, run.proof, run.beacon, test::key_id(9)).error().code == ErrorCode::kUnauthorised);
}

TEST_CASE("a verdict has exactly the rows of its draw") {
  const auto run = test::tiny_run();
  const auto who = *assign(run.task, run.proof, run.beacon, test::key_id(test::kVerifier));
  const auto row = [&](std::int64_t i) {
    const Digest end = run.digests[static_cast<std::size_t>(i) + 1];
    return VerdictRow{i, end, end, true, RowReason::kEqual, Digest{}};
  };
  std::vector<VerdictRow> rows{row(0)};
  CHECK_FALSE(assemble_verdict(run.task.body, run.segments(), who, run.digests, rows, Digest{}).ok());
  Assignment chosen = who;
  chosen.draw = Draw::kChosen;
  CHECK(assemble_verdict(run.task.body, run.segments(), chosen, run.digests, rows, Digest{}).ok());
  rows = {row(2), row(2)};
  CHECK(
      assemble_verdict(run.task.body, run.segments(), chosen, run.digests, rows, Digest{}).error().message ==
      "segment 2: replayed twice");
  rows = {row(2)};
  rows[0].expected = test::digest("x");
  CHECK_FALSE(assemble_verdict(run.task.body, run.segments(), chosen, run.digests, rows, Digest{}).ok());
  rows.clear();
  CHECK_FALSE(assemble_verdict(run.task.body, run.segments(), chosen, run.digests, rows, Digest{}).ok());
}

TEST_CASE("shards partition the draw and merge only when each is there once") {
  const auto run = test::tiny_run();
  const auto who = *assign(run.task, run.proof, std::nullopt, test::key_id(test::kVerifier));
  const std::vector<std::int64_t> drawn{0, 2, 3, 5, 8};
  std::vector<Shard> shards;
  for (std::int64_t i = 0; i < 3; ++i) {
    Shard shard{ShardRole::kShard, "1.2.3", who, test::digest("dataset"), i, 3, drawn, {}};
    const auto segments = *shard_segments(drawn, i, 3);
    for (const std::int64_t index : segments) {
      TinyExecutor executor;
      shard.rows.push_back(*replay(run, index, executor, run.states[static_cast<std::size_t>(index)]));
    }
    const auto decoded = decode_shard(encode_shard(shard));
    REQUIRE(decoded.ok());
    CHECK(of_one_verification(*decoded, shard));
    CHECK(decoded->role == shard.role);
    CHECK(decoded->rows == shard.rows);
    shards.push_back(*decoded);
  }
  const auto merged = merge_shards(shards);
  REQUIRE(merged.ok());
  for (std::size_t i = 0; i < drawn.size(); ++i) CHECK(merged->rows[i].index == drawn[i]);
  CHECK(merged->denied.empty());
  const auto code = [](const std::vector<Shard>& list) { return merge_shards(list).error(); };
  CHECK(code({shards[0], shards[2]}).message == "of 3 shards, missing: 1");
  CHECK(code({shards[0], shards[2]}).code == ErrorCode::kInconclusive);
  CHECK(code({shards[0], shards[1], shards[1], shards[2]}).message == "of 3 shards, given more than once: 1");
  const auto other = [&](const auto& change) {
    auto list = shards;
    change(list[1]);
    return code(list).message;
  };
  const std::string foreign = "shard 1/3: belongs to another verification";
  CHECK(other([](Shard& shard) { shard.version = "1.2.4"; }) == foreign);
  CHECK(other([](Shard& shard) { shard.dataset = Digest{}; }) == foreign);
  CHECK(other([](Shard& shard) { shard.assignment.verifier = Digest{}; }) == foreign);
  CHECK(other([](Shard& shard) { shard.drawn.pop_back(); }) == foreign);
  shards[1].rows.pop_back();
  CHECK(code(shards).code == ErrorCode::kInconclusive);
  CHECK_FALSE(shard_segments(drawn, 3, 3).ok());
  CHECK_FALSE(decode_shard("{}").ok());
}

TEST_CASE("the shards of an audit deny together what each denies of its rows") {
  const auto run = test::tiny_run();
  const std::vector<std::int64_t> drawn{0, 1, 2};
  Assignment who = *assign(run.task, run.proof, std::nullopt, test::key_id(test::kVerifier));
  who.draw = Draw::kAudit;
  who.audited = Audited{test::digest("verdict"), test::digest("verifier")};
  std::vector<Shard> shards;
  for (std::int64_t i = 0; i < 3; ++i) {
    TinyExecutor executor;
    Shard shard{ShardRole::kShard, "1.2.3", who, test::digest("dataset"), i, 3, drawn, {}, {}};
    shard.rows.push_back(*replay(run, i, executor, run.states[static_cast<std::size_t>(i)]));
    if (i != 1) shard.denied = {i};
    const auto decoded = decode_shard(encode_shard(shard));
    REQUIRE(decoded.ok());
    shards.push_back(*decoded);
  }
  std::swap(shards[0], shards[2]);
  const auto merged = merge_shards(shards);
  REQUIRE(merged.ok());
  CHECK(merged->denied == std::vector<std::int64_t>{0, 2});
  auto foreign = shards;
  foreign[1].denied = {0};
  CHECK(merge_shards(foreign).error().message ==
        "shard 1/3: denies segment 0, of which it has no row that agrees");
  auto other = shards;
  other[1].assignment.audited->verdict = test::digest("another verdict");
  CHECK(merge_shards(other).error().code == ErrorCode::kMalformed);
}

TEST_CASE("an estimate is what the formula gives, and too much is refused") {
  const auto estimate = protocol::estimate({1'000, 4'096, 100, 10, 1'000'000}, test::policy());
  REQUIRE(estimate.ok());
  CHECK(*estimate == test::task().estimate);
  CHECK(check_estimate(test::task()).ok());
  Task wrong = test::task();
  wrong.estimate.step_operations = 999;
  CHECK_FALSE(check_estimate(wrong).ok());
  CHECK(protocol::estimate({std::int64_t{1} << 50, 1, 100, 10, 1}, test::policy()).error().message ==
        "estimate: training exceeds 2^53");
}

TEST_CASE("entries that no step changes are hashed once, the others in each of the states") {
  const auto estimate = protocol::estimate({1'000, 4'096, 100, 10, 1'000'000, 4'000}, test::policy());
  REQUIRE(estimate.ok());
  CHECK(estimate->prove == 8 * (4'000 + 96 * 11));
  CHECK(estimate->reward == (estimate->train + estimate->prove) / 1'000);
}

TEST_CASE(
    "the work that a verdict states is that of its segments, with the shorter or longer last one or without "
    "it") {
  Task task = test::task();
  task.steps = 95;
  const auto segments = *Segments::of(95, 10);  // nine of 10 steps, one of 5
  Verdict verdict = test::verdict(test::tiny_run()).body;
  const auto takes = [&](std::int64_t replayed, std::int64_t steps) {
    verdict.replayed = replayed;
    verdict.outcome = Outcome::kRefuted;
    verdict.work = steps * task.estimate.step_operations;
    return check_stated_work(task, segments, verdict).ok();
  };
  CHECK(takes(3, 30));
  CHECK(takes(3, 25));
  CHECK_FALSE(takes(3, 35));
  CHECK_FALSE(takes(3, 20));
  CHECK(takes(10, 95));
  CHECK_FALSE(takes(10, 100));
  CHECK_FALSE(takes(10, 90));
  CHECK(takes(1, 5));
  CHECK(takes(1, 10));
}

TEST_CASE("the work on a proof that diverged has its diverging step") {
  const Task task = test::task();
  const auto segments = *Segments::of_diverged(30, 10);
  Verdict verdict;
  verdict.outcome = Outcome::kAccepted;
  verdict.draw = Draw::kPolicy;
  verdict.segments = 4;
  const auto takes = [&](std::int64_t replayed, std::int64_t steps, const MissProbability& chances) {
    verdict.replayed = replayed;
    verdict.work = steps * task.estimate.step_operations;
    verdict.miss_probability = chances;
    return check_stated_work(task, segments, verdict).ok();
  };
  CHECK(takes(2, 11, miss_probabilities(3, 1)));
  CHECK_FALSE(takes(2, 20, miss_probabilities(3, 1)));
  CHECK_FALSE(takes(2, 11, miss_probabilities(4, 2)));
  verdict.outcome = Outcome::kRefuted;
  verdict.draw = Draw::kChosen;
  CHECK(takes(2, 20, {"1", "1", "1"}));
  CHECK(takes(2, 11, {"1", "1", "1"}));
  CHECK_FALSE(takes(2, 21, {"1", "1", "1"}));
}
