#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// The rules of a market: who deposits what, how much is checked, how long each side has. All integers: money
/// in base units, rates in parts per million, windows in milliseconds of ledger time. Part of every task.
/// policy_keys() gives each field's meaning.
struct Policy {
  std::int64_t sample_ppm = 0;
  std::int64_t miss_ppm = 0;
  std::int64_t miss_share_ppm = 0;
  std::int64_t audit_ppm = 0;
  std::int64_t beacon_source = 0;
  std::int64_t beacon_slot_ms = 0;
  std::int64_t beacon_steps = 0;
  std::int64_t margin_ppm = 0;
  std::int64_t solver_bond = 0;
  std::int64_t verifier_bond = 0;
  std::int64_t challenger_bond = 0;
  std::int64_t solver_bond_ppm = 0;
  std::int64_t verifier_bond_ppm = 0;
  std::int64_t challenger_bond_ppm = 0;
  std::int64_t unsafe_bonds = 0;
  std::int64_t segment_operations = 0;
  std::int64_t store_bytes = 0;
  std::int64_t verifier_fee = 0;
  std::int64_t window_proof_ms = 0;
  std::int64_t window_reveal_ms = 0;
  std::int64_t window_challenge_ms = 0;
  std::int64_t window_move_ms = 0;
  std::int64_t window_delivery_ms = 0;
  std::int64_t split_submitter_ppm = 0;
  std::int64_t split_verifier_ppm = 0;
  std::int64_t split_jackpot_ppm = 0;
  std::int64_t jackpot_tax_ppm = 0;
  std::int64_t forced_error_ppm = 0;
  std::int64_t jackpot = 0;
  std::int64_t treasury_ppm = 0;

  bool operator==(const Policy&) const = default;
  [[nodiscard]] json::Object to_json() const;
  /// Every key is required; the three splits must sum to 1,000,000, and audit_ppm and forced_error_ppm be 0
  /// unless there is a beacon_source.
  [[nodiscard]] static Policy read(json::Fields& in);
};

/// The first entry of a ledger, signed by its operator. Its statement id names the ledger; the nonce makes
/// that id unique, so that no statement of one market counts in another with the same rules.
struct LedgerPolicy {
  static constexpr Kind kKind = Kind::kPolicy;

  Policy policy;
  Digest nonce;  ///< 32 random bytes

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static LedgerPolicy read(json::Fields& in);
  /// SHA-256 of the policy's own canonical JSON, without the nonce.
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// One row of the table from which the parser, `dgx-settle bounds` and dgx-protocol(7) are made.
struct PolicyKey {
  std::string_view name;
  std::int64_t Policy::*member;
  std::int64_t standard;  ///< the default
  std::int64_t low;
  std::int64_t high;
  std::string_view meaning;
};

/// Sorted by name.
[[nodiscard]] std::span<const PolicyKey> policy_keys();
[[nodiscard]] Policy standard_policy();

/// Parses a `--policy FILE`: a JSON object (any spacing) of some of the keys, where the others keep their
/// defaults, and windows may be durations, "7d" (core/time_text.h); or a signed policy. kMalformed names the
/// key.
[[nodiscard]] Result<Policy> parse_policy_file(std::string_view text);

}  // namespace dgx::manifest
