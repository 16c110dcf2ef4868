#include "dgx/manifest/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace dgx::manifest {
namespace {

struct KindName {
  Kind kind;
  std::string_view name;
};

constexpr std::array<KindName, 15> kNames{{
    {Kind::kTask, "task"},
    {Kind::kPolicy, "policy"},
    {Kind::kProfile, "profile"},
    {Kind::kBeaconCommitment, "beacon-commitment"},
    {Kind::kBeacon, "beacon"},
    {Kind::kAssign, "assign"},
    {Kind::kDeposit, "deposit"},
    {Kind::kWithdrawal, "withdrawal"},
    {Kind::kProof, "proof"},
    {Kind::kVerdictCommitment, "verdict-commitment"},
    {Kind::kVerdict, "verdict"},
    {Kind::kDelivery, "delivery"},
    {Kind::kReceipt, "receipt"},
    {Kind::kTreeHead, "tree-head"},
    {Kind::kSettlement, "settlement"},
}};

constexpr std::array<std::string_view, 3> kDisputeKinds{"challenge", "move", "ruling"};

}  // namespace

std::string_view name_of(Kind kind) { return kNames[static_cast<std::size_t>(kind)].name; }

Result<Kind> kind_from_name(std::string_view name) {
  for (const KindName& entry : kNames) {
    if (entry.name == name) return entry.kind;
  }
  if (std::find(kDisputeKinds.begin(), kDisputeKinds.end(), name) != kDisputeKinds.end()) {
    return malformed(fmt::format("statements of kind \"{}\" are not in this version", name),
                     "signed disputes come later; a refutation stands once its window has passed");
  }
  return malformed(fmt::format("unknown kind of statement \"{}\"", name));
}

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds = [] {
    std::vector<Kind> out;
    for (const KindName& entry : kNames) out.push_back(entry.kind);
    return out;
  }();
  return kinds;
}

}  // namespace dgx::manifest
