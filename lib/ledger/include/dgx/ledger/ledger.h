#pragma once

#include <cstdint>
#include <optional>
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

/// One statement in the order in which it was logged, with the operator's receipt.
struct Entry {
  manifest::Signed<manifest::Body> statement;
  std::int64_t milliseconds = 0;  ///< Unix time, from the receipt; never less than the entry before
};

/// The whole of a ledger in memory, every signature and receipt checked.
struct Log {
  std::vector<Entry> entries;  ///< the first is the operator's policy
  std::string torn;            ///< words about a last write that was cut off and is left out; empty if none

  [[nodiscard]] const crypto::PublicKey& operator_key() const { return entries.front().statement.signer; }
  [[nodiscard]] const Digest& operator_id() const { return entries.front().statement.key_id; }
  /// The id of the first statement names the ledger.
  [[nodiscard]] const Digest& id() const { return entries.front().statement.id; }
  /// Ledger time: the last receipt's.
  [[nodiscard]] std::int64_t now() const { return entries.back().milliseconds; }
  /// Index of the entry with this statement id. Cost: linear.
  [[nodiscard]] std::optional<std::size_t> find(const Digest& statement) const;
};

inline constexpr std::size_t kMaxLedgerBytes = std::size_t{1} << 31;

/// A ledger's receipts lie beside it: `NAME.jsonl` has `NAME.receipts.jsonl`.
[[nodiscard]] std::string receipts_path(const std::string& path);

/// RFC 6962 root over merkle::ledger_leaf of every entry.
[[nodiscard]] manifest::RootReference head_of(std::span<const Entry> entries);

/// Creates both files with the operator's policy as first entry. kCannotCreate if one is there.
[[nodiscard]] Result<Log> create(const std::string& path, manifest::Signed<manifest::Body> policy,
                                 const crypto::SecretKey& operator_key, std::int64_t milliseconds);

/// Reads and checks everything: envelopes, order of times, each receipt and logged tree head against the tree
/// recomputed. A last line without its newline, or a last entry without its receipt, is what a crash leaves:
/// it is left out and told in `torn`. Anything else that does not fit is kMalformed, naming the line; a
/// receipt that another key signed is kUnauthorised.
[[nodiscard]] Result<Log> read(const std::string& path);

/// The one writer of a ledger. Appends are durable when append() returns: the entry is written and synced
/// first, then its receipt.
///
/// Constraints: a reader may come at any time and a crash may cut anything. Two files, each append-only, need
/// no journal, since an entry counts only with its receipt; open() truncates what counts for nothing.
class Writer {
 public:
  /// Locks (kCannotCreate if another process writes), reads, repairs a torn end. kUnauthorised unless `key`
  /// is the operator's.
  [[nodiscard]] static Result<Writer> open(const std::string& path, crypto::SecretKey key);

  [[nodiscard]] const Log& log() const { return log_; }

  /// Appends one statement at `milliseconds` or the last receipt's time, whichever is later. kUsage if the
  /// statement is in the ledger already. Whether it is *allowed* is protocol::Market's to say, before this.
  /// On an error the files are as before.
  [[nodiscard]] Result<manifest::Signed<manifest::Receipt>> append(manifest::Signed<manifest::Body> statement,
                                                                   std::int64_t milliseconds);
  /// Appends all of these in order, or, on an error, none. A crash in between leaves a beginning of them,
  /// each with its receipt.
  [[nodiscard]] Result<std::vector<manifest::Signed<manifest::Receipt>>> append_all(
      const std::vector<manifest::Signed<manifest::Body>>& statements, std::int64_t milliseconds);

 private:
  Writer(std::string path, FileLock lock, crypto::SecretKey key, Log log);

  std::string path_;
  FileLock lock_;
  crypto::SecretKey key_;
  Log log_;
  merkle::TreeBuilder tree_;
};

/// The present head, to be sealed by the operator: exported, or logged to record his clock.
[[nodiscard]] manifest::TreeHead tree_head(const Log& log, std::int64_t milliseconds);

/// Audit path of entry `index` in the tree of the first `size` entries; kUsage out of range.
[[nodiscard]] Result<std::vector<Digest>> prove_inclusion(const Log& log, std::size_t index,
                                                          std::size_t size);
/// Proof that the tree of `old_size` entries is a prefix of that of `new_size`; kUsage out of range.
[[nodiscard]] Result<std::vector<Digest>> prove_consistency(const Log& log, std::size_t old_size,
                                                            std::size_t new_size);

/// The operator's clock: Unix milliseconds.
[[nodiscard]] std::int64_t clock_milliseconds();

}  // namespace dgx::ledger
