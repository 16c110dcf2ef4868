#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/verify.h"

namespace dgx::jobs {

/// dgx-verify batch (dgx-verify(1), "A list").
struct BatchOptions {
  std::string list;  ///< the file with a proof a line, or "-"
  VerifyOptions
      each;  ///< what lines leave out; the key, the choice, the device; `shard` is one of the list's lines
  std::string output;  ///< folder for the verdicts
};

/// The end of a proof of a list.
enum class BatchOutcome { kAccepted, kRefuted, kInconclusive, kFailed };
[[nodiscard]] std::string_view name_of(BatchOutcome outcome);

/// One proof of a list, done.
struct BatchItem {
  std::int64_t line = 0;
  std::string task;     ///< the file, as the line names it
  std::string verdict;  ///< the file; empty if there is none
  BatchOutcome outcome = BatchOutcome::kFailed;
  bool existed = false;  ///< the verdict was there already
  std::optional<manifest::Verdict> body = {};
  double seconds = 0;               ///< time of replaying
  std::optional<Error> error = {};  ///< of a line without a verdict
};

/// Counts of what became of a list, or of a shard's part of it.
struct BatchSummary {
  std::int64_t proofs = 0;  ///< all of this call's, bad lines included
  std::int64_t accepted = 0;
  std::int64_t refuted = 0;
  std::int64_t inconclusive = 0;
  std::int64_t failed = 0;
  std::int64_t existed = 0;                     ///< of the accepted and refuted
  std::int64_t work = 0;                        ///< weighted operations of the verdicts that were made now
  double seconds = 0;                           ///< time of replaying
  std::optional<ErrorCode> first_failure = {};  ///< by line
};

/// Verifies every proof of a list in this process, the most work first, and calls `seen` after each. What is
/// wrong with a line, or with its files, is its item's error, and the others go on. A proof whose verdict is
/// in the folder already is not verified again. kUsage, kMissing or kIo for the list itself, the key or the
/// folder; kInterrupted, after which the same call continues; an error of `seen`.
[[nodiscard]] Result<BatchSummary> verify_batch(const BatchOptions& options, const JobContext& context,
                                                const std::function<Status(const BatchItem&)>& seen);

/// The plan of a list, or of a shard's part of it, on the CPU.
struct BatchPlan {
  std::int64_t proofs = 0;                      ///< bad lines included
  std::int64_t failed = 0;                      ///< bad lines
  std::optional<ErrorCode> first_failure = {};  ///< by line
  std::int64_t work = 0;                        ///< weighted operations
  Needs needs;
  /// Needs of the job after an array, the call without --shard, which makes what the shards have left: of one
  /// shard's work. None if the plan is not of a shard.
  std::optional<Needs> last = {};
};

/// Draws as verify_batch() would, and replays nothing: needs neither start states nor data nor a private key,
/// and makes no folder. `failed` is called for every line that fails. Errors of verify_batch() and of
/// operations_per_second().
[[nodiscard]] Result<BatchPlan> plan_batch(const BatchOptions& options, const RateSource& rate,
                                           const JobContext& context,
                                           const std::function<Status(const BatchItem&)>& failed);

}  // namespace dgx::jobs
