// The re-checks of a verdict, and their times: dgx-protocol(7), "AUDITS".

#include <algorithm>

#include "dgx/protocol/settlement.h"

namespace dgx::protocol {

bool is_rechecked(const TaskRecord& record) {
  return record.task.body.policy.audit_ppm > 0 && record.verdict &&
         record.verdict->body.outcome == manifest::Outcome::kAccepted;
}

RecheckTimes recheck_times(const TaskRecord& record) {
  const manifest::Policy& policy = record.task.body.policy;
  RecheckTimes out;
  out.commit_ms = record.verdict_ms + policy.window_challenge_ms;
  // An auditor has as long as a verifier, however late the round came.
  if (record.audit && record.audit->auditor)
    out.commit_ms = std::max(out.commit_ms, record.audit->logged_ms + policy.window_reveal_ms);
  out.reveal_ms = out.ends_ms = out.commit_ms;
  if (record.rechecks.empty()) return out;
  out.reveal_ms += policy.window_reveal_ms;
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
