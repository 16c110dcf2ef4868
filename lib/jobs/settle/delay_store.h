#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/manifest/round.h"

namespace dgx::jobs {

/// The delay of a slot: where it begins, and its length.
struct DelayTask {
  std::int64_t slot = 0;
  manifest::RootReference head;
  Digest start;
  std::int64_t steps = 0;
};

/// LEDGER.rounds, in which delays that are being computed are kept: SLOT.part has the digest of the rest, the
/// start, the steps, and the checkpoints so far.
///
/// The folder is locked while this object lives, so that no two processes compute the same delays. A file
/// that is damaged, or of another delay, is no error: the delay begins anew.
class DelayStore {
 public:
  /// Creates the folder if it is not there. kLocked if another process computes after `wait`.
  [[nodiscard]] static Result<DelayStore> open(const std::string& ledger, const LockWait& wait);

  /// The checkpoints kept for a delay, none if there are none. `damaged` says that a file was passed over.
  [[nodiscard]] std::vector<Digest> load(const DelayTask& task, bool& damaged) const;
  /// Keeps checkpoints durably, in place of those kept before.
  [[nodiscard]] Status save(const DelayTask& task, const std::vector<Digest>& checkpoints) const;
  /// Forgets a delay whose round is logged.
  [[nodiscard]] Status drop(const DelayTask& task) const;

 private:
  DelayStore(std::string folder, FileLock lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  [[nodiscard]] std::string path_of(const DelayTask& task) const;

  std::string folder_;
  FileLock lock_;
};

}  // namespace dgx::jobs
