#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dgx/bundle/opened.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/verify.h"
#include "verify/verify_draw.h"

namespace dgx::jobs {

/// The datasets and the executor of replays. The next replay gets what an earlier one has made, if it is of
/// the same data, or of the same task: what rows it has believed stays believed, and its plan is made once.
class ReplayMeans {
 public:
  /// More datasets than this are not kept open: a small one is in memory as far as it was read.
  static constexpr std::size_t kMostOpen = 8;

  /// An executor for the verification's task, in any state. Valid until the next call. Errors of
  /// open_task_dataset() and make_executor_on().
  [[nodiscard]] Result<exec::StepExecutor*> executor(const VerifyOptions& options, const TaskFiles& files,
                                                     const JobContext& context);
  /// Warns of what the cache of unpacked data had wrong.
  void warn(const JobContext& context) const;

 private:
  std::map<std::pair<std::string, Digest>, bundle::OpenedDataset> data_;  ///< by path and digest
  std::optional<Digest> task_;                                            ///< of the executor
  std::unique_ptr<exec::StepExecutor> executor_;
};

/// A verdict's two files, claimed before the replay.
struct VerdictFiles {
  Output verdict;
  Output rows;  ///< may be there: a call killed between the two writes left the same ones
};
/// kUsage, kCannotCreate.
[[nodiscard]] Result<VerdictFiles> claim_verdict(const std::string& output, Clobber clobber);
/// Signs the rows, with the segments that an audit denies, and writes both files, the verdict last: whoever
/// sees it finds its rows.
[[nodiscard]] Result<VerifyResult> publish_verdict(const manifest::Task& task,
                                                   const protocol::Assignment& assignment,
                                                   const ProofFiles& proof,
                                                   std::vector<manifest::VerdictRow> rows,
                                                   const crypto::SecretKey& key, VerdictFiles files,
                                                   std::vector<std::int64_t> denied = {});

/// verify() of what is open already: replays the drawn segments, and signs and writes the verdict.
[[nodiscard]] Result<VerifyResult> verify_opened(const VerifyOptions& options, const Verification& v,
                                                 const crypto::SecretKey& key, VerdictFiles files,
                                                 ReplayMeans& means, const JobContext& context);

}  // namespace dgx::jobs
