#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/manifest/policy.h"

/// dgx-settle simulate: markets full of people who are honest, lazy, cheat and collude, played through the
/// rules that replay a ledger (dgx-settle(1), "SIMULATION").
///
/// Nothing is trained, replayed or signed: what work costs is a number, and who would lose a game stalls in
/// it. Everything else is real: each statement of each task goes through protocol::Market, at the times at
/// which its deadlines allow it, and every draw follows from the rounds that the ledger has.
namespace dgx::jobs {

/// The kinds of people in a market. Their order is that of their names.
enum class AgentKind : std::uint8_t {
  kAccomplice,  ///< of the submitter: refutes whatever they are to verify or audit
  kCheat,       ///< solves, and fakes a part of the segments
  kColluder,    ///< of the cheats: confirms what they prove, and verifies and audits all else
  kCopier,      ///< opens the game that somebody else has opened
  kFarmer,      ///< posts tasks to themselves, and verifies them: for the jackpot's money
  kGriefer,     ///< challenges proofs at random
  kGuesser,     ///< verifies without looking; audits, and re-checks as volunteers, by denying one row unseen
  kHonest,      ///< solves, verifies and audits
  kInsider,     ///< an honest verifier, who claims their own forced errors with another key
  kLazy,        ///< verifies and audits without looking
  kRobber,      ///< reveals the secret of a seller before it is due
  kSeller,      ///< an honest verifier, who tells robbers the secret
  kSilent,      ///< offers to verify, and says nothing more
  kSubmitter,   ///< posts all tasks but the farmers'; in every market, and not to be asked for
  kSybil,       ///< a lazy one with several keys
  kVenal,       ///< an honest verifier, who audits without looking; they save each other
  kVolunteer,   ///< re-checks one verdict of those that are open at a time
};
inline constexpr std::size_t kAgentKinds = 17;
[[nodiscard]] std::string_view name_of(AgentKind kind);

/// The most people of one kind, and keys of one sybil.
inline constexpr std::int64_t kMostAgents = 64;

/// All people of one kind in a market.
struct AgentGroup {
  AgentKind kind = AgentKind::kHonest;
  std::int64_t count = 1;              ///< 1 to kMostAgents
  std::optional<std::int64_t> bond;    ///< a verifier's offer stakes it; the policy's least unless given
  std::int64_t false_ppm = 1'000'000;  ///< of cheats: part of the segments that they fake, at least one
  std::int64_t keys = 2;               ///< of sybils: keys of each, 2 to kMostAgents
  std::int64_t share_ppm = 0;          ///< of colluders: part of all verifiers' bonds that they hold together
};

/// The people of a market, by kind, each kind at most once.
using Agents = std::vector<AgentGroup>;

/// Four honest people.
[[nodiscard]] Agents standard_agents();
/// Parses a `--agents FILE`: {"KIND": {"count": N, …}, …}. kMalformed names the position, or kind and field.
[[nodiscard]] Result<Agents> parse_agents(std::string_view text);

/// The part of a task in which somebody has money.
enum class Role : std::uint8_t { kSubmitter, kSolver, kVerifier, kAuditor, kVolunteer, kChallenger };
inline constexpr std::size_t kRoles = 6;
[[nodiscard]] std::string_view name_of(Role role);

/// The gains of the people of one kind in one role, per task in which they had it: what they were paid, less
/// what they staked, and less their work at the policy's prices.
struct Earnings {
  AgentKind kind = AgentKind::kHonest;
  Role role = Role::kSolver;
  std::int64_t times = 0;  ///< number of tasks
  double mean = 0;         ///< base units
  double low = 0;          ///< the mean is between `low` and `high` with 95 %
  double high = 0;
  double total = 0;
};

/// Things of one kind that happened `times`, of which `hits` had a certain end.
struct Rate {
  std::string name;
  std::int64_t times = 0;
  std::int64_t hits = 0;
  double rate = 0;
  double low = 0;  ///< with 95 %, by Wilson's interval
  double high = 0;
  std::optional<double> expected;  ///< by the rules
  /// The chance of so large a difference from `expected` (chi-square, one degree of freedom).
  std::optional<double> p;
};

/// The jackpot account when a part of a market's tasks is settled.
struct PoolPoint {
  std::int64_t percent = 0;  ///< of the tasks
  double mean = 0;           ///< over the markets, base units
  std::int64_t least = 0;    ///< in any market, since the point before
};

/// The price of having a part of all tasks re-checked, as multiples of the price of one re-check
/// (dgx-money(7), "Closed forms").
struct RecheckPrice {
  double share = 0;
  double audits = 0;       ///< paid audits
  double jackpots = 0;     ///< jackpots, where nobody claims their own error
  double with_makers = 0;  ///< jackpots, where the makers of errors claim, too
};

/// The outcome of a simulation. Money is in base units.
struct Simulation {
  manifest::Policy policy;
  std::int64_t cost = 0;     ///< C: the training of a task
  std::int64_t reward = 0;   ///< R
  std::int64_t recheck = 0;  ///< C_w
  std::int64_t tasks = 0;
  std::int64_t markets = 0;
  std::int64_t statements = 0;
  std::map<std::string, std::int64_t> reasons;  ///< number of settlements
  std::vector<Earnings> earnings;               ///< by kind and role
  std::vector<Rate> rates;
  std::vector<PoolPoint> pool;
  /// The least in any market once `open` tasks are open; nullopt if no market has so many.
  std::optional<std::int64_t> pool_least;
  /// Payments of submitters besides the training, in percent of its cost, where the solver is paid.
  double overhead_percent = 0;
  /// Payments to auditors, and to those who claim forced errors, in percent of the training of all tasks.
  double audits_percent = 0;
  double jackpots_percent = 0;
  /// The volunteers whom the jackpot pays for where so many tasks are open, by closed form 4 of dgx-money(7):
  /// a number, or "any".
  std::string volunteers_paid_for;
  std::vector<RecheckPrice> rechecking;
  std::string svg;  ///< empty unless asked for
};

/// dgx-settle simulate.
struct SimulateOptions {
  std::string policy_path;
  std::optional<std::string> agents_path;  ///< standard_agents() unless given
  std::int64_t tasks = 0;                  ///< in all markets together
  std::optional<std::int64_t> markets;     ///< one for 10,000 tasks unless given
  std::uint64_t seed = 0;
  std::int64_t open = 100;  ///< tasks that are open at a time in each market
  bool picture = false;
};

/// The least and the most that a simulation takes of each.
inline constexpr std::int64_t kMostSimulatedTasks = 1'000'000'000;
inline constexpr std::int64_t kMostSimulatedMarkets = 1'000'000;
inline constexpr std::int64_t kMostTasksOpen = 10'000;

/// Plays `agents` in markets with `policy`, on context.threads threads. The outcome depends on neither
/// threads nor machine. kUsage for a number out of range, for people who cannot make a market (nobody solves,
/// nobody verifies, more than 64 offers), and for a policy that admits no such task; kNotAllowed if all money
/// together exceeds 2^53; kInterrupted if the stop flag is set.
[[nodiscard]] Result<Simulation> simulate(const manifest::Policy& policy, const Agents& agents,
                                          const SimulateOptions& options, const JobContext& context);
/// The same with policy and agents read from their files, whose names errors begin with.
[[nodiscard]] Result<Simulation> simulate_files(const SimulateOptions& options, const JobContext& context);

}  // namespace dgx::jobs
