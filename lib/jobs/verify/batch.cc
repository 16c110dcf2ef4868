#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <utility>

#include "dgx/core/files.h"
#include "dgx/core/inputs.h"
#include "dgx/core/parallel.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/task_folder.h"
#include "dgx/jobs/verify_batch.h"
#include "dgx/protocol/verify.h"
#include "verify/batch_list.h"
#include "verify/replay_means.h"
#include "verify/verify_draw.h"

namespace dgx::jobs {
namespace {

using Clock = std::chrono::steady_clock;

/// The most bytes of a list: more than a million lines.
constexpr std::size_t kMaxListBytes = std::size_t{256} << 20;
/// Statements are checked for so long before the first replay begins; then, what is left, between replays.
constexpr auto kLookAhead = std::chrono::milliseconds(1000);

/// A proof that is ready to be replayed: its statements are checked and its segments drawn.
struct Ready {
  std::int64_t line = 0;
  std::size_t place = 0;  ///< in the list
  VerifyOptions options;
  std::shared_ptr<const Verification> verification;
  std::int64_t work = 0;
};

/// The most work first; then what is of one task stays together, and the list's order.
struct Later {
  bool operator()(const Ready& a, const Ready& b) const {
    if (a.work != b.work) return a.work < b.work;
    const Digest& mine = a.verification->files.task.id;
    const Digest& theirs = b.verification->files.task.id;
    return mine != theirs ? mine > theirs : a.place > b.place;
  }
};

/// A verdict's name says its proof: the first 16 digits of its id.
std::string verdict_path(const std::string& folder, const Digest& proof) {
  return fmt::format("{}/{}.json", folder, proof.hex().substr(0, 16));
}

/// Verifies the proofs of one list.
///
/// Statements are cheap and replays are not, but which replay takes longest only the statements say. So all
/// statements are checked first, by all threads, and the replays follow in the order of their work: the last
/// ones are short, and no shard waits for another's. Of a very long list the first replay does not wait for
/// the last statement, except in a shard, whose share depends on all of them.
class Batch {
 public:
  Batch(const BatchOptions& options, const JobContext& context, const EitherKey& key,
        const std::function<Status(const BatchItem&)>& seen)
      : options_(options),
        context_(context),
        key_(key),
        verifier_(crypto::key_id(key.public_key)),
        seen_(seen) {}

  Result<BatchSummary> run(std::vector<ListedProof> listed, const std::optional<ShardName>& shard) {
    listed_ = std::move(listed);
    DGX_CHECK(look_ahead(shard ? Clock::time_point::max() : Clock::now() + kLookAhead));
    if (shard) DGX_CHECK(take_share(*shard));
    DGX_CHECK(tell_failures());
    while (!ready_.empty() || checked_ < listed_.size()) {
      if (ready_.empty()) DGX_CHECK(look_ahead(Clock::time_point::max()));
      DGX_CHECK(tell_failures());
      if (ready_.empty()) continue;
      const Ready next = ready_.top();
      ready_.pop();
      DGX_CHECK(verify(next));
      DGX_CHECK(look_ahead(Clock::now() + kLookAhead));
      DGX_CHECK(tell_failures());
    }
    means_.warn(context_);
    return summary_;
  }

 private:
  /// Checks statements until the time is over or none is left.
  Status look_ahead(Clock::time_point until) {
    constexpr std::size_t kPiece = 64;  // between two looks at the clock
    while (checked_ < listed_.size() && (Clock::now() < until || checked_ == 0)) {
      if (context_.stop.requested()) return interrupted();
      const std::size_t first = checked_;
      const std::size_t count = std::min(kPiece, listed_.size() - first);
      std::vector<std::optional<Result<Ready>>> opened(count);
      DGX_CHECK(for_each_index(count, context_.threads, [&](std::size_t n) -> Status {
        opened[n] = open(first + n);
        return {};
      }));
      for (std::size_t n = 0; n < count; ++n) add(listed_[first + n], *std::move(opened[n]));
      checked_ += count;
    }
    return {};
  }

