#include "dgx/jobs/train.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "dgx/bundle/constants.h"
#include "dgx/bundle/run.h"
#include "dgx/core/file_system.h"
#include "small_task.h"
#include "train/training_log.h"

namespace dgx::jobs {
namespace {

using test::must;
using test::run_job;
using test::SmallTask;
using test::stopped_at;

TrainOptions validated_training(const SmallTask& task) {
  TrainOptions out;
  out.task = task.at("task.json");
  out.data = task.at("data.h5");
  out.validate = out.data;
  out.run = task.at("run");
  return out;
}

/// The steps in the first column of a table.
std::vector<std::string> steps_in(const std::string& path) {
  const std::string text = must(read_file(path, 1 << 20));
  std::vector<std::string> out;
  for (std::size_t at = text.find('\n') + 1; at < text.size(); at = text.find('\n', at) + 1)
    out.push_back(text.substr(at, text.find(',', at) - at));
  return out;
}

/// Signs the small task again for an evaluation program that reads a state entry which no state has.
void break_evaluation(const SmallTask& files) {
  program::Program program =
      must(program::parse_program(must(read_file(files.at("task.eval.jsonl"), 1 << 20))));
  for (kernels::Primitive& line : program.values) {
    if (line.kind == kernels::Kind::kInput && line.source.kind == kernels::Source::Kind::kState)
      line.source.name += ".absent";
  }
  manifest::Task task = must(manifest::read_statement<manifest::Task>(files.at("task.json"))).body;
  task.evaluation = {program::program_root(program), std::ssize(program.values)};
  const auto sealed = must(manifest::seal(task, must(read_key(files.key("submitter")))));
  must(write_file(files.at("task.eval.jsonl"), program::print_program(program), Clobber::kReplace));
  must(write_file(files.at("task.json"), sealed.envelope + "\n", Clobber::kReplace));
}

TEST_CASE("a stop during the last evaluation is an interruption, and the next call makes it up") {
  const SmallTask files;
  const TrainOptions options = validated_training(files);
  const auto job = [&](const JobContext& context) { return train(options, context); };
  const auto stopped = stopped_at(40, job);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::kInterrupted);
  CHECK(steps_in(options.run + "/log.csv").size() == 40);
  CHECK(steps_in(options.run + "/validation.csv").back() == "36");
  // Stopped again without having measured: a scheduler must not repeat this forever.
  const auto again = stopped_at(0, job);
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().code == ErrorCode::kInternal);
  const TrainResult done = must(run_job(job));
  CHECK(done.steps == 40);
  REQUIRE(done.validated.has_value());
  CHECK(done.validated->step == 40);
  CHECK(steps_in(options.run + "/validation.csv").back() == "40");
}

TEST_CASE("an evaluation that fails is an error of the call, not a divergence of the run") {
  const SmallTask files;
  break_evaluation(files);
  TrainOptions options = validated_training(files);
  options.every = 6;
  const auto job = [&](const JobContext& context) { return train(options, context); };
  const auto failed = run_job(job);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().code == ErrorCode::kMalformed);
  CHECK_FALSE(must(bundle::RunReader::open(options.run)).index().diverged);
  options.validate.reset();
  options.every.reset();
  CHECK(must(run_job(job)).divergence.empty());
}

TEST_CASE("a run that holds an entry as constant which the program changes is not continued") {
  const SmallTask files;
  TrainOptions options = validated_training(files);
  options.validate.reset();
  options.until = 10;
  const auto job = [&](const JobContext& context) { return train(options, context); };
  must(run_job(job));
  const auto honest = must(bundle::RunReader::open(options.run));
  const State start = must(honest.state(0)).state;
  const auto digests = must(bundle::digests_of(start));
  options.run = files.at("forged");
  const auto constants = must(bundle::constants_of(start, digests, {"model/0.weight"}));
  must(bundle::RunWriter::create(options.run, honest.index().header, {}, start, digests, {}, {}, constants));
  const auto refused = run_job(job);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kMalformed);
  CHECK(refused.error().message == bundle::constants_path(options.run, constants.digest) +
                                       ": the task's program changes model/0.weight, which the run holds as "
                                       "a constant entry, or has none");
}

