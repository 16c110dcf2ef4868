#include "dgx/protocol/settlement.h"

#include <fmt/format.h>

#include <variant>

#include "dgx/core/checked.h"
#include "dgx/manifest/fields.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/segments.h"
#include "dgx/protocol/verify.h"

namespace dgx::protocol {

using manifest::Body;
using manifest::Signed;

/// What each kind of statement needs and does. Every rule checks everything first and changes the market
/// last.
struct Rules {
  Market& market;
  const Signed<Body>& statement;
  std::int64_t now;

  [[nodiscard]] std::int64_t balance(const std::string& account) const {
    const auto found = market.accounts_.find(account);
    return found == market.accounts_.end() ? 0 : found->second;
  }

  [[nodiscard]] Status by_operator() const {
    if (statement.key_id == market.operator_) return {};
    return unauthorised(fmt::format("signed by {}, not by the ledger's operator", statement.key_id.brief()));
  }

  [[nodiscard]] Status by(const std::optional<Digest>& who, std::string_view role) const {
    if (who && statement.key_id == *who) return {};
    return unauthorised(fmt::format("signed by {}, not by the task's {}", statement.key_id.brief(), role));
  }

  [[nodiscard]] Status has(const Digest& account, std::int64_t amount, std::string_view what) const {
    const std::int64_t balance_now = balance(account.hex());
    if (balance_now >= amount) return {};
    return usage_error(
        fmt::format("account {} has {}, {} needs {}", account.brief(), balance_now, what, amount),
        "log a deposit first");
  }

  void move(const std::string& from, const std::string& to, std::int64_t amount) {
    market.accounts_[from] -= amount;
    market.accounts_[to] += amount;
  }

  [[nodiscard]] Result<TaskRecord*> record_of(const Digest& task) const {
    const auto found = market.tasks_.find(task);
    if (found == market.tasks_.end())
      return usage_error(fmt::format("task {} is not in the ledger", task.brief()));
    if (found->second.settlement) return usage_error(fmt::format("task {} is settled", task.brief()));
    return &found->second;
  }

  /// The task's state now must be one of these.
  [[nodiscard]] Status in_state(const TaskRecord& record, std::initializer_list<TaskState> allowed) const {
    const TaskState state = standing(record, now).state;
    for (const TaskState one : allowed) {
      if (one == state) return {};
    }
    return usage_error(
        fmt::format("task {} is {}", record.task.id.brief(), name_of(state)),
        state == TaskState::kDue ? "its deadline has passed; settle it with dgx-settle run" : "");
  }

  [[nodiscard]] static Status of_proof(const TaskRecord& record, const Digest& proof) {
    if (!record.proof) return usage_error(fmt::format("task {} has no proof yet", record.task.id.brief()));
    if (record.proof->id == proof) return {};
    return malformed(
        fmt::format("is about proof {}, the task's is {}", proof.brief(), record.proof->id.brief()));
  }

  /// "I hold dataset and initial state with these digests."
  [[nodiscard]] static Status holds(const TaskRecord& record, const Digest& dataset, const Digest& initial) {
    if (dataset != record.task.body.dataset.digest) return malformed("dataset: is not the task's");
    if (initial != record.task.body.initial.digest)
      return malformed("initial: is not the task's initial state");
    return {};
  }

  template <class T>
  [[nodiscard]] Signed<T> signed_as(const T& body) const {
    return {body, statement.id, statement.signer, statement.key_id, statement.envelope};
  }

  /// Tasks and transfers name the one ledger in which they count; everything else hangs from a task.
  [[nodiscard]] Status of_this_ledger(const Digest& ledger) const {
    if (ledger == *market.ledger_) return {};
    return malformed(fmt::format("ledger: names {}, this one is {}", ledger.brief(), market.ledger_->brief()));
  }

  Status operator()(const manifest::LedgerPolicy& first) {
    if (market.policy_) return usage_error("the ledger has its policy already");
    market.policy_ = first.policy;
    market.operator_ = statement.key_id;
    market.ledger_ = statement.id;
    return {};
  }

