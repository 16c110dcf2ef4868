#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/verify.h"
#include "dgx/protocol/shards.h"
#include "dgx/protocol/verify.h"

namespace dgx::jobs {

/// A verification before anything runs: task, proof, key, assignment and segments.
struct Verification {
  TaskFiles files;
  ProofFiles proof;
  std::optional<crypto::SecretKey>
      key;  ///< to sign with; none if the options name none, a public key, or it is shared
  protocol::Assignment assignment;
  std::vector<std::int64_t> drawn;  ///< segments of the whole verification, ascending
  /// The witnesses that an audited verdict states for them, in their order.
  std::vector<Digest> stated = {};
  std::optional<protocol::DrawSource> source = {};  ///< the beacon or round that draws
};

/// Tasks that were opened, for who verifies many proofs of one task: its statement and program are checked
/// once. May be shared by threads.
class TaskShelf {
 public:
  /// The task that was opened by that path and program; nullptr if none was.
  [[nodiscard]] std::shared_ptr<const TaskFiles> find(const VerifyOptions& options) const;
  void add(const VerifyOptions& options, std::shared_ptr<const TaskFiles> files);

 private:
  mutable std::mutex using_;
  std::map<std::pair<std::string, std::optional<std::string>>, std::shared_ptr<const TaskFiles>> tasks_;
};

/// The belongings of one process that its verifications share: null for what each has to find for itself.
struct SharedByVerifications {
  const EitherKey* key = nullptr;  ///< the verifier's, in place of the options'
  ProgramShelf* programs = nullptr;
  TaskShelf* tasks = nullptr;
  const manifest::Trust* trust = nullptr;  ///< the identities of --trust
};

/// Opens and checks all that a verification depends on but data and start states, and draws. The verifier is
/// whose key the options name, private or public, or, without one (a shard, a plan), who signed the beacon.
/// kUsage if neither says it, or for a choice that names no segments of the proof; errors of open_task(),
/// open_proof() and protocol::assign().
[[nodiscard]] Result<Verification> open_verification(const VerifyOptions& options, const JobContext& context,
                                                     const SharedByVerifications& shared = {});

/// Checks that the verdict in file `path` can be audited with this assignment, and makes the assignment that
/// of the audit. The witnesses that the verdict states for the segments drawn. kMalformed for a verdict of
/// another proof or round, and one that is no acceptance of the policy's draw; kUnauthorised for one's own.
[[nodiscard]] Result<std::vector<Digest>> begin_audit(const std::string& path,
                                                      const protocol::Segments& segments,
                                                      std::span<const std::int64_t> drawn,
                                                      protocol::Assignment& assignment);

/// A shard as `--shard` names it: part `index` of `count`.
struct ShardName {
  std::int64_t index = 0;
  std::int64_t count = 1;
};
/// Parses "I/N", 0 ≤ I < N; kUsage otherwise.
[[nodiscard]] Result<ShardName> parse_shard(std::string_view text);

}  // namespace dgx::jobs
