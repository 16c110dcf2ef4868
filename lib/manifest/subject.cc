#include "dgx/manifest/subject.h"

#include <fmt/format.h>

#include <array>

namespace dgx::manifest {
namespace {

struct KindName {
  Kind kind;
  std::string_view name;
};

constexpr std::array<KindName, 21> kNames{{
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
    {Kind::kChallenge, "challenge"},
    {Kind::kMove, "move"},
    {Kind::kRuling, "ruling"},
    {Kind::kOfferEnd, "offer-end"},
    {Kind::kOpening, "opening"},
    {Kind::kRound, "round"},
}};

}  // namespace

std::string_view name_of(Kind kind) { return kNames[static_cast<std::size_t>(kind)].name; }

Result<Kind> kind_from_name(std::string_view name) {
  for (const KindName& entry : kNames) {
    if (entry.name == name) return entry.kind;
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
