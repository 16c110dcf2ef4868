#include "dgx/exec/parts_executor.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cpu/inputs.h"
#include "cpu/parts_in_turn.h"
#include "dgx/kernels/philox.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
using program::PieceLine;
using program::SampleClass;

void* PartsExecutor::Impl::memory_of(const PieceLine& input) {
  const auto& [v, as] = input;
  if (as == PieceLine::As::kMade && at(v).source.kind == Source::Kind::kState) {
    const auto entry = std::ranges::find(tail->entries, at(v).source.name, &Step::EntrySlot::name);
    return entry->current.bytes().data();
  }
  const bool cut = as == PieceLine::As::kMade && classes.of[v] == SampleClass::kSharded;
  return (cut ? local : whole).at(v).bytes().data();
}

ResumedDots PartsExecutor::Impl::resumed(const Part& part, const Carried& fold) const {
  const std::int64_t each = fold.positions / classes.slices;
  return {{each * part.slices.begin, each * (part.slices.end - part.slices.begin),
           part.slices.end == classes.slices},
          fold.places};
}

/// Fills what all parts read alike.
Status PartsExecutor::Impl::prepare_step() {
  tail->choose_rows();
  for (auto& [v, tensor] : whole) {
    const Source& source = at(v).source;
    if (source.kind == Source::Kind::kSchedule) {
      DGX_TRY(const auto numbers, kernels::schedule_scalars(source.of, inputs.schedule, tail->position));
      std::copy(numbers.begin(), numbers.end(), tensor.as<float>().begin());
    } else if (source.kind == Source::Kind::kUniform) {
      const auto ordinal = static_cast<std::uint32_t>(std::strtoul(source.name.c_str(), nullptr, 10));
      kernels::fill_uniform(inputs.seed, {kernels::StreamKind::kDropout, ordinal}, tail->position, tensor);
    } else if (source.kind == Source::Kind::kBatch) {
      const auto& rows = tail->rows;
      const std::size_t size = tensor.bytes().size() / rows.size();
      for (std::size_t i = 0; i < rows.size(); ++i)
        DGX_CHECK(fields.at(v).copy(rows[i], tensor.bytes().subspan(i * size, size)));
    }
  }
  return {};
}

void PartsExecutor::Impl::gather(const Part& part, int member) {
  Status& status = gathered[static_cast<std::size_t>(member)];
  status = {};
  for (const auto& [v, tensor] : local) {
    Status made = gather(v, part, member);
    if (!made.ok()) status = std::move(made);
  }
}

Status PartsExecutor::Impl::gather(ValueIndex v, const Part& part, int member) {
  Tensor& tensor = local.at(v);
  const std::int64_t members = tail->team->size();
  // Rows of the input, which are samples of a batch: how many a part has, and where they begin.
  const std::int64_t rows_of_slice = at(v).shape[0] / classes.slices;
  const std::int64_t count = (part.slices.end - part.slices.begin) * rows_of_slice;
  const std::int64_t first = part.slices.begin * rows_of_slice;
  const std::int64_t begin = count * member / members, end = count * (member + 1) / members;
  const std::int64_t size = bytes_of(at(v)) / at(v).shape[0];
  if (at(v).source.kind == Source::Kind::kBatch) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto row = tail->rows[static_cast<std::size_t>(first + i)];
      DGX_CHECK(fields.at(v).copy(
          row, tensor.bytes().subspan(static_cast<std::size_t>(i * size), static_cast<std::size_t>(size))));
    }
    return {};
  }
  const std::int64_t each = size / static_cast<std::int64_t>(sizeof(float));
  const auto ordinal = static_cast<std::uint32_t>(std::strtoul(at(v).source.name.c_str(), nullptr, 10));
  const kernels::Stream stream{kernels::StreamKind::kDropout, ordinal};
  for (std::int64_t e = begin * each; e < end * each; ++e) {
    tensor.as<float>()[static_cast<std::size_t>(e)] =
        kernels::uniform(inputs.seed, stream, tail->position, first * each + e);
  }
  return {};
}

Status PartsExecutor::Impl::make_step() {
  tail->pack_entries();  // into rows
  DGX_CHECK(prepare_step());
  DGX_CHECK(run_bodies());
  return tail->make_step();
}

