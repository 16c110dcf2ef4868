#include "dgx/jobs/task_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/sample.h"
#include "dgx/core/inputs.h"
#include "dgx/jobs/task_files.h"
#include "dgx/manifest/file_kind.h"
#include "task/folder_entries.h"

namespace dgx::jobs {
namespace {

using Paths = std::vector<std::string>;

/// True if the folder has a regular file of that name, not a link.
bool has_file(const std::string& folder, std::string_view name) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(fmt::format("{}/{}", folder, name), ignored);
  return std::filesystem::is_regular_file(status);
}

/// The files of one task in a folder, found by what they say of themselves: their kind, and the task or proof
/// that they name. A file of the kind that is looked for must be readable, since it may be the one.
class TaskFolder {
 public:
  [[nodiscard]] static Result<TaskFolder> open(const std::string& folder) {
    DGX_TRY(FolderEntries entries, FolderEntries::read(folder));
    DGX_TRY(std::string path, find_task_file(folder));
    DGX_TRY(auto task, read_task(path, std::nullopt));
    return TaskFolder(std::move(entries), std::move(path), std::move(task));
  }

  [[nodiscard]] const std::string& task_path() const { return task_path_; }
  [[nodiscard]] std::string place_of(const std::string& name) const { return entries_.path_of(name); }

  /// The only one of these paths, from now on an input. `what` and `option` are for the message.
  [[nodiscard]] Result<std::string> only(const Paths& found, std::string_view what,
                                         std::string_view option) const {
    if (found.size() == 1) return note_found(found.front()), found.front();
    const std::string hint = option.empty() ? "" : fmt::format("name it: {}", option);
    if (found.empty())
      return Error{ErrorCode::kMissing, fmt::format("{}: has no {} of this task", entries_.folder, what),
                   hint};
    return usage_error(
        fmt::format("{}: has more than one {} of this task: {}", entries_.folder, what, listed_names(found)),
        hint);
  }

  [[nodiscard]] Result<Paths> datasets() const {
    return bundles(bundle::Kind::kDataset, [this](const std::string& file) -> Result<bool> {
      DGX_TRY(const auto info, bundle::read_dataset_info(file));
      return info.digest == task_.body.dataset.digest;
    });
  }

  [[nodiscard]] Result<Paths> runs() const {
    Paths out;
    for (const std::string& name : entries_.folders) {
      const std::string folder = entries_.path_of(name);
      if (!has_file(folder, "index.h5")) continue;
      DGX_TRY(const auto run, bundle::RunReader::open(folder));
      if (run.index().header.task == task_.id) out.push_back(folder);
    }
    return out;
  }

  [[nodiscard]] Result<Paths> proofs() const {
    return statements<manifest::Proof>([this](const auto& proof) { return proof.body.task == task_.id; });
  }

  /// The statements that the proof's draw follows from: its beacon or, in a market with rounds, its round.
  [[nodiscard]] Result<Paths> beacons(const Digest& proof) const {
    // Only the ledger says which round is that of the proof's slot: a folder for a task has no other.
    if (task_.body.policy.beacon_source != 0)
      return statements<manifest::Round>(
          [this](const auto& round) { return round.body.ledger == task_.body.ledger; });
    return statements<manifest::Beacon>([&](const auto& beacon) { return beacon.body.proof == proof; });
  }

  /// Samples and openings of a proof.
  [[nodiscard]] Result<Paths> samples(const Digest& proof) const {
    const auto fits = [&](const std::string& file) -> Result<bool> {
      DGX_TRY(const auto sample, bundle::SampleReader::open(file));
      return sample.header().task == task_.id && sample.header().proof == proof;
    };
    DGX_TRY(Paths out, bundles(bundle::Kind::kSample, fits));
    for (const std::string& folder : openings()) {
      DGX_TRY(const bool is_ours, fits(fmt::format("{}/{}", folder, kOpenedSample)));
      if (is_ours) out.push_back(folder);
    }
    return out;
  }

 private:
  /// Notes the file, or of a run or an opening the file that says what it is.
  static void note_found(const std::string& path) {
    for (const std::string& file : {path, path + "/index.h5", fmt::format("{}/{}", path, kOpenedSample)})
      note_input(file);
  }

  TaskFolder(FolderEntries entries, std::string path, manifest::Signed<manifest::Task> task)
      : entries_(std::move(entries)), task_path_(std::move(path)), task_(std::move(task)) {}

  [[nodiscard]] Paths openings() const {
    Paths out;
    for (const std::string& name : entries_.folders) {
      if (has_file(entries_.path_of(name), kOpenedSample)) out.push_back(entries_.path_of(name));
    }
    return out;
  }

  /// The bundles of one kind that `fits` accepts.
  [[nodiscard]] Result<Paths> bundles(bundle::Kind kind,
                                      const std::function<Result<bool>(const std::string&)>& fits) const {
    Paths out;
    for (const std::string& file : entries_.ending_in(".h5")) {
      const auto found = bundle::kind_of(file);
      if (!found.ok() || *found != kind) continue;
      DGX_TRY(const bool is_ours, fits(file));
      if (is_ours) out.push_back(file);
    }
    return out;
  }

  /// The statements of kind T that `fits` accepts, in the folder and in its openings; of copies the first.
  template <class T, class Fits>
  [[nodiscard]] Result<Paths> statements(const Fits& fits) const {
    Paths files = entries_.ending_in(".json");
    for (const std::string& folder : openings()) {
      DGX_TRY(const FolderEntries opening, FolderEntries::read(folder));
      const Paths more = opening.ending_in(".json");
      files.insert(files.end(), more.begin(), more.end());
    }
    Paths out;
    std::set<Digest> ids;
    for (const std::string& file : files) {
      const auto text = read_file(file, manifest::kMaxEnvelopeBytes + 1);
      if (!text.ok() || manifest::recognise(*text).statement != T::kKind) continue;
      const auto statement = manifest::open_statement<T>(*text);
      if (!statement.ok()) return within(file, statement.error());
      if (fits(*statement) && ids.insert(statement->id).second) out.push_back(file);
    }
    return out;
  }

