#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/job_context.h"
#include "dgx/core/progress.h"
#include "dgx/core/result.h"
#include "dgx/core/stop.h"
#include "dgx/jobs/key.h"
#include "dgx/ledger/index.h"
#include "dgx/ledger/ledger.h"
#include "dgx/manifest/statement.h"
#include "dgx/protocol/bounds.h"
#include "dgx/protocol/settlement.h"

/// The jobs of dgx-settle(1), around one ledger (dgx-ledger(5)).
///
/// Its operator creates it (init_ledger), lets statements in (append_statements) and settles what is due
/// (run_ledger), each with their key and under the ledger's lock. Anybody who has the files can replay it
/// (view_ledger), look for what its operator did wrong (check_ledger), prove what is in it (prove_statement,
/// prove_growth), and copy the files that the operator fetched (fetch_copy). A participant signs the
/// statements that no other program makes with make_statement().
///
/// The rules are protocol::Market's alone; here are files, keys, clocks and locks.
namespace dgx::jobs {

/// A ledger and whom to trust: with `trust`, its operator must be one of those identities.
struct LedgerFile {
  std::string path;
  std::optional<std::string> trust;
  int threads = 1;               ///< that check signatures
  Progress* progress = nullptr;  ///< is told what was found wrong beside the ledger; null: nobody is
};

/// A ledger's summary at a moment.
struct LedgerSummary {
  Digest ledger;  ///< id of the first statement
  Digest operator_id;
  std::string_view trust;  ///< "trusted" or "self-asserted"
  manifest::RootReference head;
  std::int64_t milliseconds = 0;  ///< the last receipt's time
  std::string torn;               ///< describes a write that was cut off; empty if none
  bool existed = false;           ///< it was there already, and skip_existing
};

/// A ledger that the operator writes. `clock` is the operator's: Unix milliseconds.
struct LedgerWriter {
  LedgerFile file;
  KeyFile key;
  std::function<std::int64_t()> clock = ledger::clock_milliseconds;
  /// True if the operator was away while a deadline ran and asserts that the clock is right: the pause is
  /// recorded first. If false, such a gap is kNotAllowed, since a clock that jumps looks the same.
  bool after_pause = false;
  std::size_t most_bytes = ledger::kMaxLedgerBytes;  ///< limit of each of the ledger's files
  std::optional<std::string> store = {};  ///< folder that append fetches openings, deliveries and chunks from
  int threads = 1;
  LockWait wait = {};          ///< for another process that writes the ledger
  bool skip_existing = false;  ///< for init_ledger()
};

/// Creates LEDGER.jsonl and LEDGER.receipts.jsonl with the policy of `policy_path`
/// (manifest::parse_policy_file) as first entry. kCannotCreate if the ledger exists; with skip_existing only
/// if it has another policy or operator, else its summary, which says `existed`.
[[nodiscard]] Result<LedgerSummary> init_ledger(const LedgerWriter& writer, const std::string& policy_path);
/// Notes both files of a ledger as inputs (core/inputs.h), for an output that is claimed before they are
/// read.
void note_ledger(const LedgerFile& file);
/// A statement to make: its fields are those that follow from task and statement, then `settings`.
struct MakeStatement {
  std::string kind;                       ///< one of makeable_kinds()
  std::optional<std::string> task_path;   ///< required but for deposit and withdrawal
  std::optional<std::string> about_path;  ///< the statement it answers, whose id and digests are filled in
  /// The ledger, read by read_ledger_name(); for a transfer without a task that names one.
  std::optional<std::string> ledger;
  /// FIELD=VALUE each; a setting may override a field that follows from task and statement.
  std::vector<std::string> settings;
  KeyFile key;
  /// For an assign: the signer's profile, which gives the time of the longest segment.
  std::optional<std::string> profile;
  /// For a delivery: what was received. It must be the final state of the proof (compare_model).
  std::optional<std::string> model;
};
/// The kinds that no other program makes, sorted.
[[nodiscard]] std::vector<std::string> makeable_kinds();
/// Signs a statement. kUsage names the field that is missing, unknown or out of range; kMalformed if the
/// statement it answers is of another kind or task, or the model is not the proof's;
/// kUnauthorised if context.trust does not name the signer of the task or of that statement.
[[nodiscard]] Result<manifest::Signed<manifest::Body>> make_statement(const MakeStatement& options,
                                                                      const JobContext& context);

/// A statement that has just been logged.
struct Logged {
  manifest::Signed<manifest::Body> statement;
  manifest::Signed<manifest::Receipt> receipt;
};
/// The outcome of append_statements().
struct Appended {
  std::vector<Logged> logged;
  std::int64_t skipped = 0;  ///< already in the ledger; in transcripts, receipts too
  /// Each names file and line: a statement that could not be fetched, one that depends on it, and with
  /// kKeepGoing every other that was refused.
  std::vector<Error> refused;
  manifest::RootReference head;  ///< after them
};
/// The fate of the other statements when one is refused.
enum class OnRefusal { kAppendNone, kKeepGoing };
/// Opens the statements of every file (one a line), checks them all in order against the rules and the room
/// left (dgx-ledger(5), "LIMITS"), and appends them. An error names file and line, and leaves the ledger as
/// it was. Only what is new is appended, so that repeating a call completes what a crash cut off. A file that
/// begins with a task and has a challenge is a transcript (dgx-protocol(7)); its receipts are skipped.
///
/// Openings, deliveries with a location and demanded chunks come after all other statements, the smallest
/// first. Their files are fetched from the store before the ledger is locked for them, checked, and kept in
/// LEDGER.openings. Errors in them go to `refused` and keep nothing else out. All get the time at which the
/// files of statements had been read, or the last receipt's, if another process has logged something since.
[[nodiscard]] Result<Appended> append_statements(const LedgerWriter& writer,
                                                 const std::vector<std::string>& paths,
                                                 OnRefusal on_refusal = OnRefusal::kAppendNone);

/// Signs deposits and appends them all, or on an error none. `to` has one or more accounts, each a key id or
/// the file of a key, and after them the amount that each of them gets; then it may begin again. No account
/// may come twice: kUsage. With a `reference` (1 to 64 characters) the same call can be repeated, and
/// deposits that are in the ledger are skipped; without it every call makes new ones.
[[nodiscard]] Result<Appended> deposit(const LedgerWriter& writer, const std::vector<std::string>& to,
                                       const std::optional<std::string>& reference);

/// Signs a withdrawal with the operator's key and appends it: of an amount, or of "all" that the account has.
/// `from` is "treasury" or the operator's own account; kUnauthorised for another's, whose owner has to sign
/// (make_statement). With a `reference` the same call can be repeated, as with deposit().
[[nodiscard]] Result<Appended> withdraw(const LedgerWriter& writer, const std::string& amount,
                                        const std::string& from, const std::optional<std::string>& reference);

/// Records the clock, then settles what is due, for one task (find_task) or for all.
[[nodiscard]] Result<std::vector<Logged>> run_ledger(const LedgerWriter& writer,
                                                     const std::optional<std::string>& task);
/// The same again and again until nothing waits in the ledger: whenever a deadline has passed, also one that
/// somebody else's statement has brought meanwhile, and at each heartbeat. kInterrupted if `stop` is set;
/// what was logged stays. Reading a ledger that grows takes at most a tenth of the time.
[[nodiscard]] Result<std::vector<Logged>> run_until_settled(const LedgerWriter& writer,
                                                            const std::optional<std::string>& task,
                                                            const StopFlag& stop);
/// The milliseconds by which the operator's clock is behind the last receipt: no deadline passes until it has
/// caught up.
[[nodiscard]] Result<std::int64_t> clock_lag(const LedgerWriter& writer);

/// A ledger read, replayed and found to follow the rules.
struct LedgerView {
  LedgerSummary summary;
  ledger::Log log;
  protocol::Market market;
};
/// kMalformed and kUnauthorised for an invalid ledger; kMalformed too if an entry breaks the rules.
[[nodiscard]] Result<LedgerView> view_ledger(const LedgerFile& file);

/// The files that fetch_copy() wrote.
struct FetchedCopy {
  Digest statement;
  Digest task;
  manifest::Kind kind = manifest::Kind::kOpening;
  std::vector<std::string> files;  ///< their names, sorted
};
/// Copies the operator's copy of an opening, a delivered state or a chunk to folder `output`; with an opening
/// also its proof and beacon. `name` is the statement's id or a prefix of it, or, for a task's opening, the
/// task as in find_task(). kMissing if there is no such copy, or no longer.
[[nodiscard]] Result<FetchedCopy> fetch_copy(const LedgerFile& file, const std::string& name,
                                             const std::string& output, Clobber clobber);

/// The transcript of a game, out of a ledger (dgx-dispute(7), "Transcripts").
struct ExtractedGame {
  Digest game;  ///< id of its challenge
  std::int64_t moves = 0;
  std::int64_t receipts = 0;
  std::string text;  ///< its statements, each followed by the operator's receipt
};
/// `name` is the game's id, or at least the first eight digits of it. kUsage if there is no such game, or
/// more than one.
[[nodiscard]] Result<ExtractedGame> extract_game(const LedgerFile& file, const std::string& name);

/// A statement of the ledger and the operator's receipt for it, looked up by its id, or by its file, without
/// reading the ledger: ledger::find_entry(). kUsage if it is not there.
[[nodiscard]] Result<ledger::FoundEntry> extract_statement(const LedgerFile& file,
                                                           const std::string& statement);

/// The moves of a game that a ledger has, in order, read from its file.
[[nodiscard]] Result<std::vector<manifest::Signed<manifest::Move>>> moves_of(const ledger::Log& log,
                                                                             const protocol::Game& game);

/// The round that draws for the proof of a task (find_task). kMissing if there is none, or none yet.
[[nodiscard]] Result<manifest::Signed<manifest::Round>> extract_round(const LedgerFile& file,
                                                                      const std::string& task);

/// The secret that the verifier of a task (find_task) has revealed, or somebody else before it was due, in a
/// market that forces errors. kMissing if there is none, or none yet.
[[nodiscard]] Result<manifest::Signed<manifest::Beacon>> extract_secret(const LedgerFile& file,
                                                                        const std::string& task);

/// Finds a task of the ledger by its id, by at least the first eight digits of it, or by its file. kUsage if
/// there is none, or more than one.
[[nodiscard]] Result<const protocol::TaskRecord*> find_task(const protocol::Market& market,
                                                            const std::string& name);

/// The accounts: all, or those of the parties to one task.
[[nodiscard]] Result<std::map<std::string, std::int64_t>> accounts_of(const LedgerView& view,
                                                                      const std::optional<std::string>& task);

/// A slot whose entries no note had, cosigned by a quorum, before its round could be known.
struct NotAnchored {
  std::int64_t slot = 0;
  std::int64_t entries = 0;   ///< of the ledger, up to the slot's end
  std::int64_t known_ms = 0;  ///< when the round could be known (protocol::known_from())
};

/// The outcome of check_ledger(). Faults are things the operator let in or took back; damaged bytes are
/// errors instead.
struct LedgerCheck {
  LedgerSummary summary;
  std::int64_t tasks = 0;
  std::int64_t settled = 0;
  std::int64_t total = 0;
  std::vector<std::string> faults;
  /// The slots with a round that are not anchored, which proves nothing; nullopt without notes, and in a
  /// market without rounds.
  std::optional<std::vector<NotAnchored>> not_anchored;
};
/// Evidence from elsewhere with which a ledger is compared. All but `witnesses` and `quorum` are files.
struct LedgerEvidence {
  std::vector<std::string> against = {};    ///< heads and receipts that the operator signed
  std::vector<std::string> cosigned = {};   ///< notes of the operator with the lines of witnesses
  std::vector<std::string> witnesses = {};  ///< verifier keys or files of public keys of those believed
  std::optional<std::int64_t> quorum = {};  ///< how many of them must agree; all unless given
  /// Statements, and the notes of witnesses who saw them (sight_statement()).
  std::vector<std::string> saw = {};
};
/// Replays a ledger against the rules and compares it with the evidence (dgx-ledger(5), "NOTES"). kUsage if
/// the evidence cannot show what it is given for.
[[nodiscard]] Result<LedgerCheck> check_ledger(const LedgerFile& file, const LedgerEvidence& evidence,
                                               const std::optional<std::string>& task);

/// The summary of a ledger that is read and checked, but not replayed against the rules.
[[nodiscard]] Result<LedgerSummary> head_of_ledger(const LedgerFile& file);
/// The current head, signed. kUnauthorised unless the key is the operator's.
[[nodiscard]] Result<manifest::Signed<manifest::TreeHead>> sign_head(const LedgerWriter& writer);

/// An audit path of a ledger's tree (RFC 6962) and the head it leads to.
struct InclusionProof {
  Digest ledger;
  Digest statement;
  std::int64_t index = 0;
  std::int64_t milliseconds = 0;
  manifest::RootReference head;
  std::vector<Digest> path;
};
/// An audit path between two heads of a ledger's tree (RFC 6962): the later one only added entries.
struct ConsistencyProof {
  Digest ledger;
  manifest::RootReference from;
  manifest::RootReference to;
  std::vector<Digest> path;
};
/// Proves that a statement (its id, eight digits of it or more, or its file) is in the tree of the first
/// `size` entries, or of all.
[[nodiscard]] Result<InclusionProof> prove_statement(const LedgerFile& file, const std::string& statement,
                                                     std::optional<std::int64_t> size);
/// Proves that the tree of the first `to` entries, or of all, begins with the first `from` entries.
[[nodiscard]] Result<ConsistencyProof> prove_growth(const LedgerFile& file, std::int64_t from,
                                                    std::optional<std::int64_t> to);

/// dgx-settle bounds: a task, or a policy file.
struct BoundsOptions {
  std::optional<std::string> task_path;
  std::optional<std::string> policy_path;  ///< if there is no task
  std::optional<std::string> trust;        ///< of the task's submitter
  protocol::BoundsInput input = {};
  bool picture = false;
};
/// A policy and what the closed forms ask of it (dgx-money(7), "CLOSED FORMS").
struct PolicyBounds {
  manifest::Policy policy;
  std::vector<protocol::Bound> bounds;
  std::string svg;  ///< the two pictures; empty unless asked for
};
/// kUsage for an input out of range, and for a picture of a task that costs nothing.
[[nodiscard]] Result<PolicyBounds> bounds_of(const BoundsOptions& options);

}  // namespace dgx::jobs
