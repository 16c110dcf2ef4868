#include "dgx/jobs/verify_batch.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "dgx/jobs/prove.h"
#include "dgx/jobs/train.h"
#include "small_task.h"
#include "verify/batch_list.h"

namespace {

using namespace dgx;
using jobs::BatchItem;
using jobs::BatchOutcome;
using test::must;
using test::run_job;
using test::SmallTask;

/// Trains and proves NAME, with a fault if `drill` is not null.
void make_proof(const SmallTask& task, const std::string& name, const char* drill) {
  jobs::TrainOptions training;
  training.task = task.at("task.json");
  training.data = task.at("data.h5");
  training.run = task.at(name);
  if (drill != nullptr) training.drill = drill;
  must(run_job([&](const JobContext& context) { return jobs::train(training, context); }));
  must(run_job([&](const JobContext& context) {
    return jobs::prove({task.at("task.json"), task.at(name), task.key("solver"), task.at(name + ".json")},
                       context);
  }));
}

struct Ended {
  Result<jobs::BatchSummary> summary;
  std::vector<BatchItem> items;
};

Ended run_batch(const SmallTask& task, const std::string& list, const std::string& folder,
                std::optional<std::string> shard = {}, Clobber clobber = Clobber::kRefuse) {
  must(write_file(task.at("list"), list, Clobber::kReplace));
  jobs::BatchOptions options;
  options.list = task.at("list");
  options.each.data = task.at("data.h5");
  options.each.key = task.key("verifier");
  options.each.choice.all = true;
  options.each.shard = std::move(shard);
  options.output = task.at(folder);
  std::vector<BatchItem> items;
  auto summary = run_job([&](const JobContext& context) {
    JobContext own = context;
    own.clobber = clobber;
    return jobs::verify_batch(options, own, [&](const BatchItem& item) -> Status {
      items.push_back(item);
      return {};
    });
  });
  return {std::move(summary), std::move(items)};
}

std::string line(const SmallTask& task, const std::string& name) {
  return task.at("task.json") + "\t" + task.at(name + ".json") + "\t" + task.at(name) + "\n";
}

TEST_CASE("every proof of a list gets its verdict, and bad lines are told while the others go on") {
  const SmallTask task;
  make_proof(task, "honest", nullptr);
  make_proof(task, "lazy", "segment=5,lazy");
  make_proof(task, "other", "segment=2,lazy");
  must(write_file(task.at("torn.json"), "{", Clobber::kRefuse));
  const std::string list = "# task, proof, start states\n" + line(task, "honest") + "\n" +
                           line(task, "torn") + line(task, "lazy") + line(task, "honest") + "{\"task\":\"" +
                           task.at("task.json") + "\",\"proof\":\"" + task.at("other.json") +
                           "\",\"from\":\"" + task.at("other") + "\"}\n{\"tusk\":1}\n" +
                           task.at("none.json") + "\t\t\n" + "a\tb\tc\td\te\tf\n";
  const Ended first = run_batch(task, list, "verdicts");
  const jobs::BatchSummary sum = must(first.summary);
  CHECK(sum.proofs == 8);
  CHECK(sum.accepted + sum.refuted == 3);
  CHECK(sum.refuted >= 1);
  CHECK(sum.failed == 5);
  CHECK(sum.first_failure == ErrorCode::kMalformed);
  std::map<std::int64_t, BatchItem> by_line;
  for (const BatchItem& item : first.items) by_line.emplace(item.line, item);
  CHECK(by_line.at(2).outcome == BatchOutcome::kAccepted);
  CHECK(by_line.at(5).outcome == BatchOutcome::kRefuted);
  CHECK(exists(by_line.at(2).verdict));
  CHECK_THAT(by_line.at(4).error->message, Catch::Contains("torn.json"));
  CHECK_THAT(by_line.at(6).error->message, Catch::Contains("is the proof of line 2 again"));
  CHECK_THAT(by_line.at(8).error->message, Catch::Contains("unknown key \"tusk\""));
  CHECK_THAT(by_line.at(10).error->message, Catch::Contains("more than 5 fields"));

  // Done again, nothing is replayed; with --force everything is.
  const Ended again = run_batch(task, list, "verdicts");
  CHECK(again.summary->existed == 3);
  CHECK(again.summary->work == 0);
  CHECK(again.summary->refuted == sum.refuted);
  const Ended forced = run_batch(task, list, "verdicts", {}, Clobber::kForce);
  CHECK(forced.summary->existed == 0);
  CHECK(forced.summary->work == sum.work);

  // The parts are disjoint and together the list.
  std::multiset<std::int64_t> lines;
  for (const char* shard : {"0/2", "1/2"}) {
    const Ended part = run_batch(task, list, std::string("part-") + shard[0], shard);
    CHECK(part.summary->accepted + part.summary->refuted >= 1);
    for (const BatchItem& item : part.items) lines.insert(item.line);
  }
  CHECK(lines == std::multiset<std::int64_t>{2, 4, 5, 6, 7, 8, 9, 10});

  // A verdict of that name that is another's.
  must(write_file(by_line.at(2).verdict, must(read_file(by_line.at(5).verdict, 1 << 20)), Clobber::kReplace));
  const Ended other = run_batch(task, line(task, "honest"), "verdicts");
  CHECK(other.items[0].error->code == ErrorCode::kCannotCreate);
}

TEST_CASE("a batch that is stopped goes on where it was") {
  const SmallTask task;
  make_proof(task, "a", nullptr);
  make_proof(task, "b", "segment=1,lazy");
  must(write_file(task.at("list"), line(task, "a") + line(task, "b"), Clobber::kReplace));
  jobs::BatchOptions options;
  options.list = task.at("list");
  options.each.data = task.at("data.h5");
  options.each.key = task.key("verifier");
  options.each.choice.all = true;
  options.output = task.at("verdicts");
  const auto batch = [&](const JobContext& context) {
    return jobs::verify_batch(options, context, [](const BatchItem&) { return Status(); });
  };
  const auto stopped = test::stopped_at(16, batch);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::kInterrupted);
  const auto done = must(run_job(batch));
  CHECK(done.accepted == 1);
  CHECK(done.refuted == 1);
}

TEST_CASE("a star stands for the same text in all fields of a line") {
  const SmallTask task;
  for (const char* name : {"n1", "n2", ".hidden", "m1"}) {
    must(make_folder(task.at(name)));
    must(write_file(task.at(name) + std::string("/t.json"), "", Clobber::kRefuse));
  }
  must(make_folder(task.at("n3")));
  const std::string text = task.at("n*/t.json") + "\t" + task.at("n*/p.json") + "\t\t\t" +
                           task.at("n*/b.json") + "\r\n" + task.at("x*/t.json") + "\n";
  const auto listed = jobs::parse_list(text, {});
  REQUIRE(listed.size() == 3);
  CHECK(listed[0].task == task.at("n1/t.json"));
  CHECK(listed[1].options->proof == task.at("n2/p.json"));
  CHECK(listed[1].options->beacon == task.at("n2/b.json"));
  CHECK(listed[2].options.error().code == ErrorCode::kMissing);
  const auto all = jobs::parse_list(task.at("*") + "\n", {});
  for (const auto& each : all) CHECK(each.task.find(".hidden") == std::string::npos);
}

}  // namespace
