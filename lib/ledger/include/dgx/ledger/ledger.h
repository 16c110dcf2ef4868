#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"
#include "dgx/ledger/log.h"
#include "dgx/manifest/statement.h"

namespace dgx::ledger {

inline constexpr std::size_t kMaxLedgerBytes = std::size_t{1} << 31;  ///< limit of each of the two files
/// Bytes of a receipt's envelope, newline included.
inline constexpr std::size_t kMaxReceiptBytes = 2048;

/// Creates both files with the operator's policy as first entry. kLocked if another process still does after
/// `wait`; kCannotCreate if one exists, except for a
/// receipts file with at most the first receipt, which a killed call leaves. After an error there is no
/// ledger, or, if only syncing its folder failed, a whole one.
[[nodiscard]] Result<Log> create(const std::string& path, manifest::Signed<manifest::Body> policy,
                                 const crypto::SecretKey& operator_key, std::int64_t milliseconds,
                                 const LockWait& wait = {});

/// The only writer of a ledger. Appends are durable when append_all() returns: all entries are written and
/// synced first, then all receipts.
///
/// Constraints: a reader may come at any time, and a crash may cut off anything. Two append-only files need
/// no journal, since an entry counts only with its receipt; open() truncates what does not count. Receipts
/// are cut before entries, so a crash never leaves a receipt without its entry.
///
/// LEDGER.index (index.h) is kept beside them, for readers of single entries: brought up to date after each
/// append, and made again by open() unless it is exactly what it must be. Nothing depends on it, so it is
/// neither synced, nor an error if it cannot be written.
class Writer {
 public:
  /// Locks (kLocked if another process still writes after `wait`), reads, and repairs a torn end.
  /// kUnauthorised unless `key` is the operator's. Neither file ever grows beyond `most_bytes`.
  [[nodiscard]] static Result<Writer> open(const std::string& path, crypto::SecretKey key,
                                           std::size_t most_bytes = kMaxLedgerBytes,
                                           const LockWait& wait = {}, const Reading& reading = {});

  [[nodiscard]] const Log& log() const { return log_; }
  [[nodiscard]] bool contains(const Digest& statement) const { return ids_.contains(statement); }
  /// The size of the longer of the two files.
  [[nodiscard]] std::size_t size_bytes() const { return std::max(log_.ledger_bytes, log_.receipt_bytes); }
  [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }
  /// True if there was an index that was not this ledger's as it is, and had to be made again.
  [[nodiscard]] bool index_was_wrong() const { return index_was_wrong_; }

  /// append_all() of one statement.
  [[nodiscard]] Result<manifest::Signed<manifest::Receipt>> append(manifest::Signed<manifest::Body> statement,
                                                                   std::int64_t milliseconds);
  /// Appends all statements in order, or on an error none, at `milliseconds` or the last receipt's time,
  /// whichever is later. kNotAllowed if one is in the ledger already, or if a file would be too long. Whether
  /// they are *allowed* is for protocol::Market to decide, before this. A crash leaves the first few of them,
  /// each with its receipt. Cost: that of the statements, however long the ledger is.
  [[nodiscard]] Result<std::vector<manifest::Signed<manifest::Receipt>>> append_all(
      std::vector<manifest::Signed<manifest::Body>> statements, std::int64_t milliseconds);

 private:
  struct Addition;

  Writer(FileLock lock, crypto::SecretKey key, std::size_t most_bytes, int threads);
  [[nodiscard]] Status prepare(const std::vector<manifest::Signed<manifest::Body>>& statements,
                               std::int64_t milliseconds, Addition& out);
  [[nodiscard]] Status write(const Addition& addition) const;
  [[nodiscard]] Status cut_back() const;
  void take(Addition& addition);

  FileLock lock_;
  crypto::SecretKey key_;
  std::size_t most_bytes_;
  int threads_;
  Log log_;
  std::set<Digest> ids_;
  bool index_was_wrong_ = false;
};

/// The current head, for the operator to seal: to be exported, or logged as a record of the operator's clock.
[[nodiscard]] manifest::TreeHead tree_head(const Log& log, std::int64_t milliseconds);

/// The operator's clock: Unix milliseconds.
[[nodiscard]] std::int64_t clock_milliseconds();

}  // namespace dgx::ledger
