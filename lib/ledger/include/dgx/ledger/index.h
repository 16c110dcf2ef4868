#pragma once

#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/ledger/log.h"
#include "dgx/manifest/statement.h"

/// LEDGER.index, by which one entry is found without reading the ledger (dgx-ledger(5), "INDEX").
///
/// Its record i, of 40 bytes, is the id of entry i and the offset of its line: so it only grows, as the
/// ledger does, and a look-up walks through it, 10 ms for a million entries. Anybody may have written it.
/// What it says is a hint where to look: the line there must have the id asked for, and the operator's
/// receipt must name it; else the ledger is searched.
namespace dgx::ledger {

inline constexpr std::size_t kIndexRecordBytes = 40;

/// The path of the index, in the ledger's folder: `NAME.index` for `NAME.jsonl`.
[[nodiscard]] std::string index_path(const std::string& path);

/// The state of an index, as a look-up or a writer found it.
enum class IndexFound {
  kNone,   ///< no index
  kRight,  ///< it says what the ledger says, as far as was looked
  kWrong,  ///< an index of another ledger, an older one, or one that was damaged
};

/// Makes the index exactly that of the log, unless it is; for the ledger's only writer. What cannot be
/// written is left for the next one.
IndexFound make_index(const Log& log);
/// Adds the records of the entries from `first` on.
void extend_index(const Log& log, std::size_t first);

/// An entry that was looked up by its id.
struct FoundEntry {
  manifest::Signed<manifest::Body> statement;
  manifest::Signed<manifest::Receipt> receipt;  ///< the operator's, of this ledger
};
struct LookUp {
  std::optional<FoundEntry> entry;  ///< nullopt: no entry with a receipt has this id
  IndexFound index = IndexFound::kNone;
};
/// Looks up a statement by its id. Checks its signature, and that a receipt of the ledger's operator names
/// it; not the rest of the ledger. kMalformed if a line that has to be read for it is. Cost: with a right
/// index a few reads, else a hash for each line before the statement.
[[nodiscard]] Result<LookUp> find_entry(const std::string& path, const Digest& statement);

}  // namespace dgx::ledger
