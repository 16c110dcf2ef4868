#include "dgx/exec/device_executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>

#include "cpu/entry_digests.h"
#include "cpu/inputs.h"
#include "device/device_launches.h"
#include "dgx/kernels/order.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
namespace cuda = kernels::cuda;

struct DeviceExecutor::Impl {
  std::shared_ptr<const program::Program> program;
  StepInputs inputs;
  int threads = 1;
  std::unique_ptr<cuda::Device> device;
  std::optional<kernels::DataOrder> order;
  Plan plan;
  DeviceMemory offsets;
  std::uint8_t* memory = nullptr;
  DeviceStep work;
  int recording = -1;
  /// Host memory for a step's inputs, twice: the next step's are gathered while this one runs.
  std::array<std::uint8_t*, 2> staging{};
  std::array<std::int64_t, 2> staged{-1, -1};  ///< the step whose inputs lie there
  std::int64_t position = 0;
  float loss = 0;
  std::vector<float> watched;
  EntryDigests known;  ///< one for each of the device's entries
  std::unique_ptr<ExactExecutor> on_cpu;
  struct Snapshot {
    void* on_device = nullptr;
    std::uint8_t* on_host = nullptr;
    std::int64_t size_bytes = 0;  ///< of either
  };
  std::optional<Snapshot> kept;
  struct Profiled {
    std::int64_t steps = 0;
    double seconds = 0;
    std::vector<double> operation_seconds;  ///< empty: steps are not timed
  } profiled;

  [[nodiscard]] Status prepare();
  [[nodiscard]] Status check_inputs() const;
  [[nodiscard]] Status take_memory();
  [[nodiscard]] Status upload_constants();
  [[nodiscard]] Status compile();
  [[nodiscard]] Status record();
  [[nodiscard]] Status queue(const DeviceWork& one);
  [[nodiscard]] Status run_timed();
  [[nodiscard]] Status stage(std::size_t half, std::int64_t step);
  [[nodiscard]] Status gather(ValueIndex v, const std::vector<std::int64_t>& rows, std::uint8_t* to) const;
  [[nodiscard]] Status step();
  [[nodiscard]] Status check_results(const std::vector<std::int32_t>& results) const;
  [[nodiscard]] Status load(const State& state);
  [[nodiscard]] Status bring(const State& state);
  [[nodiscard]] Status bring_entry(std::size_t e, const Tensor& tensor);
  [[nodiscard]] Result<Tensor> entry(std::size_t e) const;
  [[nodiscard]] Result<State> state() const;
  [[nodiscard]] Result<merkle::StateDigests> digests(int threads);
  [[nodiscard]] Status take_snapshot_memory(std::int64_t size_bytes);
  [[nodiscard]] std::int64_t snapshot_bytes(const LeaveOut& leave_out) const;
  [[nodiscard]] State state_in(const std::uint8_t* snapshot, const LeaveOut& leave_out) const;
  [[nodiscard]] Status on_cpu_instead(const std::function<Status(ExactExecutor&)>& take_step);
  [[nodiscard]] const Primitive& at(ValueIndex v) const { return program->values[v]; }
};

Status DeviceExecutor::Impl::prepare() {
  DGX_CHECK(check_inputs());
  DGX_TRY(order, kernels::DataOrder::create(inputs.seed, samples_of(inputs), inputs.batch));
  DGX_TRY(plan, make_device_plan(program, inputs.watched));
  offsets = plan_device_memory(plan);
  for (const DeviceEntry& entry : offsets.entries) known.add(entry.name, entry.next == entry.input);
  DGX_CHECK(take_memory());
  DGX_CHECK(upload_constants());
  work = make_device_step(plan, offsets, inputs.seed, memory);
  DGX_CHECK(compile());
  return record();
}

/// Compiles the step's kernels, and gives its launches the device's numbers of them.
Status DeviceExecutor::Impl::compile() {
  if (work.kernels.count() == 0) return {};
  DGX_TRY(const std::int32_t first,
          device->compile(work.kernels.text(device->info().functions_by_pairs), work.kernels.count()));
  for (DeviceWork& one : work.work) {
    if (auto* const generated = std::get_if<cuda::Generated>(&one)) generated->kernel += first;
  }
  return {};
}

Status DeviceExecutor::Impl::check_inputs() const {
  for (const Primitive& value : program->values) {
    if (value.kind != Kind::kInput || value.source.kind != Source::Kind::kBatch) continue;
    DGX_TRY([[maybe_unused]] const RowView data, batch_field(value, inputs));
  }
  return {};
}

