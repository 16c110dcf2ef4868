#include "train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "dgx/core/checked.h"
#include "dgx/jobs/task_program.h"
#include "dgx/program/check.h"
#include "dgx/program/cost.h"
#include "task/memory_needs.h"
#include "train/submit_data.h"

namespace dgx::jobs {
namespace {

using kernels::ValueIndex;

constexpr std::int64_t kTop = 5;
constexpr std::int64_t kMostClasses = 32;  // the largest confusion matrix that people would read

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

/// A batch of every field.
struct Batch {
  std::vector<Tensor> tensors;
  std::map<std::string, TensorView, std::less<>> views;

  static Result<Batch> of(const bundle::Dataset& data, std::int64_t first, std::int64_t size) {
    Batch out;
    out.tensors.reserve(data.fields.size());  // the views stay where they are
    for (const auto& [name, field] : data.fields) {
      DGX_TRY(Tensor rows, batch_of(field.numbers.view(), first, size));
      out.tensors.push_back(std::move(rows));
      out.views.emplace(name, out.tensors.back().view());
    }
    return out;
  }
  /// The batch's y; empty if there is none.
  [[nodiscard]] TensorView targets() const {
    const auto y = views.find("y");
    return y == views.end() ? TensorView() : y->second;
  }
};

/// The metadata of data that have the task's fields.
Result<bundle::DatasetInfo> test_data_info(const std::string& path, const manifest::Task& task) {
  DGX_TRY(bundle::DatasetInfo info, bundle::read_dataset_info(path));
  std::map<std::string, manifest::DatasetField, std::less<>> fields;
  for (const auto& [name, field] : info.fields)
    fields.emplace(name,
                   manifest::DatasetField{field.dtype, Shape(field.shape.begin() + 1, field.shape.end())});
  if (fields == task.dataset.fields) return info;
  return malformed(path +
                   ": its fields do not have the names, types and shapes that the task was submitted with");
}

/// The values of an evaluation program that Evaluation reads: the results, which may no longer be the last
/// three, and the model's outputs.
std::vector<ValueIndex> kept_values(const program::Program& program, const ModelOutputs& outputs) {
  std::vector<ValueIndex> keep;
  const ValueIndex last = program.values.last();
  for (int n = std::max(0, to_number(last) - 2); n <= to_number(last); ++n) keep.push_back(ValueIndex(n));
  if (outputs.values) keep.push_back(*outputs.values);
  if (outputs.classes) keep.push_back(*outputs.classes);
  return keep;
}

/// True if a sample is a sequence of tokens, each with a target.
bool has_tokens(const manifest::Task& task) {
  const manifest::DatasetField* const x = task.dataset.find("x");
  const manifest::DatasetField* const y = task.dataset.find("y");
  return classifies(task) && y != nullptr && x->dtype != DType::kF32 && x->shape.size() == 1 &&
         x->shape == y->shape;
}

/// True if the program gives the loss of a whole batch, and no sample's.
bool gives_whole_batches(const program::Program& program) {
  return program.values[program.values.last()].shape.empty();
}

/// Checks that losses and counts are where Totals reads them: the submitter's program may be anything.
Status check_results(const program::Program& program, const manifest::Task& task) {
  const std::size_t wanted = counts_hits(task) ? (task.loss.ignore ? 2 : 1) : 0;
  const std::size_t size = program.values.size();
  if (classifies(task) && task.dataset.find("y") == nullptr)
    return malformed("evaluation program: there is cross entropy, and no field y");
  if (classifies(task) && gives_whole_batches(program))
    return malformed("evaluation program: with cross entropy the last value must be f32 [batch]");
  if (!gives_whole_batches(program) && program.values[program.values.last()].shape != Shape{task.batch})
    return malformed("evaluation program: the last value must be f32 [batch]");
  for (std::size_t n = 1; n <= wanted; ++n) {
    const auto value = ValueIndex(size - 1 - n);
    if (size <= n || program.values[value].dtype != DType::kI64 ||
        program.values[value].shape != Shape{task.batch}) {
      return malformed("evaluation program: value " + std::to_string(n) +
                       " before the last must be i64 [batch]");
    }
  }
  return {};
}

/// Refuses a label for which the model has no class, since it would count with a loss of zero, and data
/// without any label that counts.
Status check_test_labels(const ModelOutputs& outputs, const manifest::Task& task,
                         const bundle::Dataset& data) {
  if (task.loss.kind == program::LossKind::kBinaryCrossEntropy) {
    if (const Status fit = check_probabilities(data); !fit) return malformed(fit.error().message);
  }
  const auto range = label_range(data, task.loss);
  if (task.loss.ignore && data.find("y") != nullptr && data.find("y")->range && !range)
    return malformed("every target is ignored: there is nothing to evaluate");
  if (!classifies(task) || !range || outputs.class_count == 0) return {};
  if (range->low >= 0 && range->high < outputs.class_count) return {};
  return malformed("labels range from " + std::to_string(range->low) + " to " + std::to_string(range->high) +
                   ", the model has classes 0 to " + std::to_string(outputs.class_count - 1));
}

Result<std::shared_ptr<const program::Program>> open_evaluation_program(const TaskFiles& files) {
  DGX_TRY(const std::string path, find_program(files.path, ".eval.jsonl", files.body().evaluation,
                                               "evaluation program", "it must lie beside the task"));
  DGX_TRY(auto program, open_program(path, files.body().evaluation, "evaluation program"));
  if (auto checked = program::check_program(*program, program::ProgramRole::kEvaluation); !checked) {
    return within(path, std::move(checked).error());
  }
  if (auto results = check_results(*program, files.body()); !results)
    return within(path, std::move(results).error());
  return program;
}

/// True if the output for `label` is among the kTop largest; of equal ones, the first rank higher.
bool is_near_top(std::span<const float> values, std::int64_t place, const ModelOutputs& outputs,
                 std::int64_t label) {
  const auto at = [&](std::int64_t c) {
    return values[static_cast<std::size_t>(place + c * outputs.class_stride)];
  };
  const float own = at(label);
  std::int64_t before = std::isnan(own) ? kTop : 0;
  for (std::int64_t c = 0; c < outputs.class_count && before < kTop; ++c)
    before += at(c) > own || (at(c) == own && c < label) ? 1 : 0;
  return before < kTop;
}

std::int64_t integer_at(const TensorView& tensor, std::size_t at) {
  return tensor.dtype == DType::kU8 ? tensor.as<std::uint8_t>()[at] : tensor.as<std::int64_t>()[at];
}

/// The results of the evaluation program, summed over the samples (dgx-program(5), "Evaluation program").
class Totals {
 public:
  Totals(const manifest::Task& task, const ModelOutputs& outputs, ValueIndex last)
      : task_(task), outputs_(outputs), last_(last) {
    if (outputs.classes && outputs.class_count <= kMostClasses) {
      const auto size = static_cast<std::size_t>(outputs.class_count);
      confusion_.assign(size, std::vector<std::int64_t>(size));
    }
  }