  void add(const ListedProof& listed, Result<Ready> ready) {
    if (ready.ok()) {
      const Digest& proof = ready->verification->proof.proof.id;
      const auto [at, is_new] = proofs_.emplace(proof, listed.line);
      if (is_new) return ready_.push(std::move(ready).value());
      ready = usage_error(fmt::format("is the proof of line {} again", at->second));
    }
    failures_.push_back(
        {listed.line, listed.task, {}, BatchOutcome::kFailed, false, {}, 0, std::move(ready).error()});
  }

  /// Checks the statements of one proof, and draws its segments.
  Result<Ready> open(std::size_t place) {
    const ListedProof& listed = listed_[place];
    if (!listed.options.ok()) return listed.options.error();
    Ready out{listed.line, place, *listed.options, nullptr, 0};
    const bool folder = is_task_folder(out.options.task);
    if (folder) DGX_CHECK(complete(out.options, VerifyNeeds::kReplay));
    if (out.options.proof.empty()) return usage_error("names no proof");
    if (out.options.from.empty())
      return usage_error("names no start states", "--from names those of all lines");
    if (out.options.data.empty()) return usage_error("names no dataset", "--data names that of all lines");
    DGX_TRY(Verification opened, open_verification(out.options, context_, {&key_, &programs_}));
    DGX_TRY(out.work, protocol::replay_work(opened.files.body(), opened.proof.segments, opened.drawn));
    out.options.output = verdict_path(options_.output, opened.proof.proof.id);
    out.verification = std::make_shared<const Verification>(std::move(opened));
    return out;
  }

  /// Keeps what belongs to a shard. In the order of their work, each proof goes to the shard that has least
  /// so far; bad lines go round.
  Status take_share(const ShardName& shard) {
    std::vector<std::int64_t> loads(static_cast<std::size_t>(shard.count));
    std::priority_queue<Ready, std::vector<Ready>, Later> mine;
    for (; !ready_.empty(); ready_.pop()) {
      const auto least = std::min_element(loads.begin(), loads.end());
      *least += std::max<std::int64_t>(ready_.top().work, 1);
      if (least - loads.begin() == shard.index) mine.push(ready_.top());
    }
    ready_ = std::move(mine);
    std::erase_if(failures_, [&](const BatchItem& item) { return item.line % shard.count != shard.index; });
    return {};
  }

  Status verify(const Ready& next) {
    BatchItem item{next.line, next.options.task, next.options.output};
    if (exists(item.verdict) && context_.clobber == Clobber::kRefuse) {
      if (Status found = take_existing(next, item); !found.ok())
        item = failed(item, std::move(found).error());
      return tell(std::move(item));
    }
    auto result = [&]() -> Result<VerifyResult> {
      DGX_TRY(VerdictFiles files, claim_verdict(item.verdict, context_.clobber));
      return verify_opened(next.options, *next.verification, *key_.secret, std::move(files), means_,
                           context_);
    }();
    if (!result.ok() && result.error().code == ErrorCode::kInterrupted) return interrupted();
    if (!result.ok()) return tell(failed(item, std::move(result).error()));
    item.seconds = result->seconds;
    summary_.work += result->verdict.work;
    take(std::move(result->verdict), item);
    return tell(std::move(item));
  }

  /// Takes a verdict that an earlier call has made. kCannotCreate if it is another's, or of another draw.
  Status take_existing(const Ready& next, BatchItem& item) const {
    const Search search;  // an old result is no input
    DGX_TRY(auto there, manifest::read_statement<manifest::Verdict>(item.verdict));
    const protocol::Assignment& assignment = next.verification->assignment;
    if (there.key_id != verifier_ || there.body.proof != assignment.proof ||
        there.body.task != assignment.task || there.body.draw != assignment.draw ||
        there.body.beacon != assignment.beacon)
      return Error{ErrorCode::kCannotCreate,
                   item.verdict + ": is there already, and is another verification's",
                   "use --force to replace it"};
    item.existed = true;
    take(std::move(there.body), item);
    return {};
  }