/// Requests that the state be saved when step `at` is done, and listens for the answer.
class Asker final : public Progress {
 public:
  Asker(std::string run, std::int64_t at) : run_(std::move(run)), at_(at) {}
  void update(std::int64_t done, std::string_view /*note*/) override {
    if (done == at_) save.request();
  }
  void note(std::string_view text) override {
    answer = text;
    resume_point = exists(run_ + "/resume.h5");
    checkpoints = must(bundle::RunReader::open(run_)).index().segments();
  }

  RequestFlag save;
  std::string answer;
  bool resume_point = false;     ///< at the time of the answer
  std::int64_t checkpoints = 0;  ///< at the time of the answer

 private:
  std::string run_;
  std::int64_t at_;
};

TEST_CASE("a state is said to be saved when the next call would find it") {
  for (const std::int64_t step : {6, 8}) {
    const SmallTask files;
    TrainOptions options = validated_training(files);
    options.until = 10;
    Asker asker(options.run, step);
    const StopFlag never;
    const TrainResult done =
        must(train(options, {.threads = 1, .progress = asker, .stop = never, .save = &asker.save}));
    CHECK(done.steps == 10);
    CHECK(asker.answer == "saved the state after step " + std::to_string(step));
    CHECK(asker.resume_point == (step == 6));
    CHECK(asker.checkpoints == step / 4);
  }
}

/// A disk that takes its time, and notes how many segments a run has when its resume point is removed.
class SlowDisk final : public FileSystem {
 public:
  explicit SlowDisk(std::string run) : run_(std::move(run)), before_(use_file_system(this)) {}
  ~SlowDisk() override { use_file_system(before_); }
  int fsync(int file) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return FileSystem::fsync(file);
  }
  int unlink(const char* path) override {
    if (path == run_ + "/resume.h5") segments = must(bundle::RunReader::open(run_)).index().segments();
    return FileSystem::unlink(path);
  }

  std::int64_t segments = -1;

 private:
  std::string run_;
  FileSystem* before_;
};

TEST_CASE("a resume point is there until the checkpoint after it is durable") {
  const SmallTask files;
  TrainOptions options = validated_training(files);
  options.validate.reset();
  options.until = 6;
  const auto job = [&](const JobContext& context) { return train(options, context); };
  must(run_job(job));
  REQUIRE(exists(options.run + "/resume.h5"));
  options.until = 10;
  {
    const SlowDisk disk(options.run);
    CHECK(must(run_job(job)).resumed_from == 6);
    CHECK(disk.segments == 2);
  }
}

TEST_CASE("a kill between the two files of a resume point leaves the older one") {
  const SmallTask files;
  TrainOptions options = validated_training(files);
  options.validate.reset();
  const auto job = [&](const JobContext& context) { return train(options, context); };
  const std::string state = options.run + "/resume.h5";
  options.until = 6;
  must(run_job(job));
  const std::string older = must(read_file(state, std::size_t{1} << 20));
  options.until = 7;
  CHECK(must(run_job(job)).resumed_from == 6);
  // Losses are written first: those of step 7 are there, the state after step 7 is not.
  REQUIRE(write_file(state, older, Clobber::kReplace).ok());
  options.until = 10;
  CHECK(must(run_job(job)).resumed_from == 6);
  const auto losses = must(bundle::RunReader::open(options.run)).index().losses;

  options.run += ".whole";
  must(run_job(job));
  CHECK(must(bundle::RunReader::open(options.run)).index().losses == losses);
}