Status DeviceExecutor::Impl::take_memory() {
  const cuda::DeviceInfo& info = device->info();
  if (offsets.size_bytes > info.free_bytes) {
    return internal_error("a step needs " + std::to_string(offsets.size_bytes) + " bytes of device memory, " +
                              info.name + " has " + std::to_string(info.free_bytes) + " free",
                          "use a smaller batch, or --device cpu");
  }
  const auto all = device->allocate(offsets.size_bytes);
  // Less is free than when the device was opened.
  if (!all.ok() && all.error().code == ErrorCode::kUsage)
    return internal_error(all.error().message, all.error().hint);
  DGX_CHECK(all);
  memory = static_cast<std::uint8_t*>(*all);
  for (std::uint8_t*& half : staging) {
    DGX_TRY(void* const taken, device->allocate_staging(offsets.staged_bytes));
    half = static_cast<std::uint8_t*>(taken);
    std::memset(half, 0, static_cast<std::size_t>(offsets.staged_bytes));
  }
  return {};
}

Status DeviceExecutor::Impl::upload_constants() {
  for (const ValueIndex v : program->values.indices()) {
    const Primitive& value = at(v);
    if (value.kind != Kind::kInput || value.source.kind != Source::Kind::kConstant) continue;
    const Tensor numbers = constant_tensor(value);
    DGX_CHECK(device->upload(memory + offsets.values[v], numbers.bytes().data(),
                             static_cast<std::int64_t>(numbers.bytes().size())));
  }
  return {};
}

Status DeviceExecutor::Impl::queue(const DeviceWork& one) {
  if (const auto* copy = std::get_if<DeviceCopy>(&one))
    return device->copy(copy->to, copy->from, copy->size_bytes);
  if (const auto* clear = std::get_if<DeviceClear>(&one)) return device->clear(clear->at, clear->size_bytes);
  return std::visit(
      [&](const auto& launch) -> Status {
        if constexpr (requires { device->launch(launch); }) return device->launch(launch);
        return {};
      },
      one);
}

/// Does a step's work without the recording, piece by piece, and adds up the time of each operation.
Status DeviceExecutor::Impl::run_timed() {
  std::vector<std::int32_t> operations;  // one for each interval between marks
  DGX_CHECK(device->mark());
  for (std::size_t w = 0; w < work.work.size(); ++w) {
    DGX_CHECK(queue(work.work[w]));
    if (w + 1 < work.work.size() && work.operations[w + 1] == work.operations[w]) continue;
    operations.push_back(work.operations[w]);
    DGX_CHECK(device->mark());
  }
  DGX_TRY(const std::vector<double> seconds, device->marked_seconds());
  for (std::size_t n = 0; n < operations.size(); ++n) {
    if (operations[n] >= 0) profiled.operation_seconds[static_cast<std::size_t>(operations[n])] += seconds[n];
  }
  return {};
}

Status DeviceExecutor::Impl::record() {
  DGX_CHECK(device->begin_recording());
  for (const DeviceWork& one : work.work) DGX_CHECK(queue(one));
  DGX_TRY(recording, device->end_recording());
  return {};
}

/// Copies the rows of a batch, scattered over the dataset, to `to`.
Status DeviceExecutor::Impl::gather(ValueIndex v, const std::vector<std::int64_t>& rows,
                                    std::uint8_t* to) const {
  DGX_TRY(const RowView data, batch_field(at(v), inputs));
  const std::size_t size = static_cast<std::size_t>(bytes_of(at(v))) / rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    DGX_CHECK(data.copy(rows[i], {to + i * size, size}));
  }
  return {};
}

/// Puts the inputs of step `step` into one half of the staging memory.
Status DeviceExecutor::Impl::stage(std::size_t half, std::int64_t step) {
  if (staged[half] == step) return {};
  staged[half] = -1;
  std::memcpy(staging[half] + offsets.step, &step, sizeof step);
  const std::vector<std::int64_t> rows = order->batch_indices(step);
  for (const ValueIndex v : program->values.indices()) {
    const Primitive& value = at(v);
    if (value.kind != Kind::kInput) continue;
    std::uint8_t* const to = staging[half] + offsets.values[v];
    if (value.source.kind == Source::Kind::kBatch) DGX_CHECK(gather(v, rows, to));
    if (value.source.kind != Source::Kind::kSchedule) continue;
    DGX_TRY(const auto numbers, kernels::schedule_scalars(value.source.of, inputs.schedule, step));
    std::memcpy(to, numbers.data(), numbers.size() * sizeof(float));
  }
  staged[half] = step;
  return {};
}

/// `results`: by entry, not 0 if its next value is not finite. The error names the first such element.
Status DeviceExecutor::Impl::check_results(const std::vector<std::int32_t>& results) const {
  for (std::size_t e = 0; e < offsets.entries.size(); ++e) {
    if (results[e] == 0) continue;
    const DeviceEntry& entry = offsets.entries[e];
    DGX_TRY(const Tensor numbers, this->entry(e));
    return not_finite(position, entry.name, first_not_finite(numbers.view()).value_or(0));
  }
  return {};
}

