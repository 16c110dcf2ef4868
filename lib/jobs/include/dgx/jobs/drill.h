#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dgx/bundle/run.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/exec/executor.h"
#include "dgx/jobs/task_files.h"

namespace dgx::jobs {

/// A deliberate fault in a run, for drills and forced errors (dgx-train(1), "Drills").
struct Drill {
  std::int64_t step = -1;  ///< the step at which one bit of one element of one value is flipped
  exec::Fault fault;
  std::optional<exec::RankLie>
      lie;  ///< of a rank of this training, which makes the step wrong as `fault` does
  std::optional<std::int64_t> segment;  ///< the lazy segment, instead of a step
  [[nodiscard]] bool lazy() const { return segment.has_value(); }
  /// True if the bit is flipped in one of the segment's steps.
  [[nodiscard]] bool strikes(const protocol::Segment& in) const {
    return !lazy() && step >= in.first && step < in.end;
  }
};

/// `step=S,op=O,element=E,bit=B`, with `,position=P` or without; `segment=N,lazy`; or a lie of a rank,
/// `step=S,rank=R,carry=V,element=E,bit=B`, or with `gather` or `broadcast` for `carry`, whose fault is not
/// known yet. kUsage otherwise.
[[nodiscard]] Result<Drill> parse_drill(std::string_view text);

/// The text of a fault at a step, whether or not it comes from the lie of a rank.
[[nodiscard]] std::string print_drill(const Drill& drill);

/// The drill noted in a run, if there is one.
[[nodiscard]] Result<std::optional<Drill>> drill_of(const bundle::RunHeader& header);

/// The state that a lazy solver hands in after `steps` steps they did not do: the old one again, its step
/// counter advanced, every parameter moved by one part in 2^20 so that it looks worked on.
[[nodiscard]] State lazy_state(const State& start, std::int64_t steps);

/// Takes a task's steps as one party takes them: honestly, or with the deliberate fault of its run. Training,
/// replays and disputes step through it, so nothing else knows what a drill does.
///
/// A fault is a traced step with one bit flipped. A lazy segment takes no step: its states all follow from
/// the one that it starts from, which is kept when the segment is entered, and the values of a step are the
/// honest ones except those that become entries of the claimed state.
class DrilledExecutor final : public program::Executor {
 public:
  /// Borrows all but the drill. Several may share one executor if each calls load() when its turn begins.
  DrilledExecutor(const TaskFiles& files, exec::StepExecutor& executor, std::optional<Drill> drill)
      : files_(files), executor_(executor), drill_(std::move(drill)) {}

  [[nodiscard]] const std::optional<Drill>& drill() const { return drill_; }
  /// Restarts from a state at a committed step: a lazy segment can only be shown from its beginning.
  [[nodiscard]] Status load(const State& state) override;
  [[nodiscard]] Status step() override;
  /// Shows every value as the party claims it.
  [[nodiscard]] Status trace(const program::ValueVisitor& visit) override;
  /// Takes `steps` steps of a lazy segment at once.
  [[nodiscard]] Status idle(std::int64_t steps);
  [[nodiscard]] std::int64_t position() const override { return executor_.position(); }
  [[nodiscard]] Result<State> state() const override { return executor_.state(); }
  [[nodiscard]] Result<merkle::StateDigests> digests(int threads) const override {
    return executor_.digests(threads);
  }
  [[nodiscard]] float loss() const override { return executor_.loss(); }

 private:
  [[nodiscard]] bool faulty_now() const { return drill_ && !drill_->lazy() && position() == drill_->step; }
  [[nodiscard]] bool lazy_now() const;
  /// The lazy solver's state after `steps` more steps.
  [[nodiscard]] Result<State> claimed_after(std::int64_t steps);

  const TaskFiles& files_;
  exec::StepExecutor& executor_;
  std::optional<Drill> drill_;
  State segment_start_;  // of the lazy segment, once it is entered
};

}  // namespace dgx::jobs
