#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
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

/// The number of segments drawn from n: q = min(n, max(1, ceil(n · sample_ppm / 10^6))). n may be 0.
[[nodiscard]] std::int64_t sample_count(std::int64_t n, std::int64_t sample_ppm);

/// The first `q` distinct values, sorted, of: draw j = first 8 bytes (big-endian) of H("dgx-draw" ‖ beacon ‖
/// proof id ‖ verifier key id ‖ u64be(j)) mod n (dgx-protocol(7), "Draw"). kUsage unless 1 ≤ q ≤ n. Cost:
/// about q hashes, n ln n as q nears n.
[[nodiscard]] Result<std::vector<std::int64_t>> draw_segments(const Digest& beacon, const Digest& proof_id,
                                                              const Digest& verifier, std::int64_t n,
                                                              std::int64_t q);

/// The policy's draw among a proof's segments, sorted: sample_count() of those between committed states, and
/// the diverging step, which is always replayed.
[[nodiscard]] Result<std::vector<std::int64_t>> policy_draw(const Segments& segments, std::int64_t sample_ppm,
                                                            const Digest& beacon, const Digest& proof_id,
                                                            const Digest& verifier);
/// The number of segments in that draw.
[[nodiscard]] std::int64_t drawn_count(const Segments& segments, std::int64_t sample_ppm);

/// The step s after which a segment's state is witnessed, first < s < end: first + 1 + (first 8 bytes of
/// H("dgx-interior" ‖ beacon ‖ proof id ‖ key id ‖ u64be(segment)) mod (length − 1)). A chosen draw has no
/// beacon: pass 32 zero bytes. Asserted: the segment has at least two steps.
[[nodiscard]] std::int64_t witness_step(const Digest& beacon, const Digest& proof_id, const Digest& verifier,
                                        const Segment& segment);

/// H("dgx-witness" ‖ key id ‖ digest of the state after the witnessed step).
[[nodiscard]] Digest witness_of(const Digest& verifier, const Digest& interior_state);

/// C(n−m, k) / C(n, k), the chance that k of n segments contain none of m bad ones, as a decimal: "0" is
/// exact, anything else has six significant digits, rounded, without trailing zeros; below 10^-6 as
/// "1.5e-20". The same text on every machine. Asserted: 0 ≤ m, k ≤ n and n ≥ 1. Cost: min(m, k) divisions.
[[nodiscard]] std::string miss_probability(std::int64_t n, std::int64_t m, std::int64_t k);

/// miss_probability() for one bad segment, and for 1 % and 10 % of the n (rounded down, at least one). With n
/// = 0 nothing can be missed.
[[nodiscard]] manifest::MissProbability miss_probabilities(std::int64_t n, std::int64_t k);
/// The miss probabilities if the segments `replayed` are checked. The diverging step counts in neither n nor
/// k, since an acceptance that settles always replays it.
[[nodiscard]] manifest::MissProbability miss_probabilities(const Segments& segments,
                                                           std::span<const std::int64_t> replayed);

}  // namespace dgx::protocol
