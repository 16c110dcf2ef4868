#include "dgx/exec/executor.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "cpu/executor_impl.h"
#include "cpu/fault.h"
#include "cpu/inputs.h"
#include "cpu/memory_limit.h"
#include "dgx/core/rows.h"
#include "dgx/kernels/order.h"
#include "dgx/kernels/philox.h"
#include "dgx/kernels/scalar.h"
#include "dgx/program/initial.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;

namespace {

/// Copies rows [begin, end) of a batch to their places in it.
Status copy_rows(const RowView& data, const std::vector<std::int64_t>& rows, std::size_t begin,
                 std::size_t end, Tensor& to) {
  const std::size_t size = to.bytes().size() / rows.size();
  for (std::size_t i = begin; i < end; ++i) {
    DGX_CHECK(data.copy(rows[i], to.bytes().subspan(i * size, size)));
  }
  return {};
}

/// A fault's operands can make any NaN, and values hold only the canonical one.
void canonicalise_nans(std::span<std::uint8_t> bytes) {
  auto* numbers = reinterpret_cast<float*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i)
    numbers[i] = kernels::canonical_nan(numbers[i]);
}

}  // namespace

Status ExactExecutor::Impl::add_batch_field(ValueIndex v) {
  const Primitive& input = program->values[v];
  DGX_TRY(const RowView data, batch_field(input, inputs));
  batch.push_back({v, data, Tensor(input.dtype, input.shape), {}});
  return {};
}

Status ExactExecutor::Impl::add_input(ValueIndex v) {
  const Primitive& input = program->values[v];
  switch (input.source.kind) {
    case Source::Kind::kState:
      if (input.source.name.starts_with("value/")) {
        given.emplace_back(v, Tensor(input.dtype, input.shape));
        return {};
      }
      entries.push_back(
          {input.source.name, v, input.next, Tensor(input.dtype, input.shape), {}, Layout::kRows});
      return {};
    case Source::Kind::kBatch: return add_batch_field(v);
    case Source::Kind::kConstant: constants.emplace_back(v, constant_tensor(input)); return {};
    default: scheduled.emplace_back(v, Tensor(input.dtype, input.shape)); return {};
  }
}

Status ExactExecutor::Impl::prepare() {
  DGX_TRY(Plan plan, plan_step(Entries::kPacked));
  // All must fit before any is allocated.
  DGX_CHECK(check_memory(exec::planned_bytes(plan, team->size()) + input_bytes(plan)));
  return take_memory(std::move(plan));
}

Result<Plan> ExactExecutor::Impl::plan_step(Entries layout) {
  DGX_CHECK(check_float_mode(*team));
  DGX_TRY(order, kernels::DataOrder::create(inputs.seed, samples_of(inputs), inputs.batch));
  std::vector<ValueIndex> keep = inputs.watched;
  if (layout == Entries::kInRows)
    std::ranges::copy(program::state_inputs(*program), std::back_inserter(keep));
  return make_plan(program, Fusion::kFused, team->size(), keep);
}

