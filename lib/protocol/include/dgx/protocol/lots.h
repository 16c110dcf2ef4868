#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/statement.h"

/// Lots: chance, and where it comes from (dgx-protocol(7), "DRAWN VERIFIERS").
///
/// In a market without rounds the verifier's own secret draws a proof's segments. In one with rounds the
/// round of the slot in which the proof was logged draws its verifier, too. Whoever replays such a market
/// needs a statement of either kind: a DrawSource is what they have in common.
namespace dgx::protocol {

/// The statement that a proof's draw follows from: its verifier's beacon, or a round.
struct DrawSource {
  // NOLINTBEGIN: implicit by design, a beacon says by itself which proof it is about
  DrawSource(const manifest::Signed<manifest::Beacon>& beacon);
  // NOLINTEND
  /// The round as it draws for the proof of this id.
  DrawSource(const manifest::Signed<manifest::Round>& round, const Digest& proof);

  bool is_round = false;
  Digest id;      ///< of the statement
  Digest market;  ///< id of the beacon's task, or of the round's ledger
  Digest proof;   ///< id
  Digest value;   ///< the beacon value, dgx-protocol(7), "DRAW"
  Digest round;   ///< with is_round: the round's own value, from which lots are drawn
  Digest signer;  ///< key id: the verifier, or the operator
};

/// The source that a statement is, for a proof; kMalformed for statements of other kinds.
[[nodiscard]] Result<DrawSource> draw_source(const manifest::Signed<manifest::Body>& statement,
                                             const Digest& proof);
/// kMalformed unless the source is of the kind that the task's policy asks for, and of this task and proof.
/// Whether a round is that of the proof's slot only a ledger can tell.
[[nodiscard]] Status check_source(const manifest::Signed<manifest::Task>& task, const Digest& proof,
                                  const DrawSource& source);

/// H("dgx-" ‖ tag ‖ round's value ‖ ids): chance that belongs to what `ids` names.
[[nodiscard]] Digest lot(std::string_view tag, const Digest& round, ByteView ids);

/// A verifier's offer, as far as the draw goes.
struct StakedOffer {
  Digest offer;     ///< statement id
  Digest verifier;  ///< key id; no two offers have the same
  std::int64_t bond = 0;
};

/// A verifier who was drawn, and how: their offer is the one whose stretch of the bonds, [from, from + bond)
/// of `sum` in the order of key ids, has the ticket in it.
struct DrawnVerifier {
  StakedOffer drawn;
  Digest lot;
  std::int64_t ticket = 0;  ///< the lot's first 16 bytes modulo `sum`
  std::int64_t from = 0;
  std::int64_t sum = 0;  ///< of the bonds of those not drawn before
};

/// True with a chance of ppm / 10^6: whether a lot's first 8 bytes are below floor(ppm · 2^64 / 10^6). With
/// 10^6 always.
[[nodiscard]] bool hits(const Digest& lot, std::int64_t ppm);

/// The most verifiers drawn for a proof, one after another, if all before are silent.
inline constexpr std::size_t kMostDrawn = 3;
/// The most offers that a task has in a market with rounds.
inline constexpr std::size_t kMostOffers = 64;

/// The verifiers drawn for a proof, in the order in which they are asked: at most kMostDrawn, fewer if there
/// are not that many offers. Verifier k is drawn by lot("verifier", round, proof ‖ u64 k)
/// among those not drawn yet, with a chance in proportion to their bonds. Asserted: every bond
/// is above 0, and they sum to less than 2^63.
[[nodiscard]] std::vector<DrawnVerifier> draw_verifiers(const Digest& round, const Digest& proof,
                                                        std::vector<StakedOffer> offers);
/// The lot that decides whether a verdict is audited, and in which order those of one slot are:
/// lot("audit", round, verdict). Nobody knows it when the verdict is logged.
[[nodiscard]] Digest audit_lot(const Digest& round, const Digest& verdict);
/// The auditor of a verdict, by lot("auditor", round, verdict), with a chance in proportion to the bonds.
/// Asserted: there is an offer, and as for draw_verifiers().
[[nodiscard]] DrawnVerifier draw_auditor(const Digest& round, const Digest& verdict,
                                         std::vector<StakedOffer> offers);

}  // namespace dgx::protocol
