#include "histories.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/player.h"
#include "dgx/protocol/segments.h"
#include "dgx/protocol/settlement.h"
#include "dgx/protocol/verify.h"
#include "history_stage.h"
#include "liars.h"
#include "statements.h"

namespace dgx::test {
namespace {

using namespace manifest;
using protocol::Challenged;
using protocol::Game;
using protocol::GameRecord;
using protocol::GameResult;
using protocol::Market;
using protocol::Side;
using protocol::TaskRecord;
using protocol::TaskState;

/// One history: every participant's plans, drawn at the beginning, and the market in which they act.
class History {
 public:
  History(Stage& stage, Dice& dice, Histories& total)
      : stage_(stage), dice_(dice), total_(total), honest_player_(stage.scene.program, *stage.honest) {
    for (const std::uint8_t who : {kSubmitter, kSolver, kVerifier}) honest_[who] = dice.one_in(2);
    honest_[kWatcher] = true;
    draw_lies();
  }

  /// Plays it; returns the problem, or an empty string.
  std::string play() {
    begin();
    constexpr int kMostTicks = 4'000;
    for (int tick = 0; tick < kMostTicks && !record().settlement && problem_.empty(); ++tick) {
      pass_time();
      for (std::uint8_t who = kSubmitter; who < kKeys; ++who) act(who);
      settle();
    }
    if (!problem_.empty()) return problem_;
    if (!record().settlement) return "the task never ended";
    judge();
    return problem_;
  }

 private:
  /// Draws the lies: a cheat's proof has one wrong step; a lying verifier claims to have seen another.
  void draw_lies() {
    const auto fault_in = [&](std::int64_t first, std::int64_t end) {
      Fault fault;
      fault.kind = Fault::Kind::kEntry;
      fault.step = first + dice_.below(end - first);
      fault.value = 2;  // model/w
      fault.element = dice_.below(12);
      fault.bit = static_cast<int>(dice_.below(20));
      return fault;
    };
    if (!honest_[kSolver] && dice_.one_in(2)) {
      const Fault fault = fault_in(0, kSteps);
      cheat_ = std::make_unique<TinyParty>(stage_.scene, std::vector<Fault>{fault}, stage_.honest.get());
      wrong_segment_ = fault.step / kEvery;
    }
    prover_ = cheat_ ? cheat_.get() : stage_.honest.get();
    digests_ = committed(stage_, *prover_);
    if (cheat_) {
      const auto i = static_cast<std::size_t>(*wrong_segment_) + 1;
      if (digests_[i] == committed(stage_, *stage_.honest)[i]) wrong_segment_.reset();
      cheat_player_ = std::make_unique<protocol::Player>(stage_.scene.program, *cheat_);
    }
    slandered_ = dice_.below(std::ssize(stage_.segments));
    const protocol::Segment& segment = stage_.segments[static_cast<std::size_t>(slandered_)];
    slander_ = std::make_unique<TinyParty>(
        stage_.scene, std::vector<Fault>{fault_in(segment.first, segment.end)}, stage_.honest.get());
    slander_player_ = std::make_unique<protocol::Player>(stage_.scene.program, *slander_);
    for (std::size_t i = 0; i < digests_.size(); ++i)
      leaves_.push_back(merkle::committed_state_leaf(digests_[i]));
  }

  void begin() {
    must_begin(any_of_kind(stage_.ledger));
    for (std::uint8_t who = kSubmitter; who < kKeys; ++who)
      must_begin(any_of_kind(said(Deposit{id_of(who), kMoney, "first", stage_.ledger.id}, kOperator)));
    must_begin(any_of_kind(stage_.scene.task));
  }

  void must_begin(const Signed<Body>& statement) {
    const Status status = market_.apply(statement, now_);
    if (status.ok()) return;
    fmt::print(stderr, "{}\n", status.error().message);
    std::abort();
  }

