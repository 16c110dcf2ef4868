// Parts made by ranks: phases of a local program, gathers between them, and carries from rank to rank.
#include "cpu/parts_by_ranks.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "dgx/kernels/dot_state.h"
#include "rewrite/channels_last.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;
using kernels::cpu::DotWord;
using program::PieceLine;
using program::SampleClass;

Status PartsExecutor::ByRanks::plan_bodies() {
  DGX_TRY(const program::Piece local, program::local_program(*program, classes, own().slices));
  local_piece_ = with_products(local, classes);
  move_channels();
  code_bytes = bytes_of_code(local_piece_.program) + bytes_of_code(*program);
  phases_ = phases_of(local_piece_);
  find_kept();
  for (const Phase& phase : phases_) DGX_CHECK(add_phase(phase));
  return {};
}

/// The values of the step that the body gathers.
PartsExecutor::ByRanks::Values PartsExecutor::ByRanks::gathered_in_body() const {
  Values out;
  for (const auto& [v, as] : local_piece_.origins) {
    if (as == PieceLine::As::kWhole && at(v).kind != Kind::kInput) out.insert(v);
  }
  return out;
}

/// The value of the step that a line of the local program makes, all of it or the part's slices; kNoValue for
/// an input, a line of class C, and one that is none of the step's.
ValueIndex PartsExecutor::ByRanks::made_by(ValueIndex line) const {
  const ValueIndex v = local_piece_.origins[line].value;
  const bool is_made = local_piece_.program.values[line].kind != Kind::kInput && v != kernels::kNoValue;
  return is_made && classes.of[v] != SampleClass::kCarried ? v : kernels::kNoValue;
}

/// Moves the channels of images last, in all phases alike; others than this rank see none of these.
void PartsExecutor::ByRanks::move_channels() {
  const Values gathered = gathered_in_body();
  std::vector<ValueIndex> seen;
  for (const ValueIndex line : local_piece_.origins.indices()) {
    const ValueIndex v = made_by(line);
    if (v != kernels::kNoValue && (gathered.contains(v) || given.contains(v))) seen.push_back(line);
  }
  local_piece_.program = *with_channels_last(std::make_shared<program::Program>(local_piece_.program), seen);
}

/// Finds the lines that others than their phase read, and what is gathered behind each phase and for the
/// tail.
void PartsExecutor::ByRanks::find_kept() {
  const Values in_body = gathered_in_body();
  for (const Phase& phase : phases_) {
    auto& behind = gathers_.emplace_back();
    for (const ValueIndex at_phase : phase.origin.indices()) {
      const ValueIndex line = phase.origin[at_phase], v = made_by(line);
      const bool is_read = phase.piece.program.values[at_phase].kind == Kind::kInput;
      if (is_read && local_piece_.program.values[line].kind != Kind::kInput) kept_.insert(line);
      if (is_read || v == kernels::kNoValue) continue;
      if (in_body.contains(v)) behind.insert(v);
      if (in_body.contains(v) || given.contains(v)) kept_.insert(line);
      const bool is_sharded = classes.of[v] == SampleClass::kSharded;
      if (is_sharded && given.contains(v) && !in_body.contains(v)) tail_gathers_.insert(v);
    }
  }
}

/// Plans a phase, of which what others read is kept, and dots of class C are resumed.
Status PartsExecutor::ByRanks::add_phase(const Phase& phase) {
  std::vector<ValueIndex> keep;
  for (const ValueIndex line : phase.origin.indices()) {
    const bool is_made = phase.piece.program.values[line].kind != Kind::kInput;
    if (is_made && kept_.contains(phase.origin[line])) keep.push_back(line);
  }
  DGX_TRY(Plan plan, make_plan(std::make_shared<program::Program>(phase.piece.program), Fusion::kFused,
                               tail->team->size(), keep, resumed_lines(phase.piece), Channels::kLieRight));
  bodies_.push_back({.piece = phase.piece, .plan = std::move(plan)});
  return {};
}

