#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/rows.h"
#include "dgx/core/tensor.h"
#include "dgx/exec/profile.h"
#include "dgx/kernels/schedule.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/executor.h"
#include "dgx/program/program.h"

namespace dgx::exec {

/// The inputs of a training step besides the state, all derived from the task and the dataset.
struct StepInputs {
  kernels::ScheduleParameters schedule;
  std::uint64_t seed = 0;
  std::int64_t batch = 0;
  /// The dataset's fields by name, [samples, …] each; borrowed for the executor's life. One is x.
  FieldRows fields = {};
  /// f32 scalars of the program to be read after each step, StepExecutor::watched().
  std::vector<kernels::ValueIndex> watched = {};
  /// Slices of the batch, of which parts are made (dgx-placement(7), "Words"); 0: as many as samples.
  std::int64_t slices = 0;
};

/// One deliberate fault: bit `bit` of element `element` of value `value`, flipped when the value is made; or,
/// with a position, of that element's running state while it is folded.
struct Fault {
  kernels::ValueIndex value{};
  std::int64_t element = 0;
  int bit = 0;
  /// Positions of a dot or a chain behind which the bit is flipped: in acc, or in the first word of the dot
  /// that exists there (dgx-placement(7), "Running states"). The fold goes on with it.
  std::optional<std::int64_t> position = std::nullopt;
};

/// kUsage, naming what is wrong, unless the program has that value, the value that element, and the element
/// that bit; and for a position, unless the value is a dot or a chain that has positions before and behind
/// it, and no chain of u8, whose acc has more bits than it.
[[nodiscard]] Status check_fault(const program::Program& program, const Fault& fault);

/// A state being copied out of an executor. Call it once, from any thread: it waits until the copy is
/// complete. The executor must still exist, and may take further steps meanwhile.
using PendingState = std::function<Result<State>()>;

/// True for the names of state entries that a copy is to leave out.
using LeaveOut = std::function<bool(std::string_view name)>;

/// The operations of training and replaying that program::Executor lacks, wherever the step is computed.
class StepExecutor : public program::Executor {
 public:
  using program::Executor::trace;
  /// Like state(), but without some entries, which may be empty for none, and does not wait for the copy
  /// where it can go on in the background. The result must have been called, or dropped, before the next
  /// snapshot(), and before what `leave_out` refers to.
  [[nodiscard]] virtual Result<PendingState> snapshot(const LeaveOut& leave_out);
  /// trace() with a fault; `visit` may be empty.
  [[nodiscard]] virtual Status trace(const Fault& fault, const program::ValueVisitor& visit) = 0;
  /// The values of StepInputs::watched in the last step, in that order; empty after load() and trace(). Valid
  /// until the next of these or of step().
  [[nodiscard]] virtual std::span<const float> watched() const = 0;
  /// Bytes of memory that the plan takes where the step is computed, state included.
  [[nodiscard]] virtual std::int64_t planned_bytes() const = 0;
  /// One line per operation of the plan: what runs, and how it was recognised.
  [[nodiscard]] virtual std::string explain() const = 0;
  /// From now on step() times every operation, at one or two readings of a clock each.
  [[nodiscard]] virtual Status start_profile() = 0;
  /// The time that steps have taken since start_profile(); no steps if that was not called.
  [[nodiscard]] virtual StepProfile profile() const = 0;
};

/// Runs a checked step program on the CPU, bit for bit as kernels/ref defines it. The program is analysed
/// once: dots become matrix products, maps are fused and interpreted in strips, folds run along rows,
/// everything else is evaluated element by element, and all memory is planned. A step allocates nothing.
/// `threads` threads share the work of every operation; no result depends on how many there are.
///
/// step() updates entries in place where the program allows: after an error of step() or trace() the state is
/// undefined until load().
class ExactExecutor final : public StepExecutor {
 public:
  /// kMalformed: fields or shapes of `inputs` are not the program's; kUsage: a step needs more memory than
  /// this process may use (machine, control groups, address space; the message has both numbers, and nothing
  /// has been allocated); kInternal: FTZ or DAZ is on, or rounding is not to nearest.
  [[nodiscard]] static Result<std::unique_ptr<ExactExecutor>> create(
      std::shared_ptr<const program::Program> program, const StepInputs& inputs, int threads);
  ~ExactExecutor() override;

  [[nodiscard]] Status load(const State& state) override;
  [[nodiscard]] Status step() override;
  [[nodiscard]] std::int64_t position() const override;
  [[nodiscard]] Result<State> state() const override;
  /// Copies only entries that lie in another order than a State's, to hash them. A constant entry, whose next
  /// value is its own input, is hashed once.
  [[nodiscard]] Result<merkle::StateDigests> digests(int threads) const override;
  [[nodiscard]] float loss() const override;
  [[nodiscard]] Status trace(const program::ValueVisitor& visit) override;

  /// Copies what is not left out, at once.
  [[nodiscard]] Result<PendingState> snapshot(const LeaveOut& leave_out) override;
  [[nodiscard]] Status trace(const Fault& fault, const program::ValueVisitor& visit) override;
  [[nodiscard]] std::span<const float> watched() const override;
  [[nodiscard]] std::int64_t planned_bytes() const override;
  [[nodiscard]] std::string explain() const override;
  [[nodiscard]] Status start_profile() override;
  [[nodiscard]] StepProfile profile() const override;

 private:
  friend class PartsExecutor;  // whose tail is an Impl
  struct Impl;
  explicit ExactExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Bytes of memory that an ExactExecutor of `threads` threads takes, state included, without taking any; or
/// an Evaluator that keeps `keep`. Errors of the plan, whose cost this has.
[[nodiscard]] Result<std::int64_t> needed_bytes(std::shared_ptr<const program::Program> program, int threads,
                                                const std::vector<kernels::ValueIndex>& keep = {});

/// Runs an evaluation program (no state changes, no schedule) on batches given one by one.
class Evaluator {
 public:
  /// `keep`: values to be kept besides the last three.
  [[nodiscard]] static Result<std::unique_ptr<Evaluator>> create(
      std::shared_ptr<const program::Program> program, int threads,
      const std::vector<kernels::ValueIndex>& keep = {});
  ~Evaluator();
  /// Takes the program's `model/…` entries out of `state`; others are ignored.
  [[nodiscard]] Status load(const State& state);
  /// `batch` has one batch of each field that the program reads, of the program's shapes; others are ignored.
  [[nodiscard]] Status run(const std::map<std::string, TensorView, std::less<>>& batch);
  /// A value of the last run. Only the program's last three values are kept, and those asked for.
  [[nodiscard]] TensorView value(kernels::ValueIndex value) const;
  /// One line per operation, as ExactExecutor::explain().
  [[nodiscard]] std::string explain() const;

 private:
  struct Impl;
  explicit Evaluator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dgx::exec
