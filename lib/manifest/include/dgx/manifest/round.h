#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/manifest/proof.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// The origin of a round's value; the numbers are those of the policy's beacon_source.
enum class RoundSource : std::uint8_t { kDelay = 1, kDrand = 2 };
[[nodiscard]] std::string_view name_of(RoundSource source);

/// The most checkpoints that a delay has.
inline constexpr std::int64_t kMostCheckpoints = 1'024;
/// The least and the most steps of a delay.
inline constexpr std::int64_t kLeastDelaySteps = std::int64_t{1} << 16;
inline constexpr std::int64_t kMostDelaySteps = std::int64_t{1} << 40;
/// Bytes of a signature of drand's network quicknet: a point of BLS12-381's G1, compressed.
inline constexpr std::size_t kPulseBytes = 48;

/// A chain of SHA-256 that nobody can have finished early, with digests on its way so that parts of it can be
/// checked at the same time (dgx-protocol(7), "ROUNDS").
struct DelayChain {
  std::int64_t steps = 0;
  std::vector<Digest> checkpoints;  ///< after every delay_interval() steps, and after the last one
  bool operator==(const DelayChain&) const = default;
};

/// A round of drand's network quicknet. Its signature is kept, not verified: BLS12-381 needs a library that
/// dgx does not have.
struct DrandPulse {
  std::int64_t number = 0;
  Bytes signature;  ///< kPulseBytes
  bool operator==(const DrandPulse&) const = default;
};

/// A public value that nobody knew while the entries of one slot of a ledger were logged. Signed by the
/// ledger's operator, who has no choice in it: slot and head follow from the ledger, the rest from them.
/// `read` refuses a value that does not follow from its origin, and other than delay_checkpoints()
/// checkpoints.
struct Round {
  static constexpr Kind kKind = Kind::kRound;

  Digest ledger;
  std::int64_t slot = 0;
  RootReference head;  ///< the ledger's, after the slot's last entry
  std::variant<DelayChain, DrandPulse> origin;
  Digest value;

  [[nodiscard]] RoundSource source() const {
    return std::holds_alternative<DelayChain>(origin) ? RoundSource::kDelay : RoundSource::kDrand;
  }
  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Round read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

/// The steps between two checkpoints: max(2^20, ceil(steps / 1024)).
[[nodiscard]] std::int64_t delay_interval(std::int64_t steps);
/// The number of checkpoints, of which the last is the end: ceil(steps / interval).
[[nodiscard]] std::int64_t delay_checkpoints(std::int64_t steps);
/// H("dgx-delay" ‖ ledger ‖ u64 slot ‖ u64 count ‖ root): where the chain of a slot begins.
[[nodiscard]] Digest delay_start(const Digest& ledger, std::int64_t slot, const RootReference& head);
/// H("dgx-round" ‖ end of the chain), or SHA-256 of the pulse's signature, as drand defines it.
[[nodiscard]] Digest round_value(const DelayChain& chain);
[[nodiscard]] Digest round_value(const DrandPulse& pulse);

/// Parses a pulse as drand's servers give it: a JSON object with "round", "signature" and, at will,
/// "randomness" and other fields. kMalformed for what is none of quicknet: another length of the signature, a
/// predecessor, another chain's hash, or a randomness that is not SHA-256 of the signature.
[[nodiscard]] Result<DrandPulse> parse_pulse(std::string_view text);

}  // namespace dgx::manifest
