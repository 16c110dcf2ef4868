#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/stop.h"
#include "dgx/exchange/exchange.h"
#include "dgx/exec/parts_executor.h"

namespace dgx::exec {

/// The version of the protocol between ranks, raised with each change of what they send or in which order:
/// ranks of builds that differ in it do not begin, even where both have one version of dgx.
inline constexpr int kRanksTalk = 3;

/// The time and the messages of a rank's steps.
struct RankWork {
  double seconds = 0;         ///< of its steps
  double waited_seconds = 0;  ///< the part of them that it waited for messages
  exchange::Traffic traffic;
  std::int64_t saved_bytes = 0;  ///< sent and broadcast less than without coding
};

/// The executor of rank 0, which the other ranks follow: whatever is asked of it that changes the state, it
/// tells them first, and they do it, too. So whoever trains or replays knows of one executor, and rank 0
/// alone reads checkpoints and writes them.
///
/// Each order is a broadcast; after a step all ranks report. A report says whether the step succeeded, and
/// whether the rank was asked to stop. Digests of all copies of the state are compared whenever a copy is
/// taken, as for a checkpoint: a rank whose memory has failed is named.
///
/// The state is brought together where a rank does not have all of it (in a pipeline, with experts at home,
/// with divided entries), each time that it is asked for. What copies there are, as between the ranks of one
/// stage of several pipelines, are compared there, too.
///
/// A traced step, as a drill has, is computed by rank 0 alone, which then gives its state to all; but a
/// faulty one that nobody watches is taken together if a rank is to lie in it (PartsExecutor::set_lie()).
class LeadingExecutor final : public StepExecutor {
 public:
  /// An order of rank 0 to the others.
  enum class Order : std::uint8_t { kEnd, kLoad, kStep, kStepWithLie, kCompare, kCollect, kRehearse };

  /// Calls after a step, each of which may be empty.
  struct Listener {
    std::function<void()> asked = {};  ///< another rank was asked to stop
    /// A rank has taken kSlowFactor times as long as most for kSlowSteps steps, without what it waited; in
    /// words, with its machine. Once a rank; never in a pipeline or with experts at home, where ranks have
    /// different work.
    std::function<void(const std::string& words)> slow = {};
  };
  static constexpr double kSlowFactor = 1.5;
  static constexpr int kSlowSteps = 16;

  /// `executor` was made by PartsExecutor::create_on() or create_stage() with `ranks`, which must outlive
  /// this.
  LeadingExecutor(exchange::Exchange& ranks, std::unique_ptr<PartsExecutor> executor, Listener listener);
  /// finish(), if that was not called.
  ~LeadingExecutor() override;

  /// Tells the others that no more steps follow, and returns the work of all ranks. The last call, but for
  /// those that only read.
  [[nodiscard]] Result<std::vector<RankWork>> finish();
  /// True if the ranks can no longer end together: a message has failed, or a rank alone has.
  [[nodiscard]] bool is_broken() const { return standing_ == Standing::kBroken; }

  /// Lets all ranks rehearse from now on, as PartsExecutor::rehearse() says.
  [[nodiscard]] Result<Rehearsal> rehearse();
  [[nodiscard]] Status load(const State& state) override;
  /// kInternal, naming the rank and its machine, if one fails where others do not; errors of the messages.
  [[nodiscard]] Status step() override;
  [[nodiscard]] Status trace(const program::ValueVisitor& visit) override;
  [[nodiscard]] Status trace(const Fault& fault, const program::ValueVisitor& visit) override;
  /// kInternal, naming rank, machine and entry, if a rank has another state.
  [[nodiscard]] Result<PendingState> snapshot(const LeaveOut& leave_out) override;

  [[nodiscard]] std::int64_t position() const override { return executor_->position(); }
  [[nodiscard]] Result<State> state() const override;
  [[nodiscard]] Result<merkle::StateDigests> digests(int threads) const override;
  [[nodiscard]] float loss() const override { return executor_->loss(); }
  [[nodiscard]] std::span<const float> watched() const override { return executor_->watched(); }
  [[nodiscard]] std::int64_t planned_bytes() const override { return executor_->planned_bytes(); }
  [[nodiscard]] std::string explain() const override { return executor_->explain(); }
  [[nodiscard]] Status start_profile() override { return executor_->start_profile(); }
  [[nodiscard]] StepProfile profile() const override { return executor_->profile(); }

 private:
  [[nodiscard]] Status together(Order order, const std::function<Status()>& part) const;
  [[nodiscard]] Result<State> collect() const;
  [[nodiscard]] Status take_step(Order order);
  void note_times(std::span<const double> seconds);
  [[nodiscard]] Status trace_alone(const std::function<Status(StepExecutor&)>& take_step);

  exchange::Exchange& ranks_;
  std::unique_ptr<PartsExecutor> executor_;
  Listener listener_;
  std::vector<int> slow_steps_;  // of each rank, one after another; -1: it has been named
  enum class Standing : std::uint8_t { kLeads, kBroken, kEnded };
  mutable Standing standing_ = Standing::kLeads;
  double seconds_ = 0;
};

/// Carries out the orders of rank 0's LeadingExecutor, and returns without an error when rank 0 has ended
/// them, or when all ranks have found the same fault, which rank 0 reports. `stop`: raised when this rank is
/// asked to stop, which it reports. Errors of the messages, and of a step that fails on this rank alone: the
/// others then wait for it, until ranks.give_up().
[[nodiscard]] Status follow(exchange::Exchange& ranks, PartsExecutor& executor, const StopFlag& stop);

}  // namespace dgx::exec
