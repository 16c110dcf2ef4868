#include <algorithm>
#include <cstring>

#include "dgx/bundle/run.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/train.h"
#include "dgx/program/check.h"

namespace dgx::jobs {
namespace {

/// Rows [first, first + batch) of a dataset field; rows beyond its end repeat the last one.
Tensor batch_of(const Tensor& field, std::int64_t first, std::int64_t batch) {
  Shape shape = field.shape();
  const std::int64_t samples = shape[0];
  shape[0] = batch;
  Tensor out(field.dtype(), shape);
  const std::size_t size = field.bytes().size() / static_cast<std::size_t>(samples);
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto row = static_cast<std::size_t>(std::min(first + i, samples - 1));
    std::memcpy(out.bytes().data() + static_cast<std::size_t>(i) * size, field.bytes().data() + row * size, size);
  }
  return out;
}

Result<bundle::Dataset> open_test_data(const std::string& path, const manifest::Task& task) {
  DGX_TRY(bundle::Dataset data, bundle::read_dataset(path));
  const auto fits = [](const Tensor& tensor, const manifest::DatasetField& field) {
    const Shape& shape = tensor.shape();
    return tensor.dtype() == field.dtype && Shape(shape.begin() + 1, shape.end()) == field.shape;
  };
  if (!fits(data.x, task.dataset.x) || !fits(data.y, task.dataset.y)) {
    return malformed(path + ": fields are not of the types and shapes that the task was submitted with");
  }
  return data;
}

}  // namespace

Result<EvaluateResult> evaluate(const EvaluateOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(const TaskFiles files, open_task(options.task, std::nullopt, context.trust));
  const manifest::Task& task = files.body();
  const std::string path = beside(options.task, ".eval.jsonl");
  DGX_TRY(const auto program, open_program(path, task.evaluation, "evaluation program"));
  if (auto checked = program::check_program(*program, program::ProgramRole::kEvaluation); !checked) {
    return within(path, std::move(checked).error());
  }
  DGX_TRY(const bundle::Dataset data, open_test_data(options.data, task));
  DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(options.run));
  if (run.index().header.task != files.task.id) return malformed(options.run + ": a run of another task");
  const auto last = static_cast<std::int64_t>(run.index().checkpoints.size()) - 1;
  DGX_TRY(const auto stored, run.state(last));
  DGX_TRY(const auto evaluator, exec::Evaluator::create(program, context.threads));
  DGX_CHECK(evaluator->load(stored.state));

  const auto losses_value = static_cast<kernels::ValueIndex>(program->values.size()) - 1;
  const bool classifies = task.loss == program::LossKind::kCrossEntropy;
  const std::int64_t samples = data.x.shape()[0];
  double loss = 0;
  std::int64_t correct = 0;
  context.progress.start("evaluating", samples);
  for (std::int64_t first = 0; first < samples; first += task.batch) {
    DGX_CHECK(evaluator->run(batch_of(data.x, first, task.batch).view(), batch_of(data.y, first, task.batch).view()));
    const auto count = static_cast<std::size_t>(std::min(task.batch, samples - first));
    for (const float x : evaluator->value(losses_value).as<float>().first(count)) loss += static_cast<double>(x);
    if (classifies) {
      for (const std::int64_t hit : evaluator->value(losses_value - 1).as<std::int64_t>().first(count)) correct += hit;
    }
    context.progress.update(first);
  }
  context.progress.finish();
  EvaluateResult result{run.index().checkpoints.back().step, stored.digests.state, samples,
                        loss / static_cast<double>(samples), std::nullopt};
  if (classifies) result.accuracy = static_cast<double>(correct) / static_cast<double>(samples);
  return result;
}

}  // namespace dgx::jobs