  Status operator()(const manifest::Task& task) {
    if (!task.ledger)
      return usage_error("the task names no ledger, so no ledger takes it", "submit it with dgx-submit --ledger");
    DGX_CHECK(of_this_ledger(*task.ledger));
    if (task.policy != *market.policy_) return usage_error("the task's policy is not the ledger's");
    DGX_CHECK(check_estimate(task));
    DGX_CHECK(has(statement.key_id, task.estimate.escrow, "the escrow"));
    TaskRecord record;
    record.task = signed_as(task);
    record.opened_ms = now;
    market.tasks_.emplace(statement.id, std::move(record));
    move(statement.key_id.hex(), "escrow", task.estimate.escrow);
    return {};
  }

  /// For information: exact tasks need none.
  Status operator()(const manifest::Profile& profile) {
    DGX_TRY(const TaskRecord* record, record_of(profile.task));
    static_cast<void>(record);
    return {};
  }

  Status operator()(const manifest::BeaconCommitment& offer) {
    constexpr std::size_t kMaxOffers = 64;
    DGX_TRY(TaskRecord* const record, record_of(offer.task));
    DGX_CHECK(in_state(*record, {TaskState::kOpen}));
    DGX_CHECK(holds(*record, offer.dataset, offer.initial));
    if (record->offers.size() == kMaxOffers)
      return usage_error(fmt::format("the task has {} offers already", kMaxOffers));
    record->offers.emplace(statement.id, signed_as(offer));
    return {};
  }

  Status operator()(const manifest::Assign& assign) {
    DGX_TRY(TaskRecord* const record, record_of(assign.task));
    DGX_CHECK(in_state(*record, {TaskState::kOpen}));
    DGX_CHECK(holds(*record, assign.dataset, assign.initial));
    const auto offer = record->offers.find(assign.commitment);
    if (offer == record->offers.end()) {
      return usage_error(
          fmt::format("beacon commitment {} is not in the ledger for this task", assign.commitment.brief()));
    }
    const Digest& verifier = offer->second.key_id;
    if (verifier == statement.key_id) return unauthorised("solver and verifier are the same key");
    const manifest::Policy& policy = record->task.body.policy;
    DGX_CHECK(has(statement.key_id, policy.solver_bond, "the solver's bond"));
    DGX_CHECK(has(verifier, policy.verifier_bond, "the verifier's bond"));
    record->offer = assign.commitment;
    record->solver = statement.key_id;
    record->verifier = verifier;
    record->assigned_ms = now;
    move(statement.key_id.hex(), "bonds", policy.solver_bond);
    move(verifier.hex(), "bonds", policy.verifier_bond);
    return {};
  }

  Status operator()(const manifest::Proof& proof) {
    DGX_TRY(TaskRecord* const record, record_of(proof.task));
    DGX_CHECK(by(record->solver, "solver"));
    DGX_CHECK(in_state(*record, {TaskState::kAssigned}));
    DGX_CHECK(check_proof(record->task, signed_as(proof)));
    record->proof = signed_as(proof);
    record->proof_ms = now;
    return {};
  }

  Status operator()(const manifest::Beacon& beacon) {
    DGX_TRY(TaskRecord* const record, record_of(beacon.task));
    DGX_CHECK(by(record->verifier, "verifier"));
    DGX_CHECK(in_state(*record, {TaskState::kProofCommitted}));
    DGX_CHECK(of_proof(*record, beacon.proof));
    if (beacon.commitment != *record->offer) return malformed("commitment: is not the one assigned");
    if (manifest::beacon_commitment(beacon.secret) != record->offers.at(*record->offer).body.commitment) {
      return malformed("secret: is not the one committed to");
    }
    record->beacon = signed_as(beacon);
    record->beacon_ms = now;
    return {};
  }

