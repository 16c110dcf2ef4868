#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpu/executor_impl.h"
#include "dgx/exchange/exchange.h"
#include "dgx/exchange/sparse_messages.h"
#include "dgx/exec/parts_executor.h"
#include "dgx/program/pieces.h"

namespace dgx::exec {

/// A line of class C: where the last part leaves its value, and what goes on from part to part.
struct Carried {
  bool is_dot = false;
  bool is_read = false;                              ///< by the tail, which has the value
  std::int64_t positions = 0;                        ///< of the whole fold
  std::array<bool, kernels::cpu::kDotWords> used{};  ///< of a dot: words that need memory besides `value`
  std::uint8_t* value = nullptr;
  std::array<Tensor, kernels::cpu::kDotWords> words;  ///< of a dot, besides `value`
  std::array<float*, kernels::cpu::kDotWords> places{};
  Tensor other;                    ///< of a chain: acc before or after a part
  std::uint8_t* before = nullptr;  ///< of a chain: acc before the next part

  /// Values of the line's size for which there must be memory, besides the tail's.
  [[nodiscard]] std::int64_t values() const {
    return (is_read ? 0 : 1) + (is_dot ? std::ranges::count(used, true) : 1);
  }
};

/// A piece of the step, and the machine that runs it.
struct Body {
  program::Piece piece{};
  Plan plan{};          ///< until the machine has it
  bool of_part = true;  ///< its inputs of class S are the part's slices
  std::unique_ptr<Machine> machine{};
};

struct Part {
  program::SliceRange slices;
  std::size_t body = 0;
};

/// The processes before and behind this one, between which running states are carried.
struct Neighbours {
  exchange::Exchange* ranks = nullptr;
  std::optional<int> before, behind;
};

/// A step that is cut: what all its forms share, which are the tail, the inputs, and the memory of what is
/// carried. A form says who makes the parts: InTurn, this process, one after another; ByRanks, each rank one;
/// ByStages, each rank a stage of all, one after another.
///
/// prepare() plans all pieces, then takes the memory of all; step() runs them. parts_plan.cc has the former,
/// parts_executor.cc the latter.
struct PartsExecutor::Impl {
  using Step = ExactExecutor::Impl;

  std::shared_ptr<const program::Program> program;
  StepInputs inputs;
  int threads = 1;
  program::Classes classes;
  program::Piece tail_piece;
  std::unique_ptr<Step> tail;  ///< state, rows, schedule, threads; its `given` values are what the parts make
  std::vector<Part> parts;
  std::int64_t code_bytes = 0;                    ///< what the plans and texts of all pieces take, at most
  std::shared_ptr<Tensor> arena;                  ///< of all bodies, which run one after another
  std::map<kernels::ValueIndex, RowView> fields;  ///< batch inputs that bodies read
  std::map<kernels::ValueIndex, Tensor> local;    ///< by input of the step: what the part has of it
  std::map<kernels::ValueIndex, Tensor> whole;    ///< what a body needs whole: inputs, and values gathered
  std::map<kernels::ValueIndex, Carried> carried;
  std::map<kernels::ValueIndex, std::uint8_t*> given;  ///< memory of the tail's values; null until taken
  std::vector<Status> gathered;
  std::unique_ptr<ExactExecutor> at_once;  ///< for traces
  std::int64_t profiled_steps = 0;
  double profiled_seconds = 0;
  double waited_seconds = 0;  ///< for messages
  Status failed;              ///< the first error of a message in this step
  bool profiles = false;
  std::optional<RankLie> lie;
  std::optional<RehearsedRank> rehearsed;
  bool lies_now = false;        ///< in the step that is taken
  Body head{.of_part = false};  ///< without lines if the bodies gather nothing, or others make it
  std::map<kernels::ValueIndex, std::vector<exchange::Request>> expected_carries;  ///< by line of class C
  std::vector<exchange::Request> sent_carries;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;

  /// Plans the bodies of `parts`.
  virtual Status plan_bodies() = 0;
  /// Runs them, when the inputs that are alike for all parts are there.
  virtual Status run_bodies() = 0;
  /// All bodies, in the order in which they run first.
  [[nodiscard]] virtual std::vector<Body*> bodies_of_step() = 0;
  /// The number of times that the body runs in a step.
  [[nodiscard]] virtual double runs_of(const Body& body) const = 0;
  /// Checks a lie of ranks, for PartsExecutor::set_lie().
  [[nodiscard]] virtual Result<Fault> fault_of(const RankLie&) const {
    return usage_error("only ranks that share each batch can lie, not the stages of a pipeline");
  }
  /// Processes on this machine that have as much memory to share.
  [[nodiscard]] virtual int processes_here() const { return 1; }
  /// Memory that this form alone needs, and its taking.
  [[nodiscard]] virtual std::int64_t own_bytes() const { return 0; }
  virtual Status take_own_memory() { return {}; }
  /// True for a line that this process makes.
  [[nodiscard]] virtual bool makes(kernels::ValueIndex) const { return true; }
  /// The ranks among which this is one; null if it is alone.
  [[nodiscard]] virtual exchange::Exchange* exchange() const { return nullptr; }
  /// The calls of PartsExecutor by these names.
  Status prepare_rehearsal(const RehearsedRank& rank);
  Result<Rehearsal> rehearse();
  Status make_step();
  virtual void end_step() { tail->end_step(); }
  /// Gives back the memory of values that do not outlive a step, so that a copy of the state finds room.
  virtual void make_room() {}
  [[nodiscard]] virtual bool is_pipeline() const { return false; }
  [[nodiscard]] virtual bool has_whole_state() const { return !is_pipeline(); }
  [[nodiscard]] virtual bool has_experts_at_home() const { return false; }
  /// Ranks between one that has some entries and the next that has the same.
  [[nodiscard]] virtual int stages() const { return 1; }
  virtual Status load(const State& state);
  virtual Status give(const State& state);
  virtual Status take();
  [[nodiscard]] virtual Result<State> collect() { return tail->state({}); }
  [[nodiscard]] virtual float loss() const { return tail->loss(); }
  [[nodiscard]] virtual std::int64_t saved_bytes() const { return 0; }

