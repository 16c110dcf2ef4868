#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "history_stage.h"

namespace dgx::test {

/// A fault that a test plants: true for the accepted statements at each of which one unit gets lost.
using Plant = std::function<bool(const manifest::Body&)>;

/// The outcomes of drawn histories of markets.
struct Histories {
  std::string problem;  ///< empty: no honest party lost, every sum was conserved, and every replay was equal
  /// The statements, as kind and receipt time, that are left of a history whose sum was not conserved once
  /// none can be taken away.
  std::vector<std::string> shrunk;
  std::map<std::string, std::int64_t> ends;  ///< count of settlements by reason
  std::int64_t statements = 0;               ///< number accepted
  std::int64_t games = 0;
  std::int64_t worst_challenger = 0;  ///< least gain of any honest challenger
  std::set<std::string> states;       ///< names of the states in which a task was seen
  std::int64_t silent = 0;            ///< number of bonds that drawn verifiers lost
  std::int64_t audited = 0;           ///< number of auditors who were drawn
  std::int64_t denied = 0;            ///< number of true denials by honest auditors and volunteers
  std::int64_t jackpots = 0;          ///< number of forced errors that were claimed
  std::int64_t given_away = 0;        ///< number of secrets that somebody else revealed before they were due
  std::int64_t withheld = 0;          ///< number of secrets that were not revealed in time
};

/// Plays `count` histories of one task each: a submitter, a solver, a verifier and a watcher, each honest or
/// not as drawn, and four strangers who grief. Honest parties act like the programs: every few minutes of
/// ledger time they reveal, open, judge, answer moves by protocol::Player from their own replay, and
/// challenge what their replay refutes. The others lie, stall, say things twice, too early, too late or not
/// at all, convict each other, and keep the operator away. After each history:
///
/// - the sum of all accounts is deposits less withdrawals, at every statement, and none was negative;
/// - a replay of its statements in a new market gives the same balances;
/// - an honest solver has at least the reward more than before, an honest verifier and watcher at least what
/// they had;
/// - an honest submitter has lost nothing but reward, fee, tax and treasury, and nothing at all unless the
/// solver was paid.
///
/// In a market that draws verifiers there is public randomness, which its operator now and then withholds,
/// strangers offer themselves as verifiers, too, and any of them may be drawn. In one that audits, dishonest
/// verifiers may be lazy, too, the honest verifier may be drawn as auditor, the watcher volunteers, and
/// others commit to and show audits that are true, false or of nothing. In one that also forces errors,
/// dishonest verifiers may disobey, withhold their secrets, or give them away.
///
/// History n of a seed is identical on every machine; `problem` names the first that broke a rule.
[[nodiscard]] Histories play_histories(std::int64_t count, std::uint64_t seed,
                                       MarketKind kind = MarketKind::kNamed, const Plant& plant = {});

}  // namespace dgx::test