Status ExactExecutor::Impl::take_memory(Plan plan) {
  auto arena = std::make_shared<Tensor>(DType::kU8, Shape{plan.arena_bytes});
  fused = std::make_unique<Machine>(std::move(plan), team, std::move(arena));
  for (const ValueIndex v : program->values.indices()) {
    if (program->values[v].kind == Kind::kInput) DGX_CHECK(add_input(v));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (EntrySlot& entry : entries) {
    entry.layout = fused->plan().layouts[entry.input];
    known.add(entry.name, entry.next == entry.input);
  }
  pack_entries();
  connect(*fused);
  return {};
}

/// Copies into the entry's own memory if it fits: with an exchange, the process would keep the freed buffers
/// as holes of many sizes.
void ExactExecutor::Impl::set_entry(std::size_t e, const Tensor& tensor) {
  EntrySlot& entry = entries[e];
  if (known.knows(e) && !std::ranges::equal(in_rows(entry, entry.current.view()).bytes(), tensor.bytes()))
    known.forget(e);
  if (entry.current.shape() != tensor.shape() || entry.current.dtype() != tensor.dtype()) {
    entry.current = tensor;
    return;
  }
  std::copy(tensor.bytes().begin(), tensor.bytes().end(), entry.current.bytes().begin());
}

/// Replaces all entries by the state's, which has them in this order, and may have others.
void ExactExecutor::Impl::take_entries(const State& state) {
  std::size_t e = 0;
  for (const Entry& entry : state) {
    if (e < entries.size() && entry.name == entries[e].name) set_entry(e++, entry.tensor);
  }
  packed = false;
  watched.clear();
}

void ExactExecutor::Impl::pack_entries() {
  if (std::exchange(packed, true)) return;
  for (EntrySlot& entry : entries) {
    if (entry.layout != Layout::kRows) entry.current = pack(entry.current, entry.layout);
  }
}

void ExactExecutor::Impl::unpack_entries() {
  for (EntrySlot& entry : entries) entry.current = in_rows(entry, entry.current.view());
  packed = false;
}

/// A copy of `view`, the entry's current or next value, in rows.
Tensor ExactExecutor::Impl::in_rows(const EntrySlot& entry, const TensorView& view) const {
  if (!packed || entry.layout == Layout::kRows) return Tensor(view);
  return unpack(view, program->values[entry.input].shape, entry.layout);
}

/// Tells a machine the memory of the inputs and of the entries' next values. Called before every run, since
/// buffers are exchanged.
void ExactExecutor::Impl::connect(Machine& machine) {
  for (auto& field : batch) machine.set_memory(field.value, field.rows.bytes().data());
  for (auto& [value, tensor] : scheduled) machine.set_memory(value, tensor.bytes().data());
  for (auto& [value, tensor] : constants) machine.set_memory(value, tensor.bytes().data());
  for (auto& [value, tensor] : given) machine.set_memory(value, tensor.bytes().data());
  for (EntrySlot& entry : entries) machine.set_memory(entry.input, entry.current.bytes().data());
  for (std::size_t e = 0; e < entries.size(); ++e) {
    EntrySlot& entry = entries[e];
    if (!entry.next) continue;
    const Placement& placement = machine.plan().placements[*entry.next];
    if (placement.entry != e) continue;
    if (placement.where == Placement::Where::kInPlace)
      machine.set_memory(*entry.next, entry.current.bytes().data());
    if (placement.where != Placement::Where::kNext) continue;
    if (entry.spare.bytes().size() != entry.current.bytes().size())
      entry.spare = Tensor(entry.current.dtype(), entry.current.shape());
    machine.set_memory(*entry.next, entry.spare.bytes().data());
  }
}

/// Draws the rows of this step's batch, unless they are drawn: by the last step, which looks ahead, or for
/// the parts of this one.
void ExactExecutor::Impl::choose_rows() {
  if (std::exchange(rows_position, position) == position) return;
  rows = order->batch_indices(position);
  gathered_aside = false;
}

/// Prefetches the rows of a coming batch, from memory or from files: they are scattered over the dataset.
void ExactExecutor::Impl::expect_rows(const std::vector<std::int64_t>& coming, Where where) const {
  for (const BatchField& field : batch) {
    if (field.data.in_memory() != (where == Where::kMemory)) continue;
    const std::size_t size = field.rows.bytes().size() / coming.size();
    for (const std::int64_t row : coming) field.data.expect(row, size);
  }
}

Status ExactExecutor::Impl::prepare_step() {
  choose_rows();
  for (auto& [value, tensor] : scheduled) {
    const Source& source = program->values[value].source;
    if (source.kind == Source::Kind::kSchedule) {
      DGX_TRY(const auto numbers, kernels::schedule_scalars(source.of, inputs.schedule, position));
      std::copy(numbers.begin(), numbers.end(), tensor.as<float>().begin());
    } else {
      const auto ordinal = static_cast<std::uint32_t>(std::strtoul(source.name.c_str(), nullptr, 10));
      kernels::fill_uniform(inputs.seed, {kernels::StreamKind::kDropout, ordinal}, position, tensor);
    }
  }
  return {};
}

/// Gathers the member's share of the batch's rows.
void ExactExecutor::Impl::gather_batch(int member) {
  Status& status = gathered[static_cast<std::size_t>(member)];
  status = {};
  if (gathered_aside) return;
  const std::size_t members = static_cast<std::size_t>(team->size());
  const std::size_t begin = rows.size() * static_cast<std::size_t>(member) / members;
  const std::size_t end = rows.size() * static_cast<std::size_t>(member + 1) / members;
  for (BatchField& field : batch) {
    Status copied = copy_rows(field.data, rows, begin, end, field.rows);
    if (!copied.ok()) status = std::move(copied);
  }
}

/// Gathers all rows of the next batch. False if one cannot be read: the next step will say why.
bool ExactExecutor::Impl::gather_coming(const std::vector<std::int64_t>& coming) {
  expect_rows(coming, Where::kMemory);
  for (BatchField& field : batch) {
    if (field.coming.bytes().size() != field.rows.bytes().size())
      field.coming = Tensor(field.rows.dtype(), field.rows.shape());
    if (!copy_rows(field.data, coming, 0, coming.size(), field.coming).ok()) return false;
  }
  return true;
}

Status ExactExecutor::Impl::gather_error() const {
  for (const Status& status : gathered) DGX_CHECK(status);
  return {};
}

/// An error if a next value is not finite. Values that a kernel checks are searched only if their flag is
/// raised.
Status ExactExecutor::Impl::check_finite(const Machine& machine) const {
  for (const EntrySlot& entry : entries) {
    if (!entry.next || entry.current.dtype() != DType::kF32 || *entry.next == entry.input) continue;
    if (machine.is_checked(*entry.next) && !machine.flagged(*entry.next)) continue;
    const auto bad = first_not_finite(in_rows(entry, machine.view(*entry.next)).view());
    if (bad) return not_finite(position, entry.name, *bad);
  }
  return {};
}

/// Exchanges or copies what a run left elsewhere, so that every entry's `current` is its new state.
void ExactExecutor::Impl::finish_step(const Machine& machine) {
  // Entries that become an input, or what another entry becomes too.
  std::vector<std::pair<EntrySlot*, Tensor>> copies;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    EntrySlot& entry = entries[e];
    if (!entry.next || *entry.next == entry.input) continue;
    const Placement& placement = machine.plan().placements[*entry.next];
    const bool own = placement.entry == e && placement.where != Placement::Where::kInput;
    if (!own) copies.emplace_back(&entry, Tensor(machine.view(*entry.next)));
  }
  for (std::size_t e = 0; e < entries.size(); ++e) {
    EntrySlot& entry = entries[e];
    if (!entry.next) continue;
    const Placement& placement = machine.plan().placements[*entry.next];
    if (placement.where == Placement::Where::kNext && placement.entry == e)
      std::swap(entry.current, entry.spare);
  }
  for (auto& [entry, tensor] : copies) entry->current = std::move(tensor);
  ++position;
}

