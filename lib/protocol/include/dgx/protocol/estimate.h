#pragma once

#include <cstdint>

#include "dgx/core/result.h"
#include "dgx/manifest/proof.h"
#include "dgx/manifest/task.h"

namespace dgx::protocol {

/// Hashing is priced like arithmetic: this many weighted operations a byte.
inline constexpr std::int64_t kOperationsPerHashedByte = 8;

/// Weighted operations that a price is for.
inline constexpr std::int64_t kPriceUnit = 1'000'000'000;

/// The numbers of a task from which its estimate follows.
struct EstimateInput {
  std::int64_t step_operations = 0;  ///< weighted operations of one step
  std::int64_t state_bytes = 0;      ///< size of all entries of a state together
  std::int64_t steps = 0;
  std::int64_t checkpoint_every = 0;
  std::int64_t price = 0;           ///< base units per kPriceUnit operations
  std::int64_t constant_bytes = 0;  ///< of state_bytes, those of entries that no step changes
};

/// The numbers of a task with so many steps.
[[nodiscard]] EstimateInput estimate_input(const manifest::Task& task, std::int64_t steps);

/// Work and money of a task (dgx-money(7), "Estimate"). Work: train = steps · step, prove = bytes that are
/// hashed · kOperationsPerHashedByte, those of constant entries once and the others in each state, verify =
/// sampled segments · longest segment · step. Money: reward = price · (train + prove), fee = verifier_fee +
/// price · verify, tax and treasury their parts of the reward, margin its part of reward and fee; divisions
/// floor. kUsage if a number exceeds 2^53: split the task.
[[nodiscard]] Result<manifest::Estimate> estimate(const EstimateInput& input, const manifest::Policy& policy);

/// Checks that a task's estimate is the one its own numbers give: its step_operations, and its caps' bytes
/// as the sizes of a state and of its constant entries; else kMalformed. Callers that have the program
/// compare these three with it.
[[nodiscard]] Status check_estimate(const manifest::Task& task);

/// The worth of the work that a proof shows. For a finished task this is its estimate; for one that diverged
/// at step d, the same formulas with the d + 1 steps that were computed, the states that are committed, and
/// the segments that are drawn, the diverging step among them. No number exceeds the task's. Asserted: the
/// task passes check_estimate(), and the proof check_proof().
[[nodiscard]] manifest::Estimate earned(const manifest::Task& task, const manifest::Proof& proof);

/// The most bytes that an opening of the task's proof may have in a store (dgx-protocol(7), "OPENING"); what
/// dgx-prove writes always fits. kUsage if it exceeds 2^53.
[[nodiscard]] Result<std::int64_t> opening_bytes(const manifest::Task& task);

/// C - R, at least 0: the smallest solver's bond with which cheating does not pay without outside benefit,
/// where every proof is verified. C is the price of the training, R the reward; both 0 to 2^53. kUsage if the
/// task's C exceeds 2^53.
[[nodiscard]] std::int64_t least_solver_bond(std::int64_t cost, std::int64_t reward);
[[nodiscard]] Result<std::int64_t> least_solver_bond(const manifest::Task& task);

}  // namespace dgx::protocol
