#include "verify/forced_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/protocol/forced.h"

namespace dgx::jobs {

Result<Digest> read_secret(const std::string& commitment, const manifest::BeaconCommitment& offer) {
  constexpr std::size_t kDigestLineBytes = 65;  // 64 hex digits and a newline
  const std::string path = beside(commitment, ".secret");
  DGX_TRY(std::string text, read_file(path, kDigestLineBytes));
  if (text.ends_with('\n')) text.pop_back();
  auto secret = digest_from_hex(text);
  if (!secret.ok()) return within(path, std::move(secret).error());
  if (manifest::beacon_commitment(*secret) == offer.commitment) return secret;
  return malformed(path + ": is not the secret that was committed to");
}

Result<std::optional<Digest>> secret_for(const std::optional<std::string>& commitment,
                                         const manifest::Signed<manifest::Task>& task,
                                         const protocol::Assignment& assignment) {
  const bool forced = protocol::forces_errors(task.body.policy) && assignment.draw == manifest::Draw::kPolicy;
  if (!commitment && !forced) return std::optional<Digest>();
  if (!forced)
    return usage_error("--commit has no effect: no error can be forced in this verdict",
                       "leave out --commit");
  if (!commitment)
    return usage_error(
        "--commit is required: this market forces errors, and the offer's secret decides which",
        "name the offer, COMMIT.json, with its secret next to it");
  DGX_TRY(const auto offer, manifest::read_statement<manifest::BeaconCommitment>(*commitment));
  if (offer.body.task != task.id) return malformed(*commitment + ": is for another task");
  if (offer.key_id != assignment.verifier)
    return unauthorised(fmt::format("{}: is by key {}, the verifier is key {}", *commitment,
                                    offer.key_id.brief(), assignment.verifier.brief()));
  DGX_TRY(const Digest secret, read_secret(*commitment, offer.body));
  return std::optional(secret);
}

void misstate(const manifest::Task& task, const protocol::Segments& segments,
              const std::optional<protocol::DrawSource>& source, const std::optional<Digest>& secret,
              std::vector<manifest::VerdictRow>& rows) {
  if (!secret || !source || !source->is_round) return;
  const auto forced = protocol::forced_segment(task, segments, *source, *secret);
  const bool accepts =
      std::all_of(rows.begin(), rows.end(), [](const manifest::VerdictRow& row) { return row.agrees; });
  for (manifest::VerdictRow& row : rows) {
    const Digest other = protocol::false_witness(row.witness);
    row.witness = accepts && forced == row.index ? other : row.witness;
  }
}

}  // namespace dgx::jobs
