#pragma once

#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/policy.h"

namespace dgx::jobs {

/// A ledger as `--ledger` names it: the id of its first entry, and the market's rules where the name leads to them.
struct LedgerName {
  Digest id;
  std::optional<manifest::Policy> policy;  ///< of LEDGER.jsonl and of its first entry alone
};

/// Reads `--ledger`: 64 hex digits, or a file whose first line is a ledger's first entry (so LEDGER.jsonl itself), a
/// receipt or a tree head. Checks that line's signature; whose it is and the rest of the file are not looked at.
/// kUsage for another name, kMissing without the file, kMalformed for another first line.
[[nodiscard]] Result<LedgerName> read_ledger_name(const std::string& name);

}  // namespace dgx::jobs
