#include "dgx/bundle/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "dgx/core/files.h"
#include "dgx/core/remote.h"
#include "run_index.h"
#include "shared_entries.h"

namespace dgx::bundle {
namespace {

constexpr std::size_t kMaxDrillBytes = 256;

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

Status check_header(const RunHeader& header) {
  if (header.interval < 1)
    return usage_error(fmt::format("checkpoint interval {} is below 1", header.interval));
  if (header.drill.size() <= kMaxDrillBytes && is_printable(header.drill)) return {};
  return usage_error(fmt::format("a drill is described in at most {} printable bytes", kMaxDrillBytes));
}

Status compare_headers(const std::string& folder, const RunHeader& found, const RunHeader& wanted) {
  if (found == wanted) return {};
  const std::string path = index_path(folder);
  if (found.task != wanted.task) {
    return malformed(
        fmt::format("{}: belongs to task {}, not {}", path, found.task.brief(), wanted.task.brief()));
  }
  if (found.program != wanted.program)
    return malformed(fmt::format("{}: was made with another step program", path));
  if (found.interval != wanted.interval) {
    return malformed(
        fmt::format("{}: has checkpoint interval {}, not {}", path, found.interval, wanted.interval));
  }
  return malformed(
      fmt::format("{}: was made with drill \"{}\", not \"{}\"", path, found.drill, wanted.drill));
}

bool is_all(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

/// True if checkpoint_path() makes this name: other programs also write files called checkpoint-….h5.
bool is_checkpoint_name(std::string_view name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  constexpr std::string_view kSuffix = ".h5";
  constexpr std::size_t kDigest = 12;
  constexpr std::size_t kLeastStep = 10;
  constexpr std::size_t kMostStep = 19;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  const std::size_t dash = name.find('-');
  if (dash < kLeastStep || dash > kMostStep || (dash > kLeastStep && name[0] == '0')) return false;
  if (!is_all(name.substr(0, dash), "0123456789") || name.size() != dash + 1 + kDigest) return false;
  return is_all(name.substr(dash + 1), "0123456789abcdef");
}

/// True if constants_path() makes this name.
bool is_constants_name(std::string_view name) {
  constexpr std::string_view kPrefix = "constant-";
  constexpr std::string_view kSuffix = ".h5";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  return name.size() == 12 && is_all(name, "0123456789abcdef");
}

bool is_resume_name(std::string_view name) { return name == "resume.h5" || name == "resume.losses"; }

/// True if AtomicFile makes this name for a run's file: .NAME.PROCESS.COUNT.tmp
bool is_temporary_name(std::string_view name) {
  constexpr std::string_view kSuffix = ".tmp";
  if (!name.starts_with('.') || !name.ends_with(kSuffix)) return false;
  name = name.substr(1, name.size() - 1 - kSuffix.size());
  for (int number = 0; number < 2; ++number) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos || !is_all(name.substr(dot + 1), "0123456789")) return false;
    name = name.substr(0, dot);
  }
  return is_checkpoint_name(name) || is_constants_name(name) || is_resume_name(name) || name == "index.h5" ||
         name == "best.h5";
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

Result<std::vector<std::string>> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> out;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    out.push_back(it->path().filename().string());
  }
  if (error) return Error{ErrorCode::kIo, fmt::format("{}: cannot list: {}", folder, error.message()), {}};
  return out;
}

/// Removes what a killed writer left in the folder of `index`: temporary files, and checkpoints that the
/// index did not name yet or no longer names.
Status remove_strays(const std::string& folder, const RunIndex& index) {
  std::set<std::string> named;
  for (const Checkpoint& checkpoint : index.checkpoints) {
    if (checkpoint.kept) named.insert(file_name(checkpoint_path(folder, checkpoint)));
  }
  DGX_TRY(const auto names, names_in(folder));
  for (const std::string& name : names) {
    const bool stray = is_temporary_name(name) || (is_checkpoint_name(name) && !named.contains(name));
    if (stray) DGX_CHECK(remove_file(folder + "/" + name));
  }
  return {};
}

/// The step in a checkpoint's name.
std::string_view step_in(std::string_view name) {
  name.remove_prefix(std::string_view("checkpoint-").size());
  return name.substr(0, name.find('-'));
}

