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
#include "dgx/protocol/draw.h"
#include "dgx/protocol/executor.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {

/// Who replays what: everything a row depends on but the states.
struct Assignment {
  Digest task;
  Digest proof;                  ///< id of the proof statement
  Digest verifier;               ///< key id
  std::optional<Digest> beacon;  ///< id of the beacon statement
  Digest beacon_value;           ///< zero for a chosen draw
  manifest::Draw draw = manifest::Draw::kChosen;
  bool operator==(const Assignment&) const = default;
};

/// How the steps of a proof are cut: as the task's, or up to where it diverged. kMalformed unless its steps fit the
/// task's (all of them, or, if it diverged, fewer), and its number of states those steps.
[[nodiscard]] Result<Segments> segments_of(const manifest::Task& task, const manifest::Proof& proof);

/// The committed state that ends segment `index`; nullopt of the diverging step, behind which there is none. `states` are
/// the committed ones.
[[nodiscard]] std::optional<Digest> committed_end(const Segments& segments, std::span<const Digest> states,
                                                  std::int64_t index);

/// kMalformed, or kUnauthorised for a beacon of somebody else, unless the proof is of this task (id, initial
/// state, steps, number of states), and the beacon, if there is one, of this proof.
[[nodiscard]] Status check_proof(const manifest::Signed<manifest::Task>& task,
                                 const manifest::Signed<manifest::Proof>& proof);
[[nodiscard]] Result<Assignment> assign(const manifest::Signed<manifest::Task>& task,
                                        const manifest::Signed<manifest::Proof>& proof,
                                        const manifest::Signed<manifest::Beacon>* beacon,
                                        const Digest& verifier);

/// The segments the policy draws for this assignment; kUsage without a beacon.
[[nodiscard]] Result<std::vector<std::int64_t>> policy_draw(const manifest::Task& task, const Segments& segments,
                                                            const Assignment& assignment);

/// What an opening has to show (dgx-protocol(7), "OPENING"): the start states of these segments.
struct OpeningDraw {
  Digest after;  ///< id of the statement that drew
  std::vector<std::int64_t> segments;
};
/// After a beacon: what the policy draws from it for its signer. Errors of assign().
[[nodiscard]] Result<OpeningDraw> drawn_after_beacon(const manifest::Signed<manifest::Task>& task,
                                                     const manifest::Signed<manifest::Proof>& proof,
                                                     const manifest::Signed<manifest::Beacon>& beacon);
/// Where no beacon can come any more: as if the proof's signer had revealed `root`, the root in the proof's receipt.
[[nodiscard]] Result<OpeningDraw> drawn_after_proof(const manifest::Signed<manifest::Task>& task,
                                                    const manifest::Signed<manifest::Proof>& proof,
                                                    const Digest& root);

/// Replays one segment from its committed start and compares. `start_digest` and `end_digest` are committed
/// states `segment.index` and `segment.index` + 1; the diverging step has no end_digest, and agrees if the state after
/// it is not finite. kMalformed if `start` is not the committed state: that is no fault of the proof. Every fault of the
/// proof is a row. `progress` (may be empty) is asked after every step and ends the replay with kInterrupted when it says
/// false.
[[nodiscard]] Result<manifest::VerdictRow> replay_segment(Executor& executor, const State& start,
                                                          const Segment& segment, const Digest& start_digest,
                                                          const std::optional<Digest>& end_digest,
                                                          const Assignment& assignment,
                                                          const std::function<bool()>& progress = {});

/// The rows of a verdict, put together: sorted, outcome, root, miss probabilities. kMalformed if a segment
/// occurs twice, is not of the proof, or does not have the committed end digest; `rows` must not be empty.
/// With Draw::kPolicy the segments must be the draw.
[[nodiscard]] Result<manifest::Verdict> assemble_verdict(const manifest::Task& task, const Segments& segments,
                                                         const Assignment& assignment,
                                                         std::span<const Digest> states,
                                                         std::vector<manifest::VerdictRow>& rows,
                                                         const Digest& nonce);

/// kMalformed unless what a verdict says of its own work follows from its other numbers: of an acceptance the chances of a
/// miss, and of every verdict the work, which is that of as many segments of the proof as were replayed (of any, since the
/// draw is not looked at; at most one has another length, and the diverging step one step).
[[nodiscard]] Status check_stated_work(const manifest::Task& task, const Segments& segments,
                                       const manifest::Verdict& verdict);

/// Weighted operations of replaying these segments.
[[nodiscard]] Result<std::int64_t> replay_work(const manifest::Task& task, const Segments& all,
                                               std::span<const std::int64_t> segments);

}  // namespace dgx::protocol
