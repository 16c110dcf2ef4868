#include "dgx/jobs/referee.h"

#include "dgx/crypto/key_file.h"
#include "dgx/manifest/trust.h"
#include "dgx/protocol/referee.h"

namespace dgx::jobs {
namespace {

Result<std::optional<Digest>> operator_of(const RefereeOptions& options) {
  if (!options.ledger_operator) return std::optional<Digest>();
  DGX_TRY(const crypto::PublicKey key, crypto::read_public_key(*options.ledger_operator));
  return std::optional<Digest>(crypto::key_id(key));
}

Status check_trust(const protocol::Game& game, const std::optional<std::string>& path) {
  if (!path) return {};
  DGX_TRY(const manifest::Trust trust, manifest::Trust::load(*path));
  DGX_CHECK(trust.check(game.dispute().task.key_id, "the task's submitter"));
  return {};
}

}  // namespace

Result<manifest::Signed<manifest::Ruling>> referee(const RefereeOptions& options, const JobContext& context) {
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  DGX_TRY(const std::optional<Digest> ledger_operator, operator_of(options));
  DGX_TRY(const std::string text, read_file(options.transcript, protocol::kMaxTranscriptBytes));
  auto transcript = protocol::play_transcript(text, ledger_operator);
  if (!transcript.ok()) return within(options.transcript, transcript.error());
  DGX_CHECK(check_trust(transcript->game, context.trust));
  DGX_TRY(const manifest::Ruling ruling, transcript->game.ruling());
  DGX_TRY(auto statement, manifest::seal(ruling, key));
  DGX_CHECK(write_file(options.output, statement.envelope + "\n", context.clobber));
  return statement;
}

}  // namespace dgx::jobs
