#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/compute_device.h"
#include "dgx/jobs/key.h"
#include "dgx/manifest/verdict.h"

namespace dgx::jobs {

/// dgx-verify respond (dgx-verify(1)).
struct RespondOptions {
  std::string ledger;
  std::string task;
  std::string commitment;                       ///< COMMIT.json, with its secret next to it
  std::optional<std::string> from;              ///< a fetched opening; none: the copy next to the ledger
  std::string data;                             ///< the task's dataset, or a URL
  std::optional<std::string> cache;             ///< the folder for unpacked fields; none: as DGX_CACHE says
  bool insecure = false;                        ///< plain http from any host
  std::optional<std::string> post;              ///< a command that is run with each statement that is signed
  std::optional<std::chrono::seconds> timeout;  ///< the longest wait for others, each time; none: no wait
  KeyFile key;
  std::optional<std::string> program;
  std::optional<std::string> isa;
  ComputeDevice device = ComputeDevice::kCpu;
  std::int64_t parts = 1;  ///< of each batch, made one after another
  std::string output;      ///< VERDICT.json, with VERDICT.rows.jsonl next to it
};

/// The progress of a verifier's part of a task.
struct RespondResult {
  std::vector<std::string> done;  ///< steps of this call, in words: "revealed the beacon", …
  /// The step that somebody else owes, or a game that this verifier or auditor has to play; empty once the
  /// verdict or audit is logged, and nothing else is owed.
  std::string waits_for;
  std::optional<manifest::Outcome> outcome;  ///< the verdict's or audit's, once it is signed
  std::int64_t denied = 0;                   ///< segments that the audit denies
};

/// Does what a task in a ledger asks of its verifier, as far as that is possible now: reveals the beacon once
/// the proof is logged, replays the draw once the proof is opened, and signs the verdict. Each statement is
/// handed on by `post`. With `timeout` it waits for what others have to do, and goes on.
///
/// It begins with what the ledger says, so it can be killed at any moment and called again: what is done is
/// not done again, and there is never a second beacon or verdict. Proof and beacon are written next to the
/// commitment: COMMIT.proof.json, COMMIT.beacon.json.
///
/// kUnauthorised for a key that is not the task's verifier's; kMalformed for a commitment that the solver did
/// not choose, or a file at `output` that is not this proof's verdict; kInconclusive if the beacon is late or
/// the task settled; kInterrupted if stopped. Else errors of reveal_beacon(), verify() and post().
[[nodiscard]] Result<RespondResult> respond(const RespondOptions& options, const JobContext& context);

}  // namespace dgx::jobs
