#include "dgx/jobs/referee.h"

#include <fmt/format.h>

#include <set>

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

/// The ruling that follows from the transcript.
Result<manifest::Ruling> judge(const RefereeOptions& options, const JobContext& context) {
  DGX_TRY(const std::optional<Digest> ledger_operator, operator_of(options));
  DGX_TRY(const std::string text, read_file(options.transcript, protocol::kMaxTranscriptBytes));
  auto transcript = protocol::play_transcript(text, ledger_operator);
  if (!transcript.ok()) return within(options.transcript, transcript.error());
  DGX_CHECK(check_trust(transcript->game, context.trust));
  return transcript->game.ruling();
}

/// The names of the fields in which two rulings differ, sorted; a field that one of them lacks differs.
std::vector<std::string> differences(const manifest::Ruling& a, const manifest::Ruling& b) {
  const json::Object ours = a.predicate();
  const json::Object theirs = b.predicate();
  std::set<std::string> out;
  const auto add = [&](const json::Object& fields, const json::Object& others) {
    for (const auto& [name, value] : fields) {
      const auto other = others.find(name);
      if (other == others.end() || !(other->second == value)) out.insert(name);
    }
  };
  add(ours, theirs);
  add(theirs, ours);
  return {out.begin(), out.end()};
}

}  // namespace

Result<RulingCheck> check_ruling(const RefereeOptions& options, const JobContext& context) {
  DGX_TRY(auto given, manifest::read_statement<manifest::Ruling>(*options.check));
  DGX_TRY(manifest::Ruling ours, judge(options, context));
  if (given.body.game != ours.game)
    return malformed(fmt::format("{}: rules on game {}, the transcript is of game {}", *options.check,
                                 given.body.game.brief(), ours.game.brief()));
  const bool same = protocol::same_ruling(given.body, ours);
  std::vector<std::string> differs = differences(given.body, ours);
  return RulingCheck{std::move(given), std::move(ours), same, std::move(differs)};
}

Result<manifest::Signed<manifest::Ruling>> referee(const RefereeOptions& options, const JobContext& context) {
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  DGX_TRY(const manifest::Ruling ruling, judge(options, context));
  DGX_TRY(auto statement, manifest::seal(ruling, key));
  DGX_CHECK(output.write(statement.envelope + "\n"));
  return statement;
}

}  // namespace dgx::jobs