Status DeviceExecutor::Impl::step() {
  const auto half = static_cast<std::size_t>(position % 2);
  DGX_CHECK(stage(half, position));
  DGX_CHECK(device->upload(memory, staging[half], offsets.staged_bytes));
  DGX_CHECK(profiled.operation_seconds.empty() ? device->replay(recording) : run_timed());
  // Stages the next step while the device computes. Errors are reported when it is that step's turn.
  static_cast<void>(stage(1 - half, position + 1));
  std::vector<std::int32_t> results(offsets.entries.size() + 1);
  DGX_CHECK(device->download(results.data(), memory + offsets.flags, offsets.results_bytes));
  DGX_CHECK(check_results(results));
  std::memcpy(&loss, &results.back(), sizeof loss);
  watched.clear();
  for (const ValueIndex v : inputs.watched) {
    const std::int64_t at = offsets.values[v];
    DGX_CHECK(device->download(&watched.emplace_back(), memory + at, sizeof(float)));
  }
  ++position;
  return {};
}

Status DeviceExecutor::Impl::load(const State& state) {
  DGX_TRY(const std::int64_t step, check_loadable(*program, state));
  DGX_CHECK(bring(state));
  position = step;
  return {};
}

/// Uploads all entries, and takes the loss from the one of that name.
Status DeviceExecutor::Impl::bring(const State& state) {
  for (std::size_t e = 0; e < state.size(); ++e) {
    DGX_CHECK(bring_entry(e, state[e].tensor));
    if (state[e].name == "loss") loss = state[e].tensor.as<float>()[0];
  }
  watched.clear();
  return {};
}

/// Uploads an entry. A constant one that was hashed and has not changed stays known: to copy it back and
/// compare costs less than to hash it.
Status DeviceExecutor::Impl::bring_entry(std::size_t e, const Tensor& tensor) {
  if (known.knows(e)) {
    DGX_TRY(const Tensor there, entry(e));
    if (std::ranges::equal(there.bytes(), tensor.bytes())) return {};
    known.forget(e);
  }
  const DeviceEntry& to = offsets.entries[e];
  return device->upload(memory + to.current, tensor.bytes().data(), to.size_bytes);
}

/// A copy of an entry's numbers.
Result<Tensor> DeviceExecutor::Impl::entry(std::size_t e) const {
  const DeviceEntry& from = offsets.entries[e];
  Tensor numbers(at(from.input).dtype, at(from.input).shape);
  DGX_CHECK(device->download(numbers.bytes().data(), memory + from.current, from.size_bytes));
  return numbers;
}

Result<State> DeviceExecutor::Impl::state() const {
  State out;
  for (std::size_t e = 0; e < offsets.entries.size(); ++e) {
    DGX_TRY(Tensor numbers, entry(e));
    out.push_back({offsets.entries[e].name, std::move(numbers)});
  }
  return out;
}

Result<merkle::StateDigests> DeviceExecutor::Impl::digests(int threads) {
  std::deque<Tensor> copies;
  const auto numbers = [&](std::size_t e) -> Result<TensorView> {
    DGX_TRY(Tensor copy, entry(e));
    return copies.emplace_back(std::move(copy)).view();
  };
  return known.of_state(numbers, threads);
}

/// Allocates memory for a snapshot of this size, once. Leaves `kept` empty if the device does not have
/// enough.
Status DeviceExecutor::Impl::take_snapshot_memory(std::int64_t size_bytes) {
  if (kept) return {};
  const auto on_device = device->allocate(size_bytes);
  if (!on_device.ok() && on_device.error().code == ErrorCode::kUsage) return {};
  DGX_CHECK(on_device);
  DGX_TRY(void* const on_host, device->allocate_staging(size_bytes));
  kept = Snapshot{*on_device, static_cast<std::uint8_t*>(on_host), size_bytes};
  return {};
}

/// Bytes of the entries from the first to the last that a snapshot is to have.
std::int64_t DeviceExecutor::Impl::snapshot_bytes(const LeaveOut& leave_out) const {
  const bool only_changed =
      leave_out && std::all_of(offsets.entries.begin(), offsets.entries.end(), [&](const DeviceEntry& entry) {
        return entry.changes() || leave_out(entry.name);
      });
  return only_changed ? offsets.changed_bytes : offsets.state_bytes;
}