Result<State> PartsExecutor::Impl::traced(const State& state,
                                          const std::function<Status(StepExecutor&)>& take_step) {
  if (!at_once) {
    DGX_TRY(at_once, ExactExecutor::create(program, inputs, threads));
  }
  DGX_CHECK(at_once->load(state));
  DGX_CHECK(take_step(*at_once));
  return at_once->state();
}

Status PartsExecutor::Impl::trace(const std::function<Status(StepExecutor&)>& take_step) {
  if (!has_whole_state()) return internal_error("a rank without the whole state cannot trace: see traced()");
  DGX_TRY(const State after, traced(tail->state({}), take_step));
  return load(after);
}

Status PartsExecutor::Impl::load(const State& state) {
  DGX_TRY(tail->position, check_loadable(*program, state));
  tail->take_entries(state);
  return {};
}

void PartsExecutor::Impl::wait_for(exchange::Exchange& ranks, exchange::Request request) {
  wait_for([&] { return ranks.wait(request); });
}

void PartsExecutor::Impl::wait_for(const std::function<Status()>& messages) {
  const auto begin = std::chrono::steady_clock::now();
  Status status = messages();
  waited_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!failed.ok() || status.ok()) return;
  // A message that is not what its sender makes is a failure of a machine or a network, and no finding about
  // the step, as kMalformed is.
  const bool is_damaged = status.error().code == ErrorCode::kMalformed;
  failed =
      is_damaged ? internal_error("a message of another rank: " + status.error().message) : std::move(status);
}

Status PartsExecutor::Impl::give(const State&) { return internal_error("parts in turn have no ranks"); }
Status PartsExecutor::Impl::take() { return internal_error("parts in turn have no ranks"); }

std::int64_t PartsExecutor::Impl::planned_bytes() {
  std::int64_t bytes = tail->planned_bytes() + own_bytes();
  for (const auto& [v, fold] : carried) bytes += fold.values() * bytes_of(at(v));
  for (const auto* tensors : {&local, &whole}) {
    for (const auto& [v, tensor] : *tensors) bytes += static_cast<std::int64_t>(tensor.bytes().size());
  }
  if (arena) bytes += static_cast<std::int64_t>(arena->bytes().size());
  for (const Body* const body : bodies_of_step())
    bytes += body->machine->planned_bytes() - body->machine->plan().arena_bytes;
  return bytes;
}

PartsExecutor::PartsExecutor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PartsExecutor::~PartsExecutor() = default;

Result<std::unique_ptr<PartsExecutor>> PartsExecutor::create(std::shared_ptr<const program::Program> program,
                                                             const StepInputs& inputs, int threads,
                                                             std::int64_t parts) {
  auto impl = std::make_unique<InTurn>();
  impl->program = std::move(program);
  impl->inputs = inputs;
  impl->threads = threads;
  DGX_CHECK(impl->prepare(parts));
  return std::unique_ptr<PartsExecutor>(new PartsExecutor(std::move(impl)));
}

Status PartsExecutor::load(const State& state) { return impl_->load(state); }
bool PartsExecutor::is_pipeline() const { return impl_->is_pipeline(); }
bool PartsExecutor::has_whole_state() const { return impl_->has_whole_state(); }
bool PartsExecutor::has_experts_at_home() const { return impl_->has_experts_at_home(); }
int PartsExecutor::stages() const { return impl_->stages(); }

Result<std::vector<Digest>> PartsExecutor::digests_of_entries(int threads) const {
  DGX_TRY(const merkle::StateDigests own, impl_->tail->digests(threads));
  std::vector<Digest> out;
  for (const ValueIndex v : program::state_inputs(*impl_->program)) {
    const auto& entries = impl_->tail->entries;
    const auto found = std::ranges::find(entries, impl_->at(v).source.name, &Impl::Step::EntrySlot::name);
    out.push_back(found == entries.end() ? Digest()
                                         : own.tensors[static_cast<std::size_t>(found - entries.begin())]);
  }
  return out;
}

const std::string& PartsExecutor::name_of_entry(std::size_t n) const {
  return impl_->at(program::state_inputs(*impl_->program)[n]).source.name;
}

