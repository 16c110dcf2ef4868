#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/manifest/statement.h"
#include "dgx/program/executor.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/lots.h"
#include "dgx/protocol/segments.h"

/// Verification of a proof by replay (dgx-protocol(7), "VERDICTS"), from the choice of verifier and beacon to
/// the body of the verdict.
///
/// A proof commits to the states between its segments. So a segment can be replayed alone: from the committed
/// state at its start, the program must lead to the committed state at its end, bit for bit. There is no
/// tolerance, and one segment that disagrees refutes the proof.
///
/// The steps are assign(), which fixes the verifier and the beacon; policy_draw(), which says what to replay;
/// replay_segment(), which gives a row for each segment; assemble_verdict(), which makes the statement of all
/// rows. Nothing here is signed, and no file is read.
///
/// Two kinds of failure are kept apart. What the proof committed to and is wrong (a start state of another
/// step, a state that does not fit the program, another end state) is a fault of the proof: a row that
/// disagrees. What a verifier was handed and is not what the proof committed to (another start state, another
/// proof's beacon) says nothing about the proof: an error.
namespace dgx::protocol {

/// The verdict that an audit re-checks.
struct Audited {
  Digest verdict;   ///< id
  Digest verifier;  ///< key id of its signer
  bool operator==(const Audited&) const = default;
};

/// One verifier's replay of a proof: everything that a row depends on except the states.
struct Assignment {
  Digest task;
  Digest proof;                  ///< id of the proof statement
  Digest verifier;               ///< key id
  std::optional<Digest> beacon;  ///< id of the beacon or the round
  Digest beacon_value;           ///< zero for a chosen draw
  manifest::Draw draw = manifest::Draw::kChosen;
  std::optional<Audited> audited = {};  ///< exactly with Draw::kAudit
  bool operator==(const Assignment&) const = default;
};

/// The segments of a proof: the task's, or those up to where it diverged. kMalformed unless its steps fit the
/// task's (all of them or, if it diverged, fewer), and its number of states those steps.
[[nodiscard]] Result<Segments> segments_of(const manifest::Task& task, const manifest::Proof& proof);

/// The committed state that ends segment `index`; nullopt for the diverging step, after which there is none.
/// `states` are the committed ones.
[[nodiscard]] std::optional<Digest> committed_end(const Segments& segments, std::span<const Digest> states,
                                                  std::int64_t index);

/// check_proof() and assign(): kMalformed unless the proof is of this task (id, initial state, steps, number
/// of states). assign(): errors of check_source() for the beacon or round, if there is one; kUnauthorised if
/// it is a beacon of another than `verifier`.
[[nodiscard]] Status check_proof(const manifest::Signed<manifest::Task>& task,
                                 const manifest::Signed<manifest::Proof>& proof);
[[nodiscard]] Result<Assignment> assign(const manifest::Signed<manifest::Task>& task,
                                        const manifest::Signed<manifest::Proof>& proof,
                                        const std::optional<DrawSource>& source, const Digest& verifier);

/// The segments that the policy draws for this assignment; kUsage without a beacon.
[[nodiscard]] Result<std::vector<std::int64_t>> policy_draw(const manifest::Task& task,
                                                            const Segments& segments,
                                                            const Assignment& assignment);

/// The start states that an opening has to show (dgx-protocol(7), "OPENING"): those of these segments.
struct OpeningDraw {
  Digest after;  ///< id of the statement that drew
  std::vector<std::int64_t> segments;
};
/// The draw after a beacon, for its signer, or after a round, for whoever verifies. Errors of assign().
[[nodiscard]] Result<OpeningDraw> drawn_after_source(const manifest::Signed<manifest::Task>& task,
                                                     const manifest::Signed<manifest::Proof>& proof,
                                                     const DrawSource& source);
/// The draw once neither can come any more: as if the proof's signer had revealed `root`, the root in the
/// proof's receipt.
[[nodiscard]] Result<OpeningDraw> drawn_after_proof(const manifest::Signed<manifest::Task>& task,
                                                    const manifest::Signed<manifest::Proof>& proof,
                                                    const Digest& root);

/// Replays one segment from its committed start and compares. `start_digest` and `end_digest` are committed
/// states `segment.index` and `segment.index` + 1; the diverging step has no end_digest, and agrees if the
/// state after it is not finite. kMalformed if `start` is not the committed state: that is no fault of the
/// proof. Every fault of the proof is a row. `progress` (may be empty) is called after every step; if it
/// returns false, the replay ends with kInterrupted. With an audit, `audited` (may be null) becomes the
/// witness that the audited verdict's signer had to give: zero where the replay did not reach its step.
[[nodiscard]] Result<manifest::VerdictRow> replay_segment(program::Executor& executor, const State& start,
                                                          const Segment& segment, const Digest& start_digest,
                                                          const std::optional<Digest>& end_digest,
                                                          const Assignment& assignment,
                                                          const std::function<bool()>& progress = {},
                                                          Digest* audited = nullptr);

/// Assembles a verdict from its rows: sorts them, and adds outcome, root and miss probabilities. kMalformed
/// if a segment occurs twice, is not of the proof, or its row does not have the committed end digest; `rows`
/// must not be empty. Unless the draw is chosen the segments must be the policy's draw. An acceptance of
/// those states its witnesses where the task's policy audits verdicts; kUsage if they are too many. `denied`
/// are the segments, ascending, whose witnesses an audit denies.
[[nodiscard]] Result<manifest::Verdict> assemble_verdict(const manifest::Task& task, const Segments& segments,
                                                         const Assignment& assignment,
                                                         std::span<const Digest> states,
                                                         std::vector<manifest::VerdictRow>& rows,
                                                         const Digest& nonce,
                                                         std::vector<std::int64_t> denied = {});

/// kMalformed unless what a verdict says about its own work follows from its other numbers: for an acceptance
/// the miss probabilities, and for every verdict the work, which must be that of as many segments of the
/// proof as were replayed. Any segments will do, since the draw is not looked at: at most one has another
/// length, and the diverging step has one step.
[[nodiscard]] Status check_stated_work(const manifest::Task& task, const Segments& segments,
                                       const manifest::Verdict& verdict);

/// kMalformed unless the witnesses that a verdict or audit states are one for each of the segments drawn,
/// zero for those of one step, which have no state inside; and if it denies that of such a segment. No game
/// can be about them.
[[nodiscard]] Status check_stated_witnesses(const Segments& segments, std::span<const std::int64_t> drawn,
                                            const manifest::Verdict& verdict);

/// Weighted operations of replaying these segments.
[[nodiscard]] Result<std::int64_t> replay_work(const manifest::Task& task, const Segments& all,
                                               std::span<const std::int64_t> segments);

}  // namespace dgx::protocol
