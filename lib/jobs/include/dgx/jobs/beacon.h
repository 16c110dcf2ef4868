#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/key.h"

/// A verifier's two statements about the draw (dgx-protocol(7), "DRAW"): the commitment to a secret with
/// which they offer themselves, and the beacon that reveals it for one proof.
///
/// The draw is fair only if the secret is fixed before the proof and shown after it. So the secret lies in a
/// file of its own beside the commitment, readable by its owner alone, and is shown for the first logged
/// proof that it was asked for and never for another.
namespace dgx::jobs {

/// dgx-verify beacon (dgx-verify(1)).
struct CommitBeaconOptions {
  std::string task;
  std::optional<std::string> data;     ///< checked against the task, if given
  std::optional<std::string> profile;  ///< the signer's, which states how long the longest segment takes
  /// Instead of a profile. A task that names a ledger needs one of the two.
  std::optional<std::int64_t> segment_milliseconds;
  /// The bond to stake, in a market with rounds; by default the least that the policy asks for.
  std::optional<std::int64_t> bond = {};
  KeyFile key;
  std::string output;  ///< COMMIT.json; COMMIT.secret (mode 0600) goes next to it
};
/// A commitment that was signed and written.
struct CommitBeaconResult {
  Digest id;  ///< the commitment's
  Digest task;
  Digest commitment;  ///< manifest::beacon_commitment() of the secret
  std::string secret_path;
};

/// Offers to verify a task: draws a secret and signs a commitment to it. The draw will follow from the secret
/// and the proof, so the secret must stay secret until the proof is logged. (In a market with rounds nothing
/// is drawn from it.) kUsage if the longest segment takes too long for a move (protocol::check_segment_time),
/// or for a bond that the market does not take.
[[nodiscard]] Result<CommitBeaconResult> commit_beacon(const CommitBeaconOptions& options,
                                                       const JobContext& context);

/// Evidence that a proof is logged: a file of receipts, one a line, and the operator who must have signed
/// them; or the ledger itself; or `unlogged`, for a task that names no ledger.
struct LogEvidence {
  std::optional<std::string> receipt;
  std::optional<std::string> ledger_operator;  ///< public key file
  std::optional<std::string> ledger;           ///< LEDGER.jsonl, with its receipts next to it
  bool unlogged = false;
};

/// The time of a secret in a market that forces errors: not for the ledger to say, in others; not due yet, so
/// that whoever else has it may reveal it; or due from its owner.
enum class SecretDue { kNotAsked, kNotYet, kFromOwner };

/// dgx-verify beacon --reveal (dgx-verify(1)).
struct RevealBeaconOptions {
  std::string commitment;  ///< COMMIT.json, with its secret next to it
  std::string proof;
  std::string task;
  LogEvidence logged;
  KeyFile key;         ///< the one that signed the commitment
  std::string output;  ///< BEACON.json, or "-": only in the result
  SecretDue due = SecretDue::kNotAsked;
};
/// A beacon that was signed.
struct RevealBeaconResult {
  Digest id;
  Digest task;
  Digest proof;
  Digest value;         ///< the beacon's value, from which the draw follows
  bool logged = false;  ///< the proof is in the task's ledger
  std::string envelope;
};

/// Reveals the secret for a proof, and signs the beacon that follows. Whoever knows the secret could try
/// proofs until the draw suits them, so the proof must be in the ledger that the task names. Before anything
/// is revealed, the proof's id is written durably to COMMIT.revealed: a second call for the same proof makes
/// the same beacon again, one for another proof is refused (kNotAllowed, whatever `clobber` says).
///
/// kUnauthorised for another signer's commitment or another operator's receipts; kMalformed for a proof or
/// commitment of another task, a secret that is not the committed one, or receipts without the proof's;
/// kNotAllowed if the proof is not in the ledger yet; kUsage unless `logged` fits the task.
[[nodiscard]] Result<RevealBeaconResult> reveal_beacon(const RevealBeaconOptions& options,
                                                       const JobContext& context);

/// reveal_beacon(), and in a market that forces errors the secret of an acceptance: by its owner when the
/// ledger says that it is due, or before by another key that has it, to which a quarter of the owner's bond
/// goes. Then kUsage without a ledger, and kNotAllowed at any other time, and for the owner's own key too
/// early.
[[nodiscard]] Result<RevealBeaconResult> reveal_secret(const RevealBeaconOptions& options,
                                                       const JobContext& context);

}  // namespace dgx::jobs
