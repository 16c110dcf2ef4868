#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/verdict.h"
#include "dgx/protocol/segments.h"

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
