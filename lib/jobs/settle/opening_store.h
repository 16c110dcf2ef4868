#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/jobs/settle.h"
#include "dgx/manifest/fields.h"
#include "settle/settle_files.h"
#include "verify/store.h"

namespace dgx::jobs {

/// True if the rules admit a statement only after the operator has fetched its files: an opening, a delivery
/// with a location, the answer to a demand for a chunk.
[[nodiscard]] bool needs_fetch(const manifest::Body& body);

/// The total length in bytes of a statement's files in the store, without reading them; nullopt if not all
/// are there.
[[nodiscard]] std::optional<std::int64_t> bytes_in_store(const std::string& store,
                                                         const manifest::Signed<manifest::Body>& statement);

/// The statements of an append, split: `later` holds those that need files of a store, and those of the same
/// task that come after one that does. One element a task, in order.
struct Parted {
  std::vector<std::vector<Result<Incoming>>> now;  ///< in their order, file by file
  std::vector<std::vector<Incoming>> later;
};
[[nodiscard]] Parted part(std::vector<std::vector<Result<Incoming>>> files);

/// The store to fetch files from, and a limit on the length of each file in addition to that of the rules.
struct FetchFrom {
  std::optional<std::string> store;
  std::int64_t most_bytes = manifest::kMaxInteger;
  int threads = 1;
};

/// A copy that was fetched and checked, but is not yet one of the operator's own: removed with this object
/// unless it is kept.
class FetchedFiles {
 public:
  FetchedFiles(FetchedFiles&& other) noexcept;
  FetchedFiles& operator=(FetchedFiles&&) = delete;
  ~FetchedFiles();

 private:
  friend class OpeningStore;
  explicit FetchedFiles(std::string folder) : folder_(std::move(folder)) {}
  FetchedFiles(std::string folder, FileLock lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  [[nodiscard]] std::string files() const;

  std::string folder_;            ///< empty: the operator has the copy already
  std::optional<FileLock> lock_;  ///< held as long as the folder is in use
};

/// LEDGER.openings, an operator's own copies: TASK/STATEMENT/FILE. Everything in it was checked, and is kept
/// until the task is settled.
///
/// Any number of processes may fetch at once, even the same statement: each works in a folder of its own,
/// ".part-" and a random word, with a lock that shows the others it is in use. TASK/STATEMENT appears whole,
/// and is dropped only while the ledger is locked, so nothing that the ledger names is ever lost or
/// incomplete.
class OpeningStore {
 public:
  explicit OpeningStore(const std::string& ledger);

  /// Fetches and checks the files that `statement` names, unless the copy is there already; the ledger needs
  /// no lock. On kMissing or kMalformed nothing is kept; kNotAllowed and kUnauthorised if the rules refuse
  /// the statement anyway.
  [[nodiscard]] Result<FetchedFiles> fetch(const FetchFrom& from, const LedgerView& view,
                                           const manifest::Signed<manifest::Body>& statement) const;
  /// Makes fetched files their statement's copy, durably, before it is logged. The ledger must be locked.
  [[nodiscard]] Status keep(const manifest::Signed<manifest::Body>& statement, FetchedFiles files) const;
  /// Removes the copy of a statement that is not in the ledger. The ledger must be locked.
  void drop(const manifest::Signed<manifest::Body>& statement) const;
  /// Removes the copies of settled tasks. The ledger must be locked.
  void prune(const protocol::Market& market) const;
  [[nodiscard]] std::string folder_of(const Digest& task, const Digest& statement) const;

 private:
  [[nodiscard]] Result<FetchedFiles> make_part() const;
  void remove_unused_parts() const;

  std::string folder_;
};

}  // namespace dgx::jobs