std::vector<Body*> PartsExecutor::ByRanks::bodies_of_step() {
  std::vector<Body*> out;
  for (Body& body : bodies_) out.push_back(&body);
  return out;
}

std::int64_t PartsExecutor::ByRanks::own_bytes() const {
  std::int64_t bytes = 0;
  for (const ValueIndex v : program::state_inputs(*program))
    bytes += bytes_of(at(v));  // a state that is loaded
  for (const ValueIndex line : kept_) bytes += bytes_of(local_piece_.program.values[line]);
  return bytes;
}

Status PartsExecutor::ByRanks::take_own_memory() {
  for (const ValueIndex line : kept_) {
    const ValueIndex v = local_piece_.origins[line].value;
    const Primitive& made = local_piece_.program.values[line];
    if (v == kernels::kNoValue || (!whole.contains(v) && !given.contains(v)))
      kept_apart_.emplace(line, Tensor(made.dtype, made.shape));
  }
  for (Body& body : bodies_) {
    body.machine->call_between([this] { ranks_.progress(); });
    for (const ValueIndex line : body.piece.origins.indices()) {
      const ValueIndex v = body.piece.origins[line].value;
      const bool is_made = body.piece.program.values[line].kind != Kind::kInput && v != kernels::kNoValue;
      if (!is_made || classes.of[v] != SampleClass::kCarried) continue;
      DGX_CHECK(body.machine->surround(
          line, {[this, v] {
                   for (const exchange::Request request : std::exchange(expected_[v], {})) wait(request);
                 },
                 [this, v] {
                   if (is_last()) return;
                   for (const auto bytes : carried_at(v, own().slices.end))
                     sent_.push_back(ranks_.send(ranks_.rank() + 1, to_number(v), bytes));
                 }}));
    }
  }
  return {};
}

std::uint8_t* PartsExecutor::ByRanks::memory_of_kept(ValueIndex line) {
  if (const auto apart = kept_apart_.find(line); apart != kept_apart_.end())
    return apart->second.bytes().data();
  const ValueIndex v = local_piece_.origins[line].value;
  const bool is_cut = classes.of[v] == SampleClass::kSharded;
  const std::int64_t before = is_cut ? bytes_of(at(v)) / classes.slices * own().slices.begin : 0;
  const auto found = whole.find(v);
  return (found != whole.end() ? found->second.bytes().data() : given.at(v)) + before;
}

/// Tells the phase's machine the memory of what it reads, keeps and goes on with.
void PartsExecutor::ByRanks::connect(Body& body, const Phase& phase) {
  for (const ValueIndex line : phase.origin.indices()) {
    const PieceLine& origin = phase.piece.origins[line];
    const bool is_input = phase.piece.program.values[line].kind == Kind::kInput;
    if (kept_.contains(phase.origin[line])) {
      body.machine->set_memory(line, memory_of_kept(phase.origin[line]));
    } else if (origin.as == PieceLine::As::kCarry) {
      Carried& fold = carried.at(origin.value);
      body.machine->set_memory(line, fold.is_dot ? fold.value : fold.other.bytes().data());
    } else if (is_input) {
      body.machine->set_memory(line, memory_of(origin));
    } else if (origin.value != kernels::kNoValue && classes.of[origin.value] == SampleClass::kCarried) {
      const Carried& fold = carried.at(origin.value);
      if (fold.is_dot) body.machine->resume(line, resumed(own(), fold));
      body.machine->set_memory(line, fold.value);
    }
  }
}

std::vector<std::span<std::uint8_t>> PartsExecutor::ByRanks::carried_at(ValueIndex v, std::int64_t slices) {
  Carried& fold = carried.at(v);
  const auto size = static_cast<std::size_t>(bytes_of(at(v)));
  if (!fold.is_dot) {
    const bool is_received = slices == own().slices.begin;
    return {{is_received ? fold.other.bytes().data() : fold.value, size}};
  }
  const kernels::DotWords words = kernels::dot_words_at(fold.positions / classes.slices * slices);
  std::vector<std::span<std::uint8_t>> out;
  for (const auto& [exists, word] : {std::pair(words.block, DotWord::kBlock),
                                     {words.group, DotWord::kGroup},
                                     {words.total, DotWord::kTotal}}) {
    float* const place = fold.places[static_cast<std::size_t>(word)];
    if (exists) out.push_back({reinterpret_cast<std::uint8_t*>(place), size});
  }
  return out;
}

