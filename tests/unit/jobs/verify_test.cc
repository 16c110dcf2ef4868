#include "dgx/jobs/verify.h"

#include <catch2/catch.hpp>

#include <cmath>

#include "dgx/bundle/run.h"
#include "dgx/jobs/beacon.h"
#include "dgx/jobs/profile.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/prove.h"
#include "dgx/jobs/train.h"
#include "small_task.h"

namespace {

using namespace dgx;
using test::must;
using test::run_job;
using test::SmallTask;
using test::stopped_at;

jobs::TrainOptions training(const SmallTask& task, const std::string& run) {
  jobs::TrainOptions out;
  out.task = task.at("task.json");
  out.data = task.at("data.h5");
  out.run = task.at(run);
  return out;
}

void train_and_prove(const SmallTask& task, const jobs::TrainOptions& options, const std::string& proof) {
  must(run_job([&](const JobContext& context) { return jobs::train(options, context); }));
  must(run_job([&](const JobContext& context) {
    return jobs::prove({task.at("task.json"), options.run, task.key("solver"), task.at(proof)}, context);
  }));
}

void commit(const SmallTask& task) {
  must(run_job([&](const JobContext& context) {
    return jobs::commit_beacon(
        {task.at("task.json"), std::nullopt, {}, {}, {}, task.key("verifier"), task.at("commit.json")},
        context);
  }));
}

void reveal(const SmallTask& task, const std::string& proof) {
  must(run_job([&](const JobContext& context) {
    jobs::LogEvidence nowhere;
    nowhere.unlogged = true;
    return jobs::reveal_beacon({task.at("commit.json"), task.at(proof), task.at("task.json"), nowhere,
                                task.key("verifier"), task.at("beacon.json")},
                               context);
  }));
}

jobs::VerifyOptions verification(const SmallTask& task, const std::string& proof, const std::string& from) {
  jobs::VerifyOptions out;
  out.task = task.at("task.json");
  out.proof = task.at(proof);
  out.from = task.at(from);
  out.data = task.at("data.h5");
  out.beacon = task.at("beacon.json");
  out.key = task.key("verifier");
  out.output = task.at("verdict.json");
  return out;
}

TEST_CASE("a shard that is stopped continues, and one that never finishes a segment is refused") {
  const SmallTask task;
  commit(task);
  train_and_prove(task, training(task, "run"), "proof.json");
  reveal(task, "proof.json");
  jobs::VerifyOptions options = verification(task, "proof.json", "run");
  options.shard = "0/1";
  options.output = task.at("shard.json");
  const auto shard = [&](const JobContext& context) { return jobs::verify_shard(options, context); };

  const auto first = stopped_at(16, shard);
  REQUIRE_FALSE(first.ok());
  CHECK(first.error().code == ErrorCode::kInterrupted);
  CHECK(exists(options.output + ".part"));
  const auto second = stopped_at(0, shard);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().code == ErrorCode::kInternal);
  const auto third = must(run_job(shard));
  CHECK(third.resumed == 3);
  CHECK(third.rows.size() == 10);
  CHECK_FALSE(exists(options.output + ".part"));
  // With one byte changed it is refused.
  const std::string text = must(read_file(options.output, 1 << 20));
  for (const std::size_t at : {std::size_t{20}, text.size() / 2, text.size() - 2}) {
    std::string changed = text;
    changed[at] = changed[at] == '1' ? '2' : '1';
    must(write_file(options.output + "x", changed, Clobber::kReplace));
    CHECK_FALSE(run_job([&](const JobContext& context) {
                  return jobs::merge_verdict({options.task,
                                              options.proof,
                                              {options.output + "x"},
                                              options.beacon,
                                              options.key,
                                              task.at("merged.json")},
                                             context);
                }).ok());
  }