  [[nodiscard]] const TaskRecord& record() const { return market_.tasks().at(stage_.scene.task.id); }
  [[nodiscard]] std::int64_t market_now() const { return market_.clock().at(now_); }
  [[nodiscard]] protocol::Standing stands() const { return protocol::standing(record(), market_now()); }
  [[nodiscard]] std::int64_t gain(std::uint8_t who) const {
    return market_.balances().at(id_of(who).hex()) - kMoney;
  }
  [[nodiscard]] bool is_honest(std::uint8_t who) const { return who < kFirstStranger && honest_[who]; }

  bool take(const Signed<Body>& statement) {
    if (!market_.apply(statement, now_).ok()) return false;
    ++total_.statements;
    std::int64_t sum = 0;
    for (const auto& [account, amount] : market_.balances()) {
      if (amount < 0) problem_ = fmt::format("account {} has {}", account, amount);
      sum += amount;
    }
    if (sum != market_.total()) problem_ = "the sum is not conserved";
    return true;
  }
  template <class T>
  bool say(const T& body, std::uint8_t who) {
    return take(any_of_kind(said(body, who)));
  }
  /// Logs an honest party's statement, which must be accepted.
  template <class T>
  void must(const T& body, std::uint8_t who, std::string_view what) {
    const Status status = market_.apply(any_of_kind(said(body, who)), now_);
    if (!status.ok()) problem_ = fmt::format("honest {} refused: {}", what, status.error().message);
    ++total_.statements;
  }

  /// Lets some minutes pass; occasionally the operator is away for long.
  void pass_time() {
    const bool away = dice_.one_in(40);
    now_ += away ? 1'000'000 + dice_.below(1'000'000'000) : 1 + dice_.below(190'000);
    const bool pause = market_.is_pause(now_);
    take(any_of_kind(said(TreeHead{stage_.ledger.id, {digest("head"), 1}, now_, pause}, kOperator)));
  }

  void settle() {
    for (const Settlement& due : market_.due(now_)) take(any_of_kind(said(due, kOperator)));
  }

  void act(std::uint8_t who) {
    if (record().settlement || !problem_.empty()) return;
    if (who == kSubmitter) submit(who);
    if (who == kSolver) solve(who);
    if (who == kVerifier) verify(who);
    if (is_honest(who)) {
      watch(who);
    } else if (who >= kFirstStranger || dice_.one_in(4)) {
      grief(who);
    }
    play_games(who);
  }

  void submit(std::uint8_t who) {
    if (honest_[who] && record().proof && !record().delivered &&
        stands().state == TaskState::kAwaitingDelivery)
      deliver(who);
  }

  void deliver(std::uint8_t who) {
    Delivery body{stage_.scene.task.id, record().proof->id, digests_.back(), std::nullopt};
    if (who == kSolver) body.location = "final";
    say(body, who);
  }

  [[nodiscard]] bool hesitates(std::uint8_t who) { return !honest_[who] && !dice_.one_in(8); }

  void solve(std::uint8_t who) {
    if (hesitates(who) || (!honest_[who] && dice_.one_in(30))) return;
    const Task& task = stage_.scene.task.body;
    const TaskRecord& now = record();
    if (!now.solver) {
      for (const auto& [id, offer] : now.offers) {
        if (offer.statement.key_id == id_of(kVerifier)) {
          say(Assign{stage_.scene.task.id, id, task.dataset.digest, task.initial.digest, 1}, who);
          return;
        }
      }
      return;
    }
    if (now.solver != id_of(who)) return;
    if (!now.proof) {
      Proof proof = proof_body();
      say(proof, who);
      return;
    }
    if (!now.opening && (honest_[who] || dice_.one_in(3))) open(who);
    if (honest_[who] && !now.delivered && stands().state == TaskState::kAwaitingDelivery) deliver(who);
  }

  [[nodiscard]] Proof proof_body() const {
    Proof out;
    out.task = stage_.scene.task.id;
    out.states = states_root(digests_);
    out.initial = digests_.front();
    out.final_state = digests_.back();
    out.steps = kSteps;
    return out;
  }

