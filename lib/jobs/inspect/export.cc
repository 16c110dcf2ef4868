#include "dgx/bundle/model_files.h"
#include "dgx/jobs/inspect.h"
#include "dgx/program/averages.h"
#include "train/state_source.h"
#include "verify/stated_entries.h"

namespace dgx::jobs {
namespace {

enum class Format { kSafetensors, kNpz, kBundle };

Result<Format> format_of(const std::string& path) {
  if (path.ends_with(".safetensors")) return Format::kSafetensors;
  if (path.ends_with(".npz")) return Format::kNpz;
  if (path.ends_with(".h5")) return Format::kBundle;
  return usage_error(path + ": the name must end in .safetensors, .npz or .h5");
}

/// The entries of a state whose names begin with `prefix`, without it.
std::vector<bundle::NamedTensor> entries_of(const State& state, std::string_view prefix) {
  std::vector<bundle::NamedTensor> out;
  for (const Entry& entry : state) {
    if (entry.name.starts_with(prefix))
      out.push_back({entry.name.substr(prefix.size()), entry.tensor.view()});
  }
  return out;
}

Result<ExportResult> result_of(const bundle::StoredState& stored,
                               const std::vector<bundle::NamedTensor>& tensors) {
  ExportResult out;
  DGX_TRY(out.step, step_of(stored.state));
  out.state = stored.digests.state;
  out.tensors = static_cast<std::int64_t>(tensors.size());
  for (const bundle::NamedTensor& item : tensors) out.numbers += item.tensor.count();
  return out;
}

/// The metadata of an exported model: they name the state that it is from, and all its entries.
json::Object metadata_of(const StateSource& source, std::int64_t step) {
  json::Object out{{"format", "pt"},
                   {"dgx.step", std::to_string(step)},
                   {"dgx.state", source.stored.digests.state.hex()},
                   {std::string(kEntriesKey), print_entries(stated_entries(source.stored))}};
  if (source.task) out.emplace("dgx.task", source.task->hex());
  return out;
}

Result<ExportResult> export_bundle(const ExportOptions& options, const JobContext& context) {
  DGX_TRY(AtomicFile target, AtomicFile::create(options.output, context.clobber));
  DGX_TRY(const StateSource source, read_source(options.from, options.step, context.threads));
  const bundle::StoredState& stored = source.stored;
  DGX_TRY(const ExportResult result, result_of(stored, entries_of(stored.state, "")));
  DGX_CHECK(bundle::write_state(std::move(target), stored.state, stored.digests, {context.threads},
                                bundle::Storage::kPlain));
  return result;
}

Result<ExportResult> export_tensors(const ExportOptions& options, Format format, const JobContext& context) {
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(StateSource source, read_source(options.from, options.step, context.threads));
  json::Object metadata;
  if (options.averages) {
    if (program::take_averages(source.stored.state) == 0)
      return usage_error(options.from + ": has no averages",
                         "they are those of a task with dgx-submit --ema");
    metadata.emplace(kWeightsKey, kAveragedWeights);
  }
  const auto tensors = entries_of(source.stored.state, kModelPrefix);
  DGX_TRY(const ExportResult result, result_of(source.stored, tensors));
  metadata.merge(metadata_of(source, result.step));
  if (format == Format::kSafetensors) {
    DGX_CHECK(output.write(bundle::safetensors_bytes(tensors, metadata)));
    return result;
  }
  if (json::Value(metadata).dump().size() > bundle::kMaxCommentBytes) {
    return usage_error(options.output + ": an archive has no room for the digests of so many entries",
                       "write .safetensors instead");
  }
  DGX_TRY(const std::string bytes, bundle::npz_bytes(tensors, metadata));
  DGX_CHECK(output.write(bytes));
  return result;
}

}  // namespace

Result<ExportResult> export_model(const ExportOptions& options, const JobContext& context) {
  DGX_TRY(const Format format, format_of(options.output));
  if (options.averages && format == Format::kBundle)
    return usage_error("--ema: a state bundle has the parameters and their averages", "leave it out");
  return format == Format::kBundle ? export_bundle(options, context)
                                   : export_tensors(options, format, context);
}

}  // namespace dgx::jobs
