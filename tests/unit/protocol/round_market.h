#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/crypto/sha256.h"
#include "dgx/merkle/tree.h"
#include "game.h"
#include "market_world.h"

namespace dgx::test {

/// test::policy() with rounds by a short delay, in slots of a second.
inline manifest::Policy round_policy() {
  manifest::Policy out = policy();
  out.beacon_source = 1;
  out.beacon_slot_ms = 1'000;
  out.beacon_steps = 65'536;
  return out;
}

/// A market with rounds, its log, and one honest run whose task it takes: everybody has kWorldMoney.
class RoundMarket {
 public:
  /// `diverges`: the run's proof says that its step 20 diverges.
  explicit RoundMarket(const manifest::Policy& policy = round_policy(), bool diverges = false);

  [[nodiscard]] const protocol::Market& market() const { return market_; }
  [[nodiscard]] const Digest& ledger() const { return ledger_; }
  [[nodiscard]] const TinyRun& run() const { return run_; }
  [[nodiscard]] const protocol::TaskRecord& record() const { return market_.tasks().at(run_.task.id); }

  /// The reason for refusing a statement, or "accepted".
  std::string refused(const manifest::Signed<manifest::Body>& statement, std::int64_t now);
  /// Takes a statement that must be allowed.
  void take(const manifest::Signed<manifest::Body>& statement, std::int64_t now);
  /// Logs any statement at `now`.
  void deposit(std::int64_t now);

  /// The true round of a slot, as far as entries are logged.
  [[nodiscard]] manifest::Round round_of(std::int64_t slot) const;
  /// An offer of key `who`.
  [[nodiscard]] manifest::Signed<manifest::Body> offer_of(std::uint8_t who,
                                                          std::optional<std::int64_t> bond) const;
  [[nodiscard]] manifest::Signed<manifest::Body> assign_of(std::uint8_t who) const;
  /// The proof's opening after its round.
  [[nodiscard]] manifest::Signed<manifest::Body> opening_of() const;
  /// An acceptance of everything drawn, by a key.
  [[nodiscard]] manifest::Signed<manifest::Verdict> accepted_by(std::uint8_t who) const;
  /// Up to the round at `from` + 2,000: the task and offers of these keys and bonds at `from`, assigned at
  /// 400, proved at 1,300. `from` is the beginning of a slot.
  void draw(const std::vector<std::pair<std::uint8_t, std::int64_t>>& offers, std::int64_t from = 0);
  /// Keys in the order in which they were drawn.
  [[nodiscard]] std::vector<std::uint8_t> drawn() const;
  [[nodiscard]] std::string state(std::int64_t now) const;
  [[nodiscard]] std::int64_t gain(std::uint8_t who) const;
  /// Settles what is due, and returns the reason; checks that nothing stays locked.
  std::string settle(std::int64_t now);

 private:
  Digest ledger_;
  merkle::StoredTree tree_;          ///< of all entries
  std::vector<std::int64_t> times_;  ///< when each was logged
  protocol::Market market_;
  TinyRun run_;
};

}  // namespace dgx::test