  FolderEntries entries_;
  std::string task_path_;
  manifest::Signed<manifest::Task> task_;
};

/// Opens the folder that `task` is, replaces it by the task's file, and lets `fill` name the rest.
template <class Fill>
Status fill_from_folder(std::string& task, const Fill& fill) {
  if (!is_task_folder(task)) return {};
  const Search search;
  DGX_TRY(const TaskFolder folder, TaskFolder::open(task));
  task = folder.task_path();
  note_input(task);
  return fill(folder);
}

Status find_data(const TaskFolder& folder, std::string& data) {
  if (!data.empty()) return {};
  DGX_TRY(const Paths found, folder.datasets());
  DGX_TRY(data, folder.only(found, "dataset", "--data DATA.h5"));
  return {};
}

Status find_run(const TaskFolder& folder, std::string& run, std::string_view option) {
  if (!run.empty()) return {};
  DGX_TRY(const Paths found, folder.runs());
  auto only = folder.only(found, "run", option);
  if (!only.ok() && found.empty()) {
    Error error = std::move(only).error();
    error.hint = "dgx-train makes it";
    return error;
  }
  DGX_TRY(run, std::move(only));
  return {};
}

Status find_proof(const TaskFolder& folder, std::string& proof) {
  if (!proof.empty()) return {};
  DGX_TRY(const Paths found, folder.proofs());
  DGX_TRY(proof, folder.only(found, "proof", "PROOF.json after the task"));
  return {};
}

/// The id of the proof in a file that find_proof() named or the caller did.
Result<Digest> id_of_proof(const std::string& path) {
  DGX_TRY(const auto proof, manifest::read_statement<manifest::Proof>(path));
  return proof.id;
}

/// Names the beacon of a proof; leaves `beacon` empty if there is none.
Status find_beacon(const TaskFolder& folder, const Digest& proof, std::optional<std::string>& beacon) {
  if (beacon) return {};
  DGX_TRY(const Paths found, folder.beacons(proof));
  if (found.empty()) return {};
  DGX_TRY(beacon, folder.only(found, "beacon", "--beacon BEACON.json"));
  return {};
}

Status find_starts(const TaskFolder& folder, const Digest& proof, bool is_chosen, std::string& from) {
  if (!from.empty()) return {};
  DGX_TRY(const Paths samples, folder.samples(proof));
  DGX_TRY(const Paths runs, folder.runs());
  const Paths& first = is_chosen ? runs : samples;
  const Paths& second = is_chosen ? samples : runs;
  DGX_TRY(from,
          folder.only(first.empty() ? second : first, "sample, opening or run", "--from SAMPLE.h5|RUN|DIR"));
  return {};
}

}  // namespace

bool is_task_folder(const std::string& task) {
  std::error_code ignored;
  return task != "-" && std::filesystem::is_directory(task, ignored);
}

Status complete(TrainOptions& options) {
  return fill_from_folder(options.task, [&](const TaskFolder& folder) -> Status {
    DGX_CHECK(find_data(folder, options.data));
    if (!options.run.empty()) return {};
    DGX_TRY(const Paths found, folder.runs());
    if (found.empty()) return options.run = folder.place_of("run"), Status();
    DGX_TRY(options.run, folder.only(found, "run", "-o RUN"));
    return {};
  });
}

Status complete(ProveOptions& options) {
  return fill_from_folder(options.task, [&](const TaskFolder& folder) -> Status {
    if (options.output.empty()) options.output = folder.place_of("proof.json");
    return find_run(folder, options.run, "RUN after the task");
  });
}

Status complete(OpenSampleOptions& options) {
  return fill_from_folder(options.task, [&](const TaskFolder& folder) -> Status {
    DGX_CHECK(find_proof(folder, options.proof));
    DGX_TRY(const Digest proof, id_of_proof(options.proof));
    if (!options.receipt) DGX_CHECK(find_beacon(folder, proof, options.beacon));
    if (!options.receipt && !options.beacon)
      return folder.only({}, "beacon", "--beacon BEACON.json, or --receipt RECEIPT.json").error();
    DGX_CHECK(find_run(folder, options.run, "--run RUN"));
    DGX_TRY(const Paths datasets, folder.datasets());
    if (!options.data && datasets.size() == 1) options.data = datasets.front();
    if (options.output.empty())
      options.output = folder.place_of(options.store ? "opening.json" : "sample.h5");
    return {};
  });
}

Status complete(DeliverOptions& options) {
  return fill_from_folder(options.task, [&](const TaskFolder& folder) -> Status {
    DGX_CHECK(find_proof(folder, options.proof));
    if (options.output.empty()) options.output = folder.place_of("delivery.json");
    return find_run(folder, options.run, "--run RUN");
  });
}

Status complete(VerifyOptions& options, VerifyNeeds needs) {
  return fill_from_folder(options.task, [&](const TaskFolder& folder) -> Status {
    DGX_CHECK(find_proof(folder, options.proof));
    DGX_TRY(const Digest proof, id_of_proof(options.proof));
    if (!options.choice.made()) DGX_CHECK(find_beacon(folder, proof, options.beacon));
    if (needs == VerifyNeeds::kPlan) return {};
    DGX_CHECK(find_data(folder, options.data));
    if (options.output.empty() && !options.shard) options.output = folder.place_of("verdict.json");
    return find_starts(folder, proof, options.choice.made(), options.from);
  });
}

}  // namespace dgx::jobs
