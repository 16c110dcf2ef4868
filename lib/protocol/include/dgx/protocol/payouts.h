#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/manifest/money.h"
#include "dgx/manifest/task.h"

namespace dgx::protocol {

/// Money locked for a task besides its escrow: the policy's bonds, each with its part of the reward.
struct Bonds {
  std::int64_t solver = 0;
  std::int64_t verifier = 0;
  std::int64_t challenger = 0;  ///< bond of a game that is not counted, or the first that is
};
[[nodiscard]] Bonds bonds_of(const manifest::Task& task);

/// Most finders that share a sum: the k-th gets 2^-k of it, and the jackpot the rest.
inline constexpr std::size_t kMaxFinders = 32;

/// The statement that a game is about: its defender signed it.
enum class Challenged : std::uint8_t { kProof, kVerdict, kAudit };
/// A game's result: the statement fell; or it stands, and the challenger has lost their bond; or neither was
/// decided, and the bond goes back.
enum class GameResult : std::uint8_t { kFalls, kStands, kReturned };
[[nodiscard]] std::string_view name_of(GameResult result);
/// A game that is over, as far as money depends on it.
struct DecidedGame {
  std::string challenger;  ///< key id in hex
  Challenged statement = Challenged::kProof;
  GameResult result = GameResult::kStands;
  std::int64_t bond = 0;     ///< the challenger's, in base units
  std::string auditor = {};  ///< with kAudit: key id in hex of the audit's signer
};

/// The fate of the secret that a verifier owes after an acceptance, where errors are forced: kept until it
/// was due, or none is owed; given away, so that somebody else revealed it before; or withheld.
enum class SecretFate : std::uint8_t { kKept, kGivenAway, kWithheld };

/// Somebody who owed an audit of the verdict, and what became of it.
struct RecheckStake {
  std::string who;           ///< key id in hex
  std::int64_t bond = 0;     ///< in base units
  bool drawn = false;        ///< the auditor whom a round drew, else a volunteer
  bool shown = false;        ///< the audit was logged
  bool refutes = false;      ///< it refutes the proof
  bool denies = false;       ///< it denies witnesses of the verdict
  bool denies_more = false;  ///< it denies others than the one that was forced to be false
  bool is_early = false;     ///< committed to before any challenge of the proof that won was logged
  bool found = false;        ///< a game was won about a segment whose witness it denies
  /// It accepts, and a game was won about something that it confirms: a segment of the draw, in the proof or
  /// in a witness or row of the verdict.
  bool overlooked = false;
  /// It accepts, and denies the witness that was forced to be false, and no other.
  bool claims = false;
  /// It accepts, does not deny that witness, and no game was won about it.
  bool confirmed_forced = false;
  bool after_secret = false;  ///< committed to after somebody had revealed the secret before its time
};

/// The parties with money in a task, as key ids in hex, and what they did. Solver and verifier are empty
/// before the assignment, and the verifier is where no round came that draws one.
struct Stakes {
  std::string submitter;
  std::string solver;
  /// The one named or, in a market with rounds, the one who gave the verdict; without a verdict the first who
  /// was drawn if the proof was not opened, else the last.
  std::string verifier;
  std::int64_t verifier_bond = 0;  ///< the verifier's, in base units; 0 before the assignment
  std::int64_t silent_bonds = 0;   ///< of those drawn before the verifier who let their time pass
  bool proved = false;             ///< a proof was logged
  bool drawn = false;              ///< a beacon was logged, or a round that drew a verifier
  bool refuted = false;            ///< a verdict that counts is a refutation, right or wrong
  /// Reward, tax and treasury of the work that the proof shows (estimate.h).
  manifest::Estimate earned;
  std::optional<std::int64_t> fee;  ///< the verdict's; nullopt if no verdict came that counts
  std::vector<DecidedGame> games;   ///< all of the task's, as logged
  /// Volunteers and the auditor who was drawn in the order of their commitments, then one who made none.
  std::vector<RecheckStake> rechecks = {};
  std::int64_t audit_fee = 0;          ///< locked for the auditor, in base units
  std::int64_t audit_fee_of_task = 0;  ///< part of `audit_fee` that the escrow pays, the rest the jackpot
  SecretFate secret = SecretFate::kKept;
  std::string revealed_by = {};  ///< with kGivenAway: key id in hex of whoever revealed it
  std::int64_t jackpot = 0;      ///< locked for those who claim the forced error
};

/// The money of an outcome (dgx-money(7), "MONEY"). Payouts sum to exactly the escrow, once assigned the
/// bonds of solver, verifier and silent verifiers and of those who owed audits, what the jackpot has locked
/// for auditor and claimants, and the bonds of the challengers who lost. Other bonds go back to their owners
/// and are not in it. kConvicted requires that a game against the proof has been won.
[[nodiscard]] std::vector<manifest::Payout> payouts(const manifest::Task& task, manifest::Reason reason,
                                                    const Stakes& stakes);

/// kNotAllowed if a withdrawal is below the policy's challenger_bond and does not empty the account:
/// otherwise anybody with money could fill the ledger with withdrawals of their own, unit by unit.
[[nodiscard]] Status check_least(const manifest::Withdrawal& withdrawal, const manifest::Policy& policy,
                                 std::int64_t balance);

/// The fee of an auditor: a verdict's, but no more than floor(tax · 10^6 / audit_ppm), so that what audits
/// pay out is on average no more than what the task has paid in. audit_ppm is above 0.
[[nodiscard]] std::int64_t audit_fee(const manifest::Estimate& earned, const manifest::Policy& policy);

/// The part of a task's escrow that goes back to its submitter whatever the outcome: all but what `worth`,
/// the work that the proof shows, is paid at most.
[[nodiscard]] std::int64_t unused_escrow(const manifest::Task& task, const manifest::Estimate& worth);

/// The sum that the claimants of a forced error may share, dgx-money(7), "Jackpots": the policy's jackpot,
/// but at most a third of `pool`, which is what the jackpot's account has; and no more than makes it
/// unprofitable, on average, to earn jackpots with one's own tasks, and to deny one of the `replayed` rows
/// unseen. forced_error_ppm is above 0; the rest are checked
/// fields.
[[nodiscard]] std::int64_t jackpot_of(const manifest::Task& task, const manifest::Estimate& earned,
                                      std::int64_t replayed, std::int64_t pool);

/// floor(amount · ppm / 10^6). The arguments are checked fields; asserted: the result fits.
[[nodiscard]] std::int64_t part_of(std::int64_t amount, std::int64_t ppm);

}  // namespace dgx::protocol
