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
  for (auto& [v, tensor] : whole) {
    const Source& source = at(v).source;
    if (source.kind == Source::Kind::kSchedule) {
      DGX_TRY(const auto numbers, kernels::schedule_scalars(source.of, inputs.schedule, tail->position));
      std::copy(numbers.begin(), numbers.end(), tensor.as<float>().begin());
    } else if (source.kind == Source::Kind::kUniform) {
      const auto ordinal = static_cast<std::uint32_t>(std::strtoul(source.name.c_str(), nullptr, 10));
      kernels::fill_uniform(inputs.seed, {kernels::StreamKind::kDropout, ordinal}, tail->position, tensor);
    } else if (source.kind == Source::Kind::kBatch) {
      const auto rows = order->batch_indices(tail->position);
      const std::size_t size = tensor.bytes().size() / rows.size();
      for (std::size_t i = 0; i < rows.size(); ++i)
        DGX_CHECK(fields.at(v).copy(rows[i], tensor.bytes().subspan(i * size, size)));
    }
  }
  return {};
}

void PartsExecutor::Impl::gather(const Part& part, const std::vector<std::int64_t>& rows, int member) {
  Status& status = gathered[static_cast<std::size_t>(member)];
  status = {};
  const std::int64_t members = tail->team->size(), slices = part.slices.end - part.slices.begin;
  const std::int64_t begin = slices * member / members, end = slices * (member + 1) / members;
  for (auto& [v, tensor] : local) {
    const std::size_t size = static_cast<std::size_t>(bytes_of(at(v)) / classes.slices);
    if (at(v).source.kind == Source::Kind::kBatch) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto row = rows[static_cast<std::size_t>(part.slices.begin + i)];
        Status copied =
            fields.at(v).copy(row, tensor.bytes().subspan(static_cast<std::size_t>(i) * size, size));
        if (!copied.ok()) status = std::move(copied);
      }
      continue;
    }
    const auto each = static_cast<std::int64_t>(size / sizeof(float));
    const auto ordinal = static_cast<std::uint32_t>(std::strtoul(at(v).source.name.c_str(), nullptr, 10));
    const kernels::Stream stream{kernels::StreamKind::kDropout, ordinal};
    for (std::int64_t e = begin * each; e < end * each; ++e) {
      tensor.as<float>()[static_cast<std::size_t>(e)] =
          kernels::uniform(inputs.seed, stream, tail->position, part.slices.begin * each + e);
    }
  }
}

Status PartsExecutor::Impl::step() {
  tail->pack_entries();  // into rows
  DGX_CHECK(prepare_step());
  DGX_CHECK(run_bodies());
  return tail->step();
}

/// Takes a step by an executor of the whole batch.
Status PartsExecutor::Impl::trace(const std::function<Status(ExactExecutor&)>& take_step) {
  if (!at_once) {
    DGX_TRY(at_once, ExactExecutor::create(program, inputs, threads));
  }
  DGX_CHECK(at_once->load(tail->state({})));
  DGX_CHECK(take_step(*at_once));
  DGX_TRY(const State after, at_once->state());
  tail->take_entries(after);
  tail->position = at_once->position();
  return {};
}

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

Status PartsExecutor::load(const State& state) {
  DGX_TRY(impl_->tail->position, check_loadable(*impl_->program, state));
  impl_->tail->take_entries(state);
  return {};
}

Status PartsExecutor::step() {
  if (!impl_->profiles) return impl_->step();
  const auto begin = std::chrono::steady_clock::now();
  DGX_CHECK(impl_->step());
  impl_->profiled_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ++impl_->profiled_steps;
  return {};
}

std::int64_t PartsExecutor::position() const { return impl_->tail->position; }
Result<State> PartsExecutor::state() const { return impl_->tail->state({}); }
Result<merkle::StateDigests> PartsExecutor::digests(int threads) const {
  return impl_->tail->digests(threads);
}
Result<PendingState> PartsExecutor::snapshot(const LeaveOut& leave_out) {
  return PendingState([kept = std::make_shared<State>(impl_->tail->state(leave_out))]() -> Result<State> {
    return std::move(*kept);
  });
}
float PartsExecutor::loss() const { return impl_->tail->loss(); }
std::span<const float> PartsExecutor::watched() const { return impl_->tail->watched; }
std::vector<std::int64_t> PartsExecutor::samples_of_parts() const {
  std::vector<std::int64_t> out;
  for (const Part& part : impl_->parts) out.push_back(part.slices.end - part.slices.begin);
  return out;
}
int PartsExecutor::threads() const { return impl_->threads; }
double PartsExecutor::waited_seconds() const { return impl_->waited_seconds; }
std::int64_t PartsExecutor::planned_bytes() const { return impl_->planned_bytes(); }

Status PartsExecutor::trace(const program::ValueVisitor& visit) {
  return impl_->trace([&](ExactExecutor& executor) { return executor.trace(visit); });
}
Status PartsExecutor::trace(const Fault& fault, const program::ValueVisitor& visit) {
  return impl_->trace([&](ExactExecutor& executor) { return executor.trace(fault, visit); });
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
