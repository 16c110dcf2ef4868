#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dgx/manifest/statement.h"
#include "dgx/protocol/segments.h"
#include "parties.h"
#include "scenes.h"

namespace dgx::test {

/// The stage of all drawn histories of markets: the participants, the task, and its true states.
inline constexpr std::uint8_t kOperator = 1, kSubmitter = 2, kSolver = 3, kVerifier = 4, kWatcher = 5,
                              kFirstStranger = 6;
inline constexpr std::uint8_t kKeys = 10;
/// Submitter, solver and verifier of a task that leaves a bond to the jackpot.
inline constexpr std::uint8_t kIdleSubmitter = 10, kIdleSolver = 11, kIdleVerifier = 12, kAllKeys = 13;
inline constexpr std::int64_t kMoney = 200'000;  ///< initial balance of everyone but the operator
inline constexpr std::int64_t kSteps = 8, kEvery = 2;

[[nodiscard]] const crypto::PublicKey& public_key(std::uint8_t who);
[[nodiscard]] const Digest& id_of(std::uint8_t who);
/// The secret to which a key commits with its offers.
[[nodiscard]] Digest secret_of(std::uint8_t who);

/// An unsigned statement: signatures are checked where statements are read; the market only needs ids.
template <class T>
[[nodiscard]] manifest::Signed<T> said(const T& body, std::uint8_t who) {
  return {body,
          manifest::statement_id(manifest::payload_of(manifest::Body(body), public_key(who))),
          public_key(who),
          id_of(who),
          {}};
}
template <class T>
[[nodiscard]] manifest::Signed<manifest::Body> any_of_kind(const manifest::Signed<T>& s) {
  return {manifest::Body(s.body), s.id, s.signer, s.key_id, {}};
}

/// A market in which the solver names the verifier, or one that draws verifiers, or one that also audits half
/// of their verdicts, or one that also forces errors in half of them.
enum class MarketKind : std::uint8_t { kNamed, kDrawn, kAudited, kForced };

/// A task of four segments of two steps of the small scene, in a market all of whose windows are `window_ms`
/// long, an hour or so unless given, but that for moves, which is two fifths of it.
struct Stage {
  explicit Stage(MarketKind kind, std::int64_t window_ms = 4'000'000);

  Scene scene;
  manifest::Signed<manifest::LedgerPolicy> ledger;
  std::unique_ptr<TinyParty> honest;
  std::vector<protocol::Segment> segments;
};

/// The states that a party commits to.
[[nodiscard]] std::vector<Digest> committed(const Stage& stage, TinyParty& party);

}  // namespace dgx::test
