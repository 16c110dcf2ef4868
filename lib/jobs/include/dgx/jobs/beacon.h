#pragma once

#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/key.h"

namespace dgx::jobs {

struct CommitBeaconOptions {
  std::string task;
  std::optional<std::string> data;  ///< checked against the task, if given
  KeyFile key;
  std::string output;  ///< COMMIT.json; COMMIT.secret (mode 0600) goes beside it
};
struct CommitBeaconResult {
  Digest id;  ///< of the commitment
  Digest task;
  Digest commitment;  ///< to the secret
  std::string secret_path;
};

/// Offers to verify a task: draws a secret and signs a commitment to it. The draw will follow from the secret
/// and the proof, so the secret must stay secret until the proof is logged.
[[nodiscard]] Result<CommitBeaconResult> commit_beacon(const CommitBeaconOptions& options,
                                                       const JobContext& context);

struct RevealBeaconOptions {
  std::string commitment;  ///< COMMIT.json, its secret beside it
  std::string proof;
  KeyFile key;         ///< the one that signed the commitment
  std::string output;  ///< BEACON.json, or "-": only in the result
};
struct RevealBeaconResult {
  Digest id;
  Digest task;
  Digest proof;
  Digest value;
  std::string envelope;
};

/// Reveals the secret for a proof, and signs the beacon that follows. kUnauthorised for another's commitment;
/// kMalformed for a proof of another task, or a secret that is not the committed one.
[[nodiscard]] Result<RevealBeaconResult> reveal_beacon(const RevealBeaconOptions& options,
                                                       const JobContext& context);

}  // namespace dgx::jobs