  Status operator()(const manifest::VerdictCommitment& commitment) {
    DGX_TRY(TaskRecord* const record, record_of(commitment.task));
    DGX_CHECK(by(record->verifier, "verifier"));
    DGX_CHECK(in_state(*record, {TaskState::kProofCommitted, TaskState::kBeacon}));
    DGX_CHECK(of_proof(*record, commitment.proof));
    record->verdict_commitment = commitment.commitment;
    record->verdict_commitment_ms = now;
    return {};
  }

  /// An acceptance settles only with the policy's draw; a refutation always.
  [[nodiscard]] Status check_draw(const TaskRecord& record, const manifest::Verdict& verdict) const {
    const manifest::Task& task = record.task.body;
    const std::int64_t n = record.proof->body.states.count - 1;
    if (verdict.segments != n)
      return malformed(fmt::format("segments: is {}, the task has {}", verdict.segments, n));
    if (verdict.first_disagreement && verdict.first_disagreement->index >= n) {
      return malformed(fmt::format("first_disagreement: index: the task has {} segments", n));
    }
    // A witness is judged with the beacon that the verdict names.
    if (verdict.beacon && (!record.beacon || *verdict.beacon != record.beacon->id))
      return malformed("beacon: is not the task's");
    if (verdict.draw == manifest::Draw::kChosen) {
      if (verdict.outcome != manifest::Outcome::kAccepted) return {};
      return usage_error("an acceptance of a chosen draw settles nothing",
                         "verify with the beacon and the policy's draw");
    }
    const std::int64_t q = sample_count(n, task.policy.sample_ppm);
    if (verdict.outcome != manifest::Outcome::kInconclusive && verdict.replayed != q) {
      return malformed(fmt::format("replayed: is {}, the policy draws {}", verdict.replayed, q));
    }
    return {};
  }

  [[nodiscard]] Status check_committed(const TaskRecord& record, const manifest::Verdict& verdict) const {
    if (!record.verdict_commitment) return {};
    if (manifest::verdict_commitment(statement.id, verdict.nonce) == *record.verdict_commitment) return {};
    return malformed("is not the verdict committed to");
  }

  Status operator()(const manifest::Verdict& verdict) {
    DGX_TRY(TaskRecord* const record, record_of(verdict.task));
    DGX_CHECK(by(record->verifier, "verifier"));
    DGX_CHECK(of_proof(*record, verdict.proof));
    if (record->verdict) return usage_error("the task has its verdict already");
    const bool refuted = verdict.outcome == manifest::Outcome::kRefuted;
    // A refutation is never too late while objections are heard.
    DGX_CHECK(refuted ? in_state(*record, {TaskState::kProofCommitted, TaskState::kBeacon,
                                           TaskState::kVerifyCommitted, TaskState::kChallengeWindow})
                      : in_state(*record, {TaskState::kProofCommitted, TaskState::kBeacon,
                                           TaskState::kVerifyCommitted}));
    DGX_CHECK(check_draw(*record, verdict));
    DGX_CHECK(check_committed(*record, verdict));
    record->verdict = signed_as(verdict);
    record->verdict_ms = now;
    return {};
  }

  Status operator()(const manifest::Delivery& delivery) {
    DGX_TRY(TaskRecord* const record, record_of(delivery.task));
    if (statement.key_id != record->task.key_id && statement.key_id != market.operator_) {
      return unauthorised("a delivery is signed by the submitter or the operator");
    }
    DGX_CHECK(of_proof(*record, delivery.proof));
    if (delivery.final_state != record->proof->body.final_state)
      return malformed("final: is not the proof's final state");
    if (record->delivered) return usage_error("the final state is delivered already");
    DGX_CHECK(in_state(*record,
                       {TaskState::kProofCommitted, TaskState::kBeacon, TaskState::kVerifyCommitted,
                        TaskState::kChallengeWindow, TaskState::kArbitration, TaskState::kAwaitingDelivery}));
    record->delivered = true;
    record->delivered_ms = now;
    return {};
  }

