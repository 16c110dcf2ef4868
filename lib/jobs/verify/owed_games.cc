#include "verify/owed_games.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/time_text.h"

namespace dgx::jobs {
namespace {

using protocol::GameRecord;
using protocol::MarketClock;
using protocol::TaskRecord;
using protocol::TaskState;

bool has_challenged(const TaskRecord& record, const Digest& who, const Digest& statement) {
  return std::any_of(record.games.begin(), record.games.end(), [&](const GameRecord& game) {
    return game.statement() == statement && game.game.dispute().challenger() == who;
  });
}

/// The move that a key owes in an open game.
std::string move_owed(const TaskRecord& record, const Digest& who, const MarketClock& clock) {
  const auto ends = protocol::ends_of(record, clock.now());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const GameRecord& game = record.games[i];
    if (ends[i]) continue;
    const protocol::Dispute& dispute = game.game.dispute();
    const bool defends = game.game.due().side == protocol::Side::kDefender;
    if ((defends ? dispute.defender() : dispute.challenger()) != who) continue;
    return fmt::format("your move in game {}, by {}", game.id().brief(),
                       utc_text(clock.receipt_time(game.deadline_ms)));
  }
  return "";
}

std::string by_time(const MarketClock& clock, const protocol::Standing& stands) {
  return ", by " + utc_text(clock.receipt_time(*stands.deadline_ms));
}

/// The drawn auditor's refutation of what the verdict accepted, while it stands; null if there is none.
const manifest::Signed<manifest::Verdict>* refutation_of(const TaskRecord& record, std::int64_t now) {
  for (const protocol::Recheck& one : record.rechecks) {
    const bool refutes = one.audit && one.audit->body.outcome == manifest::Outcome::kRefuted;
    if (refutes && protocol::is_auditor(record, one.who) && !protocol::has_fallen(record, one.audit->id, now))
      return &*one.audit;
  }
  return nullptr;
}

/// The segment about which an auditor has to win a game: one whose witness they deny, though it was not
/// forced to be false, or the forced one, whose witness was not false though it had to be.
std::optional<std::int64_t> false_without_reason(const TaskRecord& record, const manifest::Verdict& audit) {
  const auto forced = protocol::forced_segment(record);
  const auto denied = std::find_if(audit.denied.begin(), audit.denied.end(),
                                   [&](std::int64_t index) { return index != forced; });
  if (denied != audit.denied.end()) return *denied;
  const bool confirmed = forced && audit.denied.empty() && audit.outcome == manifest::Outcome::kAccepted;
  return confirmed ? forced : std::nullopt;
}

std::string to_challenge(std::int64_t segment, const std::string& when, std::string_view why) {
  return fmt::format("you to challenge the verdict about segment {}, with dgx-bisect open --against{}: {}",
                     segment, when, why);
}

}  // namespace

std::string owed_by_auditor(const TaskRecord& record, const Digest& who, const MarketClock& clock) {
  const manifest::Verdict& audit = protocol::recheck_of(record, who)->audit->body;
  const Digest& verdict = record.verdict->id;
  const protocol::Standing stands = protocol::standing(record, clock.now());
  const bool window = stands.state == TaskState::kChallengeWindow;
  const bool in_time = window || stands.state == TaskState::kReveal;
  const bool begun =
      has_challenged(record, who, verdict) || protocol::has_fallen(record, verdict, clock.now());
  const bool unknown = protocol::owes_secret(record) && !record.secret;
  if (unknown && stands.state == TaskState::kReveal) return "the verifier's secret";
  const auto owed = unknown ? std::nullopt : false_without_reason(record, audit);
  if (!owed || begun || !in_time) return move_owed(record, who, clock);
  return to_challenge(*owed, window ? by_time(clock, stands) : ", once all audits are shown",
                      "your bond is lost unless it falls");
}

std::optional<std::int64_t> found_forced(const TaskRecord& record, const Digest& who,
                                         const MarketClock& clock) {
  const manifest::Verdict& audit = protocol::recheck_of(record, who)->audit->body;
  const Digest& verdict = record.verdict->id;
  const protocol::TaskState state = protocol::standing(record, clock.now()).state;
  const auto forced = record.secret ? protocol::forced_segment(record) : std::nullopt;
  if (state != TaskState::kReveal && state != TaskState::kChallengeWindow) return std::nullopt;
  if (has_challenged(record, who, verdict) || protocol::has_fallen(record, verdict, clock.now()))
    return std::nullopt;
  const bool claims = forced && audit.outcome == manifest::Outcome::kAccepted &&
                      audit.denied == std::vector<std::int64_t>{*forced};
  return claims ? forced : std::nullopt;
}

std::string gained_by_auditor(const TaskRecord& record, std::int64_t segment, const MarketClock& clock) {
  const protocol::Standing stands = protocol::standing(record, clock.now());
  const bool window = stands.state == TaskState::kChallengeWindow;
  return to_challenge(segment, window ? by_time(clock, stands) : ", once all audits are shown",
                      "its witness is not the false one that the rule asks for, but an invention, and a "
                      "part of the verifier's bond is yours if it falls");
}

std::string owed_by_verifier(const TaskRecord& record, const Digest& who, const MarketClock& clock) {
  const protocol::Standing stands = protocol::standing(record, clock.now());
  const auto* const refutation = refutation_of(record, clock.now());
  const bool window = stands.state == TaskState::kChallengeWindow;
  if (!window || refutation == nullptr || has_challenged(record, who, refutation->id))
    return move_owed(record, who, clock);
  return fmt::format(
      "somebody, such as you, to challenge the auditor's refutation {}{}: while it stands this "
      "verdict has fallen, and your bond is lost",
      refutation->id.brief(), by_time(clock, stands));
}

}  // namespace dgx::jobs
