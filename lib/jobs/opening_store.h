#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/jobs/settle.h"
#include "dgx/manifest/fields.h"
#include "settle_files.h"
#include "store.h"

namespace dgx::jobs {

/// True if the rules let a statement in only after its operator has fetched what it speaks of: an opening, a delivery with a
/// location, the answer to a demand for a chunk.
[[nodiscard]] bool needs_fetch(const manifest::Body& body);

/// How long a statement's files in the store are together, before they are read; nullopt if they are not all there.
[[nodiscard]] std::optional<std::int64_t> bytes_in_store(const std::string& store,
                                                         const manifest::Signed<manifest::Body>& statement);

/// The statements of an append, parted: those of `later` need files of a store, or belong to the task of one that does and
/// come after it. One element a task, in order.
struct Parted {
  std::vector<std::vector<Result<Incoming>>> now;  ///< as they came, file by file
  std::vector<std::vector<Incoming>> later;
};
[[nodiscard]] Parted part(std::vector<std::vector<Result<Incoming>>> files);

/// Where files are fetched from, and of what length at most each of them, whatever the rules would allow.
struct FetchFrom {
  std::optional<std::string> store;
  std::int64_t most_bytes = manifest::kMaxInteger;
  int threads = 1;
};

/// A copy that was fetched and checked, and is not yet one of the operator's own: gone with this object unless it is kept.
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

/// LEDGER.openings, an operator's own copies: TASK/STATEMENT/FILE. What lies there was checked, and is kept until the task is
/// settled.
///
/// Any number of processes may fetch at once, also the same statement: each works in a folder of its own, ".part-" and a random
/// word, with a lock by which the others see that it is in use. TASK/STATEMENT appears, whole, and is dropped only while the
/// ledger is locked, so nothing that the ledger speaks of is ever lost or half there.
class OpeningStore {
 public:
  explicit OpeningStore(const std::string& ledger);

  /// Fetches and checks what `statement` speaks of, unless the copy is there already; the ledger needs no lock. kMissing or
  /// kMalformed, and then nothing is kept; kUsage and kUnauthorised if the rules would not take the statement anyway.
  [[nodiscard]] Result<FetchedFiles> fetch(const FetchFrom& from, const LedgerView& view,
                                           const manifest::Signed<manifest::Body>& statement) const;
  /// Makes fetched files the copy of their statement, durably, before it is logged. The ledger is locked.
  [[nodiscard]] Status keep(const manifest::Signed<manifest::Body>& statement, FetchedFiles files) const;
  /// Forgets the copy of a statement that is not in the ledger, which is locked.
  void drop(const manifest::Signed<manifest::Body>& statement) const;
  /// Removes the copies of tasks that are settled. The ledger is locked.
  void prune(const protocol::Market& market) const;
  [[nodiscard]] std::string folder_of(const Digest& task, const Digest& statement) const;

 private:
  [[nodiscard]] Result<FetchedFiles> make_part() const;
  void remove_unused_parts() const;

  std::string folder_;
};

}  // namespace dgx::jobs