  void open(std::uint8_t who) {
    const auto duty = protocol::opening_duty(record());
    if (!duty || market_now() < duty->begins_ms) return;
    const Opening body{stage_.scene.task.id, record().proof->id, duty->after, "opening"};
    if (honest_[who]) {
      must(body, who, "opening");
    } else {
      say(body, who);
    }
  }

  void verify(std::uint8_t who) {
    if (hesitates(who)) return;
    const Task& task = stage_.scene.task.body;
    const TaskRecord& now = record();
    const Digest secret = digest("secret");
    if (!now.solver && now.offers.empty()) {
      say(BeaconCommitment{stage_.scene.task.id, beacon_commitment(secret), task.dataset.digest,
                           task.initial.digest, 1},
          who);
      return;
    }
    if (!now.proof || now.verifier != id_of(who) || now.verdict) return;
    if (!honest_[who] && dice_.one_in(4)) {
      say(verdict_of(who, true), who);
      return;
    }
    if (!now.beacon && stands().state == TaskState::kProofCommitted) {
      say(Beacon{stage_.scene.task.id, now.offers.begin()->first, now.proof->id, secret,
                 beacon_value(secret, now.proof->id)},
          who);
      return;
    }
    if (!now.opening || !now.beacon) return;
    if (honest_[who]) {
      if (stands().state == TaskState::kOpened) must(verdict_of(who, false), who, "verdict");
    } else if (dice_.one_in(3)) {
      say(verdict_of(who, dice_.one_in(2)), who);
    }
  }

  /// The rows of the policy's draw as a replay finds them; for a lie, a single row that calls the slandered
  /// segment wrong.
  [[nodiscard]] Verdict verdict_of(std::uint8_t who, bool lie) {
    const TaskRecord& now = record();
    protocol::Assignment assignment{stage_.scene.task.id, now.proof->id, id_of(who), std::nullopt, {},
                                    Draw::kChosen};
    if (now.beacon && !lie) {
      assignment.beacon = now.beacon->id;
      assignment.beacon_value = now.beacon->body.value;
      assignment.draw = Draw::kPolicy;
    }
    const auto all = *protocol::segments_of(stage_.scene.task.body, now.proof->body);
    std::vector<std::int64_t> drawn{slandered_};
    if (assignment.beacon) drawn = *protocol::policy_draw(stage_.scene.task.body, all, assignment);
    std::vector<VerdictRow> rows;
    for (const std::int64_t index : drawn) {
      TinyParty& replay = lie ? *slander_ : replay_of(index);
      const protocol::Segment& segment = stage_.segments[static_cast<std::size_t>(index)];
      VerdictRow row;
      row.index = index;
      row.expected = digests_[static_cast<std::size_t>(index) + 1];
      row.recomputed = replay.state_record(segment.end).digest;
      row.agrees = row.expected == row.recomputed;
      row.reason = row.agrees ? RowReason::kEqual : RowReason::kDigest;
      const std::int64_t step =
          protocol::witness_step(assignment.beacon_value, assignment.proof, assignment.verifier, segment);
      row.witness = protocol::witness_of(id_of(who), replay.state_record(step).digest);
      rows.push_back(row);
    }
    const auto out =
        protocol::assemble_verdict(stage_.scene.task.body, all, assignment, digests_, rows, digest("nonce"));
    if (!out.ok()) problem_ = "verdict: " + out.error().message;
    return *out;
  }

  /// The right replay of a segment from the committed state before it: after a cheat's only fault, the
  /// cheat's own states.
  [[nodiscard]] TinyParty& replay_of(std::int64_t segment) {
    return wrong_segment_ && segment > *wrong_segment_ ? *cheat_ : *stage_.honest;
  }

  [[nodiscard]] CommittedState opened(std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return {digests_[i], *merkle::inclusion_path(leaves_, i)};
  }

  [[nodiscard]] Challenge about(std::int64_t segment) const {
    Challenge out;
    out.task = stage_.scene.task.id;
    out.proof = record().proof->id;
    out.segment = segment;
    out.start = opened(segment);
    out.end = opened(segment + 1);
    return out;
  }