  static void take(manifest::Verdict verdict, BatchItem& item) {
    item.outcome =
        verdict.outcome == manifest::Outcome::kAccepted ? BatchOutcome::kAccepted : BatchOutcome::kRefuted;
    item.body = std::move(verdict);
  }

  static BatchItem failed(BatchItem item, Error error) {
    item.outcome =
        error.code == ErrorCode::kInconclusive ? BatchOutcome::kInconclusive : BatchOutcome::kFailed;
    item.verdict.clear();
    item.error = std::move(error);
    return item;
  }

  Status tell_failures() {
    std::sort(failures_.begin(), failures_.end(),
              [](const auto& a, const auto& b) { return a.line < b.line; });
    for (BatchItem& item : std::exchange(failures_, {})) DGX_CHECK(tell(std::move(item)));
    return {};
  }

  Status tell(BatchItem item) {
    ++summary_.proofs;
    summary_.accepted += item.outcome == BatchOutcome::kAccepted;
    summary_.refuted += item.outcome == BatchOutcome::kRefuted;
    summary_.inconclusive += item.outcome == BatchOutcome::kInconclusive;
    summary_.failed += item.outcome == BatchOutcome::kFailed;
    summary_.existed += item.existed;
    summary_.seconds += item.seconds;
    if (item.outcome == BatchOutcome::kFailed && item.line < first_failed_) {
      first_failed_ = item.line;
      summary_.first_failure = item.error->code;
    }
    return seen_(item);
  }

  [[nodiscard]] Error interrupted() const {
    return {ErrorCode::kInterrupted,
            fmt::format("stopped after {} proofs; what is finished is saved", summary_.proofs),
            "run the same command again to continue"};
  }

  const BatchOptions& options_;
  const JobContext& context_;
  const EitherKey& key_;
  Digest verifier_;
  const std::function<Status(const BatchItem&)>& seen_;
  ProgramShelf programs_;
  ReplayMeans means_;
  std::vector<ListedProof> listed_;
  std::size_t checked_ = 0;  ///< of the list's proofs
  std::priority_queue<Ready, std::vector<Ready>, Later> ready_;
  std::vector<BatchItem> failures_;        ///< not told yet
  std::map<Digest, std::int64_t> proofs_;  ///< the line of each
  BatchSummary summary_;
  std::int64_t first_failed_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

std::string_view name_of(BatchOutcome outcome) {
  switch (outcome) {
    case BatchOutcome::kAccepted: return "accepted";
    case BatchOutcome::kRefuted: return "refuted";
    case BatchOutcome::kInconclusive: return "inconclusive";
    case BatchOutcome::kFailed: return "failed";
  }
  return "";
}

Result<BatchSummary> verify_batch(const BatchOptions& options, const JobContext& context,
                                  const std::function<Status(const BatchItem&)>& seen) {
  DGX_CHECK(choose_instruction_set(options.each.isa));
  std::optional<ShardName> shard;
  if (options.each.shard) {
    DGX_TRY(shard, parse_shard(*options.each.shard));
  }
  DGX_TRY(const EitherKey key, read_either_key(options.each.key));
  if (!key.secret)
    return malformed(options.each.key.path + ": is a public key, expected a private key",
                     "a verdict is signed");
  DGX_CHECK(make_folder(options.output));
  DGX_TRY(const std::string text, read_file(options.list, kMaxListBytes));
  VerifyOptions defaults = options.each;
  defaults.shard.reset();
  return Batch(options, context, key, seen).run(parse_list(text, defaults), shard);
}

}  // namespace dgx::jobs
