#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::manifest {

/// Kinds of signed statements; the predicate type is `urn:x-dgx:NAME:v2`.
enum class Kind {
  kTask,
  kPolicy,
  kProfile,
  kBeaconCommitment,
  kBeacon,
  kAssign,
  kDeposit,
  kWithdrawal,
  kProof,
  kVerdictCommitment,
  kVerdict,
  kDelivery,
  kReceipt,
  kTreeHead,
  kSettlement,
  kChallenge,
  kMove,
  kRuling,
  kOfferEnd,
  kOpening,
  kRound,
};

/// "task", "beacon-commitment", …
[[nodiscard]] std::string_view name_of(Kind kind);
/// kMalformed for an unknown name.
[[nodiscard]] Result<Kind> kind_from_name(std::string_view name);
/// Every kind, in the order above.
[[nodiscard]] const std::vector<Kind>& all_kinds();

/// One entry of an in-toto subject list: what a statement is about. Derived from the predicate, so the two
/// cannot disagree.
struct Subject {
  std::string name;
  Digest digest;
};

}  // namespace dgx::manifest