  /// Cuts the slices at `bounds`, or without any into `count` parts alike.
  Status prepare(std::int64_t count, const std::vector<std::int64_t>& bounds = {});
  /// prepare() but for the memory: returns the bytes that it would take.
  Result<std::int64_t> count_memory(std::int64_t count, const std::vector<std::int64_t>& bounds);
  /// The state behind a step from `state`, taken by an executor of the whole batch.
  [[nodiscard]] Result<State> traced(const State& state,
                                     const std::function<Status(StepExecutor&)>& take_step);
  Status trace(const std::function<Status(StepExecutor&)>& take_step);
  [[nodiscard]] std::int64_t planned_bytes();
  [[nodiscard]] const kernels::Primitive& at(kernels::ValueIndex v) const { return program->values[v]; }

 protected:
  /// Inputs of all bodies: of each the largest that any of these reads.
  struct Inputs {
    std::map<kernels::ValueIndex, const kernels::Primitive*> local, whole;
  };
  /// The memory of a step.
  struct Needs {
    std::int64_t arena = 0, beside = 0;  ///< bytes
    Inputs inputs;
  };
  /// Plans tail and bodies. Returns the tail's plan; the bodies' are in bodies_of_step().
  [[nodiscard]] Result<Plan> plan(std::int64_t count, const std::vector<std::int64_t>& bounds);
  [[nodiscard]] virtual Result<Plan> plan_tail();
  [[nodiscard]] Result<Plan> plan_tail_piece(const std::vector<kernels::ValueIndex>& watched);
  [[nodiscard]] Result<Needs> needs_of(const Plan& of_tail);
  Status take_memory(Plan of_tail);
  Status add_inputs(const Body& body, Inputs& inputs);
  void plan_carried(kernels::ValueIndex v);
  void take_carried(kernels::ValueIndex v);
  Status prepare_step();
  /// Waits for messages; the time goes to `waited_seconds`, the first error to `failed`, a damaged message as
  /// kInternal.
  void wait_for(const std::function<Status()>& messages);
  void wait_for(exchange::Exchange& ranks, exchange::Request request);
  /// Makes the member's share of the part's rows and random numbers, of all inputs or of one.
  void gather(const Part& part, int member);
  Status gather(kernels::ValueIndex v, const Part& part, int member);
  /// The memory of an input of a piece that is no carry, nor made by an earlier piece of the part.
  [[nodiscard]] void* memory_of(const program::PieceLine& input);
  /// Bounds of the slices between which running states are carried.
  [[nodiscard]] virtual std::vector<std::int64_t> carry_bounds() const;
  /// The messages as which the line's running state goes, if it goes coded; else null.
  [[nodiscard]] virtual exchange::SparseMessages* coded(kernels::ValueIndex) { return nullptr; }
  /// Called when a running state is to be handed on, with its first word.
  virtual void before_carry(kernels::ValueIndex, std::span<std::uint8_t>) {}
  [[nodiscard]] std::vector<std::span<std::uint8_t>> carried_at(const Part& part, kernels::ValueIndex v,
                                                                std::int64_t slices);
  void expect_carries(const Neighbours& neighbours, const Part& part);
  Status surround_carried(const Neighbours& neighbours, Body& body, const Part& part);
  void end_carries(const Neighbours& neighbours);
  void connect_carried_once(const Part& part, Machine& machine, kernels::ValueIndex line,
                            kernels::ValueIndex v);
  /// The part's share of the dot's positions, and the memory of its words.
  [[nodiscard]] ResumedDots resumed(const Part& part, const Carried& fold) const;
  /// Plans the head, of which what bodies gather is kept, and makes that for all parts.
  Status plan_head();
  Status run_head();
  /// Numbers the different local programs of the parts, and counts what they take.
  Status find_bodies();
  /// Lets the body's line of class C go on where the part before stopped.
  void connect_carried(const Part& part, Machine& machine, kernels::ValueIndex line, kernels::ValueIndex v);
  /// The dots of a body that go on with a running state.
  [[nodiscard]] std::vector<kernels::ValueIndex> resumed_lines(const program::Piece& piece) const;
};

/// The piece with the operands of those dots of class C gathered that are products only then, if they are not
/// large: others run element by element. Lines that are none of the step program's have the origin kNoValue.
[[nodiscard]] program::Piece with_products(const program::Piece& piece, const program::Classes& classes);

/// The floats that lie in these bytes.
[[nodiscard]] std::vector<std::span<float>> floats_of(const std::vector<std::span<std::uint8_t>>& lists);

/// The bytes that a piece, its plan and its machine take besides what planned_bytes() counts: between 0.6 and
/// all of these were measured, for lines of 90 to 970 characters.
[[nodiscard]] std::int64_t bytes_of_code(const program::Program& program);

}  // namespace dgx::exec