/// Takes a step on the plan of every value: each value gets its fault, then canonical NaNs, and is shown.
Status ExactExecutor::Impl::run_every_value(const std::optional<Fault>& fault,
                                            const program::ValueVisitor& visit) {
  if (!every_value) {
    DGX_TRY(every_value, Machine::create(program, Fusion::kEveryValue, team, {}));
  }
  Machine& machine = *every_value;
  watched.clear();
  unpack_entries();
  known.forget_all();  // a fault may be in any value
  connect(machine);
  DGX_CHECK(prepare_step());
  const auto made = [&](ValueIndex v, std::span<std::uint8_t> bytes) -> Status {
    if (fault && fault->value == v) DGX_CHECK(commit_fault(*program, machine, *fault, bytes));
    if (program->values[v].dtype == DType::kF32) canonicalise_nans(bytes);
    return visit ? visit(v, machine.view(v)) : Status{};
  };
  const Status run = machine.run_each([this](int member) { gather_batch(member); }, made);
  gathered_aside = false;  // a fault may have changed the batch
  // Later steps fill all inputs again except constants.
  for (auto& [value, tensor] : constants) {
    if (fault && fault->value == value) tensor = constant_tensor(program->values[value]);
  }
  DGX_CHECK(gather_error());
  DGX_CHECK(run);
  DGX_CHECK(check_finite(machine));
  finish_step(machine);
  return {};
}

ExactExecutor::ExactExecutor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExactExecutor::~ExactExecutor() = default;

Result<std::unique_ptr<ExactExecutor>> ExactExecutor::create(std::shared_ptr<const program::Program> program,
                                                             const StepInputs& inputs, int threads) {
  auto impl = std::make_unique<Impl>();
  impl->program = std::move(program);
  impl->inputs = inputs;
  impl->team = std::make_shared<ThreadTeam>(std::max(threads, 1));
  impl->gathered.resize(static_cast<std::size_t>(impl->team->size()));
  DGX_CHECK(impl->prepare());
  return std::unique_ptr<ExactExecutor>(new ExactExecutor(std::move(impl)));
}

namespace {

PendingState at_hand(State state) {
  return [kept = std::make_shared<State>(std::move(state))]() -> Result<State> { return std::move(*kept); };
}

}  // namespace

Result<PendingState> StepExecutor::snapshot(const LeaveOut& leave_out) {
  DGX_TRY(State now, state());
  if (leave_out) std::erase_if(now, [&](const Entry& entry) { return leave_out(entry.name); });
  return at_hand(std::move(now));
}

Result<PendingState> ExactExecutor::snapshot(const LeaveOut& leave_out) {
  return at_hand(impl_->state(leave_out));
}

Status ExactExecutor::load(const State& state) {
  DGX_TRY(impl_->position, check_loadable(*impl_->program, state));
  impl_->take_entries(state);
  return {};
}

Status ExactExecutor::step() {
  if (impl_->fused->operation_seconds().empty()) return impl_->step();
  const auto begin = std::chrono::steady_clock::now();
  DGX_CHECK(impl_->step());
  impl_->profiled_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ++impl_->profiled_steps;
  return {};
}

