#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu/entry_digests.h"
#include "cpu/machine.h"
#include "dgx/core/rows.h"
#include "dgx/exec/executor.h"
#include "dgx/kernels/order.h"

namespace dgx::exec {

/// An ExactExecutor's step, its inputs and entries. PartsExecutor has one for the tail, whose `given` values
/// the parts make.
struct ExactExecutor::Impl {
  struct EntrySlot {
    std::string name;
    kernels::ValueIndex input{};
    std::optional<kernels::ValueIndex> next;
    Tensor current;
    Tensor spare;                   ///< empty unless a plan writes the next value to a buffer of its own
    Layout layout = Layout::kRows;  ///< layout of `current`, while the state is packed
  };
  struct BatchField {
    kernels::ValueIndex value{};
    RowView data;
    Tensor rows;
    Tensor coming;  ///< the next step's rows, gathered while this one runs
  };

  std::shared_ptr<const program::Program> program;
  StepInputs inputs;
  std::optional<kernels::DataOrder> order;
  std::shared_ptr<ThreadTeam> team;
  std::unique_ptr<Machine> fused;
  std::unique_ptr<Machine> every_value;  // a plan of every value, made when first asked for
  std::vector<EntrySlot> entries;
  EntryDigests known;  ///< one for each of `entries`
  std::vector<BatchField> batch;
  std::vector<std::pair<kernels::ValueIndex, Tensor>> scheduled;
  std::vector<std::pair<kernels::ValueIndex, Tensor>> constants;
  std::vector<std::pair<kernels::ValueIndex, Tensor>> given;  ///< a tail's `state value/N`: others fill them
  std::vector<Status> gathered;                               ///< one per member of the team: its errors
  std::vector<std::int64_t> rows;
  std::int64_t rows_position = -1;         ///< the step that `rows` belongs to
  bool gathered_aside = false;             ///< the batch fields already hold `rows`
  std::vector<std::int64_t> rows_to_come;  ///< of the step after the one that is made
  bool gathered_to_come = false;           ///< the batch fields hold them in `coming`
  std::int64_t position = 0;
  std::int64_t profiled_steps = 0;
  double profiled_seconds = 0;
  bool packed = false;  ///< entries lie as in the fused plan, not in rows
  std::vector<float> watched;

  enum class Entries { kPacked, kInRows };  ///< in rows: for others to read, too
  Status prepare();
  [[nodiscard]] Result<Plan> plan_step(Entries layout);  ///< takes no memory for numbers
  Status take_memory(Plan plan);                         ///< checks none
  void take_entries(const State& state);
  void set_entry(std::size_t e, const Tensor& tensor);
  Status add_input(kernels::ValueIndex v);
  Status add_batch_field(kernels::ValueIndex v);
  void connect(Machine& machine);
  void pack_entries();
  void unpack_entries();
  [[nodiscard]] Tensor in_rows(const EntrySlot& entry, const TensorView& view) const;
  void choose_rows();
  enum class Where { kMemory, kFile };
  void expect_rows(const std::vector<std::int64_t>& coming, Where where) const;
  Status prepare_step();
  void gather_batch(int member);
  [[nodiscard]] Status gather_error() const;
  [[nodiscard]] bool gather_coming(const std::vector<std::int64_t>& coming);
  void finish_step(const Machine& machine);
  [[nodiscard]] State state(const LeaveOut& leave_out) const;
  [[nodiscard]] float loss() const;
  [[nodiscard]] std::int64_t planned_bytes() const;
  [[nodiscard]] Result<merkle::StateDigests> digests(int threads);
  Status check_finite(const Machine& machine) const;
  Status make_step();  ///< all of it but end_step()
  void end_step();     ///< the entries become what was made
  Status step();
  Status run_every_value(const std::optional<Fault>& fault, const program::ValueVisitor& visit);
};

}  // namespace dgx::exec