  const auto merged = must(run_job([&](const JobContext& context) {
    return jobs::merge_verdict(
        {options.task, options.proof, {options.output}, options.beacon, options.key, task.at("merged.json")},
        context);
  }));
  options.shard.reset();
  options.output = task.at("whole.json");
  const auto whole = must(run_job([&](const JobContext& context) { return jobs::verify(options, context); }));
  CHECK(merged.rows == whole.rows);
  CHECK(whole.verdict.outcome == manifest::Outcome::kAccepted);
  CHECK(whole.verdict.draw == manifest::Draw::kPolicy);
}

TEST_CASE("a stopped verification leaves no verdict behind, and continues") {
  const SmallTask task;
  commit(task);
  train_and_prove(task, training(task, "run"), "proof.json");
  reveal(task, "proof.json");
  const jobs::VerifyOptions options = verification(task, "proof.json", "run");
  const auto stopped =
      stopped_at(16, [&](const JobContext& context) { return jobs::verify(options, context); });
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::kInterrupted);
  CHECK_FALSE(exists(options.output));
  CHECK_FALSE(exists(task.at("verdict.rows.jsonl")));
  CHECK(exists(options.output + ".part"));

  // Not by another verifier, nor for other segments.
  auto other = options;
  other.beacon.reset();
  other.choice.all = true;
  const auto verify = [](const jobs::VerifyOptions& which) {
    return run_job([&](const JobContext& context) { return jobs::verify(which, context); });
  };
  CHECK(verify(other).error().code == ErrorCode::kMalformed);
  other.key = task.key("solver");
  CHECK(verify(other).error().code == ErrorCode::kUnauthorised);

  const auto continued = must(verify(options));
  CHECK(continued.resumed == 3);
  CHECK_FALSE(exists(options.output + ".part"));
  auto again = options;
  again.output = task.at("again.json");
  CHECK(must(verify(again)).rows == continued.rows);
}

TEST_CASE("segments drawn at random are drawn anew: nothing of a stopped verification is kept") {
  const SmallTask task;
  train_and_prove(task, training(task, "run"), "proof.json");
  auto options = verification(task, "proof.json", "run");
  options.beacon.reset();
  options.choice.fraction = 1;
  const auto stopped =
      stopped_at(16, [&](const JobContext& context) { return jobs::verify(options, context); });
  CHECK(stopped.error().code == ErrorCode::kInterrupted);
  CHECK_FALSE(exists(options.output + ".part"));
}

TEST_CASE("checkpoints that somebody has removed are recomputed, as if they had not been kept") {
  const SmallTask task;
  commit(task);
  train_and_prove(task, training(task, "run"), "proof.json");
  reveal(task, "proof.json");
  const auto run = must(bundle::RunReader::open(task.at("run")));
  for (std::size_t i = 1; i < 10; ++i)
    must(remove_file(bundle::checkpoint_path(task.at("run"), run.index().checkpoints[i])));
  CHECK(run.has(0));
  CHECK(!run.has(1));
  CHECK(run.nearest_kept(9) == 0);
  CHECK(run.state(4).error().code == ErrorCode::kMissing);
  CHECK(run.state(4).error().hint == "recompute it from checkpoint 0");

  const auto options = verification(task, "proof.json", "run");
  const auto found = must(run_job([&](const JobContext& context) { return jobs::verify(options, context); }));
  CHECK(found.verdict.outcome == manifest::Outcome::kAccepted);
  CHECK(found.rows.size() == 10);
}

TEST_CASE("a lazy segment is refuted, from the cheat's files and from an honest run") {
  const SmallTask task;
  commit(task);
  jobs::TrainOptions lazy = training(task, "lazy");
  lazy.drill = "segment=3,lazy";
  train_and_prove(task, lazy, "proof.json");
  reveal(task, "proof.json");
  must(run_job([&](const JobContext& context) { return jobs::train(training(task, "honest"), context); }));

  const auto options = verification(task, "proof.json", "lazy");
  const auto found = must(run_job([&](const JobContext& context) { return jobs::verify(options, context); }));
  CHECK(found.verdict.outcome == manifest::Outcome::kRefuted);
  CHECK(found.verdict.draw == manifest::Draw::kPolicy);
  REQUIRE(found.verdict.first_disagreement);
  CHECK(found.verdict.first_disagreement->index == 3);

  auto own = verification(task, "proof.json", "honest");
  own.output = task.at("own.json");
  const auto mine = must(run_job([&](const JobContext& context) { return jobs::verify(own, context); }));
  CHECK(mine.verdict.outcome == manifest::Outcome::kRefuted);
  CHECK(mine.verdict.draw == manifest::Draw::kChosen);
  CHECK(mine.missing == std::vector<std::int64_t>{4, 5, 6, 7, 8, 9});
}

