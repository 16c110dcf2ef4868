#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/statement.h"
#include "dgx/protocol/game.h"
#include "dgx/protocol/lots.h"
#include "dgx/protocol/market_clock.h"
#include "dgx/protocol/payouts.h"
#include "dgx/protocol/rounds.h"

namespace dgx::protocol {

/// States of a task (dgx-protocol(7), "STATES OF A TASK").
enum class TaskState {
  kOpen,
  kAssigned,
  kProofCommitted,    ///< the verifier has to reveal their beacon, or the operator to log the round
  kAwaitingOpening,   ///< the beacon is there, or none came: the solver has to open the proof
  kDrawn,             ///< the round is there, and has drawn a verifier: the solver has to open the proof
  kOpened,            ///< the verifier has to give a verdict
  kVerifyCommitted,   ///< the verifier has to show the verdict committed to
  kRecheck,           ///< whoever re-checks the verdict commits to what they found
  kReveal,            ///< those who committed have to show their audits, the verifier their secret
  kChallengeWindow,   ///< the verdict is there, or none came in time: objections are heard
  kArbitration,       ///< the window passed; games are open
  kAwaitingDelivery,  ///< the window passed; the final state has not arrived
  kDue,               ///< can be settled now
  kSettled,
};
[[nodiscard]] std::string_view name_of(TaskState state);

/// A game as the ledger has it. Times are the market's (MarketClock), here and below.
struct GameRecord {
  Game game;
  std::int64_t bond = 0;     ///< locked by its challenger
  bool counted = true;       ///< raises the next one's bond; not so for those whom a false statement hurts
  std::int64_t last_ms = 0;  ///< time of its last statement
  std::int64_t deadline_ms = 0;  ///< end of the time for the move that is awaited
  std::int64_t queued_ms = 0;    ///< time its defender's moves have taken beyond one window each
  std::optional<Digest> ruling;  ///< id of the ruling that was logged