/// kMalformed if the index names a missing bundle and the folder has another of the same step: a damaged
/// index would have an honest checkpoint removed as a stray. No writer leaves two states of one step.
Status check_names(const std::string& folder, const RunIndex& index) {
  std::map<std::string, std::string, std::less<>> by_step;
  DGX_TRY(const auto names, names_in(folder));
  for (const std::string& name : names) {
    if (is_checkpoint_name(name)) by_step.emplace(step_in(name), name);
  }
  for (const Checkpoint& checkpoint : index.checkpoints) {
    const std::string path = checkpoint_path(folder, checkpoint);
    const auto found = by_step.find(step_in(file_name(path)));
    if (!checkpoint.kept || found == by_step.end() || exists(path)) continue;
    return malformed(
        fmt::format("{}: names {}, the folder has {}", index_path(folder), file_name(path), found->second),
        "the index is damaged; nothing was removed");
  }
  return {};
}

/// Refuses a folder without an index that holds any file of a run but those that a killed call began with,
/// its constant entries and `first`, its checkpoint: it would be somebody's work.
Status refuse_lost_run(const std::string& folder, const Checkpoint& first, const Constants& constants) {
  const std::set<std::string> begun = {file_name(checkpoint_path(folder, first)),
                                       file_name(constants_path(folder, constants.digest))};
  DGX_TRY(const auto names, names_in(folder));
  for (const std::string& name : names) {
    const bool of_run = is_checkpoint_name(name) || is_constants_name(name) || is_resume_name(name);
    if (begun.contains(name) || !of_run) continue;
    return Error{ErrorCode::kCannotCreate, fmt::format("{}: has {}, but index.h5 is missing", folder, name),
                 "bring index.h5 back, or name another folder"};
  }
  return {};
}

/// The constant entries that a checkpoint leaves out. Empty if its bundle is missing: whoever needs it says
/// so.
Result<Constants> constants_of_run(const std::string& folder, const Checkpoint& checkpoint) {
  const std::string path = checkpoint_path(folder, checkpoint);
  if (!exists(path)) return Constants{};
  DGX_TRY(const std::optional<Digest> digest, stated_constant(path));
  return digest ? stated_constants(folder, *digest) : Constants{};
}

/// Damage of a checkpoint's bundle that is there and cannot be opened: it is cut off, or wrong where it says
/// what it holds. Its numbers are not read.
Result<std::optional<Error>> damage_of(const std::string& folder, const Checkpoint& checkpoint) {
  const std::string path = checkpoint_path(folder, checkpoint);
  if (!exists(path)) return std::optional<Error>();
  auto stated = stated_constant(path);
  if (stated.ok()) return std::optional<Error>();
  if (stated.error().code != ErrorCode::kMalformed) return std::move(stated).error();
  return std::optional<Error>(std::move(stated).error());
}

/// The last checkpoint whose bundle is there and can be opened; the last of all if there is none.
Result<std::size_t> last_opened(const std::string& folder, const RunIndex& index) {
  for (std::size_t at = index.checkpoints.size(); at-- > 0;) {
    const Checkpoint& checkpoint = index.checkpoints[at];
    if (!checkpoint.kept || !exists(checkpoint_path(folder, checkpoint))) continue;
    DGX_TRY(const std::optional<Error> damage, damage_of(folder, checkpoint));
    if (!damage) return at;
  }
  return index.checkpoints.size() - 1;
}

/// kMalformed if the first checkpoint leaves out other constant entries than a later one: those of one of
/// them are another run's.
Status check_constants(const std::string& folder, const Checkpoint& front, const Checkpoint& later) {
  const std::string first = checkpoint_path(folder, front), last = checkpoint_path(folder, later);
  if (!exists(first) || !exists(last)) return {};
  DGX_TRY(const std::optional<Digest> at_first, stated_constant(first));
  DGX_TRY(const std::optional<Digest> at_last, stated_constant(last));
  if (at_first == at_last) return {};
  const auto name = [](const std::optional<Digest>& digest) { return digest ? digest->brief() : "none"; };
  return malformed(fmt::format("{}: has the constant entries {}, the run's first checkpoint {}", last,
                               name(at_last), name(at_first)),
                   "a file of this folder is another run's: bring it back from another copy of the run");
}

Result<FileLock> lock(const std::string& folder, const LockWait& wait) {
  return FileLock::acquire_file(folder + "/.lock", wait);
}

}  // namespace

bool KeepPolicy::keeps(std::int64_t index, std::int64_t last) const {
  if (kind == Kind::kAll || index == 0 || index == last) return true;
  return kind == Kind::kEvery && index % every == 0;
}

