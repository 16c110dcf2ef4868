#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "dgx/protocol/settlement.h"
#include "simulate/plan.h"
#include "simulate/stream.h"

namespace dgx::jobs {

/// A market's ledger as its operator keeps it, without files and signatures: it has the clock, the money that
/// people bring, heads and rounds. Ids of statements are random numbers.
class World {
 public:
  World(const Plan& plan, std::int64_t market);

  /// Logs the policy.
  [[nodiscard]] Status begin();
  /// Logs a statement now, with this id. Errors name the statement: what people say here is allowed, so they
  /// are about money or about us.
  template <class T>
  [[nodiscard]] Status say(T body, const Digest& by, const Digest& id) {
    return log({manifest::Body(std::move(body)), id, {}, by, {}});
  }
  template <class T>
  [[nodiscard]] Status say(T body, const Digest& by) {
    return say(std::move(body), by, own_.digest());
  }
  /// Lets the account have `amount` at least: what it lacks, and as much again for all tasks that are open,
  /// is deposited.
  [[nodiscard]] Status fund(const Person& person, std::int64_t amount);
  /// Moves the clock to `milliseconds`, with a head whenever the operator would else be taken for absent.
  [[nodiscard]] Status advance(std::int64_t milliseconds);
  /// Logs the round of a slot that is over, whose value nobody could know.
  [[nodiscard]] Status log_round(std::int64_t slot);

  /// Forgets the tasks that are settled.
  void forget() { market_.forget_settled(); }

  [[nodiscard]] std::int64_t now() const { return now_; }
  [[nodiscard]] const Digest& ledger() const { return ledger_; }
  [[nodiscard]] const Digest& operator_id() const { return operator_; }
  [[nodiscard]] const protocol::Market& market() const { return market_; }
  [[nodiscard]] const protocol::TaskRecord& record(const Digest& task) const {
    return market_.tasks().at(task);
  }
  [[nodiscard]] std::int64_t statements() const { return statements_; }

 private:
  [[nodiscard]] Status log(const manifest::Signed<manifest::Body>& statement);

  const Plan& plan_;
  Stream own_;
  Digest ledger_;
  Digest operator_;
  protocol::Market market_;
  std::int64_t now_ = 0;
  std::int64_t last_ = 0;  ///< time of the last statement
  std::int64_t statements_ = 0;
  std::int64_t deposits_ = 0;
};

}  // namespace dgx::jobs