  /// Adds the first `count` samples of a batch with the targets `y`, which is read for cross entropy only.
  void add(const exec::Evaluator& evaluator, const TensorView& y, std::size_t count) {
    if (evaluator.value(last_).shape.empty()) {
      loss_ += static_cast<double>(evaluator.value(last_).as<float>().front());
      targets_ = ++weight_;
      return;
    }
    for (const float x : evaluator.value(last_).as<float>().first(count)) loss_ += static_cast<double>(x);
    const auto samples = static_cast<std::int64_t>(count);
    if (!counts_hits(task_)) {
      targets_ = weight_ += samples;
      return;
    }
    const auto sum = [&](int before) {
      const auto value = ValueIndex(to_number(last_) - before);
      const auto numbers = evaluator.value(value).as<std::int64_t>().first(count);
      return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
    };
    correct_ += sum(1);
    const std::int64_t counted = task_.loss.ignore ? sum(2) : samples * targets_in(task_);
    targets_ += counted;
    // Without ignored targets the program gives each sample's mean, so a sample weighs one.
    weight_ += task_.loss.ignore ? counted : samples;
    if (outputs_.classes) add_targets(evaluator, y, count * static_cast<std::size_t>(targets_in(task_)));
  }

  [[nodiscard]] bool empty() const { return targets_ == 0; }