  [[nodiscard]] const Digest& id() const { return game.dispute().challenge.id; }
  [[nodiscard]] Challenged challenged() const {
    const auto& verdict = game.dispute().verdict;
    if (!verdict) return Challenged::kProof;
    return verdict->body.audits ? Challenged::kAudit : Challenged::kVerdict;
  }
  /// Id of the statement that is challenged.
  [[nodiscard]] const Digest& statement() const { return game.dispute().challenge.body.statement(); }
};

/// A game's end: its result and its time.
struct GameEnd {
  GameResult result = GameResult::kStands;
  std::int64_t milliseconds = 0;
};

/// A verifier's offer. Its bond is locked while it can be chosen or drawn: until the assign, in a market with
/// rounds until the draw or the verdict, or where verdicts are audited until the draw of the auditor, or the
/// first entry after nobody can be drawn any more; or until an offer-end, or the task's end.
struct OfferRecord {
  manifest::Signed<manifest::BeaconCommitment> statement;
  std::int64_t logged_ms = 0;
  std::int64_t bond = 0;  ///< in base units
};

/// The round of the slot in which a proof was logged, and the verifiers whom it draws for it.
struct ProofRound {
  DrawSource source;
  std::int64_t logged_ms = 0;
  std::vector<DrawnVerifier> drawn;  ///< in the order in which they are asked
};

/// A verdict that was committed to, not shown yet.
struct CommittedVerdict {
  Digest commitment;
  std::int64_t logged_ms = 0;
};

/// The lot of a verdict's audit, by the round of the slot in which it was logged.
struct AuditDraw {
  Digest lot;
  bool hits = false;  ///< an auditor was to be drawn
  /// The auditor; nullopt unless `hits`, jackpot and escrow had the fee, and there was another offer.
  std::optional<DrawnVerifier> auditor;
  std::int64_t fee = 0;          ///< locked for the auditor, in base units
  std::int64_t fee_of_task = 0;  ///< part of `fee` that the jackpot lacked, and the task's escrow pays
  std::int64_t logged_ms = 0;
};

/// A re-check of the task's verdict by the drawn auditor or a volunteer: first a commitment, then the audit.
struct Recheck {
  Digest who;  ///< key id
  Digest commitment;
  std::int64_t bond = 0;         ///< a volunteer's; the auditor's is that of the offer
  std::size_t games_before = 0;  ///< number of games logged before the commitment
  std::optional<manifest::Signed<manifest::Verdict>> audit;
  std::int64_t audit_ms = 0;
  bool after_secret = false;  ///< committed to after the verifier's secret was given away
};

/// The secret of whoever gave the verdict, which says whether one of its witnesses had to be false.
struct RevealedSecret {
  manifest::Signed<manifest::Beacon> statement;
  std::int64_t logged_ms = 0;
  bool early = false;  ///< by somebody else, before it was due
};

/// The most volunteers who re-check one verdict.
inline constexpr std::size_t kMostVolunteers = 64;

/// A task's record: all that the ledger's statements say about it.
///
/// Its state is not in it. Most states end by a deadline, which passes without a statement, so the state, the
/// duty to act and in the end the settlement are computed from the record and a time: standing(). Each
/// `…_ms` is the market time at which the statement above it was logged, and means nothing without it.
struct TaskRecord {
  manifest::Signed<manifest::Task> task;
  std::int64_t posted_ms = 0;
  /// By statement id; once a verifier is chosen, only theirs, and once verifiers are drawn, only those.
  std::map<Digest, OfferRecord> offers;
  std::optional<Digest> solver;  ///< key id of the one assigned
  /// Key id of the one whom the assign names; in a market with rounds, of whoever gave the verdict. Who is to
  /// give it: verifier_at().
  std::optional<Digest> verifier;
  std::int64_t assigned_ms = 0;
  std::optional<manifest::Signed<manifest::Proof>> proof;
  std::int64_t proof_ms = 0;
  std::int64_t proof_slot = 0;  ///< in a market with rounds: that of its receipt
  std::optional<manifest::Signed<manifest::Beacon>> beacon;
  std::int64_t beacon_ms = 0;
  std::optional<ProofRound> round;
  std::optional<manifest::Signed<manifest::Opening>> opening;
  std::int64_t opening_ms = 0;
  std::map<Digest, CommittedVerdict> committed;  ///< by the verifier's key id
  std::optional<manifest::Signed<manifest::Verdict>> verdict;
  std::int64_t verdict_ms = 0;
  std::int64_t verdict_slot = 0;         ///< in a market with rounds: that of its receipt
  std::size_t games_before_verdict = 0;  ///< number of games logged before it
  std::optional<AuditDraw> audit;        ///< once the round of the verdict's slot is there
  std::vector<Recheck> rechecks;         ///< in the order of their commitments
  std::optional<RevealedSecret> secret;  ///< where errors are forced
  std::int64_t jackpot = 0;              ///< locked for those who claim a forced error, in base units
  std::vector<GameRecord> games;         ///< in the order in which they were logged
  bool delivered = false;
  std::set<Digest> profiles;  ///< key ids of those who logged one
  std::optional<manifest::Settlement> settlement;
};

/// The ends of a task's games, in the order of `games`; nullopt for an open one. A side that has missed a
/// deadline lost at that time. When a statement falls, the open games about it can be played on at no risk to
/// their challengers.
[[nodiscard]] std::vector<std::optional<GameEnd>> ends_of(const TaskRecord& record, std::int64_t now);
/// True if a game about the statement of this id has been won by its challenger.
[[nodiscard]] bool has_fallen(const TaskRecord& record, const Digest& statement, std::int64_t now);
/// The game as it stands at `now`: over if a deadline was missed.
[[nodiscard]] Game game_at(const GameRecord& record, std::int64_t now);

/// The duty to open a proof that has been logged: after which statement, and until when.
struct OpeningDuty {
  Digest after;
  std::int64_t begins_ms = 0;
  std::int64_t deadline_ms = 0;
};
/// nullopt before the proof. `after` is the id of the beacon or the round or, once neither can come any more,
/// the proof's.
[[nodiscard]] std::optional<OpeningDuty> opening_duty(const TaskRecord& record);

/// The source of a proof's draw, if its beacon or round is there.
[[nodiscard]] std::optional<DrawSource> source_of(const TaskRecord& record);

/// The time that a verifier has for a verdict on an opened proof.
struct VerifierTurn {
  Digest verifier;  ///< key id
  std::int64_t begins_ms = 0;
  std::int64_t deadline_ms =
      0;  ///< for the verdict or its commitment or, once that is logged, for the verdict
};
/// The turns of those who are to give the verdict, one after another: of the named verifier, or of those
/// drawn, each of whom begins where the one before has missed the deadline. Empty if the proof is not opened,
/// or without a source of its draw.
[[nodiscard]] std::vector<VerifierTurn> turns_of(const TaskRecord& record);
/// The verifier of a task at `now`: whoever gave the verdict; else the one named, or the one drawn whose turn
/// it is (the first before the opening, the last when all turns are over). nullopt if there is none yet.
[[nodiscard]] std::optional<Digest> verifier_at(const TaskRecord& record, std::int64_t now);
/// True if the task's verdict is re-checked: an acceptance, where verdicts are audited or errors forced.
[[nodiscard]] bool is_rechecked(const TaskRecord& record);
/// True if an auditor of the task's verdict may be drawn: it is re-checked, and the market audits verdicts.
[[nodiscard]] bool may_draw_auditor(const TaskRecord& record);
/// True if the signer of the task's verdict has to reveal the secret of their offer.
[[nodiscard]] bool owes_secret(const TaskRecord& record);
/// The fate of that secret at `now`; kKept as long as there is time to reveal it.
[[nodiscard]] SecretFate secret_fate(const TaskRecord& record, std::int64_t now);
/// The segment whose witness had to be false in the task's verdict; nullopt if there is none, or the secret
/// is not revealed.
[[nodiscard]] std::optional<std::int64_t> forced_segment(const TaskRecord& record);
/// True if an audit that was shown accepts, and denies exactly the witness that had to be false.
[[nodiscard]] bool claims_jackpot(const TaskRecord& record, const Recheck& recheck);
/// True if one accepts, and does not deny that witness.
[[nodiscard]] bool confirms_forced(const TaskRecord& record, const Recheck& recheck);
/// The times of a verdict's re-checks, if is_rechecked().
struct RecheckTimes {
  std::int64_t commit_ms = 0;  ///< end of the time for commitments
  /// End of the time for audits and the verifier's secret; commit_ms if nobody owes one.
  std::int64_t reveal_ms = 0;
  std::int64_t ends_ms = 0;  ///< the challenge window begins: reveal_ms, or when all that is owed was shown
};
[[nodiscard]] RecheckTimes recheck_times(const TaskRecord& record);
/// The re-check of a key; null if it has committed to none.
[[nodiscard]] const Recheck* recheck_of(const TaskRecord& record, const Digest& who);
/// True if a round drew this key to audit the verdict.
[[nodiscard]] bool is_auditor(const TaskRecord& record, const Digest& who);
/// The task's verdict or audit of this id; null if there is none.
[[nodiscard]] const manifest::Signed<manifest::Verdict>* verdict_of(const TaskRecord& record,
                                                                    const Digest& id);

/// The offers whose bonds the task's settlement pays out, by statement id: the verifier's, those of the
/// silent, once the task is due, and the auditor's. The others' go back to their signers.
[[nodiscard]] std::set<Digest> staked_offers(const TaskRecord& record);

/// A task's state at a moment, and what ends it.
struct Standing {
  TaskState state = TaskState::kOpen;
  std::optional<std::int64_t> deadline_ms;         ///< end of the present state if nothing else ends it
  std::optional<manifest::Settlement> settlement;  ///< present exactly with kDue
};

/// The task's state at market time `now`, which must not be before the record's last statement. A deadline is
/// missed from one millisecond after it. Cost: linear in the task's games.
[[nodiscard]] Standing standing(const TaskRecord& record, std::int64_t now);

/// The time within which an operator has to be seen while a deadline runs: an eighth of the policy's shortest
/// window, at least a minute. After twice that without an entry, the next one must be a tree head that says
/// "pause".
[[nodiscard]] std::int64_t heartbeat_ms(const manifest::Policy& policy);

/// An offer can be taken back this long after it was logged.
inline constexpr std::int64_t kLeastOfferMs = 3'600'000;

/// Hash of a statement's id, itself one: its first bytes. Ids that are sought until they share a place in a
/// table make its look-ups as slow as they are many, and cost their seekers a statement each.
struct IdHash {
  std::size_t operator()(const Digest& id) const {
    std::size_t out = 0;
    for (std::size_t i = 0; i < sizeof out; ++i) out = out << 8 | id.bytes[i];
    return out;
  }
};

/// All that a ledger's statements leave behind: whose money is where, what every task has come to, and the
/// time. It is a function of the entries alone, so whoever replays a ledger holds the same state.
///
/// Money is integers in base units. Accounts are "jackpot", "treasury", "escrow", "bonds" and key ids in hex;
/// an account that is not listed has 0. After every entry:
///
/// - the sum of `accounts` is `deposited` − `withdrawn`, and none is negative;
/// - "escrow" holds the escrows of the tasks in `unsettled`, with fees and jackpots promised in them, and
///   "bonds" what their offers, parties and games
///   have locked, so a settlement can always be paid;
/// - a record in `tasks` only ever gains, but for offers that are withdrawn or not chosen.
///
/// Only the rules (rules.h) change it, and only for Market::apply().
struct MarketState {
  std::optional<manifest::Policy> policy;  ///< the first statement's; nullopt before it
  Digest ledger;                           ///< id of the first statement
  Digest operator_id;                      ///< key id of its signer
  MarketClock clock;                       ///< the time at the last entry
  std::map<std::string, std::int64_t> accounts;
  std::int64_t deposited = 0;
  std::int64_t withdrawn = 0;
  std::map<Digest, TaskRecord> tasks;  ///< by statement id, settled ones too
  std::set<Digest> unsettled;          ///< ids of tasks; scans of all tasks visit only these
  /// Tasks with offers from which an auditor may be drawn, each with a time after which that may be over.
  std::set<std::pair<std::int64_t, Digest>> undrawn;
  std::unordered_set<Digest, IdHash> seen;  ///< ids of all statements
  Slots slots;                              ///< empty without a beacon_source
};

/// A slot whose round something waits for, and the ledger's head after its last entry so far.
struct WaitingSlot {
  std::int64_t slot = 0;
  manifest::RootReference head;
};

/// The state machine of money: replaying a ledger's statements in order gives the same accounts on any
/// machine. Pure: no files, no clock but the receipts', no executor. Every apply() either succeeds wholly or
/// changes nothing and says why.
class Market {
 public:
  /// An empty market. The first statement applied must be the operator's policy.
  Market() = default;

