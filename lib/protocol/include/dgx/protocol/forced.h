#pragma once

#include <cstdint>
#include <optional>

#include "dgx/core/bytes.h"
#include "dgx/manifest/task.h"
#include "dgx/manifest/verdict.h"
#include "dgx/protocol/lots.h"
#include "dgx/protocol/segments.h"

/// Forced errors: false witnesses by rule (dgx-protocol(7), "FORCED ERRORS").
///
/// Forced errors: verdicts that are wrong on purpose, in a place that nobody but their verifier knows, find
/// auditors who confirm without a replay. A secret to which the verifier has committed with the offer, and
/// the round of the proof's slot, decide whether the verdict of an acceptance has such a place, and where. It
/// has the size of any other, and takes as long to make. Once the secret is revealed everybody can tell.
namespace dgx::protocol {

/// True where the witnesses of acceptances may be forced to be false.
[[nodiscard]] inline bool forces_errors(const manifest::Policy& policy) {
  return policy.forced_error_ppm > 0;
}
/// True where acceptances are re-checked before they can be challenged, and so state their witnesses: in a
/// market that audits verdicts, or forces errors.
[[nodiscard]] inline bool rechecks_verdicts(const manifest::Policy& policy) {
  return policy.audit_ppm > 0 || forces_errors(policy);
}

/// True if a witness of this verdict on a proof of the task may be forced to be false: of an acceptance of
/// the policy's draw.
[[nodiscard]] bool may_be_forced(const manifest::Task& task, const manifest::Verdict& verdict);
/// The lot that decides about a forced error: lot("forced", round, secret ‖ proof id).
[[nodiscard]] Digest forced_lot(const DrawSource& round, const Digest& secret);
/// The segment whose witness the verifier who has this secret must misstate in an acceptance; nullopt if the
/// lot does not hit, or falls on a segment of one step, which has no witness. Of the q segments drawn it is
/// number (second 8 bytes of the lot) mod q. Asserted: the round draws for a proof of the task, which has
/// these segments.
[[nodiscard]] std::optional<std::int64_t> forced_segment(const manifest::Task& task, const Segments& segments,
                                                         const DrawSource& round, const Digest& secret);
/// H("dgx-false-witness" ‖ witness): what the forced row states in place of its true witness.
[[nodiscard]] Digest false_witness(const Digest& witness);

}  // namespace dgx::protocol
