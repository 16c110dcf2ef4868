#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "dgx/core/stop.h"
#include "simulate/plan.h"
#include "simulate/tally.h"
#include "simulate/world.h"

namespace dgx::jobs {

/// Something that is done for a task, or for a slot, at a time.
enum class Step : std::uint8_t { kAssign, kProve, kRound, kOpen, kVerdict, kCommit, kShow, kObject, kSettle };

struct Event {
  std::int64_t milliseconds = 0;
  std::int64_t order = 0;   ///< of events of one time, that of their making
  std::int64_t number = 0;  ///< of the task among those that are open, or of the slot
  Step step = Step::kSettle;
  std::size_t turn = 0;  ///< of a verdict: the place of its verifier among those drawn

  bool operator>(const Event& other) const {
    return std::tie(milliseconds, order) > std::tie(other.milliseconds, other.order);
  }
};

/// An offer, and the secret to which it commits.
struct HiddenSecret {
  std::size_t by = 0;
  Digest offer;
  Digest secret;
};

/// An audit that was committed to.
struct HiddenAudit {
  std::size_t by = 0;
  Digest id;
  manifest::Verdict body;
};

/// A task from its posting to its settlement, with what the ledger does not say about it.
struct Life {
  Stream chance;
  Digest task = {};
  Digest proof = {};
  std::size_t submitter = 0;
  std::size_t solver = 0;
  std::vector<std::int64_t> faked = {};    ///< segments, ascending
  std::vector<std::int64_t> drawn = {};    ///< segments, ascending, once they are
  std::vector<HiddenSecret> secrets = {};  ///< of all offers; without rounds of the one that the solver names
  Digest verdict = {};
  std::size_t verifier = 0;                 ///< who gave it
  bool unseen = false;                      ///< it accepts what its signer has not replayed
  std::optional<std::int64_t> forced = {};  ///< the segment whose witness has to be false in it
  std::vector<HiddenAudit> audits = {};
  std::vector<std::size_t> volunteers = {}, guessers = {}, robbers = {}, griefers = {}, copiers = {};
  std::vector<std::pair<std::size_t, std::int64_t>> work = {};  ///< by whom, at which price

  [[nodiscard]] bool is_faked(std::int64_t segment) const;
  /// The first segment of the draw that is false.
  [[nodiscard]] std::optional<std::int64_t> fault() const;
};

/// One market, played task by task and event by event.
///
/// As many tasks as are open at a time begin together and are played to their ends; then the next begin. The
/// first come in waves of one, two, four and so on, since a jackpot without tax pays no auditor. At each
/// event the people of its task do what they can do then; honest ones at once, others as their kind does.
class MarketRun {
 public:
  MarketRun(const Plan& plan, People people, std::int64_t market, const StopFlag& stop);
  [[nodiscard]] Result<Tally> play(std::int64_t tasks);

 private:
  // run.cc: the beginning of a task, up to its opening.
  [[nodiscard]] Status play_wave(std::int64_t size);
  void send_visitors();
  [[nodiscard]] Status take(const Event& event);
  [[nodiscard]] Status post(Life& life, std::int64_t number);
  [[nodiscard]] Status offer(Life& life, std::size_t verifier);
  [[nodiscard]] Status assign(Life& life, std::int64_t number);
  [[nodiscard]] Status prove(Life& life, std::int64_t number);
  [[nodiscard]] Status open(Life& life, std::int64_t number);
  void choose_faked(Life& life, const AgentGroup& cheat);
  void schedule(std::int64_t milliseconds, Step step, std::int64_t number, std::size_t turn = 0);
  /// Plans the round of the slot of what is logged now; the time at which it will be there.
  std::int64_t plan_round();

