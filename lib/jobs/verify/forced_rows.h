#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/manifest/statement.h"
#include "dgx/protocol/lots.h"
#include "dgx/protocol/segments.h"
#include "dgx/protocol/verify.h"

/// Rows whose witness is forced to be false (dgx-protocol(7), "FORCED ERRORS").
namespace dgx::jobs {

/// Reads the secret of an offer from COMMIT.secret, next to it. kMalformed if it is not the one that was
/// committed to.
[[nodiscard]] Result<Digest> read_secret(const std::string& commitment,
                                         const manifest::BeaconCommitment& offer);

/// The secret that decides about a verdict of this assignment, from the offer in the file `commitment`;
/// nullopt where nothing is forced. kUsage if the file is missing, or has no effect; kMalformed or
/// kUnauthorised if it is not the verifier's offer for this task.
[[nodiscard]] Result<std::optional<Digest>> secret_for(const std::optional<std::string>& commitment,
                                                       const manifest::Signed<manifest::Task>& task,
                                                       const protocol::Assignment& assignment);

/// Misstates the witness of the segment that the secret forces, if all rows agree. With a secret it computes
/// the same for every row, whether or not one is forced.
void misstate(const manifest::Task& task, const protocol::Segments& segments,
              const std::optional<protocol::DrawSource>& source, const std::optional<Digest>& secret,
              std::vector<manifest::VerdictRow>& rows);

}  // namespace dgx::jobs
