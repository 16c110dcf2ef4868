#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "round_market.h"

namespace dgx::test {

/// round_policy() where every acceptance is audited, and the tax pays for it.
inline manifest::Policy audit_policy() {
  manifest::Policy out = round_policy();
  out.audit_ppm = 1'000'000;
  out.jackpot_tax_ppm = 100'000;
  return out;
}

/// The policy's bond of a verifier.
inline constexpr std::int64_t kOfferBond = 501;
/// The time at which its task begins, after another one has left a bond to the jackpot.
inline constexpr std::int64_t kFrom = 2'000;

/// A market that audits verdicts. Keys 10 to 13 offer themselves; its states are those of a verdict logged at
/// kFrom + 3,500, whose round comes at kFrom + 4,000 unless a test says otherwise.
class AuditMarket : public RoundMarket {
 public:
  /// `filled`: the jackpot has a bond. `diverges`: as for RoundMarket.
  explicit AuditMarket(const manifest::Policy& policy = audit_policy(), bool filled = true,
                       bool diverges = false);

  /// Up to the opening.
  void open();
  /// Up to the verdict of the first who was drawn, at kFrom + 3,500: the true one, or one whose first witness
  /// is invented.
  void give_verdict(bool lazy = false);
  /// The same, and the round that draws an auditor.
  void draw_auditor(bool lazy = false);

  /// A true replay of the draw by `who`: a verdict or, of a verdict, an audit.
  [[nodiscard]] manifest::Verdict replayed(
      std::uint8_t who, const manifest::Signed<manifest::Verdict>* audited = nullptr) const {
    return test::replayed(run(), record().round->source, who, audited);
  }
  /// The true audit of the task's verdict.
  [[nodiscard]] manifest::Verdict audit(std::uint8_t who) const { return replayed(who, &*record().verdict); }
  /// One that refutes segment `index` of the draw with an invented end state.
  [[nodiscard]] manifest::Verdict refuting_audit(std::uint8_t who) const;
  [[nodiscard]] manifest::Signed<manifest::Body> commitment_to(std::uint8_t who,
                                                               const manifest::Verdict& audit) const;
  /// The segments drawn for the proof.
  [[nodiscard]] std::vector<std::int64_t> segments_drawn() const;
  /// A challenge of the verdict's witness of a segment drawn, unless given the first.
  [[nodiscard]] manifest::Challenge witness_challenge(std::optional<std::int64_t> segment = {}) const;

  /// Keys that have nothing to do with the task.
  [[nodiscard]] std::vector<std::uint8_t> others(std::size_t count) const;
  /// The auditor commits to a body at 4,900 and shows it at 5,001.
  void audit_by_drawn(const manifest::Verdict& body);

  [[nodiscard]] std::uint8_t verifier() const { return drawn()[0]; }
  [[nodiscard]] std::uint8_t auditor() const;
  [[nodiscard]] static std::int64_t bond_of(std::uint8_t who) { return kOfferBond + 100 * (who - 10); }
  [[nodiscard]] std::int64_t fee() const { return run().task.body.estimate.fee; }
  [[nodiscard]] std::int64_t jackpot() const { return market().balances().at("jackpot"); }
};

/// A time of the market, from the beginning of its task.
[[nodiscard]] inline std::int64_t at(std::int64_t milliseconds) { return kFrom + milliseconds; }

}  // namespace dgx::test
