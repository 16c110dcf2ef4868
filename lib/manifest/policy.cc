#include "dgx/manifest/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dgx/core/text.h"
#include "dgx/core/time_text.h"
#include "dgx/crypto/sha256.h"
#include "dgx/manifest/fields.h"
#include "dgx/manifest/round.h"
#include "dgx/manifest/statement.h"

namespace dgx::manifest {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kMaxMoney = kMaxInteger / 1024;
constexpr std::int64_t kMaxBondPpm = 100 * kMillion;
constexpr std::int64_t kMaxWindow = std::int64_t{366} * 86'400'000;
constexpr std::int64_t kDay = 86'400'000;
constexpr std::int64_t kHour = 3'600'000;
/// The work of an eighth of the standard window for a move, at 10^10 weighted operations a second.
constexpr std::int64_t kSegmentOperations = kHour / 8 * 10'000'000;

constexpr auto kKeys = std::to_array<PolicyKey>({
    {"audit_ppm", &Policy::audit_ppm, 0, 0, kMillion,
     "probability that an acceptance is audited; needs a beacon_source"},
    {"beacon_slot_ms", &Policy::beacon_slot_ms, 60'000, 1'000, kDay,
     "length of a slot: all entries of one slot share one round"},
    {"beacon_source", &Policy::beacon_source, 0, 0, 2,
     "public randomness: 0 none, the verifier's secret decides the draw; 1 a delay; 2 drand"},
    {"beacon_steps", &Policy::beacon_steps, std::int64_t{1} << 33, kLeastDelaySteps, kMostDelaySteps,
     "steps of SHA-256 in the delay of a round, where beacon_source is 1"},
    {"challenger_bond", &Policy::challenger_bond, 10'000, 0, kMaxMoney,
     "deposit of whoever challenges a statement"},
    {"challenger_bond_ppm", &Policy::challenger_bond_ppm, 0, 0, kMaxBondPpm,
     "part of the reward added to challenger_bond"},
    {"forced_error_ppm", &Policy::forced_error_ppm, 0, 0, kMillion,
     "rate of deliberate errors that test auditors; rho in the closed forms; needs a beacon_source"},
    {"jackpot", &Policy::jackpot, 0, 0, kMaxMoney, "most that the finders of a deliberate error share"},
    {"jackpot_tax_ppm", &Policy::jackpot_tax_ppm, 20'000, 0, kMillion,
     "part of the reward added to the jackpot, paid by the submitter"},
    {"margin_ppm", &Policy::margin_ppm, 100'000, 0, 10 * kMillion,
     "part of reward and fee locked in addition, as a reserve; what is not used is refunded"},
    {"miss_ppm", &Policy::miss_ppm, 0, 0, kMillion,
     "largest probability that the draw misses a cheat on miss_share_ppm of the segments; 0: sample_ppm "
     "alone "
     "decides"},
    {"miss_share_ppm", &Policy::miss_share_ppm, 100'000, 1, kMillion,
     "part of the segments that miss_ppm speaks of, rounded down, at least one"},
    {"sample_ppm", &Policy::sample_ppm, 50'000, 1, kMillion,
     "least part of the segments a verifier replays, rounded up"},
    {"segment_operations", &Policy::segment_operations, kSegmentOperations, 1, kMaxInteger,
     "most weighted operations that one segment may have, so that a slow machine can answer within a move"},
    {"solver_bond", &Policy::solver_bond, 10'000, 0, kMaxMoney, "deposit of the solver"},
    {"solver_bond_ppm", &Policy::solver_bond_ppm, 200'000, 0, kMaxBondPpm,
     "part of the reward added to solver_bond"},
    {"split_jackpot_ppm", &Policy::split_jackpot_ppm, 250'000, 0, kMillion,
     "part of a slashed bond for the jackpot"},
    {"split_submitter_ppm", &Policy::split_submitter_ppm, 500'000, 0, kMillion,
     "part of a slashed bond for the submitter, who also gets what rounding leaves"},
    {"split_verifier_ppm", &Policy::split_verifier_ppm, 250'000, 0, kMillion,
     "part of a slashed bond for those who found the fault; the three splits sum to 1000000"},
    {"store_bytes", &Policy::store_bytes, std::int64_t{1} << 36, 0, kMaxInteger,
     "most bytes that the operator's store takes for one opening; a task whose opening may be larger is "
     "refused"},
    {"treasury_ppm", &Policy::treasury_ppm, 0, 0, kMillion,
     "part of the reward added to the treasury, paid by the submitter"},
    {"unsafe_bonds", &Policy::unsafe_bonds, 0, 0, 1,
     "1: also accept tasks whose solver's bond deters less than CLOSED FORMS requires"},
    {"verifier_bond", &Policy::verifier_bond, 10'000, 0, kMaxMoney, "deposit of the verifier"},
    {"verifier_bond_ppm", &Policy::verifier_bond_ppm, 100'000, 0, kMaxBondPpm,
     "part of the reward added to verifier_bond"},
    {"verifier_fee", &Policy::verifier_fee, 100, 0, kMaxMoney,
     "fee for a verdict, on top of the price of its work"},
    {"window_challenge_ms", &Policy::window_challenge_ms, kDay, 1, kMaxWindow,
     "time to object to a verdict or to its absence"},
    {"window_delivery_ms", &Policy::window_delivery_ms, kDay, 1, kMaxWindow,
     "time for the final state to arrive, from the end of the challenge window"},
    {"window_move_ms", &Policy::window_move_ms, kHour, 1, kMaxWindow, "time for one move of a dispute"},
    {"window_proof_ms", &Policy::window_proof_ms, 7 * kDay, 1, kMaxWindow,
     "time for a posted task to find a solver, and for that solver to get from the assignment to the proof"},
    {"window_reveal_ms", &Policy::window_reveal_ms, kDay, 1, kMaxWindow,
     "time for each of these: the verifier's beacon after the proof, the solver's opening after the beacon, "
     "the verdict (or its commitment) after the opening, the verdict after its commitment"},
});

/// Checks what keys must have in common; each key's range is checked when it is read.
void check_together(json::Fields& in, const Policy& policy) {
  for (const auto& [name, rate] :
       {std::pair("audit_ppm", policy.audit_ppm), std::pair("forced_error_ppm", policy.forced_error_ppm)}) {
    if (rate > 0 && policy.beacon_source == 0)
      in.fail(name, "needs a beacon_source: without rounds nobody can draw by chance");
  }
  const std::int64_t sum = policy.split_submitter_ppm + policy.split_verifier_ppm + policy.split_jackpot_ppm;
  if (sum != kMillion) {
    in.fail("split_submitter_ppm", fmt::format("the three splits sum to {}, must sum to {}", sum, kMillion));
  }
}

/// Turns windows that are written as durations, "7d", into milliseconds.
Status read_durations(json::Object& policy) {
  for (auto& [name, value] : policy) {
    const std::string* const text = value.as_string();
    if (text == nullptr || !name.ends_with("_ms")) continue;
    const auto duration = parse_duration(*text);
    if (!duration.ok()) return malformed(fmt::format("policy: {}: {}", name, duration.error().message));
    value = json::Value(std::int64_t{std::chrono::milliseconds(*duration).count()});
  }
  return {};
}

/// Refuses a name that is no policy's.
Status check_names(const json::Object* policy) {
  if (policy == nullptr) return {};
  std::vector<std::string> names;
  for (const PolicyKey& key : kKeys) names.emplace_back(key.name);
  for (const auto& [name, value] : *policy) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return malformed(fmt::format("policy: {}: unknown field", name), hint_among(name, names));
  }
  return {};
}

}  // namespace

std::span<const PolicyKey> policy_keys() { return kKeys; }

Policy standard_policy() {
  Policy out;
  for (const PolicyKey& key : kKeys) out.*key.member = key.standard;
  return out;
}

json::Object Policy::to_json() const {
  json::Object out;
  for (const PolicyKey& key : kKeys) out.emplace(std::string(key.name), this->*key.member);
  return out;
}

Policy Policy::read(json::Fields& in) {
  Policy out;
  for (const PolicyKey& key : kKeys) out.*key.member = in.integer(key.name, key.low, key.high);
  check_together(in, out);
  return out;
}

json::Object LedgerPolicy::predicate() const {
  return {{"nonce", nonce.hex()}, {"policy", policy.to_json()}};
}

LedgerPolicy LedgerPolicy::read(json::Fields& in) {
  LedgerPolicy out;
  out.nonce = read_digest(in, "nonce");
  out.policy = read_object(in, "policy", Policy::read);
  return out;
}

std::vector<Subject> LedgerPolicy::subjects() const {
  return {{"policy", crypto::sha256(as_bytes(json::Value(policy.to_json()).dump()))}};
}

Result<Policy> parse_policy_file(std::string_view text) {
  DGX_TRY(json::Value value, json::parse(text));
  json::Object* const object = value.as_object();
  if (object != nullptr && object->contains("payloadType")) {
    DGX_TRY(Signed<LedgerPolicy> statement, open_statement<LedgerPolicy>(text));
    return statement.body.policy;
  }
  // Before the rest, which a misspelt field may upset: the splits.
  DGX_CHECK(check_names(object));
  if (object != nullptr) DGX_CHECK(read_durations(*object));
  Policy out = standard_policy();
  json::Fields in(value, "policy");
  for (const PolicyKey& key : kKeys) {
    if (in.has(key.name)) out.*key.member = in.integer(key.name, key.low, key.high);
  }
  check_together(in, out);
  DGX_CHECK(in.finish());
  return out;
}

}  // namespace dgx::manifest
