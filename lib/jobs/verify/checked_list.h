#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "dgx/core/checked.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/task_folder.h"
#include "dgx/jobs/verify_batch.h"
#include "dgx/manifest/trust.h"
#include "verify/batch_list.h"
#include "verify/verify_draw.h"

namespace dgx::jobs {

/// A proof that is ready to be replayed: its statements are checked and its segments drawn.
struct Ready {
  std::int64_t line = 0;
  std::size_t place = 0;  ///< in the list
  VerifyOptions options;
  std::shared_ptr<const Verification> verification;
  std::int64_t work = 0;
};

/// Deals the proofs of a list to `count` shards, in the order of their work: each to the shard that has least
/// so far. Bad lines go round. Costs no more for more shards than proofs.
class ShardDeal {
 public:
  ShardDeal(std::int64_t count, std::int64_t proofs);
  /// The shard of the next proof.
  std::int64_t next(std::int64_t work);
  [[nodiscard]] std::int64_t of_bad_line(std::int64_t line) const { return line % count_; }
  /// The most work of a shard so far.
  [[nodiscard]] std::int64_t most() const { return most_; }

 private:
  std::int64_t count_;
  std::int64_t most_ = 0;
  std::priority_queue<std::pair<std::int64_t, std::int64_t>,
                      std::vector<std::pair<std::int64_t, std::int64_t>>,
                      std::greater<>>
      loads_;  ///< work and shard, the least first
};

/// The proofs of a list, whose statements are checked piece by piece, by all threads. It gives those that are
/// good in the order of their work, the most first, and those that are bad as failures.
class CheckedList {
 public:
  using Clock = std::chrono::steady_clock;

  /// Opens the list, the key and the identities that the options name. With kReplay the key must be a private
  /// one, the folder for the verdicts is made, and a line must name start states and data. kUsage, kMissing,
  /// kMalformed, kCannotCreate, kIo.
  [[nodiscard]] static Result<CheckedList> open(const BatchOptions& options, const JobContext& context,
                                                VerifyNeeds needs);

  [[nodiscard]] const EitherKey& key() const { return key_; }
  [[nodiscard]] const std::optional<ShardName>& shard() const { return shard_; }

  /// Checks statements until the time is over, but some, or none is left. False if it was stopped.
  [[nodiscard]] Result<bool> check(Clock::time_point until);
  /// True if no statement is left to be checked.
  [[nodiscard]] bool all_checked() const { return checked_ == proofs_.size(); }
  /// Keeps what a ShardDeal gives to a shard of a list that is all checked.
  void take_share(const ShardName& shard);

  [[nodiscard]] std::int64_t ready() const { return std::ssize(ready_); }
  /// The proof with the most work of those that are ready, of which there is one.
  [[nodiscard]] Ready take_next();
  /// The failures that were not taken yet, by line.
  [[nodiscard]] std::vector<BatchItem> take_failures();

 private:
  /// The most work first; then what is of one task stays together, and the list's order.
  struct Later {
    bool operator()(const Ready& a, const Ready& b) const;
  };

  CheckedList(const BatchOptions& options, const JobContext& context, VerifyNeeds needs)
      : options_(&options),
        context_(&context),
        needs_(needs),
        programs_(std::make_unique<ProgramShelf>()),
        tasks_(std::make_unique<TaskShelf>()) {}
  [[nodiscard]] Result<Ready> open(std::size_t place) const;
  void add(const ListedProof& listed, Result<Ready> ready);

  const BatchOptions* options_;
  const JobContext* context_;
  VerifyNeeds needs_;
  std::unique_ptr<ProgramShelf> programs_;
  std::unique_ptr<TaskShelf> tasks_;
  std::optional<ShardName> shard_;
  EitherKey key_;
  manifest::Trust trust_;
  std::vector<ListedProof> proofs_;
  std::size_t checked_ = 0;  ///< of the proofs
  std::priority_queue<Ready, std::vector<Ready>, Later> ready_;
  std::vector<BatchItem> failures_;
  std::map<Digest, std::int64_t> lines_;  ///< by proof
};

}  // namespace dgx::jobs
