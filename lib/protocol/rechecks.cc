// The re-checks of a verdict, and their times: dgx-protocol(7), "AUDITS".

#include <algorithm>

#include "dgx/protocol/forced.h"
#include "dgx/protocol/settlement.h"
#include "dgx/protocol/verify.h"

namespace dgx::protocol {

bool is_rechecked(const TaskRecord& record) {
  return rechecks_verdicts(record.task.body.policy) && record.verdict &&
         record.verdict->body.outcome == manifest::Outcome::kAccepted;
}

bool may_draw_auditor(const TaskRecord& record) {
  return is_rechecked(record) && record.task.body.policy.audit_ppm > 0;
}

bool owes_secret(const TaskRecord& record) {
  return is_rechecked(record) && forces_errors(record.task.body.policy);
}

SecretFate secret_fate(const TaskRecord& record, std::int64_t now) {
  if (!owes_secret(record)) return SecretFate::kKept;
  if (record.secret) return record.secret->early ? SecretFate::kGivenAway : SecretFate::kKept;
  return now > recheck_times(record).reveal_ms ? SecretFate::kWithheld : SecretFate::kKept;
}

std::optional<std::int64_t> forced_segment(const TaskRecord& record) {
  if (!owes_secret(record) || !record.secret) return std::nullopt;
  const auto segments = segments_of(record.task.body, record.proof->body);
  return forced_segment(record.task.body, *segments, record.round->source,
                        record.secret->statement.body.secret);
}

bool claims_jackpot(const TaskRecord& record, const Recheck& recheck) {
  if (!recheck.audit || recheck.audit->body.outcome != manifest::Outcome::kAccepted) return false;
  const auto forced = forced_segment(record);
  return forced && recheck.audit->body.denied == std::vector{*forced};
}

bool confirms_forced(const TaskRecord& record, const Recheck& recheck) {
  if (!recheck.audit || recheck.audit->body.outcome != manifest::Outcome::kAccepted) return false;
  const auto forced = forced_segment(record);
  const std::vector<std::int64_t>& denied = recheck.audit->body.denied;
  return forced && !std::binary_search(denied.begin(), denied.end(), *forced);
}

RecheckTimes recheck_times(const TaskRecord& record) {
  const manifest::Policy& policy = record.task.body.policy;
  RecheckTimes out;
  out.commit_ms = record.verdict_ms + policy.window_challenge_ms;
  // An auditor has as long as a verifier, however late the round came.
  if (record.audit && record.audit->auditor)
    out.commit_ms = std::max(out.commit_ms, record.audit->logged_ms + policy.window_reveal_ms);
  out.reveal_ms = out.ends_ms = out.commit_ms;
  const bool reveals = owes_secret(record) && !(record.secret && record.secret->early);
  if (record.rechecks.empty() && !reveals) return out;
  out.reveal_ms += policy.window_reveal_ms;
  if (reveals) out.ends_ms = record.secret ? record.secret->logged_ms : out.reveal_ms;
  for (const Recheck& one : record.rechecks)
    out.ends_ms = std::max(out.ends_ms, one.audit ? one.audit_ms : out.reveal_ms);
  return out;
}

const Recheck* recheck_of(const TaskRecord& record, const Digest& who) {
  const auto found = std::find_if(record.rechecks.begin(), record.rechecks.end(),
                                  [&](const Recheck& one) { return one.who == who; });
  return found == record.rechecks.end() ? nullptr : &*found;
}

bool is_auditor(const TaskRecord& record, const Digest& who) {
  return record.audit && record.audit->auditor && record.audit->auditor->drawn.verifier == who;
}

const manifest::Signed<manifest::Verdict>* verdict_of(const TaskRecord& record, const Digest& id) {
  if (record.verdict && record.verdict->id == id) return &*record.verdict;
  for (const Recheck& one : record.rechecks) {
    if (one.audit && one.audit->id == id) return &*one.audit;
  }
  return nullptr;
}

}  // namespace dgx::protocol
