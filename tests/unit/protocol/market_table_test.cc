// Every kind of statement in every state of a task, one millisecond before its limit, at it and after it: the
// table of dgx-protocol(7), STATES and RULES OF STATEMENTS, written out.
#include <catch2/catch.hpp>
#include <functional>

#include "dgx/protocol/settlement.h"
#include "game.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::by;
using test::TinyExecutor;
using test::TinyRun;

namespace {

constexpr std::int64_t kWindow = 4'000'000;  // longer than the hour for which an offer must stand
constexpr std::int64_t kMove = 800'000;

Policy policy() {
  Policy out = test::policy();
  out.window_proof_ms = out.window_reveal_ms = out.window_challenge_ms = out.window_delivery_ms = kWindow;
  out.window_move_ms = kMove;
  return out;
}

LedgerPolicy first() { return {policy(), test::digest("nonce of the table")}; }

const TinyRun& run() {
  static const TinyRun out = test::tiny_run("table", TinyExecutor(), [](Task& task) {
    task.policy = policy();
    task.ledger = seal(first(), test::key(test::kOperator))->id;
  });
  return out;
}

BeaconCommitment another_offer() {
  BeaconCommitment out = test::offer(run()).body;
  out.commitment = test::digest("another secret");
  return out;
}

Assign assign_of_another_dataset() {
  Assign out = test::assignment(run()).body;
  out.dataset = test::digest("another dataset");
  return out;
}
BeaconCommitment offer_of_another_state() {
  BeaconCommitment out = another_offer();
  out.initial = test::digest("another state");
  return out;
}

const Signed<Verdict>& acceptance() {
  static const auto out = test::verdict(run());
  return out;
}

Verdict refutation() {
  const std::vector<std::int64_t> chosen{5};
  Verdict out = test::verdict(run(), chosen).body;
  out.outcome = Outcome::kRefuted;
  out.first_disagreement =
      VerdictRow{5, run().digests[6], test::digest("no state"), false, RowReason::kDigest, test::digest("w")};
  return out;
}

VerdictCommitment commitment() {
  return {run().task.id, run().proof.id, verdict_commitment(acceptance().id, acceptance().body.nonce)};
}

const Signed<Challenge>& logged_game() {
  static const auto out = *seal(test::challenge_of(run(), 3), test::key(test::kStranger));
  return out;
}

Delivery solvers_delivery() {
  Delivery out = test::delivery(run()).body;
  out.location = "final";
  return out;
}

/// A market with its statements so far, and the operator's heads between them.
struct World {
  Market market;
  std::int64_t now = 0;

