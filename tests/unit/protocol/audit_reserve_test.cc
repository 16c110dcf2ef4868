// Fees of auditors where the jackpot lacks them, and for whom it pays first: dgx-money(7), "Re-checks".
#include <array>
#include <catch2/catch.hpp>

#include "audit_market.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/lots.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;
using test::any;
using test::at;
using test::AuditMarket;
using test::by;
using test::kOperator;
using test::kSolver;
using test::kSubmitter;

namespace {

/// All that an accepted task costs its submitter without an audit.
std::int64_t cost(const AuditMarket& m) {
  const Estimate& e = m.run().task.body.estimate;
  return e.reward + e.fee + e.tax + e.treasury;
}

}  // namespace

TEST_CASE("an empty jackpot switches no audit off: the task pays what it lacks") {
  AuditMarket m(test::audit_policy(), false);
  const bool lazy = GENERATE(false, true);
  m.draw_auditor(lazy);
  CHECK(m.jackpot() == 0);
  REQUIRE(m.record().audit->auditor);
  CHECK(m.record().audit->fee == m.fee());
  CHECK(m.record().audit->fee_of_task == m.fee());
  const std::uint8_t auditor = m.auditor();
  SECTION("the auditor looks, and is paid by the submitter, whose task it is") {
    m.audit_by_drawn(m.audit(auditor));
    if (lazy) m.take(by(auditor, m.witness_challenge()), at(5'100));
    CHECK(m.settle(at(lazy ? 6'501 : 6'002)) == (lazy ? "unverified" : "accepted"));
    const std::int64_t found = lazy ? AuditMarket::bond_of(m.verifier()) / 2 / 2 : 0;
    CHECK(m.gain(auditor) == m.fee() + found);
    CHECK(m.gain(kSubmitter) == -cost(m) - m.fee() + (lazy ? m.fee() : 0));
    CHECK(m.gain(m.verifier()) == (lazy ? -AuditMarket::bond_of(m.verifier()) : m.fee()));
  }
  SECTION("the auditor is silent, and the submitter has the fee back") {
    CHECK(m.settle(at(6'001)) == "accepted");
    CHECK(m.gain(auditor) == -AuditMarket::bond_of(auditor));
    CHECK(m.gain(kSubmitter) == -cost(m));
  }
  SECTION("the auditor refutes, and the lost bond pays it back") {
    m.audit_by_drawn(m.refuting_audit(auditor));
    CHECK(m.settle(at(6'002)) == "refuted");
    CHECK(m.gain(kSubmitter) > 0);
    CHECK(m.gain(auditor) >= m.fee());
  }
}

TEST_CASE("an audit whose fee is not delivered for costs the submitter nothing") {
  AuditMarket m(test::audit_policy(), false);
  m.draw({{10, 501}, {11, 502}, {12, 503}}, test::kFrom);
  m.take(m.opening_of(), at(2'500));
  m.take(by(m.verifier(), m.replayed(m.verifier())), at(3'500));
  m.take(by(kOperator, m.round_of(5)), at(4'000));
  m.audit_by_drawn(m.audit(m.auditor()));
  const std::uint8_t auditor = m.auditor();
  CHECK(m.settle(at(7'002)) == "no-delivery");
  CHECK(m.gain(kSubmitter) == 0);
  CHECK(m.gain(auditor) == m.fee());
}

TEST_CASE("nobody is drawn where jackpot and task together lack the fee") {
  Policy policy = test::audit_policy();
  const std::int64_t margin_ppm = GENERATE(0, 10'000, 1'000'000);
  policy.margin_ppm = margin_ppm;
  AuditMarket m(policy, false);
  m.draw_auditor();
  const bool enough = m.run().task.body.estimate.margin >= m.fee();
  CHECK(enough == (margin_ppm == 1'000'000));
  CHECK(m.record().audit->auditor.has_value() == enough);
  CHECK(m.record().audit->fee_of_task == (enough ? m.fee() : 0));
}

TEST_CASE("what goes back to the submitter whatever happens is the margin, and more if the proof diverged") {
  const AuditMarket m;
  const Task& task = m.run().task.body;
  CHECK(unused_escrow(task, task.estimate) == task.estimate.margin);
  Estimate half = task.estimate;
  half.reward /= 2;
  CHECK(unused_escrow(task, half) == task.estimate.margin + task.estimate.reward - half.reward);
}

namespace {

/// A market whose jackpot has one fee and not two, and in which two tasks have verdicts in one slot.
class TwoVerdicts : public AuditMarket {
 public:
  TwoVerdicts() : AuditMarket(policy(), false), second_(another()) {
    leave_bond();
    const std::array<const test::TinyRun*, 2> both{&run(), &second_};
    for (const test::TinyRun* one : both) {
      take(any(one->task), test::kFrom);
      for (std::uint8_t who = 10; who < 14; ++who) {
        BeaconCommitment body = test::offer(*one).body;
        body.bond = kOffered;
        take(by(who, body), test::kFrom);
      }
    }
    for (const test::TinyRun* one : both) {
      Assign body = test::assignment(*one).body;
      body.commitment.reset();
      take(by(kSolver, body), at(400));
    }
    for (const test::TinyRun* one : both) take(any(one->proof), at(1'300));
    take(by(kOperator, round_of(3)), at(2'000));
    for (const test::TinyRun* one : both) {
      const Digest& round = record_of(*one).round->source.id;
      take(by(kSolver, Opening{one->task.id, one->proof.id, round, "opening"}), at(2'500));
    }
  }

  /// Logs both verdicts, with a nonce, and the round that draws; the two lots' order, and who was paid for.
  void judge(const std::string& nonce) {
    for (const test::TinyRun* one : std::array<const test::TinyRun*, 2>{&run(), &second_}) {
      const auto& source = record_of(*one).round->source;
      std::uint8_t who = 10;
      while (test::key_id(who) != record_of(*one).round->drawn.front().drawn.verifier) ++who;
      Verdict body = test::replayed(*one, source, who);
      body.nonce = test::digest(nonce);
      take(by(who, body), at(3'500));
    }
    take(by(kOperator, round_of(5)), at(4'000));
  }
  [[nodiscard]] const TaskRecord& record_of(const test::TinyRun& one) const {
    return market().tasks().at(one.task.id);
  }
  [[nodiscard]] const test::TinyRun& second() const { return second_; }

 private:
  static constexpr std::int64_t kOffered = 2'001;

  static Policy policy() {
    Policy out = test::audit_policy();
    out.solver_bond = 1;
    out.solver_bond_ppm = 3'000'000;
    out.margin_ppm = 1'000'000;
    return out;
  }
  [[nodiscard]] test::TinyRun another() const {
    return test::tiny_run("second", test::TinyExecutor(), [&](Task& task) {
      task.policy = policy();
      task.ledger = ledger();
      task.estimate = *estimate(
          {task.estimate.step_operations, task.caps.bytes, task.steps, task.checkpoint_every, task.price},
          task.policy);
    });
  }
  /// A solver who proves nothing for a cheap task loses the bond to the jackpot.
  void leave_bond() {
    Task cheap = run().task.body;
    cheap.price /= 20;
    cheap.estimate = *estimate(
        {cheap.estimate.step_operations, cheap.caps.bytes, cheap.steps, cheap.checkpoint_every, cheap.price},
        cheap.policy);
    const auto task = *seal(cheap, test::key(kSubmitter));
    take(any(task), 0);
    BeaconCommitment offered = test::offer(run()).body;
    offered.task = task.id;
    offered.bond = kOffered;
    take(by(61, offered), 0);
    Assign assigned = test::assignment(run()).body;
    assigned.task = task.id;
    assigned.commitment.reset();
    take(by(60, assigned), 400);
    take(by(kOperator, market().due(1'401).at(0)), 1'401);
  }

  test::TinyRun second_;
};

}  // namespace

TEST_CASE("of the verdicts of one slot the jackpot pays first for the one whose lot is the smallest") {
  std::size_t against_ids = 0, with_ids = 0;
  for (int nonce = 0; nonce < 6; ++nonce) {
    TwoVerdicts m;
    const std::int64_t has = m.jackpot();
    REQUIRE(has >= m.fee());
    REQUIRE(has < 2 * m.fee());
    m.judge(std::to_string(nonce));
    const AuditDraw& first = *m.record().audit;
    const AuditDraw& second = *m.record_of(m.second()).audit;
    REQUIRE(first.auditor);
    REQUIRE(second.auditor);
    const bool first_is_first = first.lot < second.lot;
    CHECK((first_is_first ? first : second).fee_of_task == 0);
    CHECK((first_is_first ? second : first).fee_of_task == 2 * m.fee() - has);
    CHECK(m.jackpot() == 0);
    ++(first_is_first == (m.run().task.id < m.second().task.id) ? with_ids : against_ids);
  }
  CHECK(against_ids > 0);
  CHECK(with_ids > 0);
}
