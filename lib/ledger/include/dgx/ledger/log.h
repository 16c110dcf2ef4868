#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"
#include "dgx/manifest/statement.h"
#include "dgx/merkle/tree.h"

namespace dgx::ledger {

/// An entry, in the order of logging: what is kept of it in memory. Its statement stays in the file.
struct Entry {
  Digest id;                         ///< the statement's
  std::int64_t milliseconds = 0;     ///< Unix time, from the receipt; never less than the previous entry's
  std::uint64_t offset = 0;          ///< of its line in the ledger, in bytes
  std::uint64_t receipt_offset = 0;  ///< of its line in the receipts
  manifest::Kind kind = manifest::Kind::kPolicy;
  std::optional<Digest> task = {};  ///< that it belongs to: manifest::task_of()
};

/// The part of a ledger that somebody has checked: its first `count` entries, which are these bytes of both
/// files.
struct CheckedPrefix {
  std::uint64_t count = 0;
  std::uint64_t ledger_bytes = 0;
  std::uint64_t receipt_bytes = 0;
  Digest ledger_sha256;    ///< of the ledger's first `ledger_bytes` bytes
  Digest receipts_sha256;  ///< of the receipts' first `receipt_bytes` bytes
  Digest root;             ///< of the tree of these entries

  bool operator==(const CheckedPrefix&) const = default;
};

/// A ledger, every signature and receipt checked. About 300 bytes an entry.
struct Log {
  std::string path;
  manifest::Signed<manifest::Body> policy;  ///< the first entry's statement, the operator's
  std::vector<Entry> entries;
  merkle::StoredTree tree;          ///< over merkle::ledger_leaf of every entry
  std::uint64_t ledger_bytes = 0;   ///< bytes of the ledger that count
  std::uint64_t receipt_bytes = 0;  ///< bytes of the receipts that count
  std::string torn;  ///< describes a last append that was cut off and is left out; empty if none
  /// All that counted when the ledger was read; nothing for one that has just been created.
  CheckedPrefix checked;
  /// True if Reading::checked did not fit the files, so that everything was checked.
  bool unlike_before = false;

  [[nodiscard]] const crypto::PublicKey& operator_key() const { return policy.signer; }
  [[nodiscard]] const Digest& operator_id() const { return policy.key_id; }
  /// The ledger's id: that of its first statement.
  [[nodiscard]] const Digest& id() const { return policy.id; }
  /// Ledger time: that of the last receipt.
  [[nodiscard]] std::int64_t now() const { return entries.back().milliseconds; }
  [[nodiscard]] manifest::RootReference head() const { return head(entries.size()); }
  /// The head after the first `count` entries, of which there must be as many.
  [[nodiscard]] manifest::RootReference head(std::size_t count) const;
  /// Index of the entry with this statement id. Cost: linear.
  [[nodiscard]] std::optional<std::size_t> find(const Digest& statement) const;
  /// Reads the statement of an entry from the file again. kMalformed if its line has changed meanwhile.
  [[nodiscard]] Result<manifest::Signed<manifest::Body>> statement(std::size_t index) const;
  /// The envelope of an entry's receipt, read from the file again.
  [[nodiscard]] Result<std::string> receipt(std::size_t index) const;
};

/// Is given an entry's index, statement and time.
using Visit = std::function<void(std::size_t index, const manifest::Signed<manifest::Body>& statement,
                                 std::int64_t milliseconds)>;

/// The way in which a ledger is read.
struct Reading {
  int threads = 1;  ///< that open envelopes and check signatures
  /// The part that this reader, and nobody else, has found to be right: while the files begin with these
  /// bytes, no signature in them is checked again. Else it is as if it were not given.
  std::optional<CheckedPrefix> checked = {};
  /// Is given every entry in order, from index 0; once more from index 0 if `checked` turns out not to fit.
  /// What it was given means nothing if the ledger cannot be read.
  Visit visit = {};
};

/// The path of the receipts, in the ledger's folder: `NAME.receipts.jsonl` for `NAME.jsonl`.
[[nodiscard]] std::string receipts_path(const std::string& path);

/// Reads and checks everything: envelopes, order of times, each receipt and logged tree head against the
/// recomputed tree. A crash leaves last entries without receipts and last lines without a newline: these are
/// left out and described in `torn`. Anything else that does not fit is kMalformed, naming the line; a
/// receipt signed by another key is kUnauthorised. Cost: linear, two signatures per entry; of both files only
/// some MiB at a time are in memory.
[[nodiscard]] Result<Log> read(const std::string& path, const Reading& reading = {});

/// Audit path of entry `index` in the tree of the first `size` entries; kUsage out of range.
[[nodiscard]] Result<std::vector<Digest>> prove_inclusion(const Log& log, std::size_t index,
                                                          std::size_t size);
/// Proof that the tree of the first `old_size` entries is a prefix of that of `new_size`; kUsage out of
/// range.
[[nodiscard]] Result<std::vector<Digest>> prove_consistency(const Log& log, std::size_t old_size,
                                                            std::size_t new_size);

}  // namespace dgx::ledger
