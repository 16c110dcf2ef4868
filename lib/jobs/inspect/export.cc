#include "dgx/jobs/inspect.h"
#include "train/model_files.h"
#include "train/state_source.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kModel = "model/";

enum class Format { kSafetensors, kNpz };

Result<Format> format_of(const std::string& path) {
  if (path.ends_with(".safetensors")) return Format::kSafetensors;
  if (path.ends_with(".npz")) return Format::kNpz;
  return usage_error(path + ": the name must end in .safetensors or .npz");
}

}  // namespace

Result<ExportResult> export_model(const ExportOptions& options, const JobContext& context) {
  DGX_TRY(const Format format, format_of(options.output));
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const StateSource source, read_source(options.from, options.step, context.threads));
  ExportResult result;
  DGX_TRY(result.step, step_of(source.stored.state));
  result.state = source.stored.digests.state;
  std::vector<NamedTensor> tensors;
  for (const Entry& entry : source.stored.state) {
    if (!entry.name.starts_with(kModel)) continue;
    tensors.push_back({entry.name.substr(kModel.size()), entry.tensor.view()});
    result.numbers += entry.tensor.count();
  }
  result.tensors = static_cast<std::int64_t>(tensors.size());
  if (format == Format::kNpz) {
    DGX_TRY(const std::string bytes, npz_bytes(tensors));
    DGX_CHECK(output.write(bytes));
    return result;
  }
  json::Object metadata{
      {"format", "pt"}, {"dgx.step", std::to_string(result.step)}, {"dgx.state", result.state.hex()}};
  if (source.task) metadata.emplace("dgx.task", source.task->hex());
  DGX_CHECK(output.write(safetensors_bytes(std::move(tensors), metadata)));
  return result;
}

}  // namespace dgx::jobs
