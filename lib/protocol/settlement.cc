#include "dgx/protocol/settlement.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "dgx/core/checked.h"
#include "dgx/manifest/fields.h"
#include "dgx/protocol/admission.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/segments.h"
#include "dgx/protocol/verify.h"
#include "game_terms.h"

namespace dgx::protocol {

using manifest::Body;
using manifest::Signed;

/// The rules, one for each kind of statement. Every rule checks everything first and changes the market last.
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

  [[nodiscard]] Status has(const std::string& account, std::int64_t amount, std::string_view what) const {
    const std::int64_t balance_now = balance(account);
    if (balance_now >= amount) return {};
    return usage_error(
        fmt::format("account {} has {}, {} needs {}", account.substr(0, 12), balance_now, what, amount),
        "log a deposit first");
  }
  [[nodiscard]] Status has(const Digest& account, std::int64_t amount, std::string_view what) const {
    return has(account.hex(), amount, what);
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

  /// Checks that the task is now in one of these states.
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

  /// Checks the statement "I hold dataset and initial state with these digests."
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

  /// Tasks and transfers name the one ledger in which they count; everything else belongs to a task.
  [[nodiscard]] Status of_this_ledger(const Digest& ledger) const {
    if (ledger == *market.ledger_) return {};
    return malformed(
        fmt::format("ledger: names {}, this one is {}", ledger.brief(), market.ledger_->brief()));
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
      return usage_error("the task names no ledger, so no ledger takes it",
                         "submit it with dgx-submit --ledger");
    DGX_CHECK(of_this_ledger(*task.ledger));
    if (task.policy != *market.policy_) return usage_error("the task's policy is not the ledger's");
    DGX_CHECK(check_admission(task));
    DGX_CHECK(check_estimate(task));
    DGX_CHECK(has(statement.key_id, task.estimate.escrow, "the escrow"));
    DGX_CHECK(check_terms(task));
    TaskRecord record;
    record.task = signed_as(task);
    record.posted_ms = now;
    market.tasks_.emplace(statement.id, std::move(record));
    market.unsettled_.insert(statement.id);
    move(statement.key_id.hex(), "escrow", task.estimate.escrow);
    return {};
  }

  /// Profiles are for information: exact tasks need none. Each party of the task may log one, since it has up
  /// to 256 KiB and is free.
  Status operator()(const manifest::Profile& profile) {
    DGX_TRY(TaskRecord* const record, record_of(profile.task));
    const Digest& who = statement.key_id;
    if (who != record->task.key_id && who != record->solver && who != record->verifier)
      return unauthorised("a profile is signed by the task's submitter, solver or verifier");
    if (!record->profiles.insert(who).second)
      return usage_error("its signer's profile is in the ledger already");
    return {};
  }

  Status operator()(const manifest::BeaconCommitment& offer) {
    DGX_TRY(TaskRecord* const record, record_of(offer.task));
    DGX_CHECK(in_state(*record, {TaskState::kOpen}));
    DGX_CHECK(holds(*record, offer.dataset, offer.initial));
    DGX_CHECK(check_segment_time(record->task.body, offer.segment_milliseconds));
    const std::int64_t bond = bonds_of(record->task.body).verifier;
    DGX_CHECK(has(statement.key_id, bond, "the verifier's bond"));
    record->offers.emplace(statement.id, OfferRecord{signed_as(offer), now});
    move(statement.key_id.hex(), "bonds", bond);
    return {};
  }

  /// Unlocks the bonds of all offers but one.
  void release_offers(TaskRecord& record, const std::optional<Digest>& chosen) {
    std::erase_if(record.offers, [&](const auto& offer) {
      if (offer.first == chosen) return false;
      move("bonds", offer.second.statement.key_id.hex(), bonds_of(record.task.body).verifier);
      return true;
    });
  }

  Status operator()(const manifest::OfferEnd& end) {
    DGX_TRY(TaskRecord* const record, record_of(end.task));
    DGX_CHECK(in_state(*record, {TaskState::kOpen}));
    const auto offer = record->offers.find(end.commitment);
    if (offer == record->offers.end())
      return usage_error(fmt::format("offer {} is not in the ledger for this task", end.commitment.brief()));
    DGX_CHECK(by(offer->second.statement.key_id, "offer's verifier"));
    if (now < offer->second.logged_ms + kLeastOfferMs)
      return usage_error(fmt::format("an offer stands for {} ms at least", kLeastOfferMs));
    move("bonds", statement.key_id.hex(), bonds_of(record->task.body).verifier);
    record->offers.erase(offer);
    return {};
  }

  Status operator()(const manifest::Assign& assign) {
    DGX_TRY(TaskRecord* const record, record_of(assign.task));
    DGX_CHECK(in_state(*record, {TaskState::kOpen}));
    DGX_CHECK(holds(*record, assign.dataset, assign.initial));
    DGX_CHECK(check_segment_time(record->task.body, assign.segment_milliseconds));
    const auto offer = record->offers.find(assign.commitment);
    if (offer == record->offers.end()) {
      return usage_error(
          fmt::format("beacon commitment {} is not in the ledger for this task", assign.commitment.brief()));
    }
    const Digest verifier = offer->second.statement.key_id;
    if (verifier == statement.key_id) return unauthorised("solver and verifier are the same key");
    const Bonds bonds = bonds_of(record->task.body);
    // The challenge's bond stays unlocked, to challenge a false refutation, which would otherwise stand.
    DGX_CHECK(
        has(statement.key_id, bonds.solver + bonds.challenger, "the solver's bond with that of a challenge"));
    record->solver = statement.key_id;
    record->verifier = verifier;
    record->assigned_ms = now;
    move(statement.key_id.hex(), "bonds", bonds.solver);
    release_offers(*record, assign.commitment);
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
    const auto& [offer, assigned] = *record->offers.begin();
    if (beacon.commitment != offer) return malformed("commitment: is not the one assigned");
    if (manifest::beacon_commitment(beacon.secret) != assigned.statement.body.commitment) {
      return malformed("secret: is not the one committed to");
    }
    record->beacon = signed_as(beacon);
    record->beacon_ms = now;
    return {};
  }

  /// The operator has fetched and checked an opening before logging it.
  Status operator()(const manifest::Opening& opening) {
    DGX_TRY(TaskRecord* const record, record_of(opening.task));
    DGX_CHECK(by(record->solver, "solver"));
    DGX_CHECK(of_proof(*record, opening.proof));
    if (record->opening) return usage_error("the proof is opened already");
    const OpeningDuty duty = *opening_duty(*record);
    if (now < duty.begins_ms) return usage_error("the verifier may still reveal the beacon", "open after it");
    if (now > duty.deadline_ms) return usage_error("the proof had to be opened before");
    if (opening.after != duty.after)
      return malformed(fmt::format("after: is {}, it must be {}", opening.after.brief(), duty.after.brief()));
    record->opening = signed_as(opening);
    record->opening_ms = now;
    return {};
  }

  Status operator()(const manifest::VerdictCommitment& commitment) {
    DGX_TRY(TaskRecord* const record, record_of(commitment.task));
    DGX_CHECK(by(record->verifier, "verifier"));
    DGX_CHECK(in_state(*record, {TaskState::kOpened}));
    DGX_CHECK(of_proof(*record, commitment.proof));
    record->verdict_commitment = commitment.commitment;
    record->verdict_commitment_ms = now;
    return {};
  }

  /// An acceptance settles only with the policy's draw; a refutation always does.
  [[nodiscard]] Status check_draw(const TaskRecord& record, const Segments& segments,
                                  const manifest::Verdict& verdict) const {
    const manifest::Task& task = record.task.body;
    const std::int64_t n = segments.count();
    if (verdict.segments != n)
      return malformed(fmt::format("segments: is {}, the proof has {}", verdict.segments, n));
    if (verdict.first_disagreement && verdict.first_disagreement->index >= n) {
      return malformed(fmt::format("first_disagreement: index: the proof has {} segments", n));
    }
    // A witness is judged with the beacon that the verdict names.
    if (verdict.beacon && (!record.beacon || *verdict.beacon != record.beacon->id))
      return malformed("beacon: is not the task's");
    if (verdict.draw == manifest::Draw::kChosen) {
      if (verdict.outcome != manifest::Outcome::kAccepted) return {};
      return usage_error("an acceptance of a chosen draw settles nothing",
                         "verify with the beacon and the policy's draw");
    }
    const std::int64_t q = drawn_count(segments, task.policy.sample_ppm);
    if (verdict.replayed != q) {
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
    // A refutation is never too early, since it needs nothing that the solver shows, nor too late while
    // objections are heard.
    DGX_CHECK(refuted ? in_state(*record,
                                 {TaskState::kProofCommitted, TaskState::kAwaitingOpening, TaskState::kOpened,
                                  TaskState::kVerifyCommitted, TaskState::kChallengeWindow})
                      : in_state(*record, {TaskState::kOpened, TaskState::kVerifyCommitted}));
    if (has_fallen(*record, Challenged::kProof, now)) return usage_error("the proof has fallen already");
    DGX_TRY(const Segments segments, segments_of(record->task.body, record->proof->body));
    DGX_CHECK(check_draw(*record, segments, verdict));
    DGX_CHECK(check_stated_work(record->task.body, segments, verdict));
    DGX_CHECK(check_committed(*record, verdict));
    record->verdict = signed_as(verdict);
    record->verdict_ms = now;
    record->games_before_verdict = record->games.size();
    return {};
  }

  /// Submitter and operator state that they have the final state; a solver states where the operator fetched
  /// it.
  [[nodiscard]] Status check_deliverer(const TaskRecord& record, const manifest::Delivery& delivery) const {
    const bool by_receiver = statement.key_id == record.task.key_id || statement.key_id == market.operator_;
    if (by_receiver && !delivery.location) return {};
    if (delivery.location && record.solver == statement.key_id) return {};
    return unauthorised(
        "a delivery is signed by the submitter or the operator, or by the solver with a location");
  }

  Status operator()(const manifest::Delivery& delivery) {
    DGX_TRY(TaskRecord* const record, record_of(delivery.task));
    DGX_CHECK(check_deliverer(*record, delivery));
    DGX_CHECK(of_proof(*record, delivery.proof));
    if (delivery.final_state != record->proof->body.final_state)
      return malformed("final: is not the proof's final state");
    if (record->delivered) return usage_error("the final state is delivered already");
    DGX_CHECK(in_state(*record, {TaskState::kProofCommitted, TaskState::kAwaitingOpening, TaskState::kOpened,
                                 TaskState::kVerifyCommitted, TaskState::kChallengeWindow,
                                 TaskState::kArbitration, TaskState::kAwaitingDelivery}));
    record->delivered = true;
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
    pay(*record, settlement);
    record->settlement = settlement;
    market.unsettled_.erase(settlement.task);
    return {};
  }

  /// Pays out what the settlement lists, and unlocks the bonds that nobody has lost.
  void pay(TaskRecord& record, const manifest::Settlement& settlement) {
    const manifest::Task& task = record.task.body;
    market.accounts_["escrow"] -= task.estimate.escrow;
    const Bonds bonds = bonds_of(task);
    if (record.solver) {
      market.accounts_["bonds"] -= bonds.solver + bonds.verifier;
    } else {
      release_offers(record, std::nullopt);
    }
    const auto ends = ends_of(record, now);
    for (std::size_t i = 0; i < record.games.size(); ++i) {
      const GameRecord& game = record.games[i];
      if (ends[i]->result == GameResult::kStands) {
        market.accounts_["bonds"] -= game.bond;
      } else {
        move("bonds", game.game.dispute().challenger().hex(), game.bond);
      }
    }
    for (const manifest::Payout& payout : settlement.payouts)
      market.accounts_[payout.account] += payout.amount;
  }

  Status operator()(const manifest::Deposit& deposit) {
    DGX_CHECK(by_operator());
    DGX_CHECK(of_this_ledger(deposit.ledger));
    // The sum of all money stays an exact JSON number.
    if (deposit.amount > manifest::kMaxInteger - market.deposited_)
      return usage_error("deposits exceed 2^53");
    market.deposited_ += deposit.amount;
    market.accounts_[deposit.account.hex()] += deposit.amount;
    return {};
  }

  Status operator()(const manifest::Withdrawal& withdrawal) {
    const bool owns = withdrawal.account == manifest::kTreasury
                          ? statement.key_id == market.operator_
                          : statement.key_id.hex() == withdrawal.account;
    if (!owns)
      return unauthorised("a withdrawal is signed by the account's owner; of the treasury, by the operator");
    DGX_CHECK(of_this_ledger(withdrawal.ledger));
    DGX_CHECK(has(withdrawal.account, withdrawal.amount, "the withdrawal"));
    DGX_CHECK(check_least(withdrawal, *market.policy_, balance(withdrawal.account)));
    market.accounts_[withdrawal.account] -= withdrawal.amount;
    market.withdrawn_ += withdrawal.amount;
    return {};
  }

  Status operator()(const manifest::TreeHead& head) {
    DGX_CHECK(by_operator());
    return of_this_ledger(head.ledger);
  }

  Status operator()(const manifest::Challenge& challenge) {
    DGX_TRY(TaskRecord* const record, record_of(challenge.task));
    DGX_CHECK(of_proof(*record, challenge.proof));
    DGX_CHECK(in_state(*record, {TaskState::kChallengeWindow}));
    DGX_TRY(const GameTerms terms, terms_of(*record, challenge, statement.key_id, now));
    DGX_CHECK(has(statement.key_id, terms.bond, "the challenger's bond"));
    Dispute dispute{record->task, *record->proof, std::nullopt, std::nullopt, signed_as(challenge)};
    if (challenge.verdict) dispute.verdict = record->verdict;
    const bool draws =
        challenge.about == manifest::About::kWitness || challenge.about == manifest::About::kRow;
    if (draws && record->verdict && record->verdict->body.beacon) dispute.beacon = record->beacon;
    DGX_TRY(Game game, Game::open(std::move(dispute)));
    const std::int64_t deadline = market.move_deadline(game, 0, now);
    record->games.push_back({std::move(game), terms.bond, terms.counted, now, deadline, 0, std::nullopt});
    move(statement.key_id.hex(), "bonds", terms.bond);
    return {};
  }

  [[nodiscard]] static Result<GameRecord*> game_of(TaskRecord& record, const Digest& game) {
    for (GameRecord& one : record.games) {
      if (one.id() == game) return &one;
    }
    return usage_error(fmt::format("game {} is not in the ledger", game.brief()));
  }

  [[nodiscard]] std::optional<GameEnd> end_of(const TaskRecord& record, const GameRecord& game) const {
    return ends_of(record, now)[static_cast<std::size_t>(&game - record.games.data())];
  }

  Status operator()(const manifest::Move& turn) {
    DGX_TRY(TaskRecord* const record, record_of(turn.task));
    DGX_TRY(GameRecord* const game, game_of(*record, turn.game));
    if (const auto end = end_of(*record, *game)) {
      return usage_error(fmt::format("game {} is over: the {} {}", game->id().brief(),
                                     game->game.dispute().verdict ? "verdict" : "proof",
                                     end->result == GameResult::kFalls    ? "falls"
                                     : end->result == GameResult::kStands ? "stands"
                                                                          : "has fallen in another"));
    }
    const Side mover = side_of(game->game.stage());
    DGX_CHECK(game->game.apply(signed_as(turn)));
    if (mover == Side::kDefender) {
      const std::int64_t window = record->task.body.policy.window_move_ms;
      game->queued_ms += std::max<std::int64_t>(0, now - game->last_ms - window);
    }
    game->last_ms = now;
    game->deadline_ms = market.move_deadline(game->game, game->queued_ms, now);
    return {};
  }

  /// Rulings are for people: the game is decided by its statements.
  Status operator()(const manifest::Ruling& ruling) {
    DGX_TRY(TaskRecord* const record, record_of(ruling.task));
    DGX_TRY(GameRecord* const game, game_of(*record, ruling.game));
    const auto end = end_of(*record, *game);
    if (!end) return usage_error(fmt::format("game {} is not over", game->id().brief()));
    if (end->result == GameResult::kReturned)
      return usage_error(
          fmt::format("game {} was not decided: its statement fell in another", game->id().brief()));
    DGX_TRY(const manifest::Ruling follows, game_at(*game, now).ruling());
    if (!same_ruling(ruling, follows)) {
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
  const bool first = !policy_.has_value();
  if (!first && milliseconds < clock_.receipt_now())
    return malformed(where + ": earlier than the entry before");
  if (first && !std::holds_alternative<manifest::LedgerPolicy>(statement.body)) {
    return malformed(where + ": the first statement must be the operator's policy");
  }
  if (seen_.contains(statement.id)) return usage_error(where + ": is in the ledger already");
  const bool pause = is_pause(milliseconds);
  Status status = check_pause(statement, pause);
  const MarketClock clock = first ? MarketClock(milliseconds) : clock_;
  if (status.ok())
    status =
        std::visit(Rules{*this, statement, pause ? clock.now() : clock.at(milliseconds)}, statement.body);
  if (!status.ok()) return within(where, std::move(status).error());
  seen_.insert(statement.id);
  clock_ = clock;
  if (pause) {
    clock_.pause(milliseconds, heartbeat_ms(*policy_));
  } else {
    clock_.advance(milliseconds);
  }
  return {};
}

}  // namespace dgx::protocol
