#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpu/team_policy.h"
#include "cpu/thread_team.h"
#include "dgx/core/range.h"
#include "dgx/exec/profile.h"
#include "dgx/kernels/cpu/resumed_dot.h"
#include "plan/plan.h"

namespace dgx::exec {

class OperationClock;

/// Dots of a part of a batch: their positions among those of the whole batch, and where the words of their
/// running states lie, in rows.
struct ResumedDots {
  using Words = std::array<float*, kernels::cpu::kDotWords>;  // by DotWord

  kernels::cpu::DotShare share;
  Words words{};  ///< null: no share uses that word

  /// The words of the dots from element `offset` on.
  [[nodiscard]] Words words_from(std::int64_t offset) const {
    Words out{};
    for (std::size_t w = 0; w < words.size(); ++w) out[w] = words[w] == nullptr ? nullptr : words[w] + offset;
    return out;
  }
};

/// A plan for the CPU with its memory. Runs one step of a program at a time, over inputs in the caller's
/// memory.
///
/// All members of the team walk the plan's sections together, with a barrier after each. In a parallel
/// section every member takes its share() of the one operation: rows or columns of a product, units of a
/// strip program, outputs of a fold. Who takes what depends on the number of members alone, and no number
/// depends on who makes it, so the bits are the same for any team. In a serial section member 0 runs small
/// operations one after another, and the others wait, or gather the next batch. In a section of slices each
/// member takes whole slices through several operations without a barrier.
///
/// machine_sections.cc has the walk. run() has one overload for each alternative of CpuOperation: machine.cc
/// has products, windows, maps and copies, machine_folds.cc folds and chains, machine_rows.cc replaced rows,
/// machine_slices.cc slices.
/// Addresses are looked up by value, in Thread::memory: within slices some values lie in the thread's own
/// memory, at the address they would have if the whole value were there.
class Machine {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Machine>> create(
      std::shared_ptr<const program::Program> program, Fusion fusion, std::shared_ptr<ThreadTeam> team,
      const std::vector<kernels::ValueIndex>& keep);

  /// A machine whose intermediate values lie in `arena`, of at least the plan's size, which several machines
  /// may share if they run one after another. Checks no memory.
  Machine(Plan plan, std::shared_ptr<ThreadTeam> team, std::shared_ptr<Tensor> arena);
  ~Machine();

  [[nodiscard]] const Plan& plan() const { return plan_; }

  /// Sets the memory of input `value`, or of a state entry's next value `value`. The caller keeps it alive.
  void set_memory(kernels::ValueIndex value, void* memory);
  /// From the next run on, `value`, one of the plan's resumed dots, goes on with these running states.
  void resume(kernels::ValueIndex value, const ResumedDots& dots) { resumed_[value] = dots; }
  /// Calls of member 0 around an operation, for a step whose ranks exchange messages.
  struct Around {
    std::function<void()> before;  ///< when all members have done what comes before the operation
    std::function<void()> after;   ///< when all have done their share of it
  };
  /// From the next run on, does this around the operation that makes `value`. kInternal for a value that is
  /// made slice by slice.
  [[nodiscard]] Status surround(kernels::ValueIndex value, Around around);
  /// From the next run on, member 0 calls this once all members have made these values, behind the last
  /// operation that makes one; kInternal if there is none.
  [[nodiscard]] Status call_behind(std::span<const kernels::ValueIndex> values,
                                   std::function<void()> function);
  /// From the next run on, member 0 calls this after each operation, or all those that run slice by slice.
  void call_between(std::function<void()> function) { between_ = std::move(function); }
  /// Runs all operations, shared among the team or on member 0 alone (team_policy.h). Before they start,
  /// `prologue` is called once for every member, and a barrier follows. `aside`, if not empty, is called
  /// once, by an idle member or after the operations if member 0 runs alone, and has returned when run()
  /// does; it needs has_idle_members().
  [[nodiscard]] Status run(const std::function<void(int member)>& prologue,
                           const std::function<void()>& aside = {});
  /// True if the other members are idle for a while in every run, since member 0 runs a section alone.
  [[nodiscard]] bool has_idle_members() const { return idle_section_ < plan_.sections.size(); }
  /// kEveryValue only: computes the values one by one, in order, and calls `made` after each, inputs
  /// included.
  [[nodiscard]] Status run_each(
      const std::function<void(int member)>& prologue,
      const std::function<Status(kernels::ValueIndex, std::span<std::uint8_t>)>& made);