Status PartsExecutor::give(const State& state) { return impl_->give(state); }
Status PartsExecutor::take() { return impl_->take(); }
Result<State> PartsExecutor::collect() { return impl_->collect(); }
Result<State> PartsExecutor::traced(const State& state,
                                    const std::function<Status(StepExecutor&)>& take_step) {
  return impl_->traced(state, take_step);
}

Status PartsExecutor::make_step() {
  if (!impl_->profiles) return impl_->make_step();
  const auto begin = std::chrono::steady_clock::now();
  DGX_CHECK(impl_->make_step());
  impl_->profiled_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ++impl_->profiled_steps;
  return {};
}

void PartsExecutor::end_step() { impl_->end_step(); }

Status PartsExecutor::step() {
  DGX_CHECK(make_step());
  end_step();
  return {};
}

Result<Fault> PartsExecutor::set_lie(const RankLie& lie) {
  DGX_TRY(const Fault fault, impl_->fault_of(lie));
  impl_->lie = lie;
  return fault;
}
bool PartsExecutor::has_lie() const { return impl_->lie.has_value(); }

Status PartsExecutor::make_step_with_lie() {
  impl_->lies_now = impl_->lie.has_value();
  Status status = make_step();
  impl_->lies_now = false;
  return status;
}

std::int64_t PartsExecutor::position() const { return impl_->tail->position; }
Result<State> PartsExecutor::state() const { return impl_->tail->state({}); }
Result<merkle::StateDigests> PartsExecutor::digests(int threads) const {
  return impl_->tail->digests(threads);
}
Result<PendingState> PartsExecutor::snapshot(const LeaveOut& leave_out) {
  impl_->make_room();
  return PendingState([kept = std::make_shared<State>(impl_->tail->state(leave_out))]() -> Result<State> {
    return std::move(*kept);
  });
}
float PartsExecutor::loss() const { return impl_->loss(); }
std::span<const float> PartsExecutor::watched() const { return impl_->tail->watched; }
std::vector<std::int64_t> PartsExecutor::samples_of_parts() const {
  std::vector<std::int64_t> out;
  const std::int64_t each = impl_->inputs.batch / impl_->classes.slices;
  for (const Part& part : impl_->parts) out.push_back((part.slices.end - part.slices.begin) * each);
  return out;
}
int PartsExecutor::threads() const { return impl_->threads; }
double PartsExecutor::waited_seconds() const { return impl_->waited_seconds; }
std::int64_t PartsExecutor::saved_bytes() const { return impl_->saved_bytes(); }
std::int64_t PartsExecutor::planned_bytes() const { return impl_->planned_bytes(); }

Status PartsExecutor::trace(const program::ValueVisitor& visit) {
  return impl_->trace([&](StepExecutor& executor) { return executor.trace(visit); });
}
Status PartsExecutor::trace(const Fault& fault, const program::ValueVisitor& visit) {
  return impl_->trace([&](StepExecutor& executor) { return executor.trace(fault, visit); });
}

std::string PartsExecutor::explain() const {
  std::string text;
  for (const Body* const body : impl_->bodies_of_step()) text += exec::explain(body->machine->plan());
  return text + exec::explain(impl_->tail->fused->plan());
}

Status PartsExecutor::start_profile() {
  for (const Body* const body : impl_->bodies_of_step()) body->machine->time_operations();
  impl_->tail->fused->time_operations();
  impl_->profiles = true;
  return {};
}

StepProfile PartsExecutor::profile() const {
  StepProfile profile{impl_->profiled_steps, impl_->profiled_seconds, {}};
  const auto add = [&](const program::Piece& piece, const Machine& machine, double runs) {
    for (OperationProfile& operation : operation_profiles(machine.plan(), machine.operation_seconds())) {
      for (ValueIndex& v : operation.values) v = piece.origins[v].value;
      std::erase(operation.values, kernels::kNoValue);
      operation.arithmetic *= runs;
      operation.bytes *= runs;
      profile.operations.push_back(std::move(operation));
    }
  };
  for (const Body* const body : impl_->bodies_of_step())
    add(body->piece, *body->machine, impl_->runs_of(*body));
  add(impl_->tail_piece, *impl_->tail->fused, 1);
  return profile;
}

}  // namespace dgx::exec
