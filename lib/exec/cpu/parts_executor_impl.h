#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpu/executor_impl.h"
#include "dgx/exec/parts_executor.h"
#include "dgx/kernels/order.h"
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

/// A local program, which several parts may share, and the machine that runs it.
struct Body {
  program::Piece piece;
  Plan plan;  ///< until the machine has it
  std::unique_ptr<Machine> machine;
};

struct Part {
  program::SliceRange slices;
  std::size_t body = 0;
};

/// The pieces of a PartsExecutor and their memory. parts_plan.cc makes it, parts_executor.cc runs its steps.
struct PartsExecutor::Impl {
  using Step = ExactExecutor::Impl;

  std::shared_ptr<const program::Program> program;
  StepInputs inputs;
  int threads = 1;
  program::Classes classes;
  program::Piece tail_piece;
  std::unique_ptr<Step> tail;  ///< state, schedule, threads; its `given` values are what the parts make
  std::vector<Part> parts;
  Body head;  ///< without a machine if the bodies gather nothing
  std::vector<Body> bodies;
  std::int64_t code_bytes = 0;    ///< what the plans and texts of all pieces take, at most
  std::shared_ptr<Tensor> arena;  ///< of all bodies, which run one after another
  std::optional<kernels::DataOrder> order;
  std::map<kernels::ValueIndex, RowView> fields;  ///< batch inputs that bodies read
  std::map<kernels::ValueIndex, Tensor> local;    ///< by input of the step: what the part has of it
  std::map<kernels::ValueIndex, Tensor> whole;    ///< inputs that a body needs whole, schedules, constants
  std::map<kernels::ValueIndex, Carried> carried;
  std::map<kernels::ValueIndex, std::uint8_t*> given;  ///< memory of the tail's values; null until taken
  std::vector<Status> gathered;
  std::unique_ptr<ExactExecutor> at_once;  ///< for traces
  std::int64_t profiled_steps = 0;
  double profiled_seconds = 0;
  bool profiles = false;

  /// Inputs of head and bodies: of each the largest that any of these reads.
  struct Inputs {
    std::map<kernels::ValueIndex, const kernels::Primitive*> local, whole;
  };

  Status prepare(std::int64_t count);
  [[nodiscard]] Result<Plan> plan_tail();
  Status plan_head();
  Status run_head();
  Status find_bodies();
  Status add_body(const Part& part);
  Status take_memory(Plan of_tail);
  Status add_inputs(const Body& body, Inputs& inputs);
  void plan_carried(kernels::ValueIndex v);
  void take_carried(kernels::ValueIndex v);
  void connect(const Part& part, Machine& machine);
  void connect_input(Machine& machine, kernels::ValueIndex line, const program::PieceLine& origin);
  void connect_carried(const Part& part, Machine& machine, kernels::ValueIndex line, kernels::ValueIndex v);
  Status prepare_step();
  void gather(const Part& part, const std::vector<std::int64_t>& rows, int member);
  void keep_values(const Part& part, const Machine& machine);
  Status run(const Part& part, const std::vector<std::int64_t>& rows);
  Status step();
  Status trace(const std::function<Status(ExactExecutor&)>& take_step);
  [[nodiscard]] std::int64_t planned_bytes() const;
  [[nodiscard]] const kernels::Primitive& at(kernels::ValueIndex v) const { return program->values[v]; }
};

}  // namespace dgx::exec
