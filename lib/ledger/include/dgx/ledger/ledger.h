#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"
#include "dgx/manifest/statement.h"
#include "dgx/merkle/tree.h"

namespace dgx::ledger {

/// One statement, in the order of logging, with the time of the operator's receipt.
struct Entry {
  manifest::Signed<manifest::Body> statement;
  std::int64_t milliseconds = 0;  ///< Unix time, from the receipt; never less than the previous entry's
};

/// A whole ledger in memory, every signature and receipt checked.
struct Log {
  std::vector<Entry> entries;  ///< the first is the operator's policy
  std::string torn;            ///< describes a last append that was cut off and is left out; empty if none

  [[nodiscard]] const crypto::PublicKey& operator_key() const { return entries.front().statement.signer; }
  [[nodiscard]] const Digest& operator_id() const { return entries.front().statement.key_id; }
  /// The ledger's id: that of its first statement.
  [[nodiscard]] const Digest& id() const { return entries.front().statement.id; }
  /// Ledger time: that of the last receipt.
  [[nodiscard]] std::int64_t now() const { return entries.back().milliseconds; }
  /// Index of the entry with this statement id. Cost: linear.
  [[nodiscard]] std::optional<std::size_t> find(const Digest& statement) const;
};

inline constexpr std::size_t kMaxLedgerBytes = std::size_t{1} << 31;  ///< limit of each of the two files
/// Bytes of a receipt's envelope, newline included.
inline constexpr std::size_t kMaxReceiptBytes = 2048;

/// The path of the receipts, in the ledger's folder: `NAME.receipts.jsonl` for `NAME.jsonl`.
[[nodiscard]] std::string receipts_path(const std::string& path);

/// RFC 6962 root over merkle::ledger_leaf of every entry.
[[nodiscard]] manifest::RootReference head_of(std::span<const Entry> entries);

/// Creates both files with the operator's policy as first entry. kLocked if another process still does after
/// `wait`; kCannotCreate if one exists, except for a
/// receipts file with at most the first receipt, which a killed call leaves. After an error there is no
/// ledger, or, if only syncing its folder failed, a whole one.
[[nodiscard]] Result<Log> create(const std::string& path, manifest::Signed<manifest::Body> policy,
                                 const crypto::SecretKey& operator_key, std::int64_t milliseconds,
                                 const LockWait& wait = {});

/// Reads and checks everything: envelopes, order of times, each receipt and logged tree head against the
/// recomputed tree. A crash leaves last entries without receipts and last lines without a newline: these are
/// left out and described in `torn`. Anything else that does not fit is kMalformed, naming the line; a
/// receipt signed by another key is kUnauthorised. Cost: linear, two signatures per entry.
[[nodiscard]] Result<Log> read(const std::string& path);

/// The only writer of a ledger. Appends are durable when append_all() returns: all entries are written and
/// synced first, then all receipts.
///
/// Constraints: a reader may come at any time, and a crash may cut off anything. Two append-only files need
/// no journal, since an entry counts only with its receipt; open() truncates what does not count. Receipts
/// are cut before entries, so a crash never leaves a receipt without its entry.
class Writer {
 public:
  /// Locks (kLocked if another process still writes after `wait`), reads, and repairs a torn end.
  /// kUnauthorised unless `key` is the operator's. Neither file ever grows beyond `most_bytes`.
  [[nodiscard]] static Result<Writer> open(const std::string& path, crypto::SecretKey key,
                                           std::size_t most_bytes = kMaxLedgerBytes,
                                           const LockWait& wait = {});

  [[nodiscard]] const Log& log() const { return log_; }
  [[nodiscard]] bool contains(const Digest& statement) const { return ids_.contains(statement); }
  /// The size of the longer of the two files.
  [[nodiscard]] std::size_t size_bytes() const { return std::max(bytes_.ledger, bytes_.receipts); }
  [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }

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
  /// The number of bytes in each file that count.
  struct Sizes {
    std::size_t ledger = 0;
    std::size_t receipts = 0;
  };
  struct Addition;

  Writer(std::string path, FileLock lock, crypto::SecretKey key, std::size_t most_bytes);
  [[nodiscard]] Result<Addition> prepare(std::vector<manifest::Signed<manifest::Body>> statements,
                                         std::int64_t milliseconds) const;
  [[nodiscard]] Status write(const Addition& addition) const;
  [[nodiscard]] Status cut_back() const;

  std::string path_;
  FileLock lock_;
  crypto::SecretKey key_;
  std::size_t most_bytes_;
  Log log_;
  std::set<Digest> ids_;
  merkle::TreeBuilder tree_;
  Sizes bytes_;
};

/// The current head, for the operator to seal: to be exported, or logged as a record of the operator's clock.
[[nodiscard]] manifest::TreeHead tree_head(const Log& log, std::int64_t milliseconds);

/// Audit path of entry `index` in the tree of the first `size` entries; kUsage out of range.
[[nodiscard]] Result<std::vector<Digest>> prove_inclusion(const Log& log, std::size_t index,
                                                          std::size_t size);
/// Proof that the tree of the first `old_size` entries is a prefix of that of `new_size`; kUsage out of
/// range.
[[nodiscard]] Result<std::vector<Digest>> prove_consistency(const Log& log, std::size_t old_size,
                                                            std::size_t new_size);

/// The operator's clock: Unix milliseconds.
[[nodiscard]] std::int64_t clock_milliseconds();

}  // namespace dgx::ledger
