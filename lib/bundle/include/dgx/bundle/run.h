#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/bundle/format.h"
#include "dgx/bundle/state.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/tensor.h"

namespace dgx::bundle {

/// The checkpoints to keep: all, every N-th, or only the first and the last. The first (where training began)
/// and the last (where it resumes) are always kept; a dropped one is recomputed from the nearest kept one
/// before.
struct KeepPolicy {
  enum class Kind { kAll, kEvery, kLast };
  Kind kind = Kind::kAll;
  std::int64_t every = 1;

  /// True if checkpoint `index` of a run whose last is `last` is kept.
  [[nodiscard]] bool keeps(std::int64_t index, std::int64_t last) const;
};
/// Parses "all", "last" or "every:N"; kUsage otherwise.
[[nodiscard]] Result<KeepPolicy> parse_keep(std::string_view text);

/// A run's attributes, fixed when it is created.
struct RunHeader {
  Digest task;
  Digest program;             ///< root of the step program
  std::int64_t interval = 1;  ///< steps from one checkpoint to the next
  std::string drill;          ///< a deliberate fault, as dgx-train takes it; empty: none
  bool operator==(const RunHeader&) const = default;
};

/// A committed state. Checkpoint 0 is where training began; segment s leads from checkpoint s to checkpoint s
/// + 1.
struct Checkpoint {
  std::int64_t step = 0;  ///< steps done, the state's entry `step`
  Digest digest;          ///< digest of the state
  bool kept = false;      ///< true if its bundle is (or was, when the index was read) in the folder
};

/// The content of RUN/index.h5, which defines the run.
struct RunIndex {
  RunHeader header;
  /// The step after the last checkpoint gives a state that is not finite: the run is over.
  bool diverged = false;
  std::vector<Checkpoint> checkpoints;
  std::vector<float> losses;            ///< the losses of all segments, in order
  std::vector<std::int64_t> loss_ends;  ///< one per checkpoint: the number of `losses` before it

  [[nodiscard]] std::int64_t segments() const { return static_cast<std::int64_t>(checkpoints.size()) - 1; }
  /// The losses of one segment (0 <= segment < segments()).
  [[nodiscard]] std::span<const float> losses_of(std::int64_t segment) const;
};

/// RUN/checkpoint-STEP-DIGEST12.h5: ten digits of step, twelve of the digest.
[[nodiscard]] std::string checkpoint_path(const std::string& folder, const Checkpoint& checkpoint);

/// The only writer of a run's folder.
///
/// Constraints: a killed writer may lose the checkpoint being written and nothing else; readers may look at
/// any moment; of what proofs rest on, only the index grows with the number of steps. So what all states have
/// in common is a file of its own, written before the first of them, and every checkpoint is an immutable
/// bundle, written and made durable first; then the index, a small file that names it, is replaced as a
/// whole; then bundles that the new index no longer names are removed. Opening removes checkpoints that the
/// index does not name, and temporary files, by the exact names that a writer gives; without an index nothing
/// is removed. Appending to a chunked HDF5 dataset instead would be cheaper for long runs, but HDF5 has no
/// journal: a crash can lose the file.
class RunWriter {
 public:
  /// Makes the folder (its parent must exist) with checkpoint 0. The entries in `constants` are stored once:
  /// every state of the run must have them, and its digests say so without reading them. kCannotCreate if the
  /// folder already has an index, or has files of a run without an index; kLocked if another writer is still
  /// in it after `wait`.
  [[nodiscard]] static Result<RunWriter> create(const std::string& folder, const RunHeader& header,
                                                KeepPolicy keep, const State& initial,
                                                const StateDigests& digests, Effort effort = {},
                                                const LockWait& wait = {}, Constants constants = {});
  /// Continues a run, removing strays of a killed writer. kMissing if the folder has no index; kLocked if
  /// another writer is still in it after `wait`; kMalformed if the index is broken, its header is not
  /// `header`, for some step the folder has another state than the index names, or the first and the last
  /// state name other constant entries; the errors of read_state() for the constant entries' file. A
  /// checkpoint that is cut off is no error here: see first_damage(), last_state() and go_back().
  [[nodiscard]] static Result<RunWriter> open(const std::string& folder, const RunHeader& header,
                                              KeepPolicy keep, Effort effort = {}, const LockWait& wait = {});

