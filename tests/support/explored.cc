#include "explored.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dgx/protocol/rounds.h"
#include "explored_states.h"
#include "history.h"
#include "statements.h"

namespace dgx::test {
namespace {

using namespace manifest;
using protocol::TaskRecord;
using protocol::TaskState;

constexpr std::int64_t kWindow = 2'000;
constexpr std::uint8_t kLast = kFirstStranger;

/// The node at the next time at which something changes; beyond a deadline only if no honest party has
/// anything left to do, else nullopt.
std::optional<Node> waited(const Node& node, const TaskRecord& record, bool is_due) {
  std::vector<std::int64_t> deadlines, begins;
  const Policy& policy = record.task.body.policy;
  const protocol::Standing stands = protocol::standing(record, node.now);
  if (stands.deadline_ms) deadlines.push_back(*stands.deadline_ms);
  const auto ends = protocol::ends_of(record, node.now);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i]) deadlines.push_back(record.games[i].deadline_ms);
  }
  if (stands.state == TaskState::kOpen) begins.push_back(record.posted_ms + policy.window_move_ms);
  for (const protocol::WaitingSlot& slot : node.market.slots_waiting())
    begins.push_back(protocol::end_of_slot(slot.slot, policy));
  for (const std::int64_t deadline : deadlines) begins.push_back(deadline);
  if (!is_due) {
    for (const std::int64_t deadline : deadlines) begins.push_back(deadline + 1);
  }
  std::int64_t next = -1;
  for (const std::int64_t time : begins) {
    if (time > node.now && (next < 0 || time < next)) next = time;
  }
  if (next < 0) return std::nullopt;
  const bool passes = std::any_of(deadlines.begin(), deadlines.end(),
                                  [&](std::int64_t one) { return one >= node.now && next > one; });
  if (is_due && passes) return std::nullopt;
  Node later = node;
  later.now = next;
  return later;
}

/// True if the task ends when nobody says anything more.
bool ends_in_silence(const Node& node, const TaskRecord& record) {
  std::int64_t now = node.now;
  for (int deadlines = 0; deadlines < 64; ++deadlines) {
    const protocol::Standing stands = protocol::standing(record, now);
    if (stands.settlement || stands.state == TaskState::kSettled) return true;
    now = *stands.deadline_ms + 1;
  }
  return false;
}

class Walk {
 public:
  Walk(const SmallMarket& people, const Plant& plant)
      : people_(people), plant_(plant), stage_(people.kind, kWindow) {
    for (std::uint64_t seed = 1; !plans_ || plans_->wrong_segment.has_value() != people.cheats; ++seed) {
      Dice dice(seed);
      plans_ = std::make_unique<Plans>(stage_, dice);
    }
  }

  Explored from_the_beginning() {
    Node node = begun();
    if (out_.problem.empty()) visit(node, people_.sequences);
    return std::move(out_);
  }

 private:
  [[nodiscard]] const Digest& task() const { return stage_.scene.task.id; }

  /// Logs a statement, checks the sum, and remembers it on the path. False if the market does not take it.
  bool take(Node& node, const Signed<Body>& statement) {
    if (!node.market.apply(statement, node.now).ok()) return false;
    ++out_.statements;
    names_.add(statement);
    path_.push_back({statement, node.now});
    const auto lost = std::count_if(path_.begin(), path_.end(), [&](const Event& event) {
      return plant_ && plant_(event.statement.body);
    });
    if (const std::string wrong = money_problem(node.market, lost); !wrong.empty()) fail(wrong);
    return true;
  }
  void fail(const std::string& problem) {
    if (!out_.problem.empty()) return;
    out_.problem = problem;
    for (const Event& event : path_)
      out_.path.push_back(fmt::format("{} at {}", name_of(kind_of(event.statement.body)), event.now));
  }

  /// The ledger's policy, everybody's money, a bond that another task has left to the jackpot, and the task.
  Node begun() {
    Node node;
    take(node, any_of_kind(stage_.ledger));
    const Digest& ledger = stage_.ledger.id;
    for (std::uint8_t who = kSubmitter; who < kAllKeys; ++who)
      take(node, any_of_kind(said(Deposit{id_of(who), kMoney, "first", ledger}, kOperator)));
    if (people_.kind != MarketKind::kNamed) {
      Task body = stage_.scene.task.body;
      body.seed += 1;
      const Signed<Task> idle = said(body, kIdleSubmitter);
      take(node, any_of_kind(idle));
      take(node, any_of_kind(said(BeaconCommitment{idle.id, digest("hidden"), body.dataset.digest,
                                                   body.initial.digest, 1, protocol::bonds_of(body).verifier},
                                  kIdleVerifier)));
      node.now += body.policy.window_move_ms;
      take(node, any_of_kind(said(Assign{idle.id, std::nullopt, body.dataset.digest, body.initial.digest, 1},
                                  kIdleSolver)));
      node.now += body.policy.window_proof_ms + 1;
      for (const Settlement& due : node.market.due(node.now)) take(node, any_of_kind(said(due, kOperator)));
      if (node.market.balance("jackpot") == 0) fail("the jackpot is empty");
    }
    if (!take(node, any_of_kind(stage_.scene.task))) fail("the task is refused");
    return node;
  }

