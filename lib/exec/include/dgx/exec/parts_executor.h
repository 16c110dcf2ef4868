#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "dgx/exchange/exchange.h"
#include "dgx/exec/executor.h"

namespace dgx::exec {

/// A lie of one rank to the others, for drills: it flips bit `bit` of element `element` of the step's value
/// `value` in what it gives away, and goes on with what it gave.
struct RankLie {
  enum class In : std::uint8_t {
    kCarry,      ///< the running state that it hands to the next rank, there the first word of a dot
    kGather,     ///< its slices of a value that is gathered
    kBroadcast,  ///< a value of class C, which the last rank gives to all
  };
  int rank = 0;
  In in = In::kCarry;
  kernels::ValueIndex value{};
  std::int64_t element = 0;
  int bit = 0;
};

/// The ranks that have an expert, if a program has any.
enum class ExpertsAt : std::uint8_t {
  kEveryRank,
  kHome,  ///< one each, which alone has its entries (dgx-placement(7), "Experts")
};

/// The machine that a rank stands for in a rehearsal.
struct RehearsedRank {
  double operations = 0;             ///< of the rank in a step, as they are foretold
  double operations_per_second = 1;  ///< of the machine
};

/// Times of a rehearsal: the rate of all ranks while they computed, and of each the seconds for which it
/// sleeps in a step.
struct Rehearsal {
  double operations_per_second = 0;
  std::vector<double> sleeps;
};

/// Runs a checked step program on the CPU, its batch cut into parts that are made one after another
/// (dgx-placement(7), "Parts"): with ExactExecutor's bits, and less memory, as the activations of one part
/// alone are there at a time. What is carried from part to part lies in memory: the value itself, and more
/// words only where a part ends within a block or group of a dot.
///
/// trace() is an ExactExecutor's, made when first needed, with the memory that takes.
class PartsExecutor final : public StepExecutor {
 public:
  /// kUsage: `parts` is below 1 or above the batch's slices (its workers, or else its samples), or a line of
  /// the body needs a value of all of them (its number is in the message), or the parts differ so that there
  /// would be too many programs, or the memory is not there, that of plans included (nothing has been
  /// allocated but some of the plans), or the program reads no batch, or no line of it can be cut, or a
  /// part's would exceed a cap; else as ExactExecutor::create().
  [[nodiscard]] static Result<std::unique_ptr<PartsExecutor>> create(
      std::shared_ptr<const program::Program> program, const StepInputs& inputs, int threads,
      std::int64_t parts);
  /// One part on each rank, all made at the same time (dgx-placement(7), "Ranks"): all ranks must create it
  /// for the same program and inputs, and take the same steps together. Whatever the body gathers is
  /// exchanged, so no line is in the way. Each rank holds the whole state but for divided entries. kUsage
  /// also if this rank's share of the machine's memory is too small; the errors of step() are also those of
  /// `ranks`, which must outlive the executor. Rank n has slices bounds[n] … bounds[n+1]−1, at least one:
  /// kInternal if these are not all. Without bounds, the ranks' parts differ by a slice at most. With experts
  /// at home, errors of program::place_experts(), and a rank lacks the entries of other ranks' experts.
  [[nodiscard]] static Result<std::unique_ptr<PartsExecutor>> create_on(
      exchange::Exchange& ranks, std::shared_ptr<const program::Program> program, const StepInputs& inputs,
      int threads, const std::vector<std::int64_t>& bounds = {}, ExpertsAt experts = ExpertsAt::kEveryRank);
  /// Bytes of memory that create_on() would take on rank `rank` of those between `bounds`. Nothing is read of
  /// the fields but their types and shapes. Errors of create_on(), but for memory.
  [[nodiscard]] static Result<std::int64_t> bytes_of_rank(std::shared_ptr<const program::Program> program,
                                                          const StepInputs& inputs, int threads, int rank,
                                                          const std::vector<std::int64_t>& bounds,
                                                          ExpertsAt experts = ExpertsAt::kEveryRank);
  /// One stage of a pipeline on each rank (dgx-placement(7), "Pipelines"): of S stages, which begin at the
  /// forward lines `cuts`, rank n has stage n mod S of pipeline n / S, and that stage's entries of the state
  /// alone. The batch is cut into parts at `bounds`, as above, of which each pipeline has as many, one after
  /// another; without bounds, one. Rank 0 has the loss and what is watched. Errors of create_on() and
  /// program::stages_of(); kInternal for ranks that are no multiple of the stages, or parts that are none of
  /// the pipelines.
  [[nodiscard]] static Result<std::unique_ptr<PartsExecutor>> create_stage(
      exchange::Exchange& ranks, std::shared_ptr<const program::Program> program, const StepInputs& inputs,
      int threads, const std::vector<kernels::ValueIndex>& cuts,
      const std::vector<std::int64_t>& bounds = {});
  /// Bytes of memory that create_stage() would take on rank `rank` of so many, as bytes_of_rank().
  [[nodiscard]] static Result<std::int64_t> bytes_of_stage(std::shared_ptr<const program::Program> program,
                                                           const StepInputs& inputs, int threads, int rank,
                                                           int ranks,
                                                           const std::vector<kernels::ValueIndex>& cuts,
                                                           const std::vector<std::int64_t>& bounds);
  ~PartsExecutor() override;

