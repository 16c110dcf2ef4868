#include <fmt/format.h>

#include <filesystem>

#include "dgx/bundle/run.h"
#include "dgx/bundle/state.h"
#include "dgx/jobs/inspect.h"
#include "inspect/model_files.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kModel = "model/";

struct Source {
  bundle::StoredState stored;
  std::optional<Digest> task;
};

/// The number of the checkpoint at `step`; without a step, of the last.
Result<std::int64_t> checkpoint_at(const bundle::RunReader& run, std::optional<std::int64_t> step) {
  if (!step) return run.index().segments();
  for (std::int64_t i = 0; i <= run.index().segments(); ++i) {
    if (run.index().checkpoints[static_cast<std::size_t>(i)].step == *step) return i;
  }
  return usage_error(fmt::format("--step {}: {} has no checkpoint at that step", *step, run.folder()),
                     "dgx-inspect " + run.folder() + " lists them");
}

Result<Source> read_source(const ExportOptions& options, int threads) {
  if (std::filesystem::is_directory(options.from)) {
    DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(options.from));
    DGX_TRY(const std::int64_t checkpoint, checkpoint_at(run, options.step));
    DGX_TRY(auto stored, run.state(checkpoint, bundle::Check::kDigests, {threads}));
    return Source{std::move(stored), run.index().header.task};
  }
  if (options.step)
    return usage_error("--step chooses a checkpoint of a run; " + options.from + " is not a run");
  DGX_TRY(auto stored, bundle::read_state(options.from, bundle::Check::kDigests, {threads}));
  return Source{std::move(stored), std::nullopt};
}

enum class Format { kSafetensors, kNpz };

Result<Format> format_of(const std::string& path) {
  if (path.ends_with(".safetensors")) return Format::kSafetensors;
  if (path.ends_with(".npz")) return Format::kNpz;
  return usage_error(path + ": the name must end in .safetensors or .npz");
}

}  // namespace

Result<ExportResult> export_model(const ExportOptions& options, const JobContext& context) {
  DGX_TRY(const Format format, format_of(options.output));
  DGX_TRY(const Source source, read_source(options, context.threads));
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
    DGX_CHECK(write_file(options.output, bytes, context.clobber));
    return result;
  }
  json::Object metadata{
      {"format", "pt"}, {"dgx.step", std::to_string(result.step)}, {"dgx.state", result.state.hex()}};
  if (source.task) metadata.emplace("dgx.task", source.task->hex());
  DGX_CHECK(write_file(options.output, safetensors_bytes(std::move(tensors), metadata), context.clobber));
  return result;
}

}  // namespace dgx::jobs