  [[nodiscard]] TensorView view(kernels::ValueIndex value) const { return views_[value]; }
  /// True if the last run raised the not-finite flag of `value`.
  [[nodiscard]] bool flagged(kernels::ValueIndex value) const;
  /// True if a fused map checks `value`, so that flagged() is the answer.
  [[nodiscard]] bool is_checked(kernels::ValueIndex value) const { return checked_[value]; }
  /// From now on run() adds up the processor time of each of the plan's operations, without calls around and
  /// between them. One member only.
  void time_processor() { processor_ = Processor{std::vector<double>(plan_.operations.size(), 0), 0, 0}; }
  /// Processor seconds of a run, the mean of all since then but the first, if there are more.
  [[nodiscard]] double processor_seconds() const;
  /// From now on run() computes nothing: it calls neither prologue nor operations, but sleeps for the time of
  /// each, `factor` times its processor time, with the calls around and between them. Values keep what they
  /// are. After time_processor() and a run.
  void sleep_instead(double factor) { sleep_factor_ = factor; }
  /// From now on run() adds up the time that each of the plan's operations takes.
  void time_operations() { operation_seconds_.assign(plan_.operations.size(), 0); }
  /// Seconds by operation; empty unless time_operations() was called.
  [[nodiscard]] const std::vector<double>& operation_seconds() const { return operation_seconds_; }
  /// Bytes of the plan and the threads' scratch, without the inputs.
  [[nodiscard]] std::int64_t planned_bytes() const;

 private:
  struct Thread;
  void find_idle_section();
  void run_sections(int member, int members, const std::function<void()>& aside);
  void run_surrounded(std::size_t number, int member, int members);
  void call_after(std::size_t begin, std::size_t end) const;
  void sleep_sections();
  void run_operation(const Operation& operation, int member, int members);
  void run(const Matmul& product, Thread& thread, int member, int members);
  void run(const ColumnSum& sum, Thread& thread, int member, int members);
  void run(const Maps& maps, Thread& thread, int member, int members);
  void run(const Fold& fold, Thread& thread, int member, int members);
  void run(const Generic& generic, Thread& thread, int member, int members);
  void run(const ProductMaps& both, Thread& thread, int member, int members);
  void run(const WindowProducts& windows, Thread& thread, int member, int members);
  void run(const WindowGradients& windows, Thread& thread, int member, int members);
  void run_groups(const WindowGradients& windows, Thread& thread, int member, int members);
  void run(const Chain& chain, Thread& thread, int member, int members);
  void run(const Concatenation& whole, Thread& thread, int member, int members);
  void run(const ReplacedRows& replaced, Thread& thread, int member, int members);
  void fold_rows(const Fold& fold, const Thread& thread, const float* operands, std::int64_t stride,
                 std::int64_t first, std::int64_t count);
  void fold_across(const Fold& fold, Thread& thread, std::int64_t begin, std::int64_t end);
  void fold_columns(const Fold& fold, Thread& thread, std::int64_t begin, std::int64_t end);
  void sort_positions(const Chain::Key& key, std::int64_t set, std::int64_t length, Thread& thread) const;
  const float* packed_right_side(const Matmul& product, Thread& thread, std::int64_t begin, std::int64_t end);
  void run_slices(const SlicedOperations& sliced, int member, int members, OperationClock& clock);
  void run_slice(const Operation& operation, Thread& thread, std::int64_t slices, std::int64_t begin,
                 std::int64_t end);
  void fold_elements(const Fold& fold, Thread& thread, std::int64_t begin, std::int64_t end);
  void multiply(const Matmul& product, Thread& thread, const kernels::cpu::Part& part, std::int64_t batch);
  void resume_elements(const ResumedDots& dots, const Generic& generic, Range range, Thread& thread);
  [[nodiscard]] Status first_error() const;

  Plan plan_;
  std::shared_ptr<ThreadTeam> team_;
  TeamPolicy policy_;
  std::shared_ptr<Tensor> arena_;
  std::map<kernels::ValueIndex, ResumedDots> resumed_;
  std::map<std::size_t, Around> around_;  // by operation
  std::function<void()> between_;         // may be empty
  std::function<void()> behind_;          // may be empty
  std::size_t last_before_ = 0;           // the operation behind which it is called
  kernels::ByValue<void*> memory_;
  kernels::ByValue<TensorView> views_;  // the same, with types
  kernels::ByValue<bool> checked_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<double> operation_seconds_;
  /// Processor seconds by operation, and of the prologue, in so many runs.
  struct Processor {
    std::vector<double> by_operation;
    double prologue = 0;
    std::int64_t runs = 0;
  };
  std::optional<Processor> processor_;
  double sleep_factor_ = 0;  // of a machine that sleeps
  // The longest section that member 0 runs alone; sections.size() if there is none.
  std::size_t idle_section_;
};

}  // namespace dgx::exec