  [[nodiscard]] Challenge about_verdict() const {
    const Signed<Verdict>& verdict = *record().verdict;
    Challenge out = about(verdict.body.first_disagreement->index);
    out.verdict = verdict.id;
    out.row = OpenedRow{0, {}, *verdict.body.first_disagreement};
    return out;
  }

  [[nodiscard]] bool has_fallen(Challenged statement) const {
    const auto ends = protocol::ends_of(record(), market_now());
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] && ends[i]->result == GameResult::kFalls && record().games[i].challenged() == statement)
        return true;
    }
    return false;
  }
  [[nodiscard]] bool plays(std::uint8_t who, Challenged statement) const {
    return std::any_of(record().games.begin(), record().games.end(), [&](const GameRecord& game) {
      return game.challenged() == statement && game.game.dispute().challenger() == id_of(who);
    });
  }

  /// Lets an honest party challenge what their replay refutes, once the proof is opened.
  void watch(std::uint8_t who) {
    if (!record().opening || stands().state != TaskState::kChallengeWindow) return;
    const bool proof_is_theirs = who == kSolver;
    if (wrong_segment_ && !proof_is_theirs && !has_fallen(Challenged::kProof) &&
        !plays(who, Challenged::kProof))
      challenge(about(*wrong_segment_), who);
    const auto& verdict = record().verdict;
    const bool refutes = verdict && verdict->body.outcome == Outcome::kRefuted;
    if (!refutes || who == kVerifier || has_fallen(Challenged::kVerdict) || plays(who, Challenged::kVerdict))
      return;
    const VerdictRow& row = *verdict->body.first_disagreement;
    const protocol::Segment& segment = stage_.segments[static_cast<std::size_t>(row.index)];
    if (row.recomputed != replay_of(row.index).state_record(segment.end).digest)
      challenge(about_verdict(), who);
  }

  bool challenge(const Challenge& body, std::uint8_t who) {
    if (!say(body, who)) return false;
    ++total_.games;
    return true;
  }

  /// Lets strangers, and dishonest parties besides their own business, act at random.
  void grief(std::uint8_t who) {
    if (!dice_.one_in(6)) return;
    const Task& task = stage_.scene.task.body;
    switch (dice_.below(8)) {
      case 0:
        say(BeaconCommitment{stage_.scene.task.id,
                             beacon_commitment(digest(fmt::format("{}", dice_.below(1'000)))),
                             task.dataset.digest, task.initial.digest, 1},
            who);
        break;
      case 1:
        say(Withdrawal{id_of(who).hex(), 1 + dice_.below(kMoney / 8),
                       fmt::format("{}", dice_.below(1'000'000)), stage_.ledger.id},
            who);
        break;
      case 2:
        if (record().proof) deliver(who);
        break;
      case 3:
        if (!record().offers.empty())
          say(OfferEnd{stage_.scene.task.id, record().offers.begin()->first}, who);
        break;
      case 4:
        if (record().proof)
          say(Opening{stage_.scene.task.id, record().proof->id, record().proof->id, "x"}, who);
        break;
      case 5:
        if (record().verdict && record().verdict->body.first_disagreement) challenge(about_verdict(), who);
        break;
      default:
        if (record().proof) challenge(about(dice_.below(std::ssize(stage_.segments))), who);
    }
  }

  /// Makes this key's moves in all games that wait for it.
  void play_games(std::uint8_t who) {
    if (!record().proof) return;
    for (std::size_t i = 0; i < record().games.size(); ++i) {
      if (record().settlement) return;
      const auto ends = protocol::ends_of(record(), market_now());
      const Game& game = record().games[i].game;
      if (ends[i] || game.party(side_of(game.stage())) != id_of(who)) continue;
      if (is_honest(who)) {
        answer(game, who);
      } else if (dice_.one_in(4)) {
        misbehave(game, who);
      }
    }
  }

  void answer(const Game& game, std::uint8_t who) {
    const std::int64_t segment = game.dispute().challenge.body.segment;
    const bool from_cheat = wrong_segment_ && segment > *wrong_segment_;
    protocol::Player& player = from_cheat ? *cheat_player_ : honest_player_;
    TinyParty& replay = replay_of(segment);
    const protocol::Segment& steps = stage_.segments[static_cast<std::size_t>(segment)];
    replay.look(steps.first, steps.end);
    const auto next = player.next(game);
    if (!next.ok()) {
      problem_ = "an honest player: " + next.error().message;
    } else if (*next) {
      must(move_of(game, print_say(**next)), who, "move");
    }  // An honest challenger whose game goes on after the statement fell may have nothing to say; silence
       // costs nothing then.
  }

  void misbehave(const Game& game, std::uint8_t who) {
    const bool defends = side_of(game.stage()) == Side::kDefender;
    protocol::Player* player = !defends           ? slander_player_.get()
                               : who == kVerifier ? slander_player_.get()
                               : cheat_player_    ? cheat_player_.get()
                                                  : &honest_player_;
    TinyParty& story = !defends || who == kVerifier ? *slander_ : cheat_ ? *cheat_ : *stage_.honest;
    const protocol::Segment& steps =
        stage_.segments[static_cast<std::size_t>(game.dispute().challenge.body.segment)];
    story.look(steps.first, steps.end);
    json::Object words;
    if (!dice_.one_in(10)) {
      const auto next = player->next(game);
      if (!next.ok() || !*next) return;
      words = print_say(**next);
    }
    Move move = move_of(game, words);
    if (dice_.one_in(20)) move.turn += 1 - 2 * dice_.below(2);
    say(move, who);
  }

  [[nodiscard]] static Move move_of(const Game& game, json::Object words) {
    return {game.dispute().task.id, game.dispute().challenge.id,
            std::clamp<std::int64_t>(game.turn(), 1, kMaxTurn), game.last(), std::move(words)};
  }

  /// Checks that no honest party has lost.
  void judge() {
    const Reason reason = record().settlement->reason;
    ++total_.ends[std::string(name_of(reason))];
    const Estimate& estimate = stage_.scene.task.body.estimate;
    const auto check = [&](std::uint8_t who, std::int64_t least, std::string_view role) {
      if (honest_[who] && gain(who) < least)
        problem_ = fmt::format("an honest {} has {} in a task that is {}, at least {} expected", role,
                               gain(who), name_of(reason), least);
    };
    check(kSolver, record().proof ? estimate.reward : 0, "solver");
    check(kVerifier, 0, "verifier");
    check(kWatcher, 0, "watcher");
    const bool paid =
        reason == Reason::kAccepted || reason == Reason::kUnverified || reason == Reason::kOverturned;
    check(kSubmitter, paid ? -(estimate.reward + estimate.fee + estimate.tax + estimate.treasury) : 0,
          "submitter");
    if (paid && wrong_segment_) problem_ = fmt::format("a wrong proof is {}", name_of(reason));
    total_.worst_challenger = std::min(total_.worst_challenger, gain(kWatcher));
  }

  Stage& stage_;
  Dice& dice_;
  Histories& total_;
  protocol::Player honest_player_;
  std::array<bool, kFirstStranger> honest_{};
  std::unique_ptr<TinyParty> cheat_, slander_;
  std::unique_ptr<protocol::Player> cheat_player_, slander_player_;
  TinyParty* prover_ = nullptr;
  std::optional<std::int64_t> wrong_segment_;  ///< of the solver's proof
  std::int64_t slandered_ = 0;                 ///< the segment that a lying verifier calls wrong
  std::vector<Digest> digests_, leaves_;       ///< the committed states
  Market market_;
  std::int64_t now_ = 0;
  std::string problem_;
};

}  // namespace

Histories play_histories(std::int64_t count, std::uint64_t seed) {
  Stage stage;
  Histories out;
  for (std::int64_t i = 0; i < count && out.problem.empty(); ++i) {
    Dice dice(seed * 1'000'003 + static_cast<std::uint64_t>(i));
    const std::string problem = History(stage, dice, out).play();
    if (!problem.empty()) out.problem = fmt::format("history {} of seed {}: {}", i, seed, problem);
  }
  return out;
}

}  // namespace dgx::test