/// Copies a run's folder, the rows of its tables aside, whenever one of its files is about to be replaced:
/// what a kill at that moment would leave.
class KilledRuns final : public FileSystem {
 public:
  KilledRuns(std::string run, std::string to)
      : run_(std::move(run)), to_(std::move(to)), before_(use_file_system(this)) {}
  ~KilledRuns() override { use_file_system(before_); }
  int rename(const char* from, const char* to) override {
    const std::scoped_lock lock(mutex_);
    if (exists(run_ + "/index.h5")) {
      copies.push_back(to_ + std::to_string(copies.size()));
      std::filesystem::copy(run_, copies.back());
    }
    return FileSystem::rename(from, to);
  }

  std::vector<std::string> copies;

 private:
  std::mutex mutex_;
  std::string run_;
  std::string to_;
  FileSystem* before_;
};

TEST_CASE("states saved from time to time change no digest, and a kill at any moment loses no more") {
  const SmallTask files;
  TrainOptions options = validated_training(files);
  options.validate.reset();
  const auto job = [&](const JobContext& context) { return train(options, context); };
  options.run = files.at("whole");
  options.until = 12;
  must(run_job(job));
  const auto wanted = must(bundle::RunReader::open(options.run)).index();
  const auto same = [&] {
    const auto index = must(bundle::RunReader::open(options.run)).index();
    return index.losses == wanted.losses &&
           std::ranges::equal(index.checkpoints, wanted.checkpoints,
                              [](const auto& a, const auto& b) { return a.digest == b.digest; });
  };

  options.run = files.at("saved");
  options.save_every = std::chrono::seconds(0);  // after every step
  std::vector<std::string> copies;
  {
    KilledRuns kills(options.run, files.at("killed"));
    must(run_job(job));
    copies = kills.copies;
  }
  options.save_every.reset();
  CHECK(same());
  CHECK_FALSE(exists(options.run + "/resume.h5"));
  CHECK_FALSE(exists(options.run + "/resume.losses"));
  // Each segment of four steps saves three states, in two files each, and replaces the index.
  CHECK(copies.size() >= 3 * 7);
  for (const std::string& copy : copies) {
    const std::int64_t committed = must(bundle::RunReader::open(copy)).index().checkpoints.back().step;
    const auto saved = bundle::read_state(copy + "/resume.h5");
    const std::int64_t at = saved.ok() ? must(step_of(saved->state)) : 0;
    options.run = copy;
    CHECK(must(run_job(job)).resumed_from == std::max(committed, at));
    CHECK(same());
  }
}

TEST_CASE("no state is saved before it is time to") {
  const SmallTask files;
  TrainOptions options = validated_training(files);
  options.validate.reset();
  options.save_every = std::chrono::hours(1);
  KilledRuns kills(options.run, files.at("killed"));
  must(run_job([&](const JobContext& context) { return train(options, context); }));
  for (const std::string& copy : kills.copies) CHECK_FALSE(exists(copy + "/resume.h5"));
}

/// Notes how many bytes are written at once at most.
class NotedWrites final : public FileSystem {
 public:
  NotedWrites() : before_(use_file_system(this)) {}
  ~NotedWrites() override { use_file_system(before_); }
  ssize_t write(int file, const void* bytes, std::size_t size) override {
    most = std::max(most, size);
    return FileSystem::write(file, bytes, size);
  }

  std::size_t most = 0;

 private:
  FileSystem* before_;
};

TEST_CASE("a log that was lost is made again in pieces") {
  const SmallTask files;
  const auto task = must(manifest::read_statement<manifest::Task>(files.at("task.json")));
  std::filesystem::create_directory(files.at("run"));
  const std::vector<float> losses(200000, 0.25F);
  const NotedWrites writes;
  must(TrainingLog::open(files.at("run"), task.body, {}, std::ssize(losses), losses, 1));
  CHECK(writes.most < std::size_t{2} << 20);
  CHECK(must(read_file(files.at("run/log.csv"), std::size_t{1} << 30))
            .ends_with("\n200000,40000,0.25,0.1,,,\n"));
}

}  // namespace
}  // namespace dgx::jobs