  /// True if each rank makes a stage.
  [[nodiscard]] bool is_pipeline() const;
  /// True if this rank has every entry whole. False in a pipeline, with experts at home, and where entries
  /// are divided: then state(), digests() and snapshot() are of the entries that it has whole, trace() is
  /// kInternal, and load() takes a whole state and keeps its share.
  [[nodiscard]] bool has_whole_state() const;
  /// True if each expert is at home on one rank, so that ranks have different work.
  [[nodiscard]] bool has_experts_at_home() const;
  /// The stages of the pipeline; 1 if there is none. Ranks r and r + stages() have the same entries, but for
  /// those that are divided or at home.
  [[nodiscard]] int stages() const;
  /// The digests of all entries, in the program's order; zeros for those that this rank does not have.
  [[nodiscard]] Result<std::vector<Digest>> digests_of_entries(int threads) const;
  /// The name of the program's nth entry.
  [[nodiscard]] const std::string& name_of_entry(std::size_t n) const;
  /// Gives the other ranks what they need of a state that this rank has loaded; they take() it. Errors of the
  /// messages; kInternal without ranks.
  [[nodiscard]] Status give(const State& state);
  [[nodiscard]] Status take();
  /// The whole state on rank 0, an empty one on others: all ranks must call it. Errors of the messages.
  [[nodiscard]] Result<State> collect();
  /// The state behind a step from `state` that `take_step` takes on this rank alone, by an executor of all
  /// lines and samples, with the memory that takes.
  [[nodiscard]] Result<State> traced(const State& state,
                                     const std::function<Status(StepExecutor&)>& take_step);

  [[nodiscard]] Status load(const State& state) override;
  /// make_step(), then end_step(). Among ranks only if each has the whole state: else one can fail whose
  /// entries are not finite, while the others go a step ahead.
  [[nodiscard]] Status step() override;
  /// Makes a step, of which nothing is taken yet: errors of step(). Ranks must then hear whether it is
  /// finite on all before any calls end_step(), or else some would be a step ahead.
  [[nodiscard]] Status make_step();
  /// The entries become what make_step() has made.
  void end_step();
  [[nodiscard]] std::int64_t position() const override;
  [[nodiscard]] Result<State> state() const override;
  [[nodiscard]] Result<merkle::StateDigests> digests(int threads) const override;
  [[nodiscard]] Result<PendingState> snapshot(const LeaveOut& leave_out) override;
  [[nodiscard]] float loss() const override;
  [[nodiscard]] Status trace(const program::ValueVisitor& visit) override;
  [[nodiscard]] Status trace(const Fault& fault, const program::ValueVisitor& visit) override;
  [[nodiscard]] std::span<const float> watched() const override;
  /// From now on the rank of the lie tells it in every make_step_with_lie(). Returns the fault with which one
  /// process makes the same step. kUsage, naming what is wrong, if there is no such rank, value, element or
  /// bit, or that rank does not give it away so, or one of its own lines has read a value to be gathered
  /// before; kInternal unless made by create_on().
  [[nodiscard]] Result<Fault> set_lie(const RankLie& lie);
  /// make_step() in which a rank lies. All ranks take it together. After set_lie().
  [[nodiscard]] Status make_step_with_lie();
  [[nodiscard]] bool has_lie() const;
  /// From now on notes the processor time of all operations, for rehearse(). kUsage for more threads than
  /// one.
  [[nodiscard]] Status prepare_rehearsal(const RehearsedRank& rank);
  /// From now on steps compute nothing: each operation sleeps for the time that it would take on the rank's
  /// machine, and messages go between ranks as before, with whatever values there are. All ranks must call it
  /// together, after some steps since prepare_rehearsal(). kInternal without that; errors of the messages.
  [[nodiscard]] Result<Rehearsal> rehearse();
  /// Samples of each part.
  [[nodiscard]] std::vector<std::int64_t> samples_of_parts() const;
  [[nodiscard]] int threads() const;
  /// Seconds that all steps so far have waited for messages; 0 without ranks.
  [[nodiscard]] double waited_seconds() const;
  /// Bytes that all steps so far would have sent and broadcast more without coding.
  [[nodiscard]] std::int64_t saved_bytes() const;
  /// Bytes of memory that a step takes here, state and inputs included; not those of the execution plans
  /// themselves.
  [[nodiscard]] std::int64_t planned_bytes() const override;
  /// The plans of all different local programs, and the tail's.
  [[nodiscard]] std::string explain() const override;
  /// Times parts and tail: profile() has their operations, one after the other as in explain().
  [[nodiscard]] Status start_profile() override;
  [[nodiscard]] StepProfile profile() const override;

 private:
  struct Impl;
  struct InTurn;
  struct ByRanks;
  struct ByStages;
  explicit PartsExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dgx::exec
