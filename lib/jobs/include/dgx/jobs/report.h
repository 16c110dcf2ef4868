#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/story.h"

namespace dgx::jobs {

/// dgx-inspect report (dgx-inspect(1), "Report").
struct ReportOptions {
  std::vector<std::string> files;  ///< a ledger, statements, transcripts, runs, the step program
  std::optional<std::string>
      task;  ///< of several in a ledger: an id, eight digits of it or more, or its file
};

/// Joins what the files say about one task. Signatures are checked and games replayed; all else is told as
/// its signer says it. kUsage: no task or more than one, more than one ledger, a file that has no place in a
/// report; kMalformed: a statement, run or program of another task; kUnauthorised: a bad signature, or a
/// submitter or operator whom `trust` does not name.
[[nodiscard]] Result<Story> report(const ReportOptions& options, const JobContext& context);

}  // namespace dgx::jobs
