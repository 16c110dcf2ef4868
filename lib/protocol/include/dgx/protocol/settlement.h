#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/ledger/ledger.h"
#include "dgx/manifest/statement.h"
#include "dgx/protocol/game.h"

namespace dgx::protocol {

/// States of a task (dgx-protocol(7), "States of a task").
enum class TaskState {
  kOpen,
  kAssigned,
  kProofCommitted,
  kBeacon,
  kVerifyCommitted,
  kChallengeWindow,   ///< a verdict is there, or none came in time: whoever objects is heard
  kArbitration,       ///< the window passed; games are open
  kAwaitingDelivery,  ///< the window passed; the final state has not arrived
  kDue,               ///< can be settled now
  kSettled,
};
[[nodiscard]] std::string_view name_of(TaskState state);

/// At most this many games of a task are open or won, so that all who win fit into its settlement.
inline constexpr std::size_t kMaxGames = 64;

/// A game as the ledger has it.
struct GameRecord {
  Game game;
  std::int64_t opened_ms = 0;
  std::int64_t last_ms = 0;      ///< of its last statement
  std::optional<Digest> ruling;  ///< id of the ruling that was logged

  [[nodiscard]] const Digest& id() const { return game.dispute().challenge.id; }
  [[nodiscard]] std::int64_t deadline_ms() const;  ///< of the move that is awaited
};

/// How a game ended, and when.
struct GameEnd {
  bool falls = false;  ///< the statement challenged
  std::int64_t milliseconds = 0;
};
/// nullopt while the game is open. Whoever has missed his deadline has lost at it.
[[nodiscard]] std::optional<GameEnd> end_of(const GameRecord& record, std::int64_t milliseconds);
/// The game as it stands at a moment: over if a deadline was missed.
[[nodiscard]] Game game_at(const GameRecord& record, std::int64_t milliseconds);

/// What the ledger knows of one task.
struct TaskRecord {
  manifest::Signed<manifest::Task> task;
  std::int64_t opened_ms = 0;
  std::map<Digest, manifest::Signed<manifest::BeaconCommitment>> offers;  ///< by statement id
  std::optional<Digest> offer;                                            ///< the one assigned
  std::optional<Digest> solver;                                           ///< key ids
  std::optional<Digest> verifier;
  std::int64_t assigned_ms = 0;
  std::optional<manifest::Signed<manifest::Proof>> proof;
  std::int64_t proof_ms = 0;
  std::optional<manifest::Signed<manifest::Beacon>> beacon;
  std::int64_t beacon_ms = 0;
  std::optional<Digest> verdict_commitment;
  std::int64_t verdict_commitment_ms = 0;
  std::optional<manifest::Signed<manifest::Verdict>> verdict;
  std::int64_t verdict_ms = 0;
  std::vector<GameRecord> games;
  bool delivered = false;
  std::int64_t delivered_ms = 0;
  std::optional<manifest::Settlement> settlement;
};

/// How a task stands at a moment.
struct Standing {
  TaskState state = TaskState::kOpen;
  std::optional<std::int64_t> deadline_ms;         ///< when the present state ends by itself
  std::optional<manifest::Settlement> settlement;  ///< exactly with kDue
};

/// Later than a deadline means after it by at least a millisecond.
[[nodiscard]] Standing standing(const TaskRecord& record, std::int64_t milliseconds);

/// The state machine of money: replaying a ledger's statements in order gives the same accounts on any
/// machine. Pure: no files, no clock but the receipts', no executor. Every apply() either succeeds wholly or
/// changes nothing and says why.
///
/// Accounts are "jackpot", "treasury", "escrow", "bonds" and key ids in hex; their sum is always deposits −
/// withdrawals and none is ever negative.
class Market {
 public:
  /// An empty market. The first statement applied must be the operator's policy.
  Market() = default;

  /// Applies one statement logged at `milliseconds`. kUsage: not allowed now, with the reason; kUnauthorised:
  /// by the wrong signer; kMalformed: contradicts what it refers to. Lateness counts from `milliseconds`.
  [[nodiscard]] Status apply(const manifest::Signed<manifest::Body>& statement, std::int64_t milliseconds);

  /// Replays a whole ledger; errors name the entry.
  [[nodiscard]] static Result<Market> replay(const ledger::Log& log);

  [[nodiscard]] const std::map<Digest, TaskRecord>& tasks() const { return tasks_; }
  [[nodiscard]] std::map<std::string, std::int64_t> balances() const;
  /// deposits − withdrawals = sum of balances().
  [[nodiscard]] std::int64_t total() const;
  /// Time of the last statement.
  [[nodiscard]] std::int64_t now() const { return now_ms_; }
  /// What the operator may settle at `milliseconds`, in order of task id.
  [[nodiscard]] std::vector<manifest::Settlement> due(std::int64_t milliseconds) const;
  [[nodiscard]] const std::optional<manifest::Policy>& policy() const { return policy_; }

 private:
  friend struct Rules;

  std::optional<manifest::Policy> policy_;
  Digest operator_;
  std::int64_t now_ms_ = 0;
  std::map<std::string, std::int64_t> accounts_;
  std::int64_t deposited_ = 0;
  std::int64_t withdrawn_ = 0;
  std::map<Digest, TaskRecord> tasks_;
  std::optional<Digest> ledger_;  ///< id of the first statement
  std::set<Digest> seen_;         ///< statement ids
};

/// A game that is over.
enum class Challenged : std::uint8_t { kProof, kVerdict };
struct DecidedGame {
  std::string challenger;  ///< key id in hex
  Challenged statement = Challenged::kProof;
  bool falls = false;
};

/// Who has money in a task: key ids in hex. Solver and verifier are empty before the assignment.
struct Stakes {
  std::string submitter;
  std::string solver;
  std::string verifier;
  bool refuted = false;            ///< the verdict is a refutation, right or wrong
  std::vector<DecidedGame> games;  ///< all of the task
};

/// The money of an outcome (dgx-protocol(7), "Money"): payouts sum to exactly the escrow and, once assigned,
/// both bonds and those of all challengers. `replayed_steps` prices the verifier's work; nullopt: no verdict
/// came. With kConvicted a game against the proof has been won.
[[nodiscard]] std::vector<manifest::Payout> payouts(const manifest::Task& task, manifest::Reason reason,
                                                    const Stakes& stakes,
                                                    std::optional<std::int64_t> replayed_steps);

}  // namespace dgx::protocol
