#pragma once

#include <optional>
#include <string>
#include <vector>

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
  std::optional<std::string> check;            ///< a ruling to recompute instead of making one
};

/// Judges a dispute by its transcript alone and writes the signed ruling. kInconclusive, naming what is
/// awaited, if the game is not over; kMalformed or kUnauthorised, naming the line, for an invalid transcript;
/// kUnauthorised for a task whose submitter `trust` does not name. The same transcript and key give the same
/// bytes.
[[nodiscard]] Result<manifest::Signed<manifest::Ruling>> referee(const RefereeOptions& options,
                                                                 const JobContext& context);

/// A ruling, compared with the one that follows from the transcript.
struct RulingCheck {
  manifest::Signed<manifest::Ruling> given;
  manifest::Ruling recomputed;
  bool same = false;                 ///< in all that counts (protocol::same_ruling)
  std::vector<std::string> differs;  ///< names of the fields that are not as recomputed, sorted
};

/// Recomputes the ruling `options.check` from the transcript, whoever signed it. Needs no key. Errors of
/// referee() and of reading the ruling; kMalformed if it is about another game.
[[nodiscard]] Result<RulingCheck> check_ruling(const RefereeOptions& options, const JobContext& context);

}  // namespace dgx::jobs