  World() {
    take(by(test::kOperator, first()));
    for (std::uint8_t who = test::kSubmitter; who < 10; ++who) {
      take(by(test::kOperator, Deposit{test::key_id(who), 100'000, "first", *run().task.body.ledger}));
    }
    take(any(run().task));
    take(any(test::offer(run())));
  }
  void take(const Signed<Body>& statement) {
    const Status status = market.apply(statement, now);
    INFO((status.ok() ? "" : status.error().message));
    REQUIRE(status.ok());
  }
  void go_to(std::int64_t then) {
    while (then - now > kMove / 8) {
      now += kMove / 8;
      take(by(test::kOperator, TreeHead{*run().task.body.ledger, {test::digest("head"), 1}, now, false}));
    }
    now = then;
  }
  [[nodiscard]] Standing stands() const { return standing(market.tasks().at(run().task.id), now); }
};

/// A state of a task: the statements that lead to it, the state it becomes once its limit has passed, and,
/// marked
/// '+', the statements below that are accepted in it.
struct Row {
  std::string_view name;
  TaskState state;
  std::function<void(World&)> reach;
  std::string_view then;
  std::string_view taken;
};

void until_assigned(World& world) { world.take(any(test::assignment(run()))); }
void until_proof(World& world) {
  until_assigned(world);
  world.take(any(run().proof));
}
void until_beacon(World& world) {
  until_proof(world);
  world.take(any(run().beacon));
}
void until_opened(World& world) {
  until_beacon(world);
  world.take(any(test::opening(run())));
}
void until_accepted(World& world) {
  until_opened(world);
  world.take(any(acceptance()));
}

using Statements = std::vector<std::pair<std::string_view, std::function<Signed<Body>(const World&)>>>;

Statements statements_of_a_task() {
  return {
      {"offer", [](const World&) { return by(6, another_offer()); }},
      {"offer of another state", [](const World&) { return by(6, offer_of_another_state()); }},
      {"offer-end",
       [](const World&) {
         return by(test::kVerifier, OfferEnd{run().task.id, test::offer(run()).id});
       }},
      {"assign", [](const World&) { return any(test::assignment(run())); }},
      {"assign of another dataset",
       [](const World&) { return by(test::kSolver, assign_of_another_dataset()); }},
      {"proof", [](const World&) { return any(run().proof); }},
      {"beacon", [](const World&) { return any(run().beacon); }},
      {"opening", [](const World&) { return any(test::opening(run())); }},
      {"opening after the proof", [](const World&) { return any(test::opening(run(), true)); }},
      {"verdict-commitment", [](const World&) { return by(test::kVerifier, commitment()); }},
      {"acceptance", [](const World&) { return any(acceptance()); }},
      {"refutation", [](const World&) { return by(test::kVerifier, refutation()); }},
      {"delivery", [](const World&) { return any(test::delivery(run())); }},
      {"solver's delivery", [](const World&) { return by(test::kSolver, solvers_delivery()); }},
      {"challenge", [](const World&) { return by(7, test::challenge_of(run(), 4)); }},
      {"move", [](const World&) { return any(test::states_move(logged_game(), test::kSolver)); }},
      {"ruling",
       [](const World& world) {
         Ruling ruling = test::ruling();
         for (const GameRecord& game : world.market.tasks().at(run().task.id).games)
           ruling = *game_at(game, game.deadline_ms + 1).ruling();
         return by(8, ruling);
       }},
      {"settlement", [](const World& world) {
         const auto due = world.market.due(world.now);
         return by(test::kOperator, due.empty() ? Settlement{run().task.id, Reason::kAccepted, {}} : due[0]);
       }}};
}

Statements statements_of_a_ledger() {
  return {{"task",
           [](const World&) {
             Task task = run().task.body;
             task.seed += 1;
             return by(test::kSubmitter, task);
           }},
          {"deposit",
           [](const World&) {
             return by(test::kOperator, Deposit{test::key_id(9), 1, "more", *run().task.body.ledger});
           }},
          {"withdrawal",
           [](const World&) {
             return by(9, Withdrawal{test::key_id(9).hex(), 301, "out", *run().task.body.ledger});
           }},
          {"tree-head",
           [](const World& world) {
             return by(test::kOperator,
                       TreeHead{*run().task.body.ledger, {test::digest("h"), 1}, world.now, false});
           }},
          {"pause",
           [](const World& world) {
             return by(test::kOperator,
                       TreeHead{*run().task.body.ledger, {test::digest("h"), 1}, world.now, true});
           }},
          {"policy",
           [](const World&) {
             return by(test::kOperator, LedgerPolicy{policy(), test::digest("again")});
           }},
          {"receipt", [](const World&) {
             return by(test::kOperator,
                       Receipt{*run().task.body.ledger, test::digest("s"), 4, 5, {test::digest("root"), 5}});
           }}};
}

template <class T>
std::vector<T> joined(std::vector<T> first, const std::vector<T>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const Statements& statements() {
  static const Statements out = joined(statements_of_a_task(), statements_of_a_ledger());
  return out;
}

//                          offer-end  | proof    | after the | acceptance| solver's  | move      | settle- |
//                          withdrawal | policy
//                    offer | | assign | | beacon | proof | commitment | refutation | delivery| ruling  | ment
//                    task |tree-head|
std::vector<Row> rows_before_the_window() {
  return {{"open", TaskState::kOpen, [](World&) {}, "no-assignment",
           "+ - + + - - - - - - - - - - - - - - + + + + - - -"},
          {"assigned", TaskState::kAssigned, until_assigned, "no-proof",
           "- - - - - + - - - - - - - - - - - - + + + + - - -"},
          {"proof-committed", TaskState::kProofCommitted, until_proof, "beacon missed",
           "- - - - - - + - - - - + + + - - - - + + + + - - -"},
          {"awaiting-opening", TaskState::kAwaitingOpening, until_beacon, "no-proof, proved",
           "- - - - - - - + - - - + + + - - - - + + + + - - -"},
          {"beacon missed", TaskState::kAwaitingOpening,
           [](World& world) {
             until_proof(world);
             world.go_to(world.now + kWindow + 1);
           },
           "no-proof, proved", "- - - - - - - - + - - + + + - - - - + + + + - - -"},
          {"opened", TaskState::kOpened, until_opened, "no verdict",
           "- - - - - - - - - + + + + + - - - - + + + + - - -"},
          {"verify-committed", TaskState::kVerifyCommitted,
           [](World& world) {
             until_opened(world);
             world.take(by(test::kVerifier, commitment()));
           },
           "no verdict, committed", "- - - - - - - - - - + - + + - - - - + + + + - - -"}};
}

std::vector<Row> rows_of_the_window() {
  return {{"no verdict", TaskState::kChallengeWindow,
           [](World& world) {
             until_opened(world);
             world.go_to(world.now + kWindow + 1);
           },
           "awaiting-delivery", "- - - - - - - - - - - + + + + - - - + + + + - - -"},
          {"no verdict, committed", TaskState::kChallengeWindow,
           [](World& world) {
             until_opened(world);
             world.take(by(test::kVerifier, commitment()));
             world.go_to(world.now + kWindow + 1);
           },
           "awaiting-delivery", "- - - - - - - - - - - - + + + - - - + + + + - - -"},
          {"accepted", TaskState::kChallengeWindow, until_accepted, "awaiting-delivery",
           "- - - - - - - - - - - - + + + - - - + + + + - - -"},
          {"refuted, not opened", TaskState::kChallengeWindow,
           [](World& world) {
             until_proof(world);
             world.take(by(test::kVerifier, refutation()));
             world.go_to(world.now + kWindow + 1);  // past the duty to open
           },
           "due", "- - - - - - - - - - - - + + + - - - + + + + - - -"},
          {"game in the window", TaskState::kChallengeWindow,
           [](World& world) {
             until_accepted(world);
             world.go_to(world.now + kWindow);
             world.take(any(logged_game()));
           },
           "arbitration", "- - - - - - - - - - - - + + + + - - + + + + - - -"},
          {"arbitration", TaskState::kArbitration,
           [](World& world) {
             until_accepted(world);
             world.go_to(world.now + kWindow);
             world.take(any(logged_game()));
             world.go_to(world.now + 1);
           },
           "convicted", "- - - - - - - - - - - - + + - + - - + + + + - - -"},
          {"awaiting-delivery", TaskState::kAwaitingDelivery,
           [](World& world) {
             until_accepted(world);
             world.go_to(world.now + kWindow + 1);
           },
           "due", "- - - - - - - - - - - - + + - - - - + + + + - - -"}};
}

const std::vector<Row>& rows() {
  static const std::vector<Row> out = joined(rows_before_the_window(), rows_of_the_window());
  return out;
}

/// Once a task is due only its settlement is accepted, and a ruling if a game has ended.
std::string_view taken_in(std::string_view name) {
  for (const Row& row : rows()) {
    if (row.name == name) return row.taken;
  }
  return name == "convicted" ? "- - - - - - - - - - - - - - - - + + + + + + - - -"
                             : "- - - - - - - - - - - - - - - - - + + + + + - - -";
}

void check(const World& world, std::string_view where, std::string_view taken) {
  for (std::size_t i = 0; i < statements().size(); ++i) {
    const auto& [name, make] = statements()[i];
    Market market = world.market;
    const auto before = market.balances();
    const Status status = market.apply(make(world), world.now);
    INFO(where << " at " << world.now << ": " << name << ": "
               << (status.ok() ? "taken" : status.error().message));
    CHECK(status.ok() == (taken[2 * i] != '-'));
    if (!status.ok()) CHECK(market.balances() == before);
    std::int64_t sum = 0;
    for (const auto& [account, amount] : market.balances()) {
      CHECK(amount >= 0);
      sum += amount;
    }
    CHECK(sum == market.total());
  }
}

}  // namespace

TEST_CASE("each statement is taken in its states only, up to the last millisecond") {
  for (const Row& row : rows()) {
    INFO(row.name);
    REQUIRE(row.taken.size() == 2 * statements().size() - 1);
    World world;
    row.reach(world);
    REQUIRE(world.stands().state == row.state);
    const std::int64_t limit = *world.stands().deadline_ms;
    if (limit > world.now + 1) {
      world.go_to(limit - 1);
      check(world, row.name, row.taken);
    }
    world.go_to(limit);
    CHECK(world.stands().state == row.state);
    check(world, row.name, row.taken);
    world.go_to(limit + 1);
    check(world, std::string(row.name) + ", then " + std::string(row.then), taken_in(row.then));
  }
}

TEST_CASE("nothing about a task is taken once it is settled") {
  World world;
  world.go_to(kWindow + 1);
  const auto due = world.market.due(world.now);
  REQUIRE(due.size() == 1);
  world.take(by(test::kOperator, due[0]));
  CHECK(world.stands().state == TaskState::kSettled);
  check(world, "settled", "- - - - - - - - - - - - - - - - - - + + + + - - -");
}
