#pragma once

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "captured_mlp.h"
#include "dgx/bundle/dataset.h"
#include "dgx/core/files.h"
#include "dgx/core/job_context.h"
#include "dgx/jobs/key.h"
#include "dgx/lowering/lower.h"
#include "dgx/manifest/statement.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/cost.h"
#include "dgx/program/initial.h"
#include "dgx/program/specs.h"
#include "dgx/protocol/estimate.h"

namespace dgx::test {

/// The value; on an error fails the test with its message.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result).value();
}
inline void must(Status status) {
  if (!status.ok()) FAIL(status.error().message);
}

/// Requests a stop when `at` units of a job are done; never, if that is negative.
class Stopper final : public Progress {
 public:
  Stopper(StopFlag& stop, std::int64_t at) : stop_(stop), at_(at) {}
  void update(std::int64_t done, std::string_view /*note*/) override {
    if (at_ >= 0 && done >= at_) stop_.request();
  }

 private:
  StopFlag& stop_;
  std::int64_t at_;
};

/// Runs a job that is stopped when `at` units are done.
template <class Job>
auto stopped_at(std::int64_t at, const Job& job) {
  StopFlag stop;
  Stopper progress(stop, at);
  if (at == 0) stop.request();
  return job(JobContext{.threads = 1, .progress = progress, .stop = stop});
}
template <class Job>
auto run_job(const Job& job) {
  return stopped_at(-1, job);
}

/// A folder with keys, data and a signed task of 10 segments of 4 steps, made without libtorch; removed with
/// this object.
class SmallTask {
 public:
  /// `update` and `schedule`: of a perceptron's training, by default by SGD with momentum. More samples than
  /// 40 are data of which a segment's steps read a small part.
  explicit SmallTask(program::UpdateSpec update = {}, std::string schedule = "constant",
                     std::int64_t samples = 40)
      : update_(std::move(update)),
        schedule_(std::move(schedule)),
        samples_(samples),
        folder_(std::filesystem::temp_directory_path() / ("dgx-jobs-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    for (const char* role : {"submitter", "solver", "verifier"}) {
      must(jobs::new_key({at(role), {std::nullopt}}, Clobber::kRefuse));
    }
    write_data();
    write_task();
  }
  ~SmallTask() { std::filesystem::remove_all(folder_); }
  SmallTask(const SmallTask&) = delete;
  SmallTask& operator=(const SmallTask&) = delete;

  [[nodiscard]] std::string at(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] jobs::KeyFile key(const std::string& role) const { return {at(role + ".pem"), std::nullopt}; }

 private:
  static constexpr std::int64_t kInputs = 4;
  static constexpr std::int64_t kBatch = 8;
  static constexpr std::int64_t kSteps = 40;

  void write_data() {
    Tensor x(DType::kF32, {samples_, kInputs});
    Tensor y(DType::kI64, {samples_});
    for (std::int64_t i = 0; i < x.count(); ++i) {
      x.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>((i * 37) % 97) / 97;
    }
    for (std::int64_t i = 0; i < samples_; ++i) y.as<std::int64_t>()[static_cast<std::size_t>(i)] = i % 3;
    const auto data = must(bundle::make_dataset(std::move(x), std::move(y)));
    digest_ = must(bundle::write_dataset(at("data.h5"), data, Clobber::kRefuse, {}, bundle::Storage::kPlain));
  }

  void write_task() const {
    const lowering::TrainingRecipe recipe{
        {{"x", {DType::kF32, {kInputs}}}, {"y", {DType::kI64, {}}}},
        1,
        0,
        kBatch,
        program::LossKind::kCrossEntropy,
        must(program::parse_optimizer_spec("sgd:lr=0.1,momentum=0.9")),
        std::nullopt,
        update_,
        must(program::fix_schedule(must(program::parse_schedule_text(schedule_)), 0.1, kSteps))};
    const auto capture = [] {
      return MlpCapture({kInputs, 8, 3}, {kBatch, kInputs}, program::Activation::kRelu);
    };
    const auto step = must(lowering::lower_training_step(capture().training(), recipe));
    const auto evaluation = must(lowering::lower_evaluation(capture().evaluation(), recipe));
    const auto cost = program::cost_of(step);
    manifest::Task task;
    task.program = {program::program_root(step), std::ssize(step.values)};
    task.evaluation = {program::program_root(evaluation), std::ssize(evaluation.values)};
    task.initial.digest = must(merkle::state_digests(must(program::initial_state(step, 7)))).state;
    task.dataset = {digest_, samples_, {{"x", {DType::kF32, {kInputs}}}, {"y", {DType::kI64, {}}}}};
    task.model = "mlp:4-8-3";
    task.optimizer = recipe.optimizer;
    task.schedule = recipe.schedule;
    task.update = recipe.update;
    task.batch = kBatch;
    task.steps = kSteps;
    task.seed = 7;
    task.checkpoint_every = 4;
    task.policy = manifest::standard_policy();
    task.policy.sample_ppm = 1000000;
    task.price = 1000;
    task.estimate = must(protocol::estimate({cost.total_operations, cost.state_bytes, task.steps,
                                             task.checkpoint_every, task.price, cost.constant_bytes},
                                            task.policy));
    task.caps = {task.steps, cost.state_bytes, task.policy.window_proof_ms, cost.constant_bytes};
    const auto sealed = must(manifest::seal(task, must(jobs::read_key(key("submitter")))));
    must(write_file(at("task.program.jsonl"), program::print_program(step), Clobber::kRefuse));
    must(write_file(at("task.eval.jsonl"), program::print_program(evaluation), Clobber::kRefuse));
    must(write_file(at("task.json"), sealed.envelope + "\n", Clobber::kRefuse));
  }

  program::UpdateSpec update_;
  std::string schedule_;
  std::int64_t samples_;
  std::filesystem::path folder_;
  Digest digest_;
};

}  // namespace dgx::test
