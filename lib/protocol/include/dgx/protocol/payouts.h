#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/manifest/money.h"
#include "dgx/manifest/task.h"

namespace dgx::protocol {

/// What is locked for a task beside its escrow: the policy's bonds, each with its part of the reward.
struct Bonds {
  std::int64_t solver = 0;
  std::int64_t verifier = 0;
  std::int64_t challenger = 0;  ///< of a game that is not counted, or the first that is
};
[[nodiscard]] Bonds bonds_of(const manifest::Task& task);

/// No sum of finders' shares has more parts: the k-th is 2^-k of it, and the rest is the jackpot's.
inline constexpr std::size_t kMaxFinders = 32;

enum class Challenged : std::uint8_t { kProof, kVerdict };
/// How a game ended: the statement fell, it stands and the challenger has lost their bond, or neither was
/// decided and the bond goes back.
enum class GameResult : std::uint8_t { kFalls, kStands, kReturned };
struct DecidedGame {
  std::string challenger;  ///< key id in hex
  Challenged statement = Challenged::kProof;
  GameResult result = GameResult::kStands;
  std::int64_t bond = 0;
};

/// Who has money in a task, and what they did: key ids in hex. Solver and verifier are empty before the
/// assignment.
struct Stakes {
  std::string submitter;
  std::string solver;
  std::string verifier;
  bool proved = false;              ///< a proof was logged
  bool drawn = false;               ///< a beacon was logged
  bool refuted = false;             ///< a verdict that counts is a refutation, right or wrong
  manifest::Estimate earned;        ///< reward, tax and treasury of the work that the proof shows (estimate.h)
  std::optional<std::int64_t> fee;  ///< of the verdict; without it none came that counts
  std::vector<DecidedGame> games;   ///< all of the task, as logged
};

/// The money of an outcome (dgx-money(7), "MONEY"): payouts sum to exactly the escrow, once assigned both
/// bonds, and the bonds of the challengers who lost. Bonds that go back to their owners are not in it. With
/// kConvicted a game against the proof has been won.
[[nodiscard]] std::vector<manifest::Payout> payouts(const manifest::Task& task, manifest::Reason reason,
                                                    const Stakes& stakes);

/// kUsage if a withdrawal is below the policy's challenger_bond and is not all that the account has: else whoever has money
/// fills the ledger with their own, unit by unit.
[[nodiscard]] Status check_least(const manifest::Withdrawal& withdrawal, const manifest::Policy& policy, std::int64_t balance);

/// floor(amount · ppm / 10^6), of checked fields: asserted to fit.
[[nodiscard]] std::int64_t part_of(std::int64_t amount, std::int64_t ppm);

}  // namespace dgx::protocol
