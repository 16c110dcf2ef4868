#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dgx/jobs/simulate.h"
#include "simulate/plan.h"

namespace dgx::jobs {

/// Counts, sums and squares of numbers, exact, so that they can be added up in any order.
struct Moments {
  std::int64_t times = 0;
  __int128 sum = 0;
  __int128 squares = 0;

  void add(std::int64_t number);
  void add(const Moments& other);
};

/// Things that happened, and those of them that had a certain end.
struct Tries {
  std::int64_t times = 0;
  std::int64_t hits = 0;

  void add(bool hit) { ++times, hits += hit ? 1 : 0; }
  void add(const Tries& other) { times += other.times, hits += other.hits; }
};

/// The jackpot account of a market over its tasks.
struct PoolLine {
  std::int64_t part = 0;  ///< percents of the tasks that are settled
  std::int64_t balance = 0;
  std::int64_t least = 0;  ///< since the point before
};

/// The rates that a market counts.
enum class Counted : std::uint8_t {
  kAudit,          ///< of the acceptances whose round came, those that the lot audits
  kAuditor,        ///< of those, the ones that have an auditor: the jackpot had the fee
  kFalseDrawn,     ///< of the false proofs that were drawn from, those of whose faked segments some was drawn
  kFalseCaught,    ///< of the false proofs, those whose solver lost the bond
  kUnseenCaught,   ///< of the verdicts on true proofs that were given without looking, those that fell
  kUnseenAudited,  ///< of those, the ones whose auditor looked
  kForced,         ///< of the acceptances whose secret was revealed, those with a forced error
  kJackpot,        ///< of the forced errors that were claimed, those whose jackpot was the policy's
  kGuess,          ///< of the guesses about verdicts whose signers looked, those that were right
  kUnseenAudit,    ///< of the audits given without looking, those whose auditor lost the bond
  kGuessedAudit,   ///< of the audits that guess, those whose auditor lost the bond
};
inline constexpr std::size_t kCounted = 11;

/// All that is counted in a market, or in several.
struct Tally {
  std::array<std::array<Moments, kRoles>, kAgentKinds> gains;
  std::array<Tries, kCounted> tries;
  std::map<AgentKind, Tries> first_drawn;  ///< of all draws, those that drew the kind first
  std::map<std::string, std::int64_t> reasons;
  std::int64_t statements = 0;
  std::int64_t paid = 0;            ///< tasks whose solver was paid
  __int128 paid_by_submitters = 0;  ///< for these
  __int128 paid_to_auditors = 0;
  __int128 paid_to_claimants = 0;
  std::vector<PoolLine> pool;
  std::int64_t pool_least = -1;  ///< once as many tasks are open as will be; -1: never

  Moments& gain(AgentKind kind, Role role) {
    return gains[static_cast<std::size_t>(kind)][static_cast<std::size_t>(role)];
  }
  Tries& of(Counted what) { return tries[static_cast<std::size_t>(what)]; }
  /// Adds another market's, but for the pool.
  void add(const Tally& other);
};

/// Plays one market's `tasks` tasks. kInterrupted if `stop` is set.
[[nodiscard]] Result<Tally> play_market(const Plan& plan, std::int64_t market, std::int64_t tasks,
                                        const StopFlag& stop);

/// The rates and earnings of all markets, with their intervals.
[[nodiscard]] std::vector<Earnings> earnings_of(const Tally& tally);
[[nodiscard]] std::vector<Rate> rates_of(const Plan& plan, const People& people, const Tally& tally);

}  // namespace dgx::jobs