TEST_CASE("a sample of a run that kept its ends alone holds the same start states") {
  const SmallTask task;
  commit(task);
  jobs::TrainOptions ends = training(task, "ends");
  ends.keep = "last";
  train_and_prove(task, ends, "proof.json");
  reveal(task, "proof.json");
  jobs::OpenSampleOptions options;
  options.task = task.at("task.json");
  options.proof = task.at("proof.json");
  options.beacon = task.at("beacon.json");
  options.run = task.at("ends");
  options.output = task.at("sample.h5");
  const auto open = [&](const JobContext& context) { return jobs::open_sample(options, context); };
  const auto without_data = run_job(open);
  REQUIRE_FALSE(without_data.ok());
  CHECK(without_data.error().code == ErrorCode::kUsage);
  options.data = task.at("data.h5");
  const auto opened = must(run_job(open));
  CHECK(opened.recomputed == 9);
  CHECK(opened.recomputed_steps == 36);
  const auto accepted = must(run_job([&](const JobContext& context) {
    return jobs::verify(verification(task, "proof.json", "sample.h5"), context);
  }));
  CHECK(accepted.verdict.outcome == manifest::Outcome::kAccepted);
}

TEST_CASE("a profile is confirmed by its recheck, and another distance is not") {
  const SmallTask task;
  jobs::ProfileOptions options;
  options.task = task.at("task.json");
  options.data = task.at("data.h5");
  options.steps = 3;
  options.key = task.key("verifier");
  options.output = task.at("profile.json");
  const auto profile = [&](const JobContext& context) { return jobs::profile(options, context); };
  const auto made = must(run_job(profile));
  CHECK(made.profile.other_seed_distance > 0.1);

  options.against = options.output;
  options.output = "-";
  CHECK(must(run_job(profile)).agrees == true);
  manifest::Profile wrong = made.profile;
  wrong.other_seed_distance *= 1.0000001;
  const auto sealed = must(manifest::seal(wrong, must(jobs::read_key(task.key("verifier")))));
  must(write_file(*options.against, sealed.envelope + "\n", Clobber::kReplace));
  CHECK(must(run_job(profile)).agrees == false);
}

TEST_CASE("a quick profile replays in one way, and says how long the longest segment takes") {
  const SmallTask task;
  jobs::ProfileOptions options;
  options.task = task.at("task.json");
  options.data = task.at("data.h5");
  options.quick = true;
  options.key = task.key("verifier");
  options.output = task.at("profile.json");
  const manifest::Profile made =
      must(run_job([&](const JobContext& context) { return jobs::profile(options, context); })).profile;
  REQUIRE(made.replays.size() == 1);
  const double each = static_cast<double>(made.replays[0].nanoseconds_per_step) / 1e6;
  CHECK(static_cast<double>(made.segment_milliseconds) >= std::floor(4 * each));  // segments of four steps
  CHECK(static_cast<double>(made.segment_milliseconds) <= 4 * each + 2);
  const Digest id = must(manifest::read_statement<manifest::Task>(options.task)).id;
  const auto milliseconds = [&](const Digest& of, const std::string& signer) {
    const auto key = must(jobs::read_key(task.key(signer)));
    return jobs::profiled_segment_milliseconds(options.output, of, crypto::key_id(key.public_key()));
  };
  CHECK(must(milliseconds(id, "verifier")) == made.segment_milliseconds);
  CHECK(milliseconds(id, "solver").error().code == ErrorCode::kUnauthorised);
  CHECK(milliseconds(Digest{}, "verifier").error().code == ErrorCode::kMalformed);
}

}  // namespace