/// Begins to receive all running states from the rank before.
void PartsExecutor::ByRanks::expect_carries() {
  if (ranks_.rank() == 0) return;
  for (const auto& [v, fold] : carried) {
    for (const auto bytes : carried_at(v, own().slices.begin))
      expected_[v].push_back(ranks_.receive(ranks_.rank() - 1, to_number(v), bytes));
  }
}

Status PartsExecutor::ByRanks::gather_values(const Values& values) {
  std::vector<exchange::Request> requests;
  for (const ValueIndex v : values) {
    const auto size = static_cast<std::size_t>(bytes_of(at(v)));
    const auto each = static_cast<std::int64_t>(size) / classes.slices;
    const auto found = whole.find(v);
    const std::span<std::uint8_t> all{found != whole.end() ? found->second.bytes().data() : given.at(v),
                                      size};
    std::vector<std::int64_t> sizes;
    for (const Part& part : parts) sizes.push_back(each * (part.slices.end - part.slices.begin));
    const auto mine = all.subspan(static_cast<std::size_t>(each * own().slices.begin),
                                  static_cast<std::size_t>(each * (own().slices.end - own().slices.begin)));
    requests.push_back(ranks_.gather(mine, all, sizes));
  }
  for (const exchange::Request request : requests) wait(request);
  for (const ValueIndex v : values) {
    const auto found = whole.find(v);
    if (found != whole.end() && given.contains(v)) std::ranges::copy(found->second.bytes(), given.at(v));
  }
  return failed_;
}

/// Gives all ranks the values of class C, which the last has.
Status PartsExecutor::ByRanks::share_carried() {
  std::vector<exchange::Request> requests;
  for (auto& [v, fold] : carried) {
    const auto size = static_cast<std::size_t>(bytes_of(at(v)));
    if (fold.is_read) requests.push_back(ranks_.broadcast(ranks_.ranks() - 1, {fold.value, size}));
  }
  for (const exchange::Request request : requests) wait(request);
  return failed_;
}

void PartsExecutor::ByRanks::wait(exchange::Request request) {
  const auto begin = std::chrono::steady_clock::now();
  Status status = ranks_.wait(request);
  waited_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (failed_.ok()) failed_ = std::move(status);
}

Status PartsExecutor::ByRanks::run_bodies() {
  failed_ = {};
  const auto rows = order->batch_indices(tail->position);
  expect_carries();
  for (std::size_t n = 0; n < phases_.size(); ++n) {
    connect(bodies_[n], phases_[n]);
    const auto make_inputs = [&](int member) {
      if (n == 0) gather(own(), rows, member);
    };
    DGX_CHECK(bodies_[n].machine->run(make_inputs));
    for (const Status& status : gathered) DGX_CHECK(status);
    DGX_CHECK(gather_values(gathers_[n]));
  }
  for (const exchange::Request request : std::exchange(sent_, {})) wait(request);
  DGX_CHECK(share_carried());
  return gather_values(tail_gathers_);
}

Result<std::unique_ptr<PartsExecutor>> PartsExecutor::create_on(
    exchange::Exchange& ranks, std::shared_ptr<const program::Program> program, const StepInputs& inputs,
    int threads) {
  auto impl = std::make_unique<ByRanks>(ranks);
  impl->program = std::move(program);
  impl->inputs = inputs;
  impl->threads = threads;
  DGX_CHECK(impl->prepare(ranks.ranks()));
  return std::unique_ptr<PartsExecutor>(new PartsExecutor(std::move(impl)));
}

}  // namespace dgx::exec