  /// Applies one statement whose receipt says `milliseconds`. kNotAllowed: not now, with the reason;
  /// kUnauthorised: by the wrong signer; kMalformed: contradicts what it refers to.
  [[nodiscard]] Status apply(const manifest::Signed<manifest::Body>& statement, std::int64_t milliseconds);

  /// Drops the records of settled tasks, which then are as if they had not been in the ledger: for whoever
  /// plays more tasks than memory holds, and never speaks of one again.
  void forget_settled();

  [[nodiscard]] const std::map<Digest, TaskRecord>& tasks() const { return state_.tasks; }
  [[nodiscard]] std::map<std::string, std::int64_t> balances() const;
  /// The balance of one account.
  [[nodiscard]] std::int64_t balance(const std::string& account) const;
  /// deposits − withdrawals = sum of balances().
  [[nodiscard]] std::int64_t total() const;
  /// Converts between the receipts' time and the market's. A task's standing now is standing(record,
  /// clock().now()).
  [[nodiscard]] const MarketClock& clock() const { return state_.clock; }
  /// True if an entry at `milliseconds` has to be a tree head with `pause`: the operator was not seen for
  /// more than two heartbeats while a deadline ran.
  [[nodiscard]] bool is_pause(std::int64_t milliseconds) const;
  /// The settlements that the operator may log when the receipt's time is `milliseconds`, by task id.
  [[nodiscard]] std::vector<manifest::Settlement> due(std::int64_t milliseconds) const;
  [[nodiscard]] const std::optional<manifest::Policy>& policy() const { return state_.policy; }
  /// The slots, over or not, without a round in which something was logged that waits for one; ascending.
  [[nodiscard]] std::vector<WaitingSlot> slots_waiting() const;
  /// The slots in which something was logged; none in a market without rounds.
  [[nodiscard]] const Slots& slots() const { return state_.slots; }

  /// Bytes that each of a ledger's files keeps free for all that open tasks, open games and balances can
  /// still need (dgx-ledger(5), "LIMITS"). Cost: linear in accounts and unsettled tasks.
  [[nodiscard]] std::size_t reserved_bytes() const;
  /// The most that reserved_bytes() can grow when `statement` is logged, if apply() takes it; nullopt for a
  /// statement that the room is kept for.
  [[nodiscard]] std::optional<std::size_t> reserve_of(
      const manifest::Signed<manifest::Body>& statement) const;

 private:
  MarketState state_;
};

/// The market that a ledger's entries give, entry by entry as a reader comes to them (ledger::Reading).
struct Replay {
  Market market;
  /// The first entry that breaks the rules. Those after it have no meaning, and are passed over.
  struct Fault {
    std::size_t index = 0;
    Error error;
  };
  std::optional<Fault> fault;

  /// Applies entry `index`. Index 0 begins anew.
  void take(std::size_t index, const manifest::Signed<manifest::Body>& statement, std::int64_t milliseconds);
  /// The market, or the fault's error, which names the entry. To be called once, after the last entry.
  [[nodiscard]] Result<Market> finish() &&;
};

}  // namespace dgx::protocol
