#include "dgx/core/files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/train.h"
#include "train/evaluation.h"
#include "train/model_files.h"
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
  if (form == Form::kNpy) return npy_bytes(has_classes ? found.classes.view() : found.outputs.view());
  std::vector<NamedTensor> tensors;
  if (has_classes) tensors.push_back({"classes", found.classes.view()});
  tensors.push_back({"outputs", found.outputs.view()});
  return npz_bytes(tensors);
}

/// The file for predictions. It is created before the work, which a bad name would otherwise waste.
struct Output {
  Form form;
  AtomicFile file;
};

Result<std::optional<Output>> open_output(const EvaluateOptions& options, Clobber clobber) {
  if (!options.predictions) return std::optional<Output>();
  DGX_TRY(const Form form, form_of(*options.predictions));
  DGX_TRY(AtomicFile file, AtomicFile::create(*options.predictions, clobber));
  return std::optional<Output>(Output{form, std::move(file)});
}

Status write(Output& output, const Predictions& found) {
  DGX_TRY(const std::string bytes, bytes_of(found, output.form));
  DGX_CHECK(write_file(output.file.path(), bytes, Clobber::kReplace));
  return output.file.commit();
}

}  // namespace

Result<EvaluateResult> evaluate(const EvaluateOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(std::optional<Output> output, open_output(options, context.clobber));
  DGX_TRY(const TaskFiles files, open_task(options.task, std::nullopt, context.trust));
  DGX_TRY(const auto evaluation, Evaluation::open(files, options.data, context.threads));
  DGX_TRY(const StateSource source, read_source(options.run, options.step, context.threads));
  if (source.task && *source.task != files.task.id)
    return malformed(options.run + ": belongs to another task");
  Predictions predictions;
  EvaluateResult result;
  DGX_TRY(result.measures, evaluation->measure(source.stored.state, context.progress, context.stop,
                                               output ? &predictions : nullptr));
  DGX_TRY(result.step, step_of(source.stored.state));
  result.state = source.stored.digests.state;
  if (output) DGX_CHECK(write(*output, predictions));
  return result;
}

}  // namespace dgx::jobs