  /// Goes on from a state: by all sequences if `sequences` is 0, which need be done but once, else by about
  /// so many, divided among the choices, beginning with any.
  void visit(const Node& node, std::int64_t sequences) {
    if (!out_.problem.empty()) return;
    const TaskRecord& record = node.record(task());
    const bool whole = people_.merging == Merging::kWhole || people_.sequences > 0;
    const Digest state = whole ? digest(whole_of(node, record)) : future(node);
    const bool is_new = seen_.insert(state).second;
    if (is_new) check(node, record);
    const bool is_done = sequences == 0 && !is_new;
    if (record.settlement || (is_done && people_.merging != Merging::kChecked)) return;
    const std::vector<Step> steps = steps_from(node);
    if (people_.merging != Merging::kFuture) check_future(node, steps);
    if (is_done) return;
    std::int64_t left = sequences;
    const std::size_t first = state.bytes[0] % std::max<std::size_t>(1, steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (sequences > 0 && left == 0) {
        out_.complete = false;
        return;
      }
      const Step& step = steps[(first + i) % steps.size()];
      const auto share = std::min(left, std::max<std::int64_t>(1, left / std::ssize(steps)));
      left -= share;
      if (step.statement) path_.push_back({*step.statement, step.node.now});
      visit(step.node, share);
      if (step.statement) path_.pop_back();
    }
  }

  /// A node that follows another by a statement, or by waiting.
  struct Step {
    Node node;
    std::optional<Signed<Body>> statement;
  };
  std::vector<Step> steps_from(const Node& node) {
    std::vector<Step> out;
    bool is_due = false;
    const std::size_t length = path_.size();
    for (const Choice& choice : choices_in(node, people_, *plans_)) {
      Node next = node;
      if (!take(next, choice.statement)) continue;
      path_.erase(path_.begin() + static_cast<std::ptrdiff_t>(length), path_.end());
      is_due = is_due || choice.is_due;
      if (choice.hidden) next.audits.insert_or_assign(choice.who, *choice.hidden);
      next.games += choice.is_game ? 1 : 0;
      out.push_back({std::move(next), choice.statement});
    }
    if (const auto later = waited(node, node.record(task()), is_due)) out.push_back({*later, std::nullopt});
    return out;
  }

  [[nodiscard]] Digest future(const Node& node) const {
    return digest(future_of(node, node.record(task()), names_));
  }

  /// Checks a state, which is new.
  void check(const Node& node, const TaskRecord& record) {
    ++out_.states;
    out_.standings.emplace(name_of(protocol::standing(record, node.now).state));
    if (!ends_in_silence(node, record)) fail("the task never ends");
    if (people_.kind <= MarketKind::kDrawn && !outlasts_delays(record))
      fail("games may delay each other by more than a future says");
    if (record.settlement) judge(node);
  }

  /// Checks that a state goes on as those with the same future do.
  void check_future(const Node& node, const std::vector<Step>& steps) {
    std::set<Digest> next;
    for (const Step& step : steps) next.insert(future(step.node));
    const auto [known, is_first] = next_.emplace(future(node), next);
    if (!is_first && known->second != next) fail("two states with one future go on differently");
  }

  /// Checks an end: nobody honest has lost, and a replay has the same balances.
  void judge(const Node& node) {
    const TaskRecord& record = node.record(task());
    const Reason reason = record.settlement->reason;
    ++out_.ends[std::string(name_of(reason))];
    out_.outcomes.insert(outcome_of(node, record));
    for (std::uint8_t who = kSolver; who <= kLast; ++who) {
      if (!people_.honest.contains(who)) continue;
      const bool solved = who == kSolver && record.proof;
      const std::int64_t least = kMoney + (solved ? record.task.body.estimate.reward : 0);
      const std::int64_t has = node.market.balance(id_of(who).hex());
      if (has < least)
        fail(fmt::format("honest key {} has {} in a task that is {}, at least {} expected", who, has,
                         name_of(reason), least));
    }
    protocol::Market market;
    for (const Event& event : path_) {
      if (!market.apply(event.statement, event.now).ok()) fail("a replay refuses what was accepted");
    }
    if (market.balances() != node.market.balances()) fail("a replay gives other balances");
  }

  const SmallMarket people_;
  const Plant& plant_;
  Stage stage_;
  std::unique_ptr<Plans> plans_;
  std::vector<Event> path_;
  std::set<Digest> seen_;
  std::map<Digest, std::set<Digest>> next_;  ///< by the future of a state, those of the states after it
  Names names_;
  Explored out_;
};

}  // namespace

Explored explore(const SmallMarket& market, const Plant& plant) {
  return Walk(market, plant).from_the_beginning();
}

}  // namespace dgx::test
