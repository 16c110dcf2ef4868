#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "dgx/protocol/settlement.h"
#include "histories.h"
#include "history_plans.h"

namespace dgx::test {

/// An accepted statement and its receipt's time.
struct Event {
  manifest::Signed<manifest::Body> statement;
  std::int64_t now = 0;
};

/// Fault in a market's money, in words; empty if there is none. `lost`: units that a planted fault took away.
[[nodiscard]] std::string money_problem(const protocol::Market& market, std::int64_t lost);

/// A history in progress: its plans, and the ledger in which they are carried out.
struct History {
  History(Stage& stage, Dice& shared, Histories& all, const Plant& fault)
      : plans(stage, shared), dice(shared), total(all), plant(fault) {}

  [[nodiscard]] const manifest::Signed<manifest::Task>& task() const { return plans.stage.scene.task; }
  [[nodiscard]] const protocol::TaskRecord& record() const { return market.tasks().at(task().id); }
  [[nodiscard]] std::int64_t market_now() const { return market.clock().at(now); }
  [[nodiscard]] protocol::TaskState state() const { return protocol::standing(record(), market_now()).state; }
  [[nodiscard]] std::int64_t gain(std::uint8_t who) const {
    return market.balances().at(id_of(who).hex()) - kMoney;
  }

  /// Logs a statement if the market takes it, and checks the sum of all money.
  bool take(const manifest::Signed<manifest::Body>& statement) {
    if (!market.apply(statement, now).ok()) return false;
    note(statement);
    return true;
  }
  /// Counts an accepted statement.
  void note(const manifest::Signed<manifest::Body>& statement) {
    ++total.statements;
    events.push_back({statement, now});
    lost += plant && plant(statement.body) ? 1 : 0;
    if (const std::string wrong = money_problem(market, lost); !wrong.empty()) {
      problem = wrong;
      is_money = true;
    }
  }
  template <class T>
  bool say(const T& body, std::uint8_t who) {
    return take(any_of_kind(said(body, who)));
  }
  /// Logs an honest party's statement, which must be accepted.
  template <class T>
  void must(const T& body, std::uint8_t who, std::string_view what) {
    const auto statement = any_of_kind(said(body, who));
    const Status status = market.apply(statement, now);
    if (status.ok()) {
      note(statement);
    } else {
      problem = fmt::format("honest {} refused: {}", what, status.error().message);
    }
  }

  [[nodiscard]] bool rounds() const { return task().body.policy.beacon_source != 0; }
  [[nodiscard]] bool audits_verdicts() const { return task().body.policy.audit_ppm > 0; }
  [[nodiscard]] bool forces_errors() const { return task().body.policy.forced_error_ppm > 0; }
  /// True if it is for this key to give a verdict.
  [[nodiscard]] bool is_asked(std::uint8_t who) const {
    return protocol::verifier_at(record(), market_now()) == id_of(who);
  }
  [[nodiscard]] bool has_offered(std::uint8_t who) const {
    return std::any_of(record().offers.begin(), record().offers.end(),
                       [&](const auto& offer) { return offer.second.statement.key_id == id_of(who); });
  }

  const Plans plans;
  std::map<std::uint8_t, manifest::Verdict> audits{};  ///< what each has committed to
  Dice& dice;
  Histories& total;
  protocol::Market market{};
  std::int64_t now = 0;  ///< receipt time
  std::string problem{};
  const Plant& plant;
  std::vector<Event> events{};  ///< in their order
  std::int64_t lost = 0;        ///< units, by the planted fault
  bool is_money = false;        ///< the problem is one of money_problem()
};

/// True if this key can still begin a game about a statement, and plays none.
[[nodiscard]] bool may_challenge(const History& history, std::uint8_t who, const Digest& statement);
bool challenge(History& history, const manifest::Challenge& body, std::uint8_t who);

/// Logs a task whose solver proves nothing, and loses the bond to the jackpot, from which auditors are paid.
void fill_jackpot(History& history);
/// Commits to audits, and shows them: the honest auditor, the watcher, and others who are honest or not.
void audit(History& history, std::uint8_t who);
/// Reveals the secret of the verdict's signer when it is due or, of who is not honest, before, by somebody
/// else.
void reveal(History& history, std::uint8_t who);
/// Lets an honest party who has denied witnesses of the verdict, other than the forced one, challenge it; and
/// an auditor who found the forced one true.
void follow_up(History& history, std::uint8_t who);
/// Lets somebody commit to nothing, or challenge what somebody states.
void grief_rechecks(History& history, std::uint8_t who);

}  // namespace dgx::test