Result<KeepPolicy> parse_keep(std::string_view text) {
  if (text == "all") return KeepPolicy{};
  if (text == "last") return KeepPolicy{KeepPolicy::Kind::kLast, 1};
  constexpr std::string_view kEvery = "every:";
  std::int64_t every = 0;
  if (text.starts_with(kEvery)) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + kEvery.size(), end, every);
    if (error != std::errc() || stop != end) every = 0;
  }
  if (every >= 1) return KeepPolicy{KeepPolicy::Kind::kEvery, every};
  return usage_error(fmt::format("\"{}\" does not say which checkpoints to keep", text),
                     "use all, last or every:N");
}

std::span<const float> RunIndex::losses_of(std::int64_t segment) const {
  assert(segment >= 0 && segment < segments());
  const auto at = static_cast<std::size_t>(segment);
  return std::span(losses).subspan(static_cast<std::size_t>(loss_ends[at]),
                                   static_cast<std::size_t>(loss_ends[at + 1] - loss_ends[at]));
}

std::string checkpoint_path(const std::string& folder, const Checkpoint& checkpoint) {
  return fmt::format("{}/checkpoint-{:010}-{}.h5", folder, checkpoint.step, checkpoint.digest.brief());
}

struct RunWriter::Impl {
  std::string folder;
  FileLock lock;
  KeepPolicy keep;
  Effort effort;
  RunIndex index;
  Constants constants = {};
  std::optional<Error> first_damage = {};
  bool last_is_lost = false;  ///< the last checkpoint's bundle is damaged, and goes with the next commit

  /// A copy of the index with one more checkpoint.
  [[nodiscard]] Result<RunIndex> with(const State& state, const StateDigests& digests,
                                      std::span<const float> losses) const {
    DGX_TRY(const std::int64_t step, step_of(state));
    const std::int64_t last_step = index.checkpoints.back().step;
    if (index.diverged)
      return usage_error(fmt::format("the run ended at step {}, where it diverged", last_step));
    if (step <= last_step) {
      return usage_error(
          fmt::format("a checkpoint at step {} cannot follow one at step {}", step, last_step));
    }
    RunIndex next = index;
    if (last_is_lost) next.checkpoints.back().kept = false;
    next.checkpoints.push_back({step, digests.state, true});
    next.losses.insert(next.losses.end(), losses.begin(), losses.end());
    next.loss_ends.push_back(static_cast<std::int64_t>(next.losses.size()));
    drop(next);
    return next;
  }

  /// Marks the checkpoints that the policy does not keep.
  void drop(RunIndex& next) const {
    for (std::int64_t i = 0; i < next.segments(); ++i) {
      Checkpoint& checkpoint = next.checkpoints[static_cast<std::size_t>(i)];
      checkpoint.kept = checkpoint.kept && keep.keeps(i, next.segments());
    }
  }

  /// Makes `next` the run's index; its last checkpoint is `state`.
  Status commit(RunIndex next, const State& state, const StateDigests& digests) {
    const std::string path = checkpoint_path(folder, next.checkpoints.back());
    DGX_CHECK(write_state(path, state, digests, constants, Clobber::kReplace, effort));
    // Even after an error the new index may be there and name the bundle; otherwise the bundle is a stray.
    return replace_index(std::move(next));
  }

  /// Replaces the index, then removes the bundles that it no longer names.
  Status replace_index(RunIndex next) {
    DGX_CHECK(write_index(folder, next));
    const RunIndex before = std::exchange(index, std::move(next));
    if (index.segments() > before.segments()) last_is_lost = false;
    // A bundle that cannot be removed now is a stray, which the next opening removes.
    for (std::size_t i = 0; i < before.checkpoints.size(); ++i) {
      if (!before.checkpoints[i].kept || index.checkpoints[i].kept) continue;
      static_cast<void>(remove_file(checkpoint_path(folder, before.checkpoints[i])));
    }
    return {};
  }
};

RunWriter::RunWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunWriter::RunWriter(RunWriter&&) noexcept = default;
RunWriter::~RunWriter() = default;

