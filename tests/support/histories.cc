#include "histories.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/player.h"
#include "dgx/protocol/settlement.h"
#include "history.h"
#include "shrink.h"
#include "statements.h"

namespace dgx::test {
namespace {

using namespace manifest;
using protocol::Game;
using protocol::GameRecord;
using protocol::GameResult;
using protocol::TaskRecord;
using protocol::TaskState;

/// Logs what every history begins with: the policy, everybody's money, and the task.
void begin(History& history) {
  const Digest& ledger = history.plans.stage.ledger.id;
  std::vector<Signed<Body>> first{any_of_kind(history.plans.stage.ledger)};
  for (std::uint8_t who = kSubmitter; who < kKeys; ++who)
    first.push_back(any_of_kind(said(Deposit{id_of(who), kMoney, "first", ledger}, kOperator)));
  const auto log = [&](const Signed<Body>& statement) {
    const Status status = history.market.apply(statement, history.now);
    if (!status.ok()) history.problem = "the beginning: " + status.error().message;
    if (status.ok()) history.note(statement);
  };
  for (const Signed<Body>& statement : first) log(statement);
  if (history.audits_verdicts()) fill_jackpot(history);
  log(any_of_kind(history.task()));
}

/// Lets some minutes pass; occasionally the operator is away for long.
void pass_time(History& history) {
  const bool away = history.dice.one_in(40);
  history.now += away ? 1'000'000 + history.dice.below(1'000'000'000) : 1 + history.dice.below(190'000);
  const bool pause = history.market.is_pause(history.now);
  history.take(any_of_kind(
      said(TreeHead{history.plans.stage.ledger.id, {digest("head"), 1}, history.now, pause}, kOperator)));
}

/// Logs the rounds that are waited for, but for those that this operator withholds.
void log_rounds(History& history) {
  const Policy& policy = history.task().body.policy;
  for (const protocol::WaitingSlot& slot : history.market.slots_waiting()) {
    if (protocol::end_of_slot(slot.slot, policy) > history.now || history.plans.withholds ||
        history.dice.one_in(3))
      continue;
    DelayChain chain{policy.beacon_steps, {}};
    for (std::int64_t i = 0; i < delay_checkpoints(chain.steps); ++i)
      chain.checkpoints.push_back(digest(fmt::format("{} {}", slot.slot, history.dice.below(1'000'000))));
    const Digest value = round_value(chain);
    history.take(any_of_kind(said(
        Round{history.plans.stage.ledger.id, slot.slot, slot.head, std::move(chain), value}, kOperator)));
  }
}

void settle(History& history) {
  for (const Settlement& due : history.market.due(history.now))
    history.take(any_of_kind(said(due, kOperator)));
}

void deliver(History& history, std::uint8_t who) {
  Delivery body{history.task().id, history.record().proof->id, history.plans.digests.back(), std::nullopt};
  if (who == kSolver) body.location = "final";
  history.say(body, who);
}

void submit(History& history, std::uint8_t who) {
  if (history.plans.is_honest(who) && history.record().proof && !history.record().delivered &&
      history.state() == TaskState::kAwaitingDelivery)
    deliver(history, who);
}

bool hesitates(History& history, std::uint8_t who) {
  return !history.plans.is_honest(who) && !history.dice.one_in(8);
}

void open(History& history, std::uint8_t who) {
  const auto duty = protocol::opening_duty(history.record());
  if (!duty || history.market_now() < duty->begins_ms) return;
  const Opening body{history.task().id, history.record().proof->id, duty->after, "opening"};
  if (history.plans.is_honest(who)) {
    history.must(body, who, "opening");
  } else {
    history.say(body, who);
  }
}

void solve(History& history, std::uint8_t who) {
  if (hesitates(history, who) || (!history.plans.is_honest(who) && history.dice.one_in(30))) return;
  const Task& task = history.task().body;
  const TaskRecord& now = history.record();
  if (!now.solver && history.rounds()) {
    history.say(Assign{history.task().id, std::nullopt, task.dataset.digest, task.initial.digest, 1}, who);
    return;
  }
  if (!now.solver) {
    for (const auto& [id, offer] : now.offers) {
      if (offer.statement.key_id == id_of(kVerifier)) {
        history.say(Assign{history.task().id, id, task.dataset.digest, task.initial.digest, 1}, who);
        return;
      }
    }
    return;
  }
  if (now.solver != id_of(who)) return;
  if (!now.proof) {
    history.say(proof_of(history.plans), who);
    return;
  }
  if (!now.opening && (history.plans.is_honest(who) || history.dice.one_in(3))) open(history, who);
  if (history.plans.is_honest(who) && !now.delivered && history.state() == TaskState::kAwaitingDelivery)
    deliver(history, who);
}

/// The verdict of `who` now; `lie` as in history_plans.h.
Verdict verdict_of(History& history, std::uint8_t who, bool lie) {
  const bool disobeys = !history.plans.is_honest(who) && history.forces_errors() && history.dice.one_in(3);
  auto out = verdict_of(history.plans, history.record(), who, lie, disobeys);
  if (out.ok()) return *std::move(out);
  history.problem = "verdict: " + out.error().message;
  return {};
}

/// The bond that an offer states where verifiers are drawn.
std::optional<std::int64_t> bond_of(History& history) {
  if (!history.rounds()) return std::nullopt;
  return protocol::bonds_of(history.task().body).verifier + history.dice.below(2'000);
}

void verify(History& history, std::uint8_t who) {
  if (hesitates(history, who)) return;
  const Task& task = history.task().body;
  const TaskRecord& now = history.record();
  const Digest secret = secret_of(who);
  if (!now.solver && (history.rounds() ? !history.has_offered(who) : now.offers.empty())) {
    history.say(BeaconCommitment{history.task().id, beacon_commitment(secret), task.dataset.digest,
                                 task.initial.digest, 1, bond_of(history)},
                who);
    return;
  }
  if (!now.proof || !history.is_asked(who) || now.verdict) return;
  if (!history.plans.is_honest(who) && history.dice.one_in(4)) {
    history.say(verdict_of(history, who, true), who);
    return;
  }
  if (history.audits_verdicts() && now.opening && now.round && !history.plans.is_honest(who) &&
      history.dice.one_in(3)) {
    const auto lazy = lazy_verdict_of(history.plans, now, who);
    if (lazy.ok()) history.say(*lazy, who);
    return;
  }
  if (!history.rounds() && !now.beacon && history.state() == TaskState::kProofCommitted) {
    history.say(Beacon{history.task().id, now.offers.begin()->first, now.proof->id, secret,
                       beacon_value(secret, now.proof->id)},
                who);
    return;
  }
  if (!now.opening || !protocol::source_of(now)) return;
  if (history.plans.is_honest(who)) {
    if (history.state() == TaskState::kOpened) history.must(verdict_of(history, who, false), who, "verdict");
  } else if (history.dice.one_in(3)) {
    history.say(verdict_of(history, who, history.dice.one_in(2)), who);
  }
}

/// Lets an honest party challenge what their replay refutes, once the proof is opened.
void watch(History& history, std::uint8_t who) {
  if (!history.record().opening || history.state() != TaskState::kChallengeWindow) return;
  const TaskRecord& now = history.record();
  if (history.plans.wrong_segment && who != kSolver && may_challenge(history, who, now.proof->id))
    challenge(history, challenge_of(history.plans, now, *history.plans.wrong_segment), who);
  if (!now.verdict) return;
  std::vector<Signed<Verdict>> verdicts{*now.verdict};
  for (const protocol::Recheck& one : now.rechecks) {
    if (one.audit && protocol::is_auditor(now, one.who)) verdicts.push_back(*one.audit);
  }
  for (const Signed<Verdict>& one : verdicts) {
    const bool own = one.key_id == id_of(who) || (who == kVerifier && !one.body.audits);
    if (!own && refutes_falsely(history.plans, one.body) && may_challenge(history, who, one.id))
      challenge(history, challenge_of_verdict(history.plans, now, one), who);
  }
  follow_up(history, who);
}

/// The secret of somebody's offer: their own, where one is owed, or one that nobody ever reveals.
Digest some_secret(History& history, std::uint8_t who) {
  if (history.forces_errors() && !history.dice.one_in(4)) return secret_of(who);
  return digest(fmt::format("{}", history.dice.below(1'000)));
}

/// Lets strangers, and dishonest parties besides their own business, act at random.
void grief(History& history, std::uint8_t who) {
  if (!history.dice.one_in(6)) return;
  if (history.audits_verdicts() && history.dice.one_in(3)) {
    grief_rechecks(history, who);
    return;
  }
  const Task& task = history.task().body;
  switch (history.dice.below(8)) {
    case 0:
      history.say(BeaconCommitment{history.task().id, beacon_commitment(some_secret(history, who)),
                                   task.dataset.digest, task.initial.digest, 1, bond_of(history)},
                  who);
      break;
    case 1:
      history.say(Withdrawal{id_of(who).hex(), 1 + history.dice.below(kMoney / 8),
                             fmt::format("{}", history.dice.below(1'000'000)), history.plans.stage.ledger.id},
                  who);
      break;
    case 2:
      if (history.record().proof) deliver(history, who);
      break;
    case 3:
      if (!history.record().offers.empty())
        history.say(OfferEnd{history.task().id, history.record().offers.begin()->first}, who);
      break;
    case 4:
      if (history.record().proof)
        history.say(Opening{history.task().id, history.record().proof->id, history.record().proof->id, "x"},
                    who);
      break;
    case 5:
      if (history.record().verdict && history.record().verdict->body.first_disagreement)
        challenge(history, challenge_of_verdict(history.plans, history.record(), *history.record().verdict),
                  who);
      break;
    default:
      if (history.record().proof)
        challenge(history,
                  challenge_of(history.plans, history.record(),
                               history.dice.below(std::ssize(history.plans.stage.segments))),
                  who);
  }
}

Move move_of(const Game& game, json::Object words) {
  return {game.dispute().task.id, game.dispute().challenge.id,
          std::clamp<std::int64_t>(game.turn(), 1, kMaxTurn), game.last(), std::move(words)};
}

void answer(History& history, const Game& game, std::uint8_t who) {
  const std::int64_t segment = game.dispute().challenge.body.segment;
  const Plans& plans = history.plans;
  protocol::Player& player = plans.is_after_fault(segment) ? *plans.cheat_player : *plans.honest_player;
  const protocol::Segment& steps = plans.stage.segments[static_cast<std::size_t>(segment)];
  plans.replay_of(segment).look(steps.first, steps.end);
  const auto next = player.next(game);
  if (!next.ok()) {
    history.problem = "an honest player: " + next.error().message;
  } else if (*next) {
    history.must(move_of(game, print_message(**next)), who, "move");
  }  // An honest challenger whose game goes on after the statement fell may have nothing to say; silence
     // costs nothing then.
}

void misbehave(History& history, const Game& game, std::uint8_t who) {
  const Plans& plans = history.plans;
  const bool slanders = game.due().side == protocol::Side::kChallenger || who == kVerifier;
  protocol::Player& player = slanders      ? *plans.slander_player
                             : plans.cheat ? *plans.cheat_player
                                           : *plans.honest_player;
  TinyParty& story = slanders ? *plans.slander : plans.cheat ? *plans.cheat : *plans.stage.honest;
  const auto segment = static_cast<std::size_t>(game.dispute().challenge.body.segment);
  story.look(plans.stage.segments[segment].first, plans.stage.segments[segment].end);
  json::Object words;
  if (!history.dice.one_in(10)) {
    const auto next = player.next(game);
    if (!next.ok() || !*next) return;
    words = print_message(**next);
  }
  Move move = move_of(game, words);
  if (history.dice.one_in(20)) move.turn += 1 - 2 * history.dice.below(2);
  history.say(move, who);
}

/// Makes this key's moves in all games that wait for it.
void play_games(History& history, std::uint8_t who) {
  if (!history.record().proof) return;
  for (std::size_t i = 0; i < history.record().games.size(); ++i) {
    if (history.record().settlement) return;
    const auto ends = protocol::ends_of(history.record(), history.market_now());
    const Game& game = history.record().games[i].game;
    if (ends[i] || game.party(game.due().side) != id_of(who)) continue;
    if (history.plans.is_honest(who)) {
      answer(history, game, who);
    } else if (history.dice.one_in(4)) {
      misbehave(history, game, who);
    }
  }
}

void act(History& history, std::uint8_t who) {
  if (history.record().settlement || !history.problem.empty()) return;
  if (who == kSubmitter) submit(history, who);
  if (who == kSolver) solve(history, who);
  const bool drawn = history.rounds() && history.record().proof && history.is_asked(who);
  if (who == kVerifier || (drawn && who >= kFirstStranger)) verify(history, who);
  if (history.audits_verdicts()) audit(history, who);
  if (history.forces_errors()) reveal(history, who);
  if (history.plans.is_honest(who)) {
    watch(history, who);
  } else if (who >= kFirstStranger || history.dice.one_in(4)) {
    grief(history, who);
  }
  play_games(history, who);
}

/// Checks that no honest party has lost.
void judge(History& history) {
  const Reason reason = history.record().settlement->reason;
  ++history.total.ends[std::string(name_of(reason))];
  const Estimate& estimate = history.task().body.estimate;
  const auto check = [&](std::uint8_t who, std::int64_t least, std::string_view role) {
    if (history.plans.is_honest(who) && history.gain(who) < least)
      history.problem = fmt::format("an honest {} has {} in a task that is {}, at least {} expected", role,
                                    history.gain(who), name_of(reason), least);
  };
  check(kSolver, history.record().proof ? estimate.reward : 0, "solver");
  check(kVerifier, 0, "verifier");
  check(kWatcher, 0, "watcher");
  const bool paid =
      reason == Reason::kAccepted || reason == Reason::kUnverified || reason == Reason::kOverturned;
  // The submitter pays what the jackpot lacked of an auditor's fee, if the solver is paid.
  const auto& audited = history.record().audit;
  const std::int64_t more = audited ? audited->fee_of_task : 0;
  check(kSubmitter, paid ? -(estimate.reward + estimate.fee + estimate.tax + estimate.treasury + more) : 0,
        "submitter");
  if (paid && history.plans.wrong_segment)
    history.problem = fmt::format("a wrong proof is {}", name_of(reason));
  if (history.record().round) {
    const auto verifier = history.record().verdict ? 1 : 0;
    const auto& audit = history.record().audit;
    const auto auditor = audit && audit->auditor ? 1 : 0;
    history.total.silent += std::ssize(protocol::staked_offers(history.record())) - verifier - auditor;
    history.total.audited += auditor;
    history.total.jackpots += history.record().jackpot > 0 ? 1 : 0;
    const auto fate = protocol::secret_fate(history.record(), history.market_now());
    history.total.given_away += fate == protocol::SecretFate::kGivenAway ? 1 : 0;
    history.total.withheld += fate == protocol::SecretFate::kWithheld ? 1 : 0;
  }
  history.total.worst_challenger = std::min(history.total.worst_challenger, history.gain(kWatcher));
}

void play(History& history) {
  begin(history);
  constexpr int kMostTicks = 4'000;
  for (int tick = 0; tick < kMostTicks && history.problem.empty() && !history.record().settlement; ++tick) {
    pass_time(history);
    if (history.rounds()) log_rounds(history);
    for (std::uint8_t who = kSubmitter; who < kKeys; ++who) act(history, who);
    history.total.states.emplace(name_of(history.state()));
    settle(history);
  }
  if (!history.problem.empty()) return;
  if (!history.record().settlement) {
    history.problem = "the task never ended";
  } else {
    judge(history);
  }
}

/// Fault of money in a market in which these statements are logged, as far as it takes them; empty without
/// one.
std::string replayed_problem(const std::vector<Event>& events, const Plant& plant) {
  protocol::Market market;
  std::int64_t lost = 0;
  for (const Event& event : events) {
    if (!market.apply(event.statement, event.now).ok()) continue;
    lost += plant && plant(event.statement.body) ? 1 : 0;
    if (std::string wrong = money_problem(market, lost); !wrong.empty()) return wrong;
  }
  return "";
}

/// Checks that whoever replays the statements comes to the same balances.
void replay(History& history) {
  protocol::Market market;
  for (const Event& event : history.events) {
    if (!market.apply(event.statement, event.now).ok())
      history.problem = "a replay refuses what was accepted";
  }
  if (market.balances() != history.market.balances()) history.problem = "a replay gives other balances";
}

/// The fewest statements of a history that still show its fault of money. Where time need not pass, it does
/// not: so no head is left that only kept a heartbeat.
std::vector<std::string> shrunk(const History& history) {
  const auto fails = [&](const std::vector<Event>& events) {
    return !replayed_problem(events, history.plant).empty();
  };
  auto left = shrink(history.events, fails);
  for (std::size_t i = 1; i < left.size(); ++i) {
    auto sooner = left;
    sooner[i].now = sooner[i - 1].now;
    if (fails(sooner)) left = std::move(sooner);
  }
  std::vector<std::string> out;
  for (const Event& event : shrink(std::move(left), fails))
    out.push_back(fmt::format("{} at {}", name_of(kind_of(event.statement.body)), event.now));
  return out;
}

}  // namespace

std::string money_problem(const protocol::Market& market, std::int64_t lost) {
  std::int64_t sum = -lost;
  for (const auto& [account, amount] : market.balances()) {
    if (amount < 0) return fmt::format("account {} has {}", account, amount);
    sum += amount;
  }
  return sum == market.total() ? "" : "the sum is not conserved";
}

Histories play_histories(std::int64_t count, std::uint64_t seed, MarketKind kind, const Plant& plant) {
  Stage stage(kind);
  Histories out;
  for (std::int64_t i = 0; i < count && out.problem.empty(); ++i) {
    Dice dice(seed * 1'000'003 + static_cast<std::uint64_t>(i));
    History history(stage, dice, out, plant);
    play(history);
    if (history.problem.empty()) replay(history);
    if (history.is_money) out.shrunk = shrunk(history);
    if (!history.problem.empty())
      out.problem = fmt::format("history {} of seed {}: {}", i, seed, history.problem);
  }
  return out;
}

}  // namespace dgx::test
