#pragma once

#include <set>
#include <string>

#include "dgx/ledger/ledger.h"

namespace dgx::ledger {

/// A log and the ids of its entries.
struct Scan {
  Log log;
  std::set<Digest> ids;
};

/// read(), for a writer too.
[[nodiscard]] Result<Scan> scan(const std::string& path, const Reading& reading);

/// The leaf hash of an entry.
[[nodiscard]] Digest leaf_of(const Entry& entry);
/// kMalformed unless the statement is an operator's policy.
[[nodiscard]] Status check_first(const manifest::Signed<manifest::Body>& statement);
/// Checks that a tree head, about to be the next entry of the log, is the log's head before it; any other
/// statement passes.
[[nodiscard]] Status check_tree_head(const Log& log, const manifest::Signed<manifest::Body>& statement);

}  // namespace dgx::ledger