Result<RunWriter> RunWriter::create(const std::string& folder, const RunHeader& header, KeepPolicy keep,
                                    const State& initial, const StateDigests& digests, Effort effort,
                                    const LockWait& wait, Constants constants) {
  DGX_CHECK(check_header(header));
  DGX_TRY(const std::int64_t step, step_of(initial));
  DGX_CHECK(make_folder(folder));
  DGX_TRY(FileLock held, lock(folder, wait));
  if (exists(index_path(folder))) {
    return Error{ErrorCode::kCannotCreate, fmt::format("{}: already holds a run", folder),
                 "run the same command again to resume it"};
  }
  RunIndex index{header, false, {{step, digests.state, true}}, {}, {0}};
  DGX_CHECK(refuse_lost_run(folder, index.checkpoints.front(), constants));
  if (!constants.empty()) DGX_CHECK(write_constants(folder, initial, digests, constants, effort));
  auto impl = std::make_unique<Impl>(Impl{folder, std::move(held), keep, effort, {}, std::move(constants)});
  DGX_CHECK(impl->commit(std::move(index), initial, digests));
  DGX_CHECK(remove_strays(folder, impl->index));
  return RunWriter(std::move(impl));
}

Result<RunWriter> RunWriter::open(const std::string& folder, const RunHeader& header, KeepPolicy keep,
                                  Effort effort, const LockWait& wait) {
  if (!exists(index_path(folder))) {
    return Error{ErrorCode::kMissing, fmt::format("{}: does not exist", index_path(folder)), {}};
  }
  DGX_TRY(FileLock held, lock(folder, wait));
  DGX_TRY(RunIndex index, read_index(folder));
  DGX_CHECK(compare_headers(folder, index.header, header));
  DGX_CHECK(check_names(folder, index));
  const Checkpoint& front = index.checkpoints.front();
  DGX_TRY(const std::size_t at, last_opened(folder, index));
  const Checkpoint& later = index.checkpoints[at];
  DGX_TRY(std::optional<Error> damage, damage_of(folder, front));
  DGX_TRY(const std::optional<Error> none_opened, damage_of(folder, later));
  if (!damage) DGX_CHECK(check_constants(folder, front, later));
  Constants constants;
  if (!none_opened) {
    DGX_TRY(constants, constants_of_run(folder, later));
  }
  DGX_CHECK(remove_strays(folder, index));
  return RunWriter(std::make_unique<Impl>(Impl{folder, std::move(held), keep, effort, std::move(index),
                                               std::move(constants), std::move(damage)}));
}

const RunIndex& RunWriter::index() const { return impl_->index; }
const Constants& RunWriter::constants() const { return impl_->constants; }

Result<StoredState> RunWriter::last_state() const {
  DGX_TRY(const RunReader reader, RunReader::open(impl_->folder));
  return reader.state(impl_->index.segments(), Check::kDigests, impl_->effort);
}

const std::optional<Error>& RunWriter::first_damage() const { return impl_->first_damage; }

bool RunWriter::last_is_damaged() const {
  const std::string path = checkpoint_path(impl_->folder, impl_->index.checkpoints.back());
  if (!exists(path)) return false;
  const auto stored = read_state(path, Check::kDigests, impl_->effort);
  return !stored.ok() && stored.error().code == ErrorCode::kMalformed;
}

bool RunWriter::last_is_kept() const { return !impl_->last_is_lost; }

void RunWriter::give_up_last() {
  assert(impl_->index.segments() > 0);
  impl_->last_is_lost = true;
}

Result<StoredState> RunWriter::go_back() {
  DGX_TRY(const RunReader reader, RunReader::open(impl_->folder));
  RunIndex& index = impl_->index;
  for (std::int64_t at = index.segments(); at >= 0; --at) {
    if (!reader.has(at)) continue;
    auto stored = reader.state(at, Check::kDigests, impl_->effort);
    if (!stored.ok() && stored.error().code == ErrorCode::kMalformed && at > 0) continue;
    if (!stored.ok() || at == index.segments()) return stored;
    index.checkpoints.resize(static_cast<std::size_t>(at) + 1);
    index.loss_ends.resize(index.checkpoints.size());
    index.losses.resize(static_cast<std::size_t>(index.loss_ends.back()));
    index.diverged = false;
    return stored;
  }
  return malformed(fmt::format("{}: no checkpoint of it can be read", impl_->folder));
}

