#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/task.h"
#include "dgx/manifest/verdict.h"
#include "dgx/protocol/segments.h"

/// The draw of segments to replay, the witness of having replayed them, and the chance of missing a fault
/// (dgx-protocol(7), "DRAW", "WITNESS", "CHANCES").
///
/// A solver who knew the draw would compute only those segments. So it is a hash of two things of which
/// neither side knew the other's when it was bound: the verifier's secret, committed to before the proof, and
/// the id of the signed proof. The verifier's key is hashed, too, so that the draw is theirs alone. Anybody
/// can recompute the draw from the beacon's value, so a verdict of other segments is no verdict of the
/// policy's draw.
///
/// A row of an honest verdict repeats what the proof already says. What shows that its segment was replayed
/// is the witness: the digest of a state inside the segment, which nobody publishes, hashed with the
/// verifier's key so that no other verifier can copy it. The step is drawn as the segments are.
///
/// Chances are computed in integers and printed as decimals: they are signed, and must have the same digits
/// on every machine.
namespace dgx::protocol {

/// The fewest segments of n whose draw misses a cheat on m = max(1, floor(n · share_ppm / 10^6)) of them with
/// a chance of at most miss_ppm / 10^6: the least q with C(n−m, q) / C(n, q) ≤ miss_ppm / 10^6, by exact
/// integers. The same m as in miss_probabilities(), so that a verdict states no more than a policy promised.
/// Returns n for n above kMaxSegments, which no admitted task has. Asserted: n ≥ 1, 0 ≤ miss_ppm ≤ 10^6, 1 ≤
/// share_ppm ≤ 10^6.
///
/// Cost: the chance is at most e^(−q m / n), so q m is at most about 14 n, and the shorter of the two
/// products has at most about 1,400 factors in any trial: a few milliseconds at worst, whoever chose the
/// numbers.
[[nodiscard]] std::int64_t confident_count(std::int64_t n, std::int64_t miss_ppm, std::int64_t share_ppm);

/// The number of segments that the policy draws from a proof's n, of a task that has `whole`: min(n, max(1,
/// ceil(n · sample_ppm / 10^6), k)), k = confident_count() of `whole` or, with miss_ppm 0, 0. n may be 0.
///
/// k is the task's for a proof that diverged, too: of n < whole segments, as many drawn miss a cheat on
/// ceil(m n / whole) no more often than those of the whole task one on its m. So a shorter proof never draws
/// more than the task's estimate and opening provide for.
[[nodiscard]] std::int64_t sample_count(const manifest::Policy& policy, std::int64_t whole, std::int64_t n);

/// The first `q` distinct values, sorted, of: draw j = first 8 bytes (big-endian) of H("dgx-draw" ‖ beacon ‖
/// proof id ‖ verifier key id ‖ u64be(j)) mod n (dgx-protocol(7), "Draw"). kUsage unless 1 ≤ q ≤ n. Cost:
/// about q hashes, n ln n as q nears n.
[[nodiscard]] Result<std::vector<std::int64_t>> draw_segments(const Digest& beacon, const Digest& proof_id,
                                                              const Digest& verifier, std::int64_t n,
                                                              std::int64_t q);

/// The policy's draw among a proof's segments, sorted: sample_count() of those between committed states, and
/// the diverging step, which is always replayed. In a market with rounds `verifier` is not looked at: all
/// verifiers of a proof have one draw. Asserted: the task has segments.
[[nodiscard]] Result<std::vector<std::int64_t>> policy_draw(const manifest::Task& task,
                                                            const Segments& segments, const Digest& beacon,
                                                            const Digest& proof_id, const Digest& verifier);
/// The number of segments in that draw.
[[nodiscard]] std::int64_t drawn_count(const manifest::Task& task, const Segments& segments);

/// The step after which a segment's state is witnessed: the last but one, so that nobody has the witness who
/// has not replayed all steps up to the last. Asserted: the segment has at least two steps.
[[nodiscard]] std::int64_t witness_step(const Segment& segment);

/// H("dgx-witness" ‖ key id ‖ digest of the state after the witnessed step).
[[nodiscard]] Digest witness_of(const Digest& verifier, const Digest& interior_state);

/// C(n−m, k) / C(n, k), the chance that k of n segments contain none of m bad ones, as a decimal: "0" is
/// exact, anything else has six significant digits, rounded, without trailing zeros; below 10^-6 as
/// "1.5e-20". The same text on every machine. Asserted: 0 ≤ m, k ≤ n and n ≥ 1. Cost: min(m, k) divisions.
[[nodiscard]] std::string miss_probability(std::int64_t n, std::int64_t m, std::int64_t k);

/// miss_probability() for one bad segment, and for 1 % and 10 % of the n (rounded down, at least one). With n
/// = 0 nothing can be missed.
[[nodiscard]] manifest::MissProbability miss_probabilities(std::int64_t n, std::int64_t k);
/// The chances of a replay that left out the diverging step of a proof that diverged: a false claim that the
/// run diverged is missed whatever else was replayed.
inline const manifest::MissProbability kMissedForCertain{"1", "1", "1"};
/// The miss probabilities if the segments `replayed` are checked. The diverging step counts in neither n nor
/// k, since an acceptance that settles always replays it; without it they are kMissedForCertain.
[[nodiscard]] manifest::MissProbability miss_probabilities(const Segments& segments,
                                                           std::span<const std::int64_t> replayed);

}  // namespace dgx::protocol