  [[nodiscard]] Measures measures(std::int64_t samples) const {
    Measures out;
    out.samples = samples;
    out.loss = loss_ / static_cast<double>(weight_);
    if (counts_hits(task_)) out.accuracy = share(correct_);
    if (outputs_.class_count > kTop && !outputs_.places.empty()) out.top5 = share(near_top_);
    if (has_tokens(task_)) out.perplexity = std::exp(out.loss);
    out.confusion = confusion_;
    return out;
  }

 private:
  [[nodiscard]] double share(std::int64_t of) const {
    return static_cast<double>(of) / static_cast<double>(targets_);
  }

  /// Adds the first `count` targets of a batch to the confusion matrix and the top five.
  void add_targets(const exec::Evaluator& evaluator, const TensorView& y, std::size_t count) {
    const bool ranked = outputs_.class_count > kTop && !outputs_.places.empty();
    const auto classes = evaluator.value(*outputs_.classes).as<std::int64_t>();
    const auto values = ranked ? evaluator.value(*outputs_.values).as<float>() : std::span<const float>();
    for (std::size_t target = 0; target < count; ++target) {
      const std::int64_t label = integer_at(y, target);
      if (task_.loss.ignore && label == *task_.loss.ignore) continue;
      if (!confusion_.empty())
        ++confusion_[static_cast<std::size_t>(label)][static_cast<std::size_t>(classes[target])];
      if (ranked) near_top_ += is_near_top(values, outputs_.places[target], outputs_, label) ? 1 : 0;
    }
  }

