#include "dgx/protocol/lots.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/crypto/sha256.h"

namespace dgx::protocol {
namespace {

/// The first 16 bytes of a digest, as a number, modulo `modulus`, which is above 0.
std::int64_t ticket_of(const Digest& lot, std::int64_t modulus) {
  unsigned __int128 number = 0;
  for (std::size_t i = 0; i < 16; ++i) number = number << 8 | lot.bytes[i];
  return static_cast<std::int64_t>(number % static_cast<std::uint64_t>(modulus));
}

/// Draws one of the offers by a lot, and takes it from them.
DrawnVerifier draw_one(const Digest& lot, std::vector<StakedOffer>& offers) {
  std::sort(offers.begin(), offers.end(),
            [](const StakedOffer& a, const StakedOffer& b) { return a.verifier < b.verifier; });
  DrawnVerifier out;
  for (const StakedOffer& offer : offers) out.sum += offer.bond;
  out.lot = lot;
  out.ticket = ticket_of(lot, out.sum);
  auto chosen = offers.begin();
  for (; out.ticket >= out.from + chosen->bond; ++chosen) out.from += chosen->bond;
  out.drawn = *chosen;
  offers.erase(chosen);
  return out;
}

}  // namespace

DrawSource::DrawSource(const manifest::Signed<manifest::Beacon>& beacon)
    : id(beacon.id),
      market(beacon.body.task),
      proof(beacon.body.proof),
      value(beacon.body.value),
      signer(beacon.key_id) {}

DrawSource::DrawSource(const manifest::Signed<manifest::Round>& statement, const Digest& of_proof)
    : is_round(true),
      id(statement.id),
      market(statement.body.ledger),
      proof(of_proof),
      value(manifest::beacon_value(statement.body.value, of_proof)),
      round(statement.body.value),
      signer(statement.key_id) {}

Result<DrawSource> draw_source(const manifest::Signed<manifest::Body>& statement, const Digest& proof) {
  if (std::holds_alternative<manifest::Round>(statement.body)) {
    DGX_TRY(const auto round, manifest::as<manifest::Round>(statement));
    return DrawSource(round, proof);
  }
  DGX_TRY(const auto beacon, manifest::as<manifest::Beacon>(statement));
  return DrawSource(beacon);
}

Status check_source(const manifest::Signed<manifest::Task>& task, const Digest& proof,
                    const DrawSource& source) {
  const bool by_rounds = task.body.policy.beacon_source != 0;
  if (by_rounds != source.is_round)
    return malformed(by_rounds ? "beacon: this market draws by rounds"
                               : "round: this market draws by beacons");
  if (source.is_round) {
    if (task.body.ledger == source.market) return {};
    return malformed("round: belongs to another ledger than the task's");
  }
  if (source.market != task.id) return malformed("beacon: belongs to another task");
  if (source.proof != proof) return malformed("beacon: belongs to another proof");
  return {};
}

Digest lot(std::string_view tag, const Digest& round, ByteView ids) {
  return crypto::sha256(ByteWriter().text("dgx-").text(tag).digest(round).raw(ids).bytes());
}

std::vector<DrawnVerifier> draw_verifiers(const Digest& round, const Digest& proof,
                                          std::vector<StakedOffer> offers) {
  std::vector<DrawnVerifier> out;
  while (out.size() < kMostDrawn && !offers.empty()) {
    const Digest by = lot("verifier", round, ByteWriter().digest(proof).u64(out.size()).bytes());
    out.push_back(draw_one(by, offers));
  }
  return out;
}

bool hits(const Digest& lot, std::int64_t ppm) {
  unsigned __int128 number = 0;
  for (std::size_t i = 0; i < 8; ++i) number = number << 8 | lot.bytes[i];
  return number < (static_cast<unsigned __int128>(ppm) << 64) / 1'000'000;
}

Digest audit_lot(const Digest& round, const Digest& verdict) {
  return lot("audit", round, ByteWriter().digest(verdict).bytes());
}

DrawnVerifier draw_auditor(const Digest& round, const Digest& verdict, std::vector<StakedOffer> offers) {
  return draw_one(lot("auditor", round, ByteWriter().digest(verdict).bytes()), offers);
}

}  // namespace dgx::protocol
