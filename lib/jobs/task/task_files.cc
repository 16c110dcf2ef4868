#include "dgx/jobs/task_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "dgx/bundle/state.h"
#include "dgx/core/inputs.h"
#include "dgx/manifest/trust.h"
#include "dgx/program/initial.h"
#include "task/folder_entries.h"

namespace dgx::jobs {

Result<TaskFiles> open_task(const std::string& named, const std::optional<std::string>& program_path,
                            const manifest::TrustView& trust, ProgramShelf* shelf) {
  DGX_TRY(const std::string path, find_task_file(named));
  DGX_TRY(auto task, manifest::read_statement<manifest::Task>(path));
  DGX_CHECK(trust.check(task.key_id, path + ": the submitter"));
  if (path == "-" && !program_path) {
    return usage_error("standard input has no step program next to it",
                       "name the task's file, or the program with --program");
  }
  std::shared_ptr<const program::Program> program;
  if (shelf != nullptr) {
    auto found = shelf->find(task.body);
    if (!found.ok()) return within(path, std::move(found).error());
    program = std::move(found).value();
  }
  if (program == nullptr) {
    std::string file = program_path.value_or("");
    if (!program_path) {
      DGX_TRY(file, find_program(path, ".program.jsonl", task.body.program, "step program",
                                 "it must lie beside the task; --program names it elsewhere"));
    }
    DGX_TRY(program, open_step_program(file, task.body));
    if (shelf != nullptr) shelf->add(task.body, program);
  }
  DGX_TRY(const auto segments, protocol::Segments::of(task.body.steps, task.body.checkpoint_every));
  return TaskFiles{std::move(task), std::move(program), segments, path};
}

namespace {

/// Checks the fields' names, and number, type and shape of the samples: the order of the data and each
/// sample's place follow from them.
Status check_fields(const FieldRows& data, const manifest::DatasetReference& dataset) {
  for (const auto& [name, unused] : data)
    if (dataset.find(name) == nullptr) return malformed(fmt::format("{} is no field of the task's", name));
  for (const auto& [name, field] : dataset.fields) {
    const auto found = data.find(name);
    if (found == data.end()) return malformed(fmt::format("{} is missing, a field of the task's", name));
    const DType dtype = found->second.dtype();
    const Shape& shape = found->second.shape();
    Shape named{dataset.samples};
    named.insert(named.end(), field.shape.begin(), field.shape.end());
    if (field.dtype == dtype && named == shape) continue;
    return malformed(fmt::format("{} is {} {}, the task's is {} {}", name, name_of(dtype), to_string(shape),
                                 name_of(field.dtype), to_string(named)));
  }
  return {};
}

/// kMalformed unless the digest is the task's.
Status check_digest(const std::string& path, const Digest& digest, const manifest::Task& task) {
  if (digest == task.dataset.digest) return {};
  return malformed(
      path + ": dataset " + digest.brief() + "…, the task binds " + task.dataset.digest.brief() + "…",
      "use the dataset bundle that the task was submitted with");
}

}  // namespace

Result<bundle::Dataset> read_task_dataset(const std::string& path, const manifest::Task& task, int threads) {
  DGX_TRY(bundle::StoredDataset stored, bundle::read_stored_dataset(path, {.threads = threads}));
  DGX_CHECK(check_digest(path, stored.digest, task));
  if (auto checked = check_fields(stored.data.rows(), task.dataset); !checked)
    return within(path, std::move(checked).error());
  return std::move(stored.data);
}

Result<bundle::OpenedDataset> open_task_dataset(const std::string& path, const manifest::Task& task,
                                                const JobContext& context,
                                                const std::optional<std::string>& cache) {
  DGX_TRY(auto data,
          bundle::OpenedDataset::open(
              path, {.threads = context.threads, .stop = &context.stop, .cache = cache},
              [&](const bundle::DatasetInfo& info) { return check_digest(path, info.digest, task); }));
  if (auto checked = check_fields(data.rows(), task.dataset); !checked)
    return within(path, std::move(checked).error());
  for (const std::string& warning : data.warnings()) context.progress.warning(warning);
  return data;
}

Status check_stated_dataset(const std::string& path, const manifest::Task& task) {
  DGX_TRY(const bundle::DatasetInfo info, bundle::read_dataset_info(path));
  return check_digest(path, info.digest, task);
}

Result<State> seeded_state(const TaskFiles& files, std::uint64_t seed) {
  const auto kind = program::model_kind(files.body().model);
  if (!kind)
    return malformed(files.path + ": model: \"" + files.body().model +
                     "\" is not a built-in model, yet starts from its seed");
  return program::initial_state(*files.program, seed, *kind);
}

namespace {

/// The path of a task's initial state: TASK.init.h5 or, if that is not there, the state bundle of the same
/// folder that says it has this digest.
std::string initial_state_path(const std::string& task_path, const Digest& digest) {
  const std::string own = beside(task_path, ".init.h5");
  if (exists(own)) return own;
  const Search search;
  const auto entries = FolderEntries::read(std::filesystem::path(task_path).parent_path().string());
  for (const std::string& file : entries.ok() ? entries->ending_in(".h5") : std::vector<std::string>()) {
    const auto stated = bundle::stated_digest(file);
    if (stated.ok() && *stated == digest) return file;
  }
  return own;
}

}  // namespace

Result<State> initial_state(const TaskFiles& files, const std::optional<std::string>& init) {
  const manifest::Task& task = files.body();
  State state;
  if (task.initial.source == manifest::InitialSource::kSeed) {
    DGX_TRY(state, seeded_state(files, task.seed));
  } else {
    const std::string path = init.value_or(initial_state_path(files.path, task.initial.digest));
    DGX_TRY(auto stored, bundle::read_state(path, bundle::Check::kNothing));
    state = std::move(stored.state);
    DGX_CHECK(program::check_state(*files.program, state));
  }
  DGX_TRY(const auto digests, bundle::digests_of(state));
  if (digests.state != task.initial.digest) {
    return malformed("the initial state is " + digests.state.brief() + "…, the task binds " +
                     task.initial.digest.brief() + "…");
  }
  return state;
}

}  // namespace dgx::jobs
