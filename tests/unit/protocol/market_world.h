#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "game.h"

namespace dgx::test {

/// What every account of a World has at the beginning, and the bond of a challenger there.
inline constexpr std::int64_t kWorldMoney = 100'000;
inline constexpr std::int64_t kChallengerBond = 301;

/// Runs of two tasks: one is right, the other is wrong in segment 5.
[[nodiscard]] const TinyRun& honest();
[[nodiscard]] const TinyRun& cheat();

/// A market with one task, proved, opened and delivered at time 0. Asserts with Catch.
struct World {
  const TinyRun& run;
  protocol::Market market;

  explicit World(const TinyRun& of);
  void take(const manifest::Signed<manifest::Body>& statement, std::int64_t now);
  /// Why a statement is refused, without its kind and id, or "accepted".
  std::string refused(const manifest::Signed<manifest::Body>& statement, std::int64_t now);
  manifest::Signed<manifest::Challenge> challenge(const manifest::Challenge& body, std::uint8_t who,
                                                  std::int64_t now);
  /// The side at turn of a fresh game gives up: the defender at once, the challenger after some states.
  void defender_loses(const manifest::Signed<manifest::Challenge>& game, std::uint8_t who, std::int64_t now);
  void challenger_loses(const manifest::Signed<manifest::Challenge>& game, std::uint8_t defender,
                        std::uint8_t who, std::int64_t now);

  [[nodiscard]] const protocol::TaskRecord& record() const { return market.tasks().at(run.task.id); }
  [[nodiscard]] protocol::Standing stands(std::int64_t now) const;
  [[nodiscard]] std::string state(std::int64_t now) const;
  /// Settles, and says why.
  std::string settle(std::int64_t now);
  /// What an account has more than at the beginning.
  [[nodiscard]] std::int64_t gain(std::uint8_t who) const;
  [[nodiscard]] std::int64_t of(const std::string& account) const { return market.balances().at(account); }
};

/// A refutation of an honest run: the row is invented.
[[nodiscard]] manifest::Signed<manifest::Verdict> false_refutation(const TinyRun& run);
/// An acceptance of whatever was drawn: the ledger knows no states.
[[nodiscard]] manifest::Signed<manifest::Verdict> accepted(const TinyRun& run);

}  // namespace dgx::test
