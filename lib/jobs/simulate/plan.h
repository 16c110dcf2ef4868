#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "dgx/jobs/simulate.h"
#include "dgx/manifest/statement.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/payouts.h"
#include "simulate/stream.h"

namespace dgx::jobs {

/// All that the markets of a simulation have in common.
struct Plan {
  manifest::Policy policy;
  Agents agents;
  std::uint64_t seed = 0;
  std::int64_t open = 1;             ///< tasks open at a time
  manifest::Task task;               ///< every task's body, but for its ledger
  std::vector<Digest> states;        ///< every proof's committed states
  merkle::StoredTree tree;           ///< of their leaves
  manifest::RootReference root;      ///< of that tree
  manifest::MissProbability missed;  ///< of a replay of the draw
  protocol::Bonds bonds;
  std::int64_t segments = 0;  ///< N
  std::int64_t drawn = 0;     ///< q
  std::int64_t cost = 0;      ///< C
  std::int64_t recheck = 0;   ///< C_w
  std::int64_t work = 0;      ///< weighted operations of a replay of the draw

  [[nodiscard]] bool has_rounds() const { return policy.beacon_source != 0; }
  [[nodiscard]] bool has_audits() const { return policy.audit_ppm > 0; }
  [[nodiscard]] bool has_rechecks() const { return protocol::rechecks_verdicts(policy); }
  [[nodiscard]] bool forces_errors() const { return protocol::forces_errors(policy); }
  /// The segments that a cheat fakes of a task, at least one.
  [[nodiscard]] std::int64_t faked(const AgentGroup& cheat) const;
};

/// kUsage for a policy that does not admit the task.
[[nodiscard]] Result<Plan> make_plan(const manifest::Policy& policy, const Agents& agents,
                                     const SimulateOptions& options);

/// A key in a market, and whose it is.
struct Person {
  AgentKind kind = AgentKind::kHonest;
  Digest key;
  std::string account;    ///< the key in hex
  std::int64_t bond = 0;  ///< that its offers stake
  std::size_t owner = 0;  ///< number of the one to whom it belongs
};

/// The keys of a market; places in `all`.
struct People {
  std::vector<Person> all;
  std::vector<std::size_t> solvers;    ///< each as likely to solve a task
  std::vector<std::size_t> verifiers;  ///< who offer for every task
  std::vector<std::size_t> volunteers, guessers, robbers, griefers, copiers;
  std::unordered_map<std::size_t, std::size_t> farm_submitters, farm_verifiers;  ///< by their solver
  /// Keys that claim forced errors, by the solver or verifier who knows of them without a replay.
  std::unordered_map<std::size_t, std::size_t> claimants;
  std::size_t submitter = 0;
  std::unordered_map<std::string, std::size_t> by_account;

  [[nodiscard]] std::size_t of_key(const Digest& key) const;
};

/// kUsage if nobody solves or verifies, a task would have more than 64 offers, or colluders cannot hold so
/// small a share.
[[nodiscard]] Result<People> make_people(const Plan& plan, Stream& keys);

}  // namespace dgx::jobs