  Status operator()(const manifest::Settlement& settlement) {
    DGX_CHECK(by_operator());
    DGX_TRY(TaskRecord* const record, record_of(settlement.task));
    const Standing stands = standing(*record, now);
    if (stands.state != TaskState::kDue) return in_state(*record, {TaskState::kDue});
    if (settlement != *stands.settlement) {
      return malformed(fmt::format("is not the settlement that follows from the ledger, which is \"{}\"",
                                   manifest::name_of(stands.settlement->reason)));
    }
    const manifest::Task& task = record->task.body;
    market.accounts_["escrow"] -= task.estimate.escrow;
    if (record->solver) market.accounts_["bonds"] -= task.policy.solver_bond + task.policy.verifier_bond;
    market.accounts_["bonds"] -= std::ssize(record->games) * task.policy.challenger_bond;
    for (const manifest::Payout& payout : settlement.payouts)
      market.accounts_[payout.account] += payout.amount;
    record->settlement = settlement;
    return {};
  }

  Status operator()(const manifest::Deposit& deposit) {
    DGX_CHECK(by_operator());
    DGX_CHECK(of_this_ledger(deposit.ledger));
    // All money there is stays exact in JSON.
    if (deposit.amount > manifest::kMaxInteger - market.deposited_)
      return usage_error("deposits exceed 2^53");
    market.deposited_ += deposit.amount;
    market.accounts_[deposit.account.hex()] += deposit.amount;
    return {};
  }

  Status operator()(const manifest::Withdrawal& withdrawal) {
    if (statement.key_id != withdrawal.account)
      return unauthorised("a withdrawal is signed by the account's owner");
    DGX_CHECK(of_this_ledger(withdrawal.ledger));
    DGX_CHECK(has(withdrawal.account, withdrawal.amount, "the withdrawal"));
    market.accounts_[withdrawal.account.hex()] -= withdrawal.amount;
    market.withdrawn_ += withdrawal.amount;
    return {};
  }

  Status operator()(const manifest::TreeHead& head) {
    DGX_CHECK(by_operator());
    return of_this_ledger(head.ledger);
  }

  /// One game of a key about a thing at a time, none about what has fallen, and no more than a settlement can
  /// pay.
  [[nodiscard]] Status check_new(const TaskRecord& record, const manifest::Challenge& challenge) const {
    std::size_t counted = 0;
    for (const GameRecord& game : record.games) {
      const manifest::Challenge& other = game.game.dispute().challenge.body;
      const auto end = end_of(game, now);
      if (!end || end->falls) ++counted;
      if (other.verdict != challenge.verdict) continue;
      if (end && end->falls)
        return usage_error(fmt::format("the {} has fallen already, in game {}",
                                       challenge.verdict ? "verdict" : "proof", game.id().brief()));
      const bool same = other.about == challenge.about && other.segment == challenge.segment &&
                        other.chunk == challenge.chunk;
      if (!end && same && game.game.dispute().challenger() == statement.key_id)
        return usage_error(fmt::format("its signer's game {} about the same is open", game.id().brief()));
    }
    if (counted < kMaxGames) return {};
    return usage_error(fmt::format("the task has {} games that are open or won", counted));
  }

  Status operator()(const manifest::Challenge& challenge) {
    DGX_TRY(TaskRecord* const record, record_of(challenge.task));
    DGX_CHECK(of_proof(*record, challenge.proof));
    DGX_CHECK(in_state(*record, {TaskState::kChallengeWindow}));
    DGX_CHECK(check_new(*record, challenge));
    const std::int64_t bond = record->task.body.policy.challenger_bond;
    DGX_CHECK(has(statement.key_id, bond, "the challenger's bond"));
    Dispute dispute{record->task, *record->proof, std::nullopt, std::nullopt, signed_as(challenge)};
    if (challenge.verdict) dispute.verdict = record->verdict;
    const bool draws = challenge.about == manifest::About::kWitness || challenge.about == manifest::About::kRow;
    if (draws && record->verdict && record->verdict->body.beacon)
      dispute.beacon = record->beacon;
    DGX_TRY(Game game, Game::open(std::move(dispute)));
    record->games.push_back({std::move(game), now, now, std::nullopt});
    move(statement.key_id.hex(), "bonds", bond);
    return {};
  }

