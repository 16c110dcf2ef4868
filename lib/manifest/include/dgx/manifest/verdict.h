#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/proof.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

enum class Outcome { kAccepted, kRefuted };
/// The choice of the replayed segments: drawn as the policy says, or chosen by the verifier. An audit, a
/// verdict about a verdict, replays the policy's draw, too.
enum class Draw { kPolicy, kChosen, kAudit };
/// The most segments of a verdict that states its witnesses.
inline constexpr std::size_t kMostWitnesses = 1'024;
/// The reason why a replayed segment agrees or disagrees with the proof.
enum class RowReason {
  kEqual,      ///< the end state's digest is the committed one
  kDigest,     ///< the end state has another digest
  kStep,       ///< the committed start state's step counter is not the segment's first step
  kState,      ///< the committed start state does not have the program's entries
  kNonFinite,  ///< a step gives a non-finite state
};
[[nodiscard]] std::string_view name_of(Outcome outcome);
[[nodiscard]] std::string_view name_of(Draw draw);
[[nodiscard]] std::string_view name_of(RowReason reason);

/// The result of replaying one segment. `recomputed` is zero if nothing could be computed (kStep, kState,
/// kNonFinite), and so is a witness whose interior step was not reached.
struct VerdictRow {
  std::int64_t index = 0;  ///< the segment's number
  Digest expected;
  Digest recomputed;
  bool agrees = false;
  RowReason reason = RowReason::kEqual;
  Digest witness;

  bool operator==(const VerdictRow&) const = default;
  [[nodiscard]] json::Value to_json() const;
  [[nodiscard]] static Result<VerdictRow> from_json(const json::Value& value);
};

/// The chances that a verification missed a cheat in that share of the segments, as decimal strings
/// (protocol::miss_probability).
struct MissProbability {
  std::string one_segment;
  std::string one_percent;
  std::string ten_percent;
  bool operator==(const MissProbability&) const = default;
};

/// A verifier's result for a proof. The rows are in `VERDICT.rows.jsonl`, bound here by root and count (leaf
/// = line).
struct Verdict {
  static constexpr Kind kKind = Kind::kVerdict;

  Digest task;
  Digest proof;                  ///< id of the proof statement
  std::optional<Digest> beacon;  ///< id of the beacon or round; required but with Draw::kChosen
  Draw draw = Draw::kChosen;
  Outcome outcome = Outcome::kAccepted;
  std::int64_t segments = 0;  ///< N, of the task
  std::int64_t replayed = 0;  ///< number of rows
  RootReference rows;
  std::optional<VerdictRow> first_disagreement;  ///< exactly when refuted
  std::int64_t work = 0;                         ///< weighted operations
  MissProbability miss_probability;
  Digest nonce;  ///< random: keeps the id from being guessed from its commitment
  /// The witnesses of an acceptance's rows, in their order, or none: with them everybody who has the opening
  /// has its rows.
  std::vector<Digest> witnesses = {};
  std::optional<Digest> audits = {};  ///< id of the verdict that an audit re-checks; exactly with kAudit
  /// Segments, ascending, whose witnesses in the audited verdict a replay does not give.
  std::vector<std::int64_t> denied = {};

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Verdict read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// H("dgx-verdict-commit" ‖ verdict id ‖ nonce).
[[nodiscard]] Digest verdict_commitment(const Digest& verdict_id, const Digest& nonce);

/// A commitment to a verdict, or to an audit, logged before it so that nobody can copy it.
struct VerdictCommitment {
  static constexpr Kind kKind = Kind::kVerdictCommitment;

  Digest task;
  Digest proof;
  Digest commitment;
  std::optional<Digest> audits = {};  ///< of an audit: id of the verdict that it re-checks

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static VerdictCommitment read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

inline constexpr std::size_t kMaxRowsBytes = std::size_t{1} << 30;

[[nodiscard]] RootReference rows_root(std::span<const VerdictRow> rows);
/// VERDICT.rows.jsonl: one canonical line per row.
[[nodiscard]] std::string encode_rows(std::span<const VerdictRow> rows);
/// kMalformed, with the line, unless these are the verdict's rows, sorted by segment and without repetition.
[[nodiscard]] Result<std::vector<VerdictRow>> decode_rows(std::string_view text, const Verdict& verdict);

}  // namespace dgx::manifest
