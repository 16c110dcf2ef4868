// Re-checks of verdicts in histories, and what they need: history.h.
#include <array>

#include "dgx/protocol/draw.h"
#include "dgx/protocol/verify.h"
#include "history.h"
#include "statements.h"

namespace dgx::test {

using namespace manifest;
using protocol::GameRecord;
using protocol::TaskRecord;
using protocol::TaskState;

namespace {

constexpr std::array kIdlers{kIdleSubmitter, kIdleSolver, kIdleVerifier};

/// Lets time pass in which nothing happens, with the operator at work.
void idle(History& history, std::int64_t milliseconds) {
  const Digest& ledger = history.plans.stage.ledger.id;
  for (const std::int64_t end = history.now + milliseconds; history.now < end;) {
    history.now = std::min(end, history.now + 300'000);
    history.say(TreeHead{ledger, {digest("head"), 1}, history.now, false}, kOperator);
  }
}

bool plays(const History& history, std::uint8_t who, const Digest& statement) {
  return std::any_of(history.record().games.begin(), history.record().games.end(),
                     [&](const GameRecord& game) {
                       return game.statement() == statement && game.game.dispute().challenger() == id_of(who);
                     });
}

std::vector<std::int64_t> drawn_for(const TaskRecord& record) {
  const auto all = *protocol::segments_of(record.task.body, record.proof->body);
  return *protocol::policy_draw(record.task.body, all, record.round->source.value, record.proof->id,
                                Digest{});
}

/// An audit that says what is not so: it refutes, or denies, or has a guess for a witness.
Verdict false_audit(History& history, Verdict audit) {
  const std::int64_t index = drawn_for(history.record()).front();
  switch (history.dice.below(3)) {
    case 0: {
      const Digest& end = history.plans.digests[static_cast<std::size_t>(index) + 1];
      audit.outcome = Outcome::kRefuted;
      audit.witnesses.clear();
      audit.first_disagreement =
          VerdictRow{index, end, digest("no state"), false, RowReason::kDigest, digest("no witness")};
      break;
    }
    case 1: audit.denied = {index}; break;
    default:
      if (!audit.witnesses.empty()) audit.witnesses.front() = digest("a guess");
  }
  return audit;
}

/// True if this key commits to an audit now: the auditor and the watcher if honest, others as it comes.
bool commits(History& history, std::uint8_t who) {
  const bool owes = protocol::is_auditor(history.record(), id_of(who));
  if (history.plans.is_honest(who)) return owes || who == kWatcher;
  return history.dice.one_in(owes ? 3 : 12);
}

void commit(History& history, std::uint8_t who) {
  const TaskRecord& now = history.record();
  auto audited = audit_of(history.plans, now, who);
  if (!audited.ok()) {
    history.problem = "audit: " + audited.error().message;
    return;
  }
  Verdict body = *std::move(audited);
  const bool honest = history.plans.is_honest(who);
  if (honest) history.total.denied += body.denied.empty() ? 0 : 1;
  if (!honest && history.dice.one_in(2)) body = false_audit(history, std::move(body));
  const Digest hidden = verdict_commitment(said(body, who).id, body.nonce);
  const VerdictCommitment commitment{history.task().id, now.proof->id, hidden, now.verdict->id};
  if (honest) {
    history.must(commitment, who, "commitment to an audit");
  } else if (!history.say(commitment, who)) {
    return;
  }
  history.audits.insert_or_assign(who, std::move(body));
}

}  // namespace

bool may_challenge(const History& history, std::uint8_t who, const Digest& statement) {
  return !protocol::has_fallen(history.record(), statement, history.market_now()) &&
         !plays(history, who, statement);
}

bool challenge(History& history, const Challenge& body, std::uint8_t who) {
  if (!history.say(body, who)) return false;
  ++history.total.games;
  return true;
}

void fill_jackpot(History& history) {
  const Policy& policy = history.task().body.policy;
  Task body = history.task().body;
  body.seed += 1;
  const Signed<Task> task = said(body, kIdleSubmitter);
  for (const std::uint8_t who : kIdlers)
    history.say(Deposit{id_of(who), kMoney, "first", history.plans.stage.ledger.id}, kOperator);
  history.take(any_of_kind(task));
  history.say(BeaconCommitment{task.id, digest("hidden"), body.dataset.digest, body.initial.digest, 1,
                               protocol::bonds_of(body).verifier},
              kIdleVerifier);
  idle(history, policy.window_move_ms);
  history.say(Assign{task.id, std::nullopt, body.dataset.digest, body.initial.digest, 1}, kIdleSolver);
  idle(history, policy.window_proof_ms + 1);
  for (const Settlement& due : history.market.due(history.now)) history.say(due, kOperator);
  if (history.market.balances().at("jackpot") == 0) history.problem = "the jackpot is empty";
}

void audit(History& history, std::uint8_t who) {
  const TaskRecord& now = history.record();
  if (!protocol::is_rechecked(now) || now.verdict->key_id == id_of(who)) return;
  const TaskState state = history.state();
  if (state == TaskState::kRecheck && protocol::recheck_of(now, id_of(who)) == nullptr &&
      commits(history, who))
    commit(history, who);
  const protocol::Recheck* const own = protocol::recheck_of(now, id_of(who));
  if (state != TaskState::kReveal || own == nullptr || own->audit || !history.audits.contains(who)) return;
  if (history.plans.is_honest(who)) {
    history.must(history.audits.at(who), who, "audit");
  } else if (history.dice.one_in(2)) {
    history.say(history.audits.at(who), who);
  }
}

void reveal(History& history, std::uint8_t who) {
  const TaskRecord& now = history.record();
  if (!protocol::owes_secret(now) || now.secret) return;
  std::uint8_t owner = kSubmitter;
  while (id_of(owner) != now.verdict->key_id) ++owner;
  const auto offer = std::find_if(now.offers.begin(), now.offers.end(), [&](const auto& one) {
    return one.second.statement.key_id == id_of(owner);
  });
  const Digest secret = secret_of(owner);
  const Beacon body{history.task().id, offer->first, now.proof->id, secret,
                    beacon_value(secret, now.proof->id)};
  const bool due = history.state() == TaskState::kReveal;
  if (who == owner && history.plans.is_honest(who)) {
    if (due) history.must(body, who, "secret");
  } else if (history.dice.one_in(who == owner ? 3 : 60) &&
             (who == owner || !history.plans.is_honest(owner))) {
    history.say(body, who);
  }
}

void follow_up(History& history, std::uint8_t who) {
  const TaskRecord& now = history.record();
  const protocol::Recheck* const own = protocol::recheck_of(now, id_of(who));
  if (own == nullptr || !own->audit || !may_challenge(history, who, now.verdict->id)) return;
  if (protocol::secret_fate(now, history.market_now()) == protocol::SecretFate::kWithheld) return;
  const auto forced = protocol::forced_segment(now);
  std::vector<std::int64_t> wrong = own->audit->body.denied;
  if (forced) std::erase(wrong, *forced);
  if (protocol::confirms_forced(now, *own) && protocol::is_auditor(now, id_of(who))) wrong.push_back(*forced);
  if (!wrong.empty()) challenge(history, challenge_of_witness(history.plans, now, wrong.front()), who);
}

void grief_rechecks(History& history, std::uint8_t who) {
  const TaskRecord& now = history.record();
  if (!protocol::is_rechecked(now)) return;
  if (history.dice.one_in(4)) {
    history.say(VerdictCommitment{history.task().id, now.proof->id, digest("nothing"), now.verdict->id}, who);
    return;
  }
  for (const protocol::Recheck& one : now.rechecks) {
    if (!one.audit || !one.audit->body.first_disagreement || !history.dice.one_in(2)) continue;
    challenge(history, challenge_of_verdict(history.plans, now, *one.audit), who);
    return;
  }
  challenge(history, challenge_of_witness(history.plans, now, drawn_for(now).front()), who);
}

}  // namespace dgx::test
