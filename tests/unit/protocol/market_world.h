#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "game.h"

namespace dgx::test {

/// The initial balance of every account of a World, and a challenger's bond there.
inline constexpr std::int64_t kWorldMoney = 100'000;
inline constexpr std::int64_t kChallengerBond = 301;

/// Runs of two tasks: one is right, the other wrong in segment 5.
[[nodiscard]] const TinyRun& honest();
[[nodiscard]] const TinyRun& cheat();

/// The reason for refusing a statement, without its kind and id, or "accepted". Asserts with Catch that a
/// refused statement moves no money.
[[nodiscard]] std::string refused(protocol::Market& market, const manifest::Signed<manifest::Body>& statement,
                                  std::int64_t now);
/// The balance of key `who`.
[[nodiscard]] std::int64_t balance_of(const protocol::Market& market, std::uint8_t who);

/// A market with one task, proved, opened and delivered at time 0. Asserts with Catch.
struct World {
  const TinyRun& run;
  protocol::Market market;

  explicit World(const TinyRun& of);
  void take(const manifest::Signed<manifest::Body>& statement, std::int64_t now);
  std::string refused(const manifest::Signed<manifest::Body>& statement, std::int64_t now) {
    return test::refused(market, statement, now);
  }
  manifest::Signed<manifest::Challenge> challenge(const manifest::Challenge& body, std::uint8_t who,
                                                  std::int64_t now);
  /// Loses a fresh game for one side: for the defender at once, for the challenger after some states.
  void defender_loses(const manifest::Signed<manifest::Challenge>& game, std::uint8_t who, std::int64_t now);
  void challenger_loses(const manifest::Signed<manifest::Challenge>& game, std::uint8_t defender,
                        std::uint8_t who, std::int64_t now);

  [[nodiscard]] const protocol::TaskRecord& record() const { return market.tasks().at(run.task.id); }
  [[nodiscard]] protocol::Standing stands(std::int64_t now) const;
  [[nodiscard]] std::string state(std::int64_t now) const;
  /// Settles, and returns the reason.
  std::string settle(std::int64_t now);
  /// An account's gain since the beginning.
  [[nodiscard]] std::int64_t gain(std::uint8_t who) const;
  [[nodiscard]] std::int64_t of(const std::string& account) const { return market.balances().at(account); }
};

/// A refutation of an honest run, with an invented row.
[[nodiscard]] manifest::Signed<manifest::Verdict> false_refutation(const TinyRun& run);
/// An acceptance of everything drawn: the ledger knows no states.
[[nodiscard]] manifest::Signed<manifest::Verdict> accepted(const TinyRun& run);

}  // namespace dgx::test