State DeviceExecutor::Impl::state_in(const std::uint8_t* snapshot, const LeaveOut& leave_out) const {
  State out;
  for (const DeviceEntry& entry : offsets.entries) {
    if (leave_out && leave_out(entry.name)) continue;
    Tensor numbers(at(entry.input).dtype, at(entry.input).shape);
    if (entry.size_bytes > 0)
      std::memcpy(numbers.bytes().data(), snapshot + (entry.current - offsets.state),
                  static_cast<std::size_t>(entry.size_bytes));
    out.push_back({entry.name, std::move(numbers)});
  }
  return out;
}

/// Takes one step on the CPU, from the device's state, and puts the new state on the device.
Status DeviceExecutor::Impl::on_cpu_instead(const std::function<Status(ExactExecutor&)>& take_step) {
  if (!on_cpu) {
    DGX_TRY(on_cpu, ExactExecutor::create(program, inputs, threads));
  }
  DGX_TRY(const State before, state());
  DGX_CHECK(on_cpu->load(before));
  // A fault in the entry `step` changes the state, but not which step comes next.
  if (on_cpu->position() != position) {
    return internal_error("the state says step " + std::to_string(on_cpu->position()) + " after " +
                          std::to_string(position) + " steps: no CPU can continue from it");
  }
  DGX_CHECK(take_step(*on_cpu));
  DGX_TRY(const State after, on_cpu->state());
  DGX_CHECK(bring(after));
  position = on_cpu->position();
  return {};
}

DeviceExecutor::DeviceExecutor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DeviceExecutor::~DeviceExecutor() = default;

Result<std::unique_ptr<DeviceExecutor>> DeviceExecutor::create(
    std::shared_ptr<const program::Program> program, const StepInputs& inputs,
    std::unique_ptr<cuda::Device> device, int threads) {
  auto impl = std::make_unique<Impl>();
  impl->program = std::move(program);
  impl->inputs = inputs;
  impl->threads = threads;
  impl->device = std::move(device);
  DGX_CHECK(impl->prepare());
  return std::unique_ptr<DeviceExecutor>(new DeviceExecutor(std::move(impl)));
}

Status DeviceExecutor::load(const State& state) { return impl_->load(state); }
Status DeviceExecutor::step() {
  if (impl_->profiled.operation_seconds.empty()) return impl_->step();
  const auto begin = std::chrono::steady_clock::now();
  DGX_CHECK(impl_->step());
  impl_->profiled.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ++impl_->profiled.steps;
  return {};
}
std::int64_t DeviceExecutor::position() const { return impl_->position; }
Result<State> DeviceExecutor::state() const { return impl_->state(); }
Result<merkle::StateDigests> DeviceExecutor::digests(int threads) const { return impl_->digests(threads); }

Result<PendingState> DeviceExecutor::snapshot(const LeaveOut& leave_out) {
  const std::int64_t size_bytes = impl_->snapshot_bytes(leave_out);
  DGX_CHECK(impl_->take_snapshot_memory(size_bytes));
  if (!impl_->kept || impl_->kept->size_bytes < size_bytes) return StepExecutor::snapshot(leave_out);
  const Impl::Snapshot& kept = *impl_->kept;
  DGX_CHECK(impl_->device->copy(kept.on_device, impl_->memory + impl_->offsets.state, size_bytes));
  DGX_CHECK(impl_->device->begin_download(kept.on_host, kept.on_device, size_bytes));
  return PendingState([impl = impl_.get(), leave_out]() -> Result<State> {
    DGX_CHECK(impl->device->finish_download());
    return impl->state_in(impl->kept->on_host, leave_out);
  });
}

float DeviceExecutor::loss() const { return impl_->loss; }
std::span<const float> DeviceExecutor::watched() const { return impl_->watched; }
const cuda::DeviceInfo& DeviceExecutor::device() const { return impl_->device->info(); }

Status DeviceExecutor::trace(const program::ValueVisitor& visit) {
  return impl_->on_cpu_instead([&](ExactExecutor& executor) { return executor.trace(visit); });
}

Status DeviceExecutor::trace(const Fault& fault, const program::ValueVisitor& visit) {
  return impl_->on_cpu_instead([&](ExactExecutor& executor) { return executor.trace(fault, visit); });
}

std::int64_t DeviceExecutor::planned_bytes() const { return impl_->offsets.size_bytes; }

Status DeviceExecutor::start_profile() {
  impl_->profiled.operation_seconds.assign(impl_->plan.operations.size(), 0.0);
  return {};
}

StepProfile DeviceExecutor::profile() const {
  return {impl_->profiled.steps, impl_->profiled.seconds,
          operation_profiles(impl_->plan, impl_->profiled.operation_seconds)};
}

std::string DeviceExecutor::explain() const { return exec::explain(impl_->plan); }

}  // namespace dgx::exec
