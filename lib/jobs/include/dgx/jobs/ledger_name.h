#pragma once

#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/policy.h"

namespace dgx::jobs {

/// A ledger as `--ledger` names it: the id of its first entry and, where the name leads to them, the market's
/// rules.
struct LedgerName {
  Digest id;
  std::optional<manifest::Policy> policy;  ///< only from LEDGER.jsonl or its first entry
};

/// Reads `--ledger`: 64 hex digits, or a file whose first line is a ledger's first entry (so LEDGER.jsonl
/// itself), a receipt or a tree head. Checks that line's signature, not who signed it nor the rest of the
/// file. kUsage for another name, kMissing without the file, kMalformed for another first line.
[[nodiscard]] Result<LedgerName> read_ledger_name(const std::string& name);

}  // namespace dgx::jobs
