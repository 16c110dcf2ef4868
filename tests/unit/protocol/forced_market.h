#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "audit_market.h"
#include "dgx/protocol/forced.h"

namespace dgx::test {

/// The policy's challenger_bond, which a volunteer stakes.
inline constexpr std::int64_t kVolunteerBond = 301;
/// The policy's jackpot.
inline constexpr std::int64_t kJackpot = 90;

/// audit_policy() in which every acceptance is forced, and the tax pays for jackpots, too.
inline manifest::Policy forced_policy() {
  manifest::Policy out = audit_policy();
  out.forced_error_ppm = 1'000'000;
  out.jackpot = kJackpot;
  out.jackpot_tax_ppm = 500'000;
  return out;
}

/// The secret to which every offer of the test market commits.
inline Digest secret() { return digest("secret of drawn"); }

/// A market in which every acceptance is forced and audited, up to 4,000 as AuditMarket has it.
class ForcedMarket : public AuditMarket {
 public:
  explicit ForcedMarket(const manifest::Policy& policy = forced_policy(), bool filled = true)
      : AuditMarket(policy, filled) {}

  /// The segment whose witness has to be false.
  [[nodiscard]] std::int64_t forced() const {
    return *protocol::forced_segment(run().task.body, run().segments(), record().round->source, secret());
  }
  [[nodiscard]] std::size_t place() const {
    const auto all = segments_drawn();
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), forced()) - all.begin());
  }
  /// The verdict of the first who was drawn, as the rule wants it or, if it `disobeys`, with no false
  /// witness.
  void forced_verdict(bool disobeys = false) {
    open();
    manifest::Verdict body = replayed(verifier());
    Digest& witness = body.witnesses[place()];
    if (!disobeys) witness = protocol::false_witness(witness);
    take(by(verifier(), body), at(3'500));
  }
  void draw() { take(by(kOperator, round_of(protocol::slot_of(at(3'500), *market().policy()))), at(4'000)); }
  void forced_and_drawn(bool disobeys = false) {
    forced_verdict(disobeys);
    draw();
  }
  /// An acceptance by a volunteer or the auditor that confirms everything.
  [[nodiscard]] manifest::Verdict confirmation(std::uint8_t who) const {
    manifest::Verdict out = audit(who);
    out.denied.clear();
    return out;
  }
  [[nodiscard]] manifest::Beacon reveal_of(std::uint8_t owner, const Digest& value) const {
    Digest offer;
    for (const auto& [id, one] : record().offers) {
      if (one.statement.key_id == key_id(owner)) offer = id;
    }
    return {run().task.id, offer, run().proof.id, value, manifest::beacon_value(value, run().proof.id)};
  }
  [[nodiscard]] manifest::Beacon reveal() const { return reveal_of(verifier(), secret()); }
  /// The verifier reveals the secret as soon as it is due, after the auditor was drawn.
  void reveal_in_time() { take(by(verifier(), reveal()), at(5'001)); }
  /// Commits to audits at 4,100.
  void commit(const std::vector<std::pair<std::uint8_t, manifest::Verdict>>& audits) {
    for (const auto& [who, body] : audits) take(commitment_to(who, body), at(4'100));
  }
  void show(const std::vector<std::pair<std::uint8_t, manifest::Verdict>>& audits) {
    for (const auto& [who, body] : audits) take(by(who, body), at(5'001));
  }
  [[nodiscard]] std::int64_t reward() const { return run().task.body.estimate.reward; }
  [[nodiscard]] std::int64_t tax() const { return run().task.body.estimate.tax; }
};

/// The digest of the state that the verdict's witness of segment `index` is of.
inline Digest interior_of(const ForcedMarket& m, std::int64_t index) {
  const protocol::Segment segment = m.run().segments()[index];
  TinyExecutor executor;
  REQUIRE(executor.load(m.run().states[static_cast<std::size_t>(index)]).ok());
  for (std::int64_t at = segment.first; at < protocol::witness_step(segment); ++at)
    REQUIRE(executor.step().ok());
  return state_digest(executor.state().value());
}

}  // namespace dgx::test
