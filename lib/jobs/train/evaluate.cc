#include <algorithm>
#include <cmath>
#include <numeric>

#include "dgx/bundle/run.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/train.h"
#include "dgx/program/check.h"
#include "train/submit_data.h"

namespace dgx::jobs {
namespace {

/// Rows [first, first + batch) of a dataset field; rows beyond its end repeat the last one.
Result<Tensor> batch_of(const BulkView& field, std::int64_t first, std::int64_t batch) {
  Shape shape = field.shape;
  const std::int64_t samples = shape[0];
  shape[0] = batch;
  Tensor out(field.dtype, shape);
  const std::size_t size = field.bytes.size() / static_cast<std::size_t>(samples);
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto row = static_cast<std::size_t>(std::min(first + i, samples - 1));
    DGX_CHECK(copy_bytes(field, row * size, out.bytes().subspan(static_cast<std::size_t>(i) * size, size)));
  }
  return out;
}

Result<bundle::Dataset> open_test_data(const std::string& path, const manifest::Task& task) {
  DGX_TRY(bundle::Dataset data, bundle::read_dataset(path));
  const auto fits = [](const TensorView& tensor, const manifest::DatasetField& field) {
    const Shape& shape = tensor.shape;
    return tensor.dtype == field.dtype && Shape(shape.begin() + 1, shape.end()) == field.shape;
  };
  if (!fits(data.x.view(), task.dataset.x) || !fits(data.y.view(), task.dataset.y)) {
    return malformed(path + ": its fields do not have the types and shapes that the task was submitted with");
  }
  return data;
}

bool classifies(const manifest::Task& task) { return task.loss.kind == program::LossKind::kCrossEntropy; }

/// Number of targets of one sample.
std::int64_t targets_in(const manifest::Task& task) { return *element_count(task.dataset.y.shape); }

/// True if a sample is a sequence of tokens, each with a target.
bool has_tokens(const manifest::Task& task) {
  return classifies(task) && task.dataset.x.dtype != DType::kF32 && task.dataset.x.shape.size() == 1 &&
         task.dataset.x.shape == task.dataset.y.shape;
}

/// Checks that the counts are where Totals reads them: the submitter's program may be anything.
Status check_counts(const program::Program& program, const manifest::Task& task) {
  const std::size_t wanted = classifies(task) ? (task.loss.ignore ? 2 : 1) : 0;
  const std::size_t size = program.values.size();
  for (std::size_t n = 1; n <= wanted; ++n) {
    const auto value = kernels::ValueIndex(size - 1 - n);
    if (size <= n || program.values[value].dtype != DType::kI64 ||
        program.values[value].shape != Shape{task.batch}) {
      return malformed("evaluation program: value " + std::to_string(n) +
                       " before the last must be i64 [batch]");
    }
  }
  return {};
}

/// Refuses a label for which the model has no class: it would count with a loss of zero. The program's last
/// argmax is the loss's, over the classes.
Status check_test_labels(const program::Program& program, const manifest::Task& task,
                         const bundle::Dataset& data) {
  const auto range = label_range(data, task.loss);
  const kernels::Primitive* best = nullptr;
  for (const kernels::Primitive& line : program.values)
    if (line.kind == kernels::Kind::kArgmax) best = &line;
  if (!classifies(task) || !range || best == nullptr) return {};
  const std::int64_t classes = *element_count(best->fold);
  if (range->low >= 0 && range->high < classes) return {};
  return malformed("labels range from " + std::to_string(range->low) + " to " + std::to_string(range->high) +
                   ", the model has classes 0 to " + std::to_string(classes - 1));
}

/// The results of the evaluation program, summed over the samples (dgx-program(5), "Evaluation program").
struct Totals {
  double loss = 0;  ///< sum over the targets; where the program gives means, each sample counts as one
  std::int64_t weight = 0;
  std::int64_t correct = 0;
  std::int64_t targets = 0;

  /// Adds the first `count` samples of a batch; `last` is the program's last value.
  void add(const exec::Evaluator& evaluator, kernels::ValueIndex last, const manifest::Task& task,
           std::size_t count) {
    for (const float x : evaluator.value(last).as<float>().first(count)) loss += static_cast<double>(x);
    if (!classifies(task)) {
      weight += static_cast<std::int64_t>(count);
      targets = weight;
      return;
    }
    const auto sum = [&](int before) {
      const auto value = kernels::ValueIndex(to_number(last) - before);
      const auto numbers = evaluator.value(value).as<std::int64_t>().first(count);
      return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
    };
    correct += sum(1);
    const std::int64_t counted =
        task.loss.ignore ? sum(2) : static_cast<std::int64_t>(count) * targets_in(task);
    targets += counted;
    weight += task.loss.ignore ? counted : static_cast<std::int64_t>(count);
  }
  [[nodiscard]] double mean_loss() const { return loss / static_cast<double>(weight); }
};

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
  if (auto counts = check_counts(*program, task); !counts) return within(path, std::move(counts).error());
  DGX_TRY(const bundle::Dataset data, open_test_data(options.data, task));
  if (auto labels = check_test_labels(*program, task, data); !labels)
    return within(options.data, std::move(labels).error());
  DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(options.run));
  if (run.index().header.task != files.task.id) return malformed(options.run + ": belongs to another task");
  const auto last = static_cast<std::int64_t>(run.index().checkpoints.size()) - 1;
  DGX_TRY(const auto stored, run.state(last));
  DGX_TRY(const auto evaluator, exec::Evaluator::create(program, context.threads));
  DGX_CHECK(evaluator->load(stored.state));

  const std::int64_t samples = data.x.shape()[0];
  Totals totals;
  context.progress.start("evaluating", samples);
  for (std::int64_t first = 0; first < samples; first += task.batch) {
    DGX_TRY(const Tensor x, batch_of(data.x.view(), first, task.batch));
    DGX_TRY(const Tensor y, batch_of(data.y.view(), first, task.batch));
    DGX_CHECK(evaluator->run(x.view(), y.view()));
    const auto count = static_cast<std::size_t>(std::min(task.batch, samples - first));
    totals.add(*evaluator, program->values.last(), task, count);
    context.progress.update(first);
  }
  context.progress.finish();
  if (totals.targets == 0)
    return malformed(options.data + ": every target is ignored: there is nothing to evaluate");
  EvaluateResult result{run.index().checkpoints.back().step,
                        stored.digests.state,
                        samples,
                        totals.mean_loss(),
                        std::nullopt,
                        std::nullopt};
  if (classifies(task))
    result.accuracy = static_cast<double>(totals.correct) / static_cast<double>(totals.targets);
  if (has_tokens(task)) result.perplexity = std::exp(result.loss);
  return result;
}

}  // namespace dgx::jobs
