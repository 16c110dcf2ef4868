#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dgx/jobs/settle.h"
#include "settle_files.h"
#include "store.h"

namespace dgx::jobs {

/// True if the rules let a statement in only after its operator has fetched what it speaks of: an opening, a delivery with a
/// location, the answer to a demand for a chunk.
[[nodiscard]] bool needs_fetch(const manifest::Body& body);

/// The statements of an append, parted: those of `later` need files of a store, or belong to the task of one that does and
/// come after it. One element a task, in order.
struct Parted {
  std::vector<std::vector<Result<Incoming>>> now;  ///< as they came, file by file
  std::vector<std::vector<Incoming>> later;
};
[[nodiscard]] Parted part(std::vector<std::vector<Result<Incoming>>> files);

/// LEDGER.openings, an operator's own copies: TASK/STATEMENT/FILE. What lies there was checked, and is kept until the task is
/// settled.
class OpeningStore {
 public:
  explicit OpeningStore(const std::string& ledger);

  /// Fetches and checks what `statement` speaks of, unless the copy is there already; the ledger needs no lock. kMissing or
  /// kMalformed, and then nothing is kept; kUsage and kUnauthorised if the rules would not take the statement anyway.
  [[nodiscard]] Status fetch(const std::optional<std::string>& store, const LedgerView& view, const manifest::Signed<manifest::Body>& statement,
                             int threads) const;
  /// Forgets the copy of a statement that was not logged.
  void drop(const manifest::Signed<manifest::Body>& statement) const;
  /// Removes the copies of tasks that are settled.
  void prune(const protocol::Market& market) const;
  [[nodiscard]] std::string folder_of(const Digest& task, const Digest& statement) const;

 private:
  std::string folder_;
};

}  // namespace dgx::jobs
