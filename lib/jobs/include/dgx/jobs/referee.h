#pragma once

#include <optional>
#include <string>

#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/key.h"
#include "dgx/manifest/dispute.h"
#include "dgx/manifest/statement.h"

namespace dgx::jobs {

/// dgx-referee (dgx-referee(1)).
struct RefereeOptions {
  std::string transcript;                      ///< "-": standard input
  KeyFile key;                                 ///< the referee's
  std::optional<std::string> ledger_operator;  ///< public key file of the operator who fetches chunks
  std::string output = "-";                    ///< RULING.json
};

/// Judges a dispute by its transcript alone and writes the signed ruling. kInconclusive, naming what is
/// awaited, if the game is not over; kMalformed or kUnauthorised, naming the line, for an invalid transcript;
/// kUnauthorised for a task whose submitter `trust` does not name. The same transcript and key give the same
/// bytes.
[[nodiscard]] Result<manifest::Signed<manifest::Ruling>> referee(const RefereeOptions& options,
                                                                 const JobContext& context);

}  // namespace dgx::jobs