  // run_verdicts.cc: verdicts, audits and games.
  [[nodiscard]] Status give_verdict(Life& life, std::int64_t number, std::size_t turn);
  [[nodiscard]] Status commit(Life& life, std::int64_t number);
  [[nodiscard]] Status commit_one(Life& life, std::size_t who);
  /// Lets a robber reveal the verifier's secret, if that has been sold.
  [[nodiscard]] Status rob(Life& life);
  [[nodiscard]] Status show(Life& life, std::int64_t number);
  [[nodiscard]] Status object(Life& life, std::int64_t number);
  [[nodiscard]] Status answer_refutations(Life& life);
  [[nodiscard]] Status bear_out(Life& life, const HiddenAudit& audit);
  /// Lets the verifier lose a game on purpose, if that saves the auditor's bond and costs the two less.
  [[nodiscard]] Status save_auditor(Life& life);
  [[nodiscard]] Status visit(Life& life);
  [[nodiscard]] Status challenge_proof(Life& life, std::size_t who, std::int64_t segment);
  [[nodiscard]] Status challenge_refutation(Life& life, const Digest& id, const manifest::Verdict& body);
  [[nodiscard]] Status challenge(Life& life, std::size_t who, manifest::Challenge body, bool answered);
  [[nodiscard]] manifest::Challenge challenge_of(const Life& life, std::int64_t segment) const;
  /// A challenge of the witness that the verdict states for the segment, which is drawn.
  [[nodiscard]] manifest::Challenge witness_challenge(const Life& life, std::int64_t segment) const;
  /// The body of a verdict of the draw, or of an audit, that accepts.
  [[nodiscard]] manifest::Verdict acceptance(Life& life) const;
  /// Lets it refute the segment instead.
  void refute(Life& life, manifest::Verdict& body, std::int64_t segment) const;
  /// True if somebody replays the draw before they say anything about this proof.
  [[nodiscard]] bool looks(const Life& life, std::size_t who) const;
  /// True if the verifier tells them which error is forced.
  [[nodiscard]] bool is_told(const Life& life, std::size_t who) const;
  /// Those who re-check the verdict without having been drawn, as many as can.
  [[nodiscard]] std::vector<std::size_t> unasked(const Life& life) const;
  /// The segments whose witnesses this one denies in a proof without a fault.
  [[nodiscard]] std::vector<std::int64_t> denied_by(Life& life, std::size_t who);
  /// The statement that reveals the secret of whoever gave the verdict.
  [[nodiscard]] manifest::Beacon secret_of(const Life& life) const;
  [[nodiscard]] std::int64_t replay_price(const Life& life, std::size_t who) const;

  // run_ends.cc: the settlement, and what is counted of it.
  [[nodiscard]] Status settle(Life& life, std::int64_t number);
  void count(const Life& life, const manifest::Settlement& settlement);
  void count_auditor(const Life& life, const manifest::Settlement& settlement);
  void count_forced(const Life& life);
  void count_gains(const Life& life, const manifest::Settlement& settlement);
  void count_pool();
  /// kInternal unless what people have gained is what the market's own accounts have not.
  [[nodiscard]] Status check_gains() const;

  [[nodiscard]] const Person& person(std::size_t who) const { return people_.all[who]; }
  [[nodiscard]] const protocol::TaskRecord& record(const Life& life) const {
    return world_.record(life.task);
  }

  const Plan& plan_;
  People people_;
  std::int64_t market_;
  const StopFlag& stop_;
  World world_;
  Stream visits_;
  Tally tally_;
  std::vector<Life> lives_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::set<std::int64_t> planned_;  ///< slots whose rounds are planned
  std::int64_t made_ = 0;           ///< number of events so far
  std::int64_t tasks_ = 0;
  std::int64_t begun_ = 0;
  std::int64_t settled_ = 0;
  std::int64_t least_ = -1;  ///< of the jackpot since the last point; -1: nothing settled since
  __int128 gained_ = 0;      ///< by all people, their work left out
  bool is_full_ = false;     ///< as many tasks are open as will be
};

}  // namespace dgx::jobs