  const manifest::Task& task_;
  const ModelOutputs& outputs_;
  ValueIndex last_;  // the program's last value
  double loss_ = 0;  // sum over the targets, or over whole batches
  std::int64_t weight_ = 0;
  std::int64_t correct_ = 0;
  std::int64_t near_top_ = 0;
  std::int64_t targets_ = 0;
  std::vector<std::vector<std::int64_t>> confusion_;
};

/// Copies the first `count` samples of a value for a batch into `whole`, from sample `first` on. The first
/// call makes `whole`, with room for all samples. kUsage if the value is not divided by samples.
Status copy_samples(const TensorView& batch, std::int64_t samples_in_batch, std::int64_t samples,
                    std::int64_t first, std::int64_t count, Tensor& whole) {
  if (batch.shape.empty() || batch.shape[0] % samples_in_batch != 0)
    return usage_error("--predictions: the evaluation program's outputs are not divided by samples");
  if (whole.bytes().empty()) {
    Shape shape = batch.shape;
    shape[0] = shape[0] / samples_in_batch * samples;
    whole = Tensor(batch.dtype, shape);
  }
  const std::size_t size = batch.bytes.size() / static_cast<std::size_t>(samples_in_batch);
  std::memcpy(whole.bytes().data() + static_cast<std::size_t>(first) * size, batch.bytes.data(),
              static_cast<std::size_t>(count) * size);
  return {};
}

}  // namespace

Result<EvaluationNeeds> plan_evaluation(const TaskFiles& files, const std::string& data, int threads) {
  DGX_TRY(const auto opened, open_evaluation_program(files));
  DGX_TRY(const bundle::DatasetInfo info, test_data_info(data, files.body()));
  auto program = std::make_shared<program::Program>(*opened);
  const ModelOutputs outputs = find_outputs(*program, files.body());
  const std::int64_t work = program::cost_of(*program).total_operations;
  const std::vector<ValueIndex> keep = kept_values(*program, outputs);
  const std::int64_t batch = files.body().batch;
  const std::int64_t batches =
      gives_whole_batches(*program) ? info.samples / batch : ceil_div(info.samples, batch);
  EvaluationNeeds out;
  out.work = checked_mul(batches, work).value_or(std::numeric_limits<std::int64_t>::max());
  DGX_TRY(const std::int64_t values, program_bytes(std::move(program), threads, keep));
  out.memory_bytes = values;
  for (const auto& [name, field] : info.fields) {
    const auto row =
        static_cast<std::int64_t>(size_of(field.dtype)) * *element_count(field.shape) / info.samples;
    out.memory_bytes += field_memory(row * info.samples) + row * batch;
  }
  return out;
}

Result<std::unique_ptr<Evaluation>> Evaluation::open(const TaskFiles& files, const std::string& data,
                                                     int threads) {
  DGX_TRY(const auto opened, open_evaluation_program(files));
  DGX_TRY(const bundle::DatasetInfo info, test_data_info(data, files.body()));
  DGX_TRY(bundle::Dataset samples, bundle::read_dataset(data));
  auto out = std::unique_ptr<Evaluation>(new Evaluation(files, data, std::move(samples)));
  auto program = std::make_shared<program::Program>(*opened);
  out->last_ = program->values.last();
  out->by_batches_ = gives_whole_batches(*program);
  out->outputs_ = find_outputs(*program, files.body());
  if (auto labels = check_test_labels(out->outputs_, files.body(), out->data_); !labels)
    return within(data, std::move(labels).error());
  const std::vector<ValueIndex> keep = kept_values(*program, out->outputs_);
  DGX_TRY(out->evaluator_, exec::Evaluator::create(std::move(program), threads, keep));
  return out;
}

Result<Measures> Evaluation::measure(const State& state, Progress& progress, const StopFlag& stop,
                                     Predictions* predictions) {
  const manifest::Task& task = files_.body();
  if (predictions != nullptr && !outputs_.values)
    return usage_error("--predictions: the evaluation program does not show the model's outputs");
  DGX_CHECK(evaluator_->load(state));
  const std::int64_t samples = data_.samples();
  if (by_batches_ && samples < task.batch)
    return malformed(path_ + ": the model's loss is that of a batch of " + std::to_string(task.batch) +
                     " samples, there are " + std::to_string(samples));
  const std::int64_t left_out = by_batches_ ? samples % task.batch : 0;
  Totals totals(task, outputs_, last_);
  progress.start("evaluating", samples);
  for (std::int64_t first = 0; first < samples; first += task.batch) {
    if (stop.requested()) return Error{ErrorCode::kInterrupted, "stopped while evaluating", {}};
    const std::int64_t count = std::min(task.batch, samples - first);
    const bool measured = first < samples - left_out;
    if (!measured && predictions == nullptr) break;
    DGX_TRY(const Batch batch, Batch::of(data_, first, task.batch));
    DGX_CHECK(evaluator_->run(batch.views));
    if (measured) totals.add(*evaluator_, batch.targets(), static_cast<std::size_t>(count));
    if (predictions != nullptr) {
      DGX_CHECK(copy_samples(evaluator_->value(*outputs_.values), task.batch, samples, first, count,
                             predictions->outputs));
      if (outputs_.classes)
        DGX_CHECK(copy_samples(evaluator_->value(*outputs_.classes), task.batch, samples, first, count,
                               predictions->classes));
    }
    progress.update(first);
  }
  progress.finish();
  if (totals.empty()) return malformed(path_ + ": every target is ignored: there is nothing to evaluate");
  Measures out = totals.measures(samples - left_out);
  out.left_out = left_out;
  return out;
}

}  // namespace dgx::jobs
