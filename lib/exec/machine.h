#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dgx/exec/profile.h"
#include "plan.h"
#include "team_policy.h"
#include "thread_team.h"

namespace dgx::exec {

class TaskClock;

/// A plan with its memory. Runs one step of a program at a time, over inputs in the caller's memory.
class Machine {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Machine>> create(
      std::shared_ptr<const program::Program> program, Fusion fusion, std::shared_ptr<ThreadTeam> team,
      const std::vector<kernels::ValueIndex>& keep);

  ~Machine();

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const program::Program& program() const { return *program_; }

  /// Sets the memory of input `value`, or of a state entry's next value `value`. The caller keeps it alive.
  void set_memory(kernels::ValueIndex value, void* memory);
  /// Runs all tasks, shared among the team or on member 0 alone (team_policy.h). Before they start,
  /// `prologue` is called once for every member, and a barrier follows. `aside`, if not empty, is called
  /// once, by an idle member or after the tasks if member 0 runs alone, and has returned when run() does; it
  /// needs has_idle_members().
  [[nodiscard]] Status run(const std::function<void(int member)>& prologue,
                           const std::function<void()>& aside = {});
  /// True if the other members are idle for a while in every run, since member 0 runs a section alone.
  [[nodiscard]] bool has_idle_members() const { return idle_section_ < plan_.sections.size(); }
  /// kEveryValue only: computes the values one by one, in order, and calls `made` after each, inputs
  /// included.
  [[nodiscard]] Status run_each(
      const std::function<void(int member)>& prologue,
      const std::function<Status(kernels::ValueIndex, std::span<std::uint8_t>)>& made);

  [[nodiscard]] TensorView view(kernels::ValueIndex value) const {
    return views_[static_cast<std::size_t>(value)];
  }
  /// True if the last run raised the not-finite flag of `value`.
  [[nodiscard]] bool flagged(kernels::ValueIndex value) const;
  /// True if a fused map checks `value`, so that flagged() is the answer.
  [[nodiscard]] bool is_checked(kernels::ValueIndex value) const {
    return checked_[static_cast<std::size_t>(value)];
  }
  /// From now on run() adds up the time that each of the plan's tasks takes.
  void time_tasks() { task_seconds_.assign(plan_.tasks.size(), 0); }
  /// Seconds by task; empty unless time_tasks() was called.
  [[nodiscard]] const std::vector<double>& task_seconds() const { return task_seconds_; }
  /// Bytes of the plan and the threads' scratch, without the inputs.
  [[nodiscard]] std::int64_t planned_bytes() const;

 private:
  struct Thread;
  Machine(std::shared_ptr<const program::Program> program, Plan plan, std::shared_ptr<ThreadTeam> team);
  void run_sections(int member, int members, const std::function<void()>& aside);
  void run_task(const Task& task, int member, int members);
  void run(const MatmulTask& task, Thread& thread, int member, int members);
  void run(const ColumnSumTask& task, Thread& thread, int member, int members);
  void run(const MapTask& task, Thread& thread, int member, int members);
  void run(const FoldTask& task, Thread& thread, int member, int members);
  void run(const GenericTask& task, Thread& thread, int member, int members);
  void run(const ProductMapTask& task, Thread& thread, int member, int members);
  void run(const WindowProductTask& task, Thread& thread, int member, int members);
  void run(const WindowGradientTask& task, Thread& thread, int member, int members);
  void run_groups(const WindowGradientTask& task, Thread& thread, int member, int members);
  void run(const ChainTask& task, Thread& thread, int member, int members);
  void run(const ConcatenationTask& task, Thread& thread, int member, int members);
  void fold_rows(const FoldTask& task, const Thread& thread, const float* operands, std::int64_t stride,
                 std::int64_t first, std::int64_t count);
  void fold_across(const FoldTask& task, Thread& thread, std::int64_t begin, std::int64_t end);
  void fold_columns(const FoldTask& task, Thread& thread, std::int64_t begin, std::int64_t end);
  void sort_positions(const ChainTask::Key& key, std::int64_t length, Thread& thread) const;
  const float* packed_right_side(const MatmulTask& task, Thread& thread, std::int64_t begin,
                                 std::int64_t end);
  void run_slices(const SlicedTasks& sliced, int member, int members, TaskClock& clock);
  void run_slice(const Task& task, Thread& thread, std::int64_t slices, std::int64_t begin, std::int64_t end);
  void fold_elements(const FoldTask& task, Thread& thread, std::int64_t begin, std::int64_t end);
  void multiply(const MatmulTask& task, Thread& thread, const kernels::cpu::Part& part, std::int64_t batch);
  [[nodiscard]] Status first_error() const;

  std::shared_ptr<const program::Program> program_;
  Plan plan_;
  std::shared_ptr<ThreadTeam> team_;
  TeamPolicy policy_;
  Tensor arena_;
  std::vector<void*> memory_;      // by value
  std::vector<TensorView> views_;  // the same, with types
  std::vector<bool> checked_;      // by value
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<double> task_seconds_;
  // The longest section that member 0 runs alone; sections.size() if there is none.
  std::size_t idle_section_;
};

}  // namespace dgx::exec