  RunWriter(RunWriter&&) noexcept;
  RunWriter& operator=(RunWriter&&) = delete;
  ~RunWriter();

  [[nodiscard]] const RunIndex& index() const;
  /// The entries that the run's states share; none in a run that stores each state whole.
  [[nodiscard]] const Constants& constants() const;
  /// The last committed state, from which to resume; its digests are checked.
  [[nodiscard]] Result<StoredState> last_state() const;
  /// Damage of the first checkpoint's bundle, if it is there and cannot be opened. Its numbers were not read.
  [[nodiscard]] const std::optional<Error>& first_damage() const;
  /// Writes the first checkpoint's bundle again, and the constant entries' file if none was found. kUsage for
  /// another state than the run began with; the errors of write_state().
  [[nodiscard]] Status restore_first(const State& initial, const StateDigests& digests, Constants constants);
  /// True if the last checkpoint's bundle is there and damaged: cut off, or with numbers that do not have
  /// their digests. One that holds another state is whole, and not ours to give up. Reads the state.
  [[nodiscard]] bool last_is_damaged() const;
  /// Takes it that the last checkpoint's bundle is damaged: it goes when the next state is committed, as if
  /// it had not been kept. Not for a run whose last checkpoint is the first.
  void give_up_last();
  /// False from give_up_last() to the next commit.
  [[nodiscard]] bool last_is_kept() const;
  /// Returns the last committed state whose bundle is whole, and takes back all after it, with their losses:
  /// the run goes on from there. No file changes before the next commit. The error of the first checkpoint
  /// if no bundle is whole.
  [[nodiscard]] Result<StoredState> go_back();
  /// Commits the state after one more segment, which may leave out the constants(), with its losses (any
  /// number). On return the checkpoint is on disk and named by the index. kUsage if the state's step is not
  /// above the last one. After an error readers find the run as before, or, if only its sync failed, with
  /// this checkpoint.
  [[nodiscard]] Status append(const State& state, const StateDigests& digests, std::span<const float> losses);
  /// Removes the checkpoints that the policy does not keep, those of earlier writers included, as the next
  /// append() would. Guarantees and errors of append(); kMalformed if the last one cannot be opened, which
  /// leaves the others to go back to.
  [[nodiscard]] Status prune();
  /// Ends the run with this state, the last before a step that diverges, and the losses since the last
  /// checkpoint; the last checkpoint itself may be that state. Guarantees and errors of append().
  [[nodiscard]] Status diverge(const State& state, const StateDigests& digests,
                               std::span<const float> losses);

 private:
  struct Impl;
  explicit RunWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class SharedEntries;

/// Reads a run, even while another process writes it: a snapshot as of opening. Constant entries are read
/// with the first state that needs them, and stay in memory.
class RunReader {
 public:
  /// kMissing if the folder or its index is not there; kMalformed, also if for some step the folder has
  /// another state than the index names.
  [[nodiscard]] static Result<RunReader> open(const std::string& folder);

  [[nodiscard]] const RunIndex& index() const { return index_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// A kept checkpoint's state; with kDigests it is also checked against the index. kMissing if it was not
  /// kept or has been removed since; kUsage if there is no such checkpoint.
  [[nodiscard]] Result<StoredState> state(std::int64_t checkpoint, Check check = Check::kDigests,
                                          Effort effort = {}) const;
  /// The entries that the run's states share, and their digests as the file states them; state() checks them.
  [[nodiscard]] Result<Constants> constants() const;
  /// The number of the checkpoint at step `step`; kUsage if there is none.
  [[nodiscard]] Result<std::int64_t> checkpoint_at(std::int64_t step) const;
  /// True if a checkpoint's bundle is there: it was kept, and nobody has removed it since.
  [[nodiscard]] bool has(std::int64_t checkpoint) const;
  /// The last checkpoint that is there at or before `checkpoint`, from which to recompute it.
  [[nodiscard]] std::int64_t nearest_kept(std::int64_t checkpoint) const;

 private:
  RunReader(std::string folder, RunIndex index);
  std::string folder_;
  RunIndex index_;
  std::shared_ptr<SharedEntries> shared_;
};

}  // namespace dgx::bundle
