#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// H("dgx-beacon-commit" ‖ r): published when a verifier offers to verify a task.
[[nodiscard]] Digest beacon_commitment(const Digest& secret);
/// H("dgx-beacon" ‖ r ‖ proof id): unknown to anyone until the proof is logged and r revealed.
[[nodiscard]] Digest beacon_value(const Digest& secret, const Digest& proof_id);

/// A verifier's offer for a task: their beacon commitment, and a statement that they hold dataset and initial
/// state with these digests.
struct BeaconCommitment {
  static constexpr Kind kKind = Kind::kBeaconCommitment;

  Digest task;
  Digest commitment;
  Digest dataset;
  Digest initial;
  std::optional<std::int64_t> segment_milliseconds;  ///< as in Assign
  /// The bond that the signer stakes, in a market with rounds; in others it is the policy's.
  std::optional<std::int64_t> bond = {};

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static BeaconCommitment read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// A verifier's reveal. `read` refuses a value that does not follow from secret and proof.
struct Beacon {
  static constexpr Kind kKind = Kind::kBeacon;

  Digest task;
  Digest commitment;  ///< id of the beacon-commitment statement
  Digest proof;       ///< id of the proof statement
  Digest secret;      ///< r
  Digest value;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Beacon read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// A solver takes the task: with one verifier who has offered or, in a market with rounds, with all of them,
/// of whom one will be drawn.
struct Assign {
  static constexpr Kind kKind = Kind::kAssign;

  Digest task;
  /// Id of the verifier's beacon-commitment statement; none in a market with rounds.
  std::optional<Digest> commitment;
  Digest dataset;  ///< the dataset that the signer holds
  Digest initial;
  /// Time in which the signer's machine replays the task's longest segment; needed if the task names a
  /// ledger.
  std::optional<std::int64_t> segment_milliseconds;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Assign read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// A verifier withdraws an offer that nobody has taken up; their bond is free again.
struct OfferEnd {
  static constexpr Kind kKind = Kind::kOfferEnd;

  Digest task;
  Digest commitment;  ///< id of the verifier's beacon-commitment statement

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static OfferEnd read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

}  // namespace dgx::manifest