  [[nodiscard]] static Result<GameRecord*> game_of(TaskRecord& record, const Digest& game) {
    for (GameRecord& one : record.games) {
      if (one.id() == game) return &one;
    }
    return usage_error(fmt::format("game {} is not in the ledger", game.brief()));
  }

  Status operator()(const manifest::Move& turn) {
    DGX_TRY(TaskRecord* const record, record_of(turn.task));
    DGX_TRY(GameRecord* const game, game_of(*record, turn.game));
    if (const auto end = end_of(*game, now)) {
      return usage_error(fmt::format("game {} is over: the {} {}", game->id().brief(),
                                     game->game.dispute().verdict ? "verdict" : "proof",
                                     end->falls ? "falls" : "stands"));
    }
    DGX_CHECK(game->game.apply(signed_as(turn)));
    game->last_ms = now;
    return {};
  }

  /// For people: a game is decided by its statements.
  Status operator()(const manifest::Ruling& ruling) {
    DGX_TRY(TaskRecord* const record, record_of(ruling.task));
    DGX_TRY(GameRecord* const game, game_of(*record, ruling.game));
    if (!end_of(*game, now)) return usage_error(fmt::format("game {} is not over", game->id().brief()));
    DGX_TRY(const manifest::Ruling follows, game_at(*game, now).ruling());
    if (ruling != follows) {
      return malformed(
          fmt::format("is not the ruling that follows from the ledger, which is: {}", follows.words));
    }
    if (game->ruling) return usage_error(fmt::format("game {} has its ruling already", game->id().brief()));
    game->ruling = statement.id;
    return {};
  }

  Status operator()(const manifest::Receipt&) {
    return usage_error("a receipt is no entry", "receipts lie beside the ledger");
  }
};

Status Market::apply(const Signed<Body>& statement, std::int64_t milliseconds) {
  const std::string_view kind = manifest::name_of(manifest::kind_of(statement.body));
  const std::string where = fmt::format("{} {}", kind, statement.id.brief());
  if (milliseconds < now_ms_) return malformed(where + ": earlier than the entry before");
  if (!policy_ && !std::holds_alternative<manifest::LedgerPolicy>(statement.body)) {
    return malformed(where + ": the first statement must be the operator's policy");
  }
  if (seen_.contains(statement.id)) return usage_error(where + ": is in the ledger already");
  Status status = std::visit(Rules{*this, statement, milliseconds}, statement.body);
  if (!status.ok()) return within(where, std::move(status).error());
  seen_.insert(statement.id);
  now_ms_ = milliseconds;
  return {};
}

Result<Market> Market::replay(const ledger::Log& log) {
  Market out;
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    Status status = out.apply(log.entries[i].statement, log.entries[i].milliseconds);
    if (!status.ok()) return within(fmt::format("entry {}", i), std::move(status).error());
  }
  return out;
}

std::map<std::string, std::int64_t> Market::balances() const {
  std::map<std::string, std::int64_t> out{{"bonds", 0}, {"escrow", 0}, {"jackpot", 0}, {"treasury", 0}};
  for (const auto& [account, amount] : accounts_) out[account] = amount;
  return out;
}

std::int64_t Market::total() const { return deposited_ - withdrawn_; }

std::vector<manifest::Settlement> Market::due(std::int64_t milliseconds) const {
  std::vector<manifest::Settlement> out;
  for (const auto& [id, record] : tasks_) {
    const Standing stands = standing(record, milliseconds);
    if (stands.settlement) out.push_back(*stands.settlement);
  }
  return out;
}

}  // namespace dgx::protocol
