#pragma once

#include <cstdint>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/proof.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// A ledger's head: {"count", "root"}, of at least one entry.
[[nodiscard]] json::Object head_json(const RootReference& head);
[[nodiscard]] RootReference read_head(json::Fields& in);

/// The operator's word that a statement has been entry `index` of the ledger whose first entry is `ledger`
/// since `milliseconds` (Unix time), and that the tree of all entries up to and including it has this head.
struct Receipt {
  static constexpr Kind kKind = Kind::kReceipt;

  Digest ledger;
  Digest statement;
  std::int64_t index = 0;
  std::int64_t milliseconds = 0;
  RootReference head;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Receipt read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// A ledger's head at a time: exported so that the past cannot be rewritten. As an
/// entry of its own ledger it records the operator's clock; with `pause` it also says that the operator was
/// away since the previous entry, so that no deadline passes because of that (dgx-protocol(7), "TIME").
struct TreeHead {
  static constexpr Kind kKind = Kind::kTreeHead;

  Digest ledger;
  RootReference head;
  std::int64_t milliseconds = 0;
  bool pause = false;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static TreeHead read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

}  // namespace dgx::manifest
