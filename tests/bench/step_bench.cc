// A training step of MLP 784-256-128-10, batch 128, exact against eager libtorch: same optimiser, same threads, same run. Both
// sides are timed in turns, so that whatever else the machine does hits them alike. Text, or JSON with --json. For a profiler,
// `--exact THREADS [sgd|adam]` runs the exact sides alone.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "captured_mlp.h"
#include "dgx/exec/executor.h"
#include "dgx/program/initial.h"
#include "dgx/program/lower.h"

namespace {

using namespace dgx;

constexpr std::int64_t kBatch = 128;
constexpr std::int64_t kSamples = 4096;
// Not many more: after some 730 steps the momentum of units that never fire is subnormal, which costs this processor a
// hundred cycles a vector, and both sides alike.
constexpr int kRounds = 26;
constexpr int kStepsARound = 25;

struct Setting {
  const char* name;
  const char* optimizer;
};
constexpr Setting kSettings[] = {{"sgd", "sgd:lr=0.1,momentum=0.9"}, {"adam", "adam:lr=1e-3"}};

/// Both sides' idle workers spin for a while after their last operation; before a side is timed the other's have gone to sleep
/// and its own are awake.
double seconds_of(const std::function<void()>& step) {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (int s = 0; s < 2; ++s) step();
  const auto begin = std::chrono::steady_clock::now();
  for (int s = 0; s < kStepsARound; ++s) step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kStepsARound;
}

/// The step program, its data and its executor.
class Exact {
 public:
  Exact(const Setting& setting, int threads) : x_(DType::kU8, {kSamples, 784}), y_(DType::kU8, {kSamples}) {
    program::TrainingRecipe recipe;
    recipe.x = {DType::kU8, {784}};
    recipe.y = {DType::kU8, {}};
    recipe.scale = 1.0F / 255;
    recipe.batch = kBatch;
    recipe.optimizer = *program::parse_optimizer_spec(setting.optimizer);
    test::MlpCapture capture({784, 256, 128, 10}, {kBatch, 784}, program::Activation::kRelu);
    const auto program =
        std::make_shared<const program::Program>(*program::lower_training_step(capture.training(), recipe));
    for (std::size_t i = 0; i < x_.bytes().size(); ++i) x_.bytes()[i] = static_cast<std::uint8_t>(i * 2654435761U >> 24);
    for (std::size_t i = 0; i < y_.bytes().size(); ++i) y_.bytes()[i] = static_cast<std::uint8_t>(i % 10);
    const auto schedule = *program::schedule_parameters(recipe.optimizer, {}, 1 << 20);
    executor_ = exec::ExactExecutor::create(program, {schedule, 1, kBatch, x_.view(), y_.view()}, threads).value();
    if (!executor_->load(*program::initial_state(*program, 1)).ok()) std::abort();
  }
  void step() {
    if (!executor_->step().ok()) std::abort();
  }
  [[nodiscard]] const exec::ExactExecutor& executor() const { return *executor_; }

 private:
  Tensor x_, y_;
  std::unique_ptr<exec::ExactExecutor> executor_;
};

class Eager {
 public:
  explicit Eager(const Setting& setting) {
    using namespace torch;
    model_ = nn::Sequential(nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 128), nn::ReLU(), nn::Linear(128, 10));
    if (std::string_view(setting.name) == "sgd") {
      optimizer_ = std::make_unique<optim::SGD>(model_->parameters(), optim::SGDOptions(0.1).momentum(0.9));
    } else {
      optimizer_ = std::make_unique<optim::Adam>(model_->parameters(), optim::AdamOptions(1e-3));
    }
    x_ = torch::rand({kBatch, 784});
    y_ = torch::randint(10, {kBatch});
  }
  void step() {
    optimizer_->zero_grad();
    at::cross_entropy_loss(model_->forward(x_), y_).backward();
    optimizer_->step();
  }

 private:
  torch::nn::Sequential model_{nullptr};
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  torch::Tensor x_, y_;
};

struct Times {
  double best = 1e9, median = 0;
  std::vector<double> all;
  void add(double seconds) {
    all.push_back(seconds);
    best = std::min(best, seconds);
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
    median = all[all.size() / 2];
  }
};

void run_exact_alone(int threads, std::string_view only) {
  for (const Setting& setting : kSettings) {
    if (!only.empty() && only != setting.name) continue;
    Exact exact(setting, threads);
    Times times;
    for (int round = 0; round < kRounds; ++round) times.add(seconds_of([&] { exact.step(); }));
    std::printf("mlp %-4s %d threads: exact %.3f ms (median %.3f)\n", setting.name, threads, times.best * 1e3, times.median * 1e3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (option == "--exact") {
    run_exact_alone(argc > 2 ? std::atoi(argv[2]) : 1, argc > 3 ? argv[3] : "");
    return 0;
  }
  for (const Setting& setting : kSettings) {
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      Exact exact(setting, threads);
      Eager eager(setting);
      if (option == "--explain") {
        std::fputs(exact.executor().explain().c_str(), stdout);
        return 0;
      }
      Times ours, theirs;
      for (int round = 0; round < kRounds; ++round) {
        theirs.add(seconds_of([&] { eager.step(); }));
        ours.add(seconds_of([&] { exact.step(); }));
      }
      std::printf(option == "--json"
                      ? "{\"bench\":\"mlp-%s\",\"threads\":%d,\"exact_ms\":\"%.3f\",\"eager_ms\":\"%.3f\",\"ratio\":\"%.2f\","
                        "\"ratio_of_medians\":\"%.2f\"}\n"
                      : "mlp %-4s %d threads: exact %.3f ms, eager libtorch %.3f ms, %.2f times as fast (medians %.2f)\n",
                  setting.name, threads, ours.best * 1e3, theirs.best * 1e3, theirs.best / ours.best,
                  theirs.median / ours.median);
      std::fflush(stdout);
    }
  }
}
