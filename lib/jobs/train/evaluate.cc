#include "dgx/bundle/model_files.h"
#include "dgx/core/files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/train.h"
#include "dgx/program/averages.h"
#include "train/evaluation.h"
#include "train/state_source.h"

namespace dgx::jobs {
namespace {

/// The format of a file of predictions.
enum class Form { kNpy, kNpz };

Result<Form> form_of(const std::string& path) {
  if (path.ends_with(".npy")) return Form::kNpy;
  if (path.ends_with(".npz")) return Form::kNpz;
  return usage_error("--predictions: " + path + ": the name must end in .npy or .npz");
}

Result<std::string> bytes_of(const Predictions& found, Form form) {
  const bool has_classes = !found.classes.bytes().empty();
  if (form == Form::kNpy) return bundle::npy_bytes(has_classes ? found.classes.view() : found.outputs.view());
  std::vector<bundle::NamedTensor> tensors;
  if (has_classes) tensors.push_back({"classes", found.classes.view()});
  tensors.push_back({"outputs", found.outputs.view()});
  return bundle::npz_bytes(tensors);
}

/// The file for predictions, if one is asked for, and its form.
struct PredictionsFile {
  Form form;
  Output output;
};

Result<std::optional<PredictionsFile>> claim_predictions(const EvaluateOptions& options, Clobber clobber) {
  if (!options.predictions) return std::optional<PredictionsFile>();
  DGX_TRY(const Form form, form_of(*options.predictions));
  DGX_TRY(Output output, Output::claim(*options.predictions, clobber));
  return std::optional<PredictionsFile>(PredictionsFile{form, std::move(output)});
}

}  // namespace

Result<EvaluateResult> evaluate(const EvaluateOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(std::optional<PredictionsFile> file, claim_predictions(options, context.clobber));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  DGX_TRY(const auto evaluation, Evaluation::open(files, options.data, context.threads));
  DGX_TRY(StateSource source, read_source(options.run, options.step, context.threads));
  if (source.task && *source.task != files.task.id)
    return malformed(options.run + ": belongs to another task");
  if (options.averages && program::take_averages(source.stored.state) == 0)
    return usage_error(options.run + ": has no averages", "they are those of a task with dgx-submit --ema");
  Predictions predictions;
  EvaluateResult result;
  DGX_TRY(result.measures, evaluation->measure(source.stored.state, context.progress, context.stop,
                                               file ? &predictions : nullptr));
  DGX_TRY(result.step, step_of(source.stored.state));
  result.state = source.stored.digests.state;
  if (file) {
    DGX_TRY(const std::string bytes, bytes_of(predictions, file->form));
    DGX_CHECK(file->output.write(bytes));
  }
  return result;
}

}  // namespace dgx::jobs