Status ExactExecutor::start_profile() {
  impl_->fused->time_operations();
  return {};
}

StepProfile ExactExecutor::profile() const {
  return {impl_->profiled_steps, impl_->profiled_seconds,
          operation_profiles(impl_->fused->plan(), impl_->fused->operation_seconds())};
}

/// Takes a step on the fused plan. Meanwhile the next batch is prepared: an idle member of the team gathers
/// its rows from memory, or the system is told to read them from files.
Status ExactExecutor::Impl::make_step() {
  Machine& machine = *fused;
  pack_entries();
  connect(machine);
  DGX_CHECK(prepare_step());
  const bool from_files = std::any_of(batch.begin(), batch.end(),
                                      [](const BatchField& field) { return !field.data.in_memory(); });
  const bool aside = machine.has_idle_members() && !from_files;
  rows_to_come.clear();
  gathered_to_come = false;
  const auto look_ahead = [&] {
    rows_to_come = order->batch_indices(position + 1);
    if (aside) gathered_to_come = gather_coming(rows_to_come);
  };
  if (!aside) look_ahead();
  expect_rows(rows_to_come, Where::kFile);  // read while the step runs
  DGX_CHECK(machine.run([this](int member) { gather_batch(member); },
                        aside ? std::function<void()>(look_ahead) : std::function<void()>()));
  DGX_CHECK(gather_error());
  DGX_CHECK(check_finite(machine));
  watched.clear();
  for (const ValueIndex v : inputs.watched) watched.push_back(machine.view(v).as<float>()[0]);
  return {};
}

void ExactExecutor::Impl::end_step() {
  finish_step(*fused);  // exchanges the buffers of entries and their next values
  std::swap(rows, rows_to_come);
  rows_position = position;
  gathered_aside = gathered_to_come;
  if (gathered_aside) {
    for (BatchField& field : batch) std::swap(field.rows, field.coming);
  } else {
    expect_rows(rows, Where::kMemory);  // any earlier, and the step would evict it from the caches
  }
}

Status ExactExecutor::Impl::step() {
  DGX_CHECK(make_step());
  end_step();
  return {};
}

Status ExactExecutor::trace(const program::ValueVisitor& visit) {
  return impl_->run_every_value(std::nullopt, visit);
}

Status ExactExecutor::trace(const Fault& fault, const program::ValueVisitor& visit) {
  DGX_CHECK(check_fault(*impl_->program, fault));
  return impl_->run_every_value(fault, visit);
}

std::int64_t ExactExecutor::position() const { return impl_->position; }
std::span<const float> ExactExecutor::watched() const { return impl_->watched; }

Result<State> ExactExecutor::state() const { return impl_->state({}); }

State ExactExecutor::Impl::state(const LeaveOut& leave_out) const {
  State out;
  for (const EntrySlot& entry : entries) {
    if (!leave_out || !leave_out(entry.name))
      out.push_back({entry.name, in_rows(entry, entry.current.view())});
  }
  return out;
}

Result<merkle::StateDigests> ExactExecutor::digests(int threads) const { return impl_->digests(threads); }

Result<merkle::StateDigests> ExactExecutor::Impl::digests(int threads) {
  std::deque<Tensor> copies;  // of entries that lie in another order
  const auto numbers = [&](std::size_t e) -> Result<TensorView> {
    const EntrySlot& entry = entries[e];
    if (!packed || entry.layout == Layout::kRows) return entry.current.view();
    return copies.emplace_back(in_rows(entry, entry.current.view())).view();
  };
  return known.of_state(numbers, threads);
}

float ExactExecutor::loss() const { return impl_->loss(); }

float ExactExecutor::Impl::loss() const {
  for (const auto& entry : entries) {
    if (entry.name == "loss") return entry.current.as<float>()[0];
  }
  return 0;
}

std::int64_t ExactExecutor::planned_bytes() const { return impl_->planned_bytes(); }

std::int64_t ExactExecutor::Impl::planned_bytes() const {
  std::int64_t bytes = fused->planned_bytes();
  for (const auto& entry : entries) {
    bytes += static_cast<std::int64_t>(entry.current.bytes().size() + entry.spare.bytes().size());
  }
  for (const auto& field : batch)
    bytes += static_cast<std::int64_t>(field.rows.bytes().size() + field.coming.bytes().size());
  for (const auto& [value, tensor] : given) bytes += static_cast<std::int64_t>(tensor.bytes().size());
  return bytes;
}

std::string ExactExecutor::explain() const { return exec::explain(impl_->fused->plan()); }

}  // namespace dgx::exec