Status RunWriter::restore_first(const State& initial, const StateDigests& digests, Constants constants) {
  const Checkpoint& first = impl_->index.checkpoints.front();
  if (digests.state != first.digest)
    return usage_error(
        fmt::format("the run begins with state {}, not {}", first.digest.brief(), digests.state.brief()));
  if (impl_->constants.empty() && !constants.empty()) {
    DGX_CHECK(write_constants(impl_->folder, initial, digests, constants, impl_->effort));
    impl_->constants = std::move(constants);
  }
  DGX_CHECK(write_state(checkpoint_path(impl_->folder, first), initial, digests, impl_->constants,
                        Clobber::kReplace, impl_->effort));
  impl_->first_damage.reset();
  return {};
}

Status RunWriter::append(const State& state, const StateDigests& digests, std::span<const float> losses) {
  DGX_TRY(RunIndex next, impl_->with(state, digests, losses));
  return impl_->commit(std::move(next), state, digests);
}

Status RunWriter::prune() {
  DGX_TRY(const std::optional<Error> damage, damage_of(impl_->folder, impl_->index.checkpoints.back()));
  if (damage)
    return Error{ErrorCode::kMalformed, damage->message,
                 "dgx-train goes on from a checkpoint before it; nothing was removed"};
  RunIndex next = impl_->index;
  impl_->drop(next);
  const auto kept = [](const RunIndex& index) {
    return std::count_if(index.checkpoints.begin(), index.checkpoints.end(),
                         [](const Checkpoint& checkpoint) { return checkpoint.kept; });
  };
  return kept(next) == kept(impl_->index) ? Status() : impl_->replace_index(std::move(next));
}

Status RunWriter::diverge(const State& state, const StateDigests& digests, std::span<const float> losses) {
  RunIndex next = impl_->index;
  if (next.checkpoints.back().digest != digests.state) {
    DGX_TRY(next, impl_->with(state, digests, losses));
  }
  next.diverged = true;
  return impl_->commit(std::move(next), state, digests);
}

Result<RunReader> RunReader::open(const std::string& folder) {
  DGX_TRY(RunIndex index, read_index(folder));
  if (!is_url(folder)) DGX_CHECK(check_names(folder, index));  // a server lists no folder
  return RunReader(folder, std::move(index));
}

RunReader::RunReader(std::string folder, RunIndex index)
    : folder_(std::move(folder)), index_(std::move(index)), shared_(std::make_shared<SharedEntries>()) {}

Result<Constants> RunReader::constants() const {
  return constants_of_run(folder_, index_.checkpoints.back());
}

Result<StoredState> RunReader::state(std::int64_t checkpoint, Check check, Effort effort) const {
  if (checkpoint < 0 || checkpoint > index_.segments()) {
    return usage_error(
        fmt::format("{}: has no checkpoint {}, its last is {}", folder_, checkpoint, index_.segments()));
  }
  const Checkpoint& wanted = index_.checkpoints[static_cast<std::size_t>(checkpoint)];
  const std::string path = checkpoint_path(folder_, wanted);
  if (!has(checkpoint)) {
    const std::int64_t base = nearest_kept(checkpoint);
    return Error{ErrorCode::kMissing,
                 wanted.kept ? path + ": does not exist"
                             : fmt::format("{}: checkpoint {} was not kept", folder_, checkpoint),
                 has(base) ? fmt::format("recompute it from checkpoint {}", base) : ""};
  }
  DGX_TRY(StoredState stored, read_state(path, check, effort, *shared_));
  if (stored.digests.state == wanted.digest) return stored;
  return malformed(fmt::format("{}: holds state {}, the index names {}", path, stored.digests.state.brief(),
                               wanted.digest.brief()));
}

Result<std::int64_t> RunReader::checkpoint_at(std::int64_t step) const {
  const auto& all = index_.checkpoints;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [step](const Checkpoint& checkpoint) { return checkpoint.step == step; });
  if (found != all.end()) return found - all.begin();
  return usage_error(fmt::format("{} has no checkpoint at that step", folder_),
                     fmt::format("dgx-inspect {} lists them", folder_));
}

bool RunReader::has(std::int64_t checkpoint) const {
  const Checkpoint& wanted = index_.checkpoints[static_cast<std::size_t>(checkpoint)];
  // A server is believed until the bundle is read: asking it first would cost a round trip and prove nothing.
  return wanted.kept && (is_url(folder_) || exists(checkpoint_path(folder_, wanted)));
}

std::int64_t RunReader::nearest_kept(std::int64_t checkpoint) const {
  std::int64_t at = std::min(checkpoint, index_.segments());
  while (at > 0 && !has(at)) --at;
  return at;
}

}  // namespace dgx::bundle
