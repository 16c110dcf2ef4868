#include "exact.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "captured_text.h"
#include "dgx/exec/device_executor.h"
#include "dgx/lowering/lower.h"
#include "dgx/program/initial.h"

namespace dgx::bench {
namespace {

constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kBatches = 4;  // in the dataset

template <class T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(70);
}

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(70);
}

Shape with_count(std::int64_t count, const Shape& sample) {
  Shape shape = sample;
  shape.insert(shape.begin(), count);
  return shape;
}

lowering::CapturedGraph capture(const Case& of) {
  auto* const backend = test::open_capture_backend(DGX_TORCH_MODULE);
  if (backend == nullptr) std::exit(66);
  lowering::CaptureRequest request;
  request.model = of.model;
  request.fields = {{"x", with_count(of.batch, of.sample), of.tokens ? DType::kI64 : DType::kF32}};
  return must(backend->capture(request));
}

lowering::TrainingRecipe recipe_of(const Case& of) {
  lowering::TrainingRecipe recipe;
  recipe.fields["x"] = {DType::kU8, of.sample};
  recipe.fields["y"] = {DType::kU8, of.tokens ? of.sample : Shape{}};
  recipe.scale = of.tokens ? 1.0F : 1.0F / 255;
  recipe.batch = of.batch;
  recipe.optimizer = must(program::parse_optimizer_spec(of.optimizer));
  recipe.update.workers = of.workers;
  return recipe;
}

}  // namespace

Exact::Exact(const Case& of) : case_(of) {
  const lowering::CapturedGraph graph = capture(of);
  auto program = must(lowering::lower_training_step(graph, recipe_of(of)));
  const auto kind = program::model_kind(of.model);
  state_ = must(kind ? program::initial_state(program, 1, *kind) : lowering::initial_state(program, graph));
  program_ = std::make_shared<const program::Program>(std::move(program));
}

exec::StepInputs Exact::make_inputs() {
  const bool real = case_.data != nullptr;
  const std::int64_t samples = real ? std::ssize(case_.data->y) : kBatches * case_.batch;
  const lowering::TrainingRecipe recipe = recipe_of(case_);
  x_ = Tensor(DType::kU8, with_count(samples, case_.sample));
  y_ = Tensor(DType::kU8, with_count(samples, recipe.fields.at("y").sample_shape));
  for (std::size_t i = 0; i < x_.bytes().size(); ++i)
    x_.bytes()[i] = static_cast<std::uint8_t>(i * 2654435761U >> 24U);
  const std::size_t classes = case_.tokens ? 256 : kClasses;
  for (std::size_t i = 0; i < y_.bytes().size(); ++i)
    y_.bytes()[i] = static_cast<std::uint8_t>((i * 2246822519U >> 16U) % classes);
  if (real) {
    std::copy(case_.data->x.begin(), case_.data->x.end(), x_.bytes().begin());
    std::copy(case_.data->y.begin(), case_.data->y.end(), y_.bytes().begin());
  }
  const auto schedule = must(program::schedule_parameters(recipe.optimizer, {}, 1 << 20));
  return {schedule, 1, case_.batch, {{"x", x_.view()}, {"y", y_.view()}}};
}

void Exact::start(int threads) {
  executor_ = must(exec::ExactExecutor::create(program_, make_inputs(), threads));
  must(executor_->load(state_));
}

void Exact::start(std::unique_ptr<kernels::cuda::Device> device) {
  executor_ = must(exec::DeviceExecutor::create(program_, make_inputs(), std::move(device), 1));
  must(executor_->load(state_));
}

Least Exact::least() const {
  const auto row = static_cast<std::int64_t>((x_.bytes().size() + y_.bytes().size()) /
                                             static_cast<std::size_t>(x_.shape()[0]));
  return least_of(*program_, case_.batch, row);
}

double Exact::zero_terms() {
  kernels::ByValue<Tensor> values(program_->values.size());
  must(executor_->trace([&](kernels::ValueIndex value, const TensorView& numbers) -> Status {
    values[value] = Tensor(numbers);
    return {};
  }));
  return bench::zero_terms(*program_, values);
}

void Exact::step() { must(executor_->step()); }

void Exact::trace(const program::ValueVisitor& visit) { must(executor_->trace(visit)); }

}  // namespace dgx::bench
