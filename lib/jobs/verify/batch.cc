#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <utility>

#include "dgx/core/files.h"
#include "dgx/core/inputs.h"
#include "dgx/jobs/verify_batch.h"
#include "verify/checked_list.h"
#include "verify/replay_means.h"

namespace dgx::jobs {
namespace {

using Clock = std::chrono::steady_clock;

/// Statements are checked for so long before the first replay begins; then, what is left, between replays.
constexpr auto kLookAhead = std::chrono::milliseconds(1000);

/// Verifies the proofs of one list.
///
/// Statements are cheap and replays are not, but which replay takes longest only the statements say. So all
/// statements are checked first, by all threads, and the replays follow in the order of their work: the last
/// ones are short, and no shard waits for another's. Of a very long list the first replay does not wait for
/// the last statement, except in a shard, whose share depends on all of them.
class Batch {
 public:
  Batch(const JobContext& context, CheckedList list, const std::function<Status(const BatchItem&)>& seen)
      : context_(context),
        list_(std::move(list)),
        verifier_(crypto::key_id(list_.key().public_key)),
        seen_(seen) {}

  Result<BatchSummary> run() {
    DGX_CHECK(look_ahead(list_.shard() ? Clock::time_point::max() : Clock::now() + kLookAhead));
    if (list_.shard()) list_.take_share(*list_.shard());
    DGX_CHECK(tell_failures());
    while (list_.ready() > 0 || !list_.all_checked()) {
      if (list_.ready() == 0) DGX_CHECK(look_ahead(Clock::time_point::max()));
      DGX_CHECK(tell_failures());
      if (list_.ready() == 0) continue;
      DGX_CHECK(verify(list_.take_next()));
      DGX_CHECK(look_ahead(Clock::now() + kLookAhead));
      DGX_CHECK(tell_failures());
    }
    means_.warn(context_);
    return summary_;
  }

 private:
  Status look_ahead(Clock::time_point until) {
    DGX_TRY(const bool checked, list_.check(until));
    return checked ? Status() : interrupted();
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
      return verify_opened(next.options, *next.verification, *list_.key().secret, std::move(files), means_,
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
    for (BatchItem& item : list_.take_failures()) DGX_CHECK(tell(std::move(item)));
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

  const JobContext& context_;
  CheckedList list_;
  Digest verifier_;
  const std::function<Status(const BatchItem&)>& seen_;
  ReplayMeans means_;
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
  DGX_TRY(CheckedList list, CheckedList::open(options, context, VerifyNeeds::kReplay));
  return Batch(context, std::move(list), seen).run();
}

}  // namespace dgx::jobs
