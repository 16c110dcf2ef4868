#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/compute_device.h"
#include "dgx/jobs/forecast.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/verdict_words.h"
#include "dgx/manifest/verdict.h"

namespace dgx::jobs {

/// The segments to replay: by default those that the policy draws from the beacon; else at most one of these.
struct Choice {
  std::optional<std::string> segments;  ///< "3,17"
  std::optional<double> fraction;       ///< in (0, 1]
  bool all = false;
  [[nodiscard]] bool made() const { return segments || fraction || all; }
};

/// dgx-verify(1).
struct VerifyOptions {
  std::string task;
  std::string proof;
  std::optional<std::string> program;
  std::string from;                  ///< SAMPLE.h5 or RUN; a URL, which ends in "/" for a run
  std::string data;                  ///< DATA.h5, or a URL
  std::optional<std::string> cache;  ///< the folder for unpacked fields; none: as DGX_CACHE says
  bool insecure = false;             ///< plain http from any host
  std::optional<std::string> beacon;
  std::optional<std::string> audits;      ///< the verdict to re-check
  std::optional<std::string> commitment;  ///< the verifier's offer, where the market forces errors
  KeyFile key;  ///< the verifier's; for a shard or a plan the public one will do, or none (empty path)
  Choice choice;
  std::optional<std::string> shard;     ///< "I/N"
  std::optional<std::string> work_key;  ///< a shard's work key: dgx-verify(1), "Work keys"
  std::optional<std::string> isa;
  ComputeDevice device = ComputeDevice::kCpu;
  std::int64_t parts = 1;  ///< of each batch, made one after another
  std::string output;      ///< VERDICT.json, with VERDICT.rows.jsonl next to it; or SHARD.json
};

/// The plan of a verification: the segments that would be replayed, and their cost on the CPU.
struct VerifyPlan {
  manifest::Draw draw = manifest::Draw::kPolicy;
  std::vector<std::int64_t> segments;  ///< segments of the whole verification, or of the shard; ascending
  std::int64_t task_segments = 0;
  std::int64_t steps = 0;
  std::int64_t work = 0;         ///< weighted operations
  std::int64_t start_bytes = 0;  ///< size of all start states, uncompressed
  Chances chances;               ///< those of the whole verification
  /// Steps before these segments, to start states that `from` has not kept; 0 if it names nothing.
  std::int64_t recomputed_steps = 0;
  Needs needs;
  std::optional<Needs> last = {};  ///< needs of the merge after the shards, if the plan is of one
};
/// Draws as verify() or verify_shard() would, and replays nothing: needs neither start states nor data.
/// Errors of operations_per_second().
[[nodiscard]] Result<VerifyPlan> plan_verification(const VerifyOptions& options, const RateSource& rate,
                                                   const JobContext& context);

/// A verdict that was signed and written.
struct VerifyResult {
  Digest id;  ///< the verdict's
  manifest::Verdict verdict;
  std::vector<manifest::VerdictRow> rows;
  std::vector<std::int64_t> missing;  ///< drawn segments whose start states could not be had
  std::int64_t resumed = 0;           ///< rows that an earlier call had finished
  double seconds = 0;                 ///< time of replaying
};

/// Replays the drawn segments, each from its committed start state, and signs the result. Only the task, the
/// program and the data are believed: a start state must have the committed digest. One that the run did not
/// keep is recomputed from the nearest kept one.
///
/// kInconclusive, and no verdict, if some start states cannot be had and the other segments agree; if one of
/// those disagrees, the verdict refutes with a chosen draw. Finished segments are saved in VERDICT.json.part,
/// as verify_shard() saves them, under a work key that follows from the private key; not those of a fraction
/// without a beacon, which each call draws anew.
///
/// In a market that forces errors the offer's secret decides whether one witness is false by rule, and which;
/// nothing in the result, its size or its time says so.
///
/// With `audits` the result is an audit: the same replay, with witnesses of one's own, and the segments whose
/// witnesses in that verdict it does not give. An audit with missing start states is always kInconclusive.
[[nodiscard]] Result<VerifyResult> verify(const VerifyOptions& options, const JobContext& context);

/// A shard that was written.
struct ShardResult {
  std::int64_t index = 0;
  std::int64_t count = 1;
  std::vector<manifest::VerdictRow> rows;
  std::int64_t resumed = 0;  ///< rows that an earlier call had finished
  double seconds = 0;
};

/// Replays part I of N. Finished segments are saved in SHARD.json.part, at least every second, so that the
/// same call continues after kInterrupted or a kill; kInternal if it was interrupted twice without finishing
/// a segment. A partial shard made under none of the work keys is refused: kUnauthorised.
[[nodiscard]] Result<ShardResult> verify_shard(const VerifyOptions& options, const JobContext& context);

/// dgx-verify merge (dgx-verify(1)).
struct MergeOptions {
  std::string task;
  std::string proof;
  std::vector<std::string> shards;
  std::optional<std::string> beacon;  ///< required for shards of the policy's draw
  KeyFile key;                        ///< key of the verifier for whom the shards were made
  std::string output;                 ///< VERDICT.json, with VERDICT.rows.jsonl next to it
  std::optional<std::string> work_key = {};
  std::optional<std::string> commitment = {};  ///< as in VerifyOptions
  std::optional<std::string> audits = {};      ///< required for shards of an audit: the verdict
};

/// Signs the verdict, or audit, of all shards. kInconclusive, with a list, unless each is there exactly once;
/// kUnauthorised for one that was made under none of the work keys.
[[nodiscard]] Result<VerifyResult> merge_verdict(const MergeOptions& options, const JobContext& context);

}  // namespace dgx::jobs
