// A pipeline's stage: its cells, what they receive and send, and its entries of the state.
#include "cpu/parts_by_stages.h"

#include <algorithm>

#include "cpu/inputs.h"
#include "cpu/silent_rank.h"
#include "dgx/exchange/coding.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;
using program::PieceLine;
using program::SampleClass;

namespace {

constexpr std::int64_t kOnce = -1;  // in place of a part: a value that is moved once in a step

std::span<std::uint8_t> part_of(std::span<std::uint8_t> all, Range range) {
  return all.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}

std::span<std::uint8_t> bytes_of(std::vector<std::byte>& text) {
  return {reinterpret_cast<std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

/// The memory of a value that lies whole, or of an entry of this stage.
std::span<std::uint8_t> PartsExecutor::ByStages::home(ValueIndex v) {
  const auto size = static_cast<std::size_t>(bytes_of_home(v));
  if (is_entry(v) && is_here(v)) {
    const auto entry = std::ranges::find(tail->entries, at(v).source.name, &Step::EntrySlot::name);
    return entry->current.bytes();
  }
  if (const auto fold = carried.find(v); fold != carried.end()) return {fold->second.value, size};
  if (const auto apart = apart_.find(v); apart != apart_.end()) return apart->second.bytes();
  return {given.at(v), size};
}

/// The memory of what a part has of a line of the body.
std::uint8_t* PartsExecutor::ByStages::memory_of_value(ValueIndex v, const Part& part) {
  if (homes_.contains(v)) return home(v).data() + range_of(v, part.slices).begin;
  const auto number = static_cast<std::size_t>(&part - parts.data());
  return kept_.at(v)[number % slots_].bytes().data();
}

/// Tells the piece's machine the memory of what it reads and keeps; without a part it is one of the tail.
void PartsExecutor::ByStages::connect(StagePiece& piece, const Part* part) {
  Machine& machine = *piece.body.machine;
  const Phase& phase = piece.phase;
  for (const ValueIndex line : phase.origin.indices()) {
    const PieceLine& origin = phase.piece.origins[line];
    const ValueIndex v = origin.value;
    if (v == kernels::kNoValue || origin.as == PieceLine::As::kCarry) continue;
    const bool is_made = phase.piece.program.values[line].kind != Kind::kInput;
    const bool is_line = at(v).kind != Kind::kInput;
    if (is_made) {
      if (part == &own_slices_ && classes.of[v] == SampleClass::kCarried) {
        connect_carried_once(*part, machine, line, v);
      } else if (part != nullptr && classes.of[v] == SampleClass::kCarried) {
        connect_carried(*part, machine, line, v);
      } else if (!is_free(v) && homes_.contains(v)) {
        machine.set_memory(line, part == nullptr ? home(v).data() : memory_of_value(v, *part));
      } else if (kept_bytes_.contains(v)) {
        machine.set_memory(line, memory_of_value(v, *part));
      }
    } else if (is_entry(v)) {
      machine.set_memory(line, home(v).data());
    } else if (is_line && origin.as == PieceLine::As::kMade) {
      machine.set_memory(line, part == nullptr ? home(v).data() : memory_of_value(v, *part));
    } else if (part == nullptr) {
      machine.set_memory(line, whole.at(v).bytes().data());
    } else {
      machine.set_memory(line, memory_of(origin));
    }
  }
  // A chain's carry comes before its line.
  for (const ValueIndex line : phase.origin.indices()) {
    const auto& [v, as] = phase.piece.origins[line];
    if (as != PieceLine::As::kCarry) continue;
    const Carried& fold = carried.at(v);
    machine.set_memory(line, fold.is_dot ? fold.value : fold.before);
  }
}

Status PartsExecutor::ByStages::run(StagePiece& piece, const Part* part) {
  connect(piece, part);
  const auto make_inputs = [&](int member) {
    Status& status = gathered[static_cast<std::size_t>(member)];
    status = {};
    if (part == nullptr) return;
    for (const ValueIndex line : piece.phase.origin.indices()) {
      const auto& [v, as] = piece.phase.piece.origins[line];
      const bool is_read = as == PieceLine::As::kMade && v != kernels::kNoValue && at(v).kind == Kind::kInput;
      if (!is_read || classes.of[v] != SampleClass::kSharded) continue;
      Status made = gather(v, *part, member);
      if (!made.ok()) status = std::move(made);
    }
  };
  DGX_CHECK(piece.body.machine->run(make_inputs));
  for (const Status& status : gathered) DGX_CHECK(status);
  return {};
}

/// Makes a piece for one part: waits for what other stages have made of it, and sends what others need.
Status PartsExecutor::ByStages::run_cell(const program::Cell& cell) {
  const Part& part = parts[static_cast<std::size_t>(cell.part)];
  StagePiece& piece = pieces_[part.body][cell.piece];
  for (const ValueIndex v : piece.received) await(v, is_sharded(v) ? cell.part : kOnce);
  DGX_CHECK(failed);
  DGX_CHECK(run(piece, &part));
  for (const ValueIndex v : piece.sent) {
    if (is_sharded(v)) {
      send_moved(v, range_of(v, part.slices));
    } else if (classes.of[v] == SampleClass::kCarried) {
      if (cell.part + 1 == std::ssize(parts)) send_moved(v, range_of(v, part.slices));
    } else if (cell.part == 0) {
      send_moved(v, range_of(v, part.slices));
      end_sends();  // it is made again
    }
  }
  return failed;
}

/// Begins to receive all that other stages make.
void PartsExecutor::ByStages::begin_receives() {
  expected_.clear();
  for (const program::Move& move : stages_.moves) {
    if (move.to != stage()) continue;
    const ValueIndex v = move.value;
    const int from = rank_of(pipeline(), move.from);
    if (is_zero(v)) {
      std::ranges::fill(home(v), std::uint8_t{0});
      continue;
    }
    if (!is_sharded(v)) {
      expected_[{v, kOnce}] = begin_receive(from, v, {0, bytes_of(at(v))});
      continue;
    }
    for (std::int64_t q = 0; q < std::ssize(parts); ++q)
      expected_[{v, q}] = begin_receive(from, v, range_of(v, parts[static_cast<std::size_t>(q)].slices));
  }
}

PartsExecutor::ByStages::Arriving PartsExecutor::ByStages::begin_receive(int from, ValueIndex v,
                                                                         Range bytes) {
  Arriving out{v, part_of(home(v), bytes), {}, {}};
  std::span<std::uint8_t> message = out.memory;
  if (const auto bits = code_bits_.find(v); bits != code_bits_.end()) {
    out.packed.resize(exchange::packed_size(message.size(), bits->second));
    message = bytes_of(out.packed);
  }
  out.request = ranks_.receive(from, to_number(v), message);
  return out;
}

void PartsExecutor::ByStages::end_receive(const Arriving& arriving) {
  wait_for([&]() -> Status {
    DGX_CHECK(ranks_.wait(arriving.request));
    if (arriving.packed.empty()) return {};
    return exchange::unpack_bits(arriving.packed, code_bits_.at(arriving.value), arriving.memory);
  });
}

/// Waits for all parts of a value, or the one message that has it.
void PartsExecutor::ByStages::await_all(ValueIndex v) {
  for (std::size_t q = 0; q < parts.size(); ++q) await(v, static_cast<std::int64_t>(q));
  await(v, kOnce);
}

void PartsExecutor::ByStages::await(ValueIndex v, std::int64_t part) {
  const auto found = expected_.find({v, part});
  if (found == expected_.end()) return;  // it is there
  end_receive(found->second);
  expected_.erase(found);
}

bool PartsExecutor::ByStages::is_zero(ValueIndex v) const {
  const auto from = program::zero_from(*program, v);
  return from && tail->position >= *from;
}

/// Sends these bytes of a value to the stages to which it moves.
void PartsExecutor::ByStages::send_moved(ValueIndex v, Range bytes) {
  std::vector<int> to;
  for (const program::Move& move : stages_.moves)
    if (move.value == v && move.from == stage()) to.push_back(rank_of(pipeline(), move.to));
  send(v, bytes, to);
}

void PartsExecutor::ByStages::send(ValueIndex v, Range bytes, const std::vector<int>& to) {
  if (to.empty() || is_zero(v)) return;
  const std::span<std::uint8_t> memory = part_of(home(v), bytes);
  std::span<std::uint8_t> message = memory;
  if (const auto bits = code_bits_.find(v); bits != code_bits_.end()) {
    auto packed = exchange::pack_bits(memory, bits->second);
    if (!packed.ok()) {
      if (failed.ok()) failed = std::move(packed).error();
      return;
    }
    message = bytes_of(packed_.emplace_back(*std::move(packed)));
  }
  for (const int rank : to) {
    sent_.push_back(ranks_.send(rank, to_number(v), message));
    saved_bytes_ += static_cast<std::int64_t>(memory.size() - message.size());
  }
}

/// Waits for all that was sent, whose memory may then change.
void PartsExecutor::ByStages::end_sends() {
  for (const exchange::Request request : std::exchange(sent_, {})) wait_for(ranks_, request);
  packed_.clear();
}

Status PartsExecutor::ByStages::run_bodies() {
  failed = {};
  begin_receives();
  begin_column();
  for (const program::Move& move : stages_.moves) {
    if (move.from == stage() && is_entry(move.value))
      sent_.push_back(ranks_.send(rank_of(pipeline(), move.to), to_number(move.value), home(move.value)));
  }
  DGX_CHECK(run_head());
  for (const program::Cell& cell : cells_) DGX_CHECK(run_cell(cell));
  if (pipelines() > 1) DGX_CHECK(join_column());
  for (StagePiece& piece : early_) {
    for (const ValueIndex v : piece.received) await_all(v);
    DGX_CHECK(failed);
    DGX_CHECK(run(piece, nullptr));
    for (const ValueIndex v : piece.sent) send_moved(v, {0, bytes_of(at(v))});
  }
  while (!expected_.empty()) {
    const auto [v, part] = expected_.begin()->first;
    await(v, part);
  }
  end_sends();  // entries are replaced now
  return failed;
}

void PartsExecutor::ByStages::end_step() {
  Impl::end_step();
  const auto entry = program::find_state_input(*program, "loss");
  if (stage() != 0 || !entry) return;
  const ValueIndex next = at(*entry).next.value_or(*entry);
  loss_ = stages_.of[*entry] == 0 ? tail->loss() : *reinterpret_cast<const float*>(home(next).data());
}

Status PartsExecutor::ByStages::load(const State& state) {
  DGX_TRY(tail->position, check_loadable(*program, state));
  State own;
  for (const Entry& entry : state) {
    if (is_here(*program::find_state_input(*program, entry.name))) own.push_back(entry);
    if (entry.name == "loss") loss_ = entry.tensor.as<float>()[0];
  }
  tail->take_entries(own);
  return {};
}

/// Gives an entry to its columns; rank 0 has what is its own.
void PartsExecutor::ByStages::give_entry(const Entry& entry, std::vector<exchange::Request>& requests) {
  const ValueIndex v = *program::find_state_input(*program, entry.name);
  for (int d = 0; d < pipelines(); ++d) {
    for (const int stage : stages_.holders(v)) {
      const int to = rank_of(d, stage);
      if (to != 0) requests.push_back(ranks_.send(to, to_number(v), entry.tensor.bytes()));
    }
  }
}

/// Gives each rank its entries, and the number of the step.
Status PartsExecutor::ByStages::give(const State& state) {
  std::int64_t position = tail->position;
  const auto bytes = std::as_writable_bytes(std::span(&position, 1));
  DGX_CHECK(ranks_.wait(ranks_.broadcast(0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()})));
  std::vector<exchange::Request> requests;
  for (const Entry& entry : state) give_entry(entry, requests);
  Status status;
  for (const exchange::Request request : requests) {
    Status sent = ranks_.wait(request);
    if (status.ok()) status = std::move(sent);
  }
  return status;
}

Status PartsExecutor::ByStages::take() {
  std::int64_t position = 0;
  const auto bytes = std::as_writable_bytes(std::span(&position, 1));
  DGX_CHECK(ranks_.wait(ranks_.broadcast(0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()})));
  State own = tail->state({});
  for (Entry& entry : own) {
    const ValueIndex v = *program::find_state_input(*program, entry.name);
    DGX_CHECK(ranks_.wait(ranks_.receive(0, to_number(v), entry.tensor.bytes())));
  }
  tail->take_entries(own);
  tail->position = position;
  return {};
}

Result<State> PartsExecutor::ByStages::collect() {
  if (pipeline() != 0) return State();
  State own = tail->state({});
  State out;
  for (const ValueIndex v : program::state_inputs(*program)) {
    const std::string& name = at(v).source.name;
    const auto found = std::ranges::find(own, name, &Entry::name);
    const int owner = stages_.holders(v).front();
    if (stage() != 0) {
      if (owner == stage()) DGX_CHECK(ranks_.wait(ranks_.send(0, to_number(v), found->tensor.bytes())));
      continue;
    }
    out.push_back(found != own.end() ? std::move(*found) : Entry{name, Tensor(at(v).dtype, at(v).shape)});
    if (owner != 0) DGX_CHECK(ranks_.wait(ranks_.receive(owner, to_number(v), out.back().tensor.bytes())));
  }
  return out;
}

Result<std::unique_ptr<PartsExecutor>> PartsExecutor::create_stage(
    exchange::Exchange& ranks, std::shared_ptr<const program::Program> program, const StepInputs& inputs,
    int threads, const std::vector<ValueIndex>& cuts, const std::vector<std::int64_t>& bounds) {
  auto impl = std::make_unique<ByStages>(ranks, cuts);
  impl->program = std::move(program);
  impl->inputs = inputs;
  impl->threads = threads;
  DGX_CHECK(impl->prepare(bounds.empty() ? ranks.ranks() / impl->stages() : std::ssize(bounds) - 1, bounds));
  return std::unique_ptr<PartsExecutor>(new PartsExecutor(std::move(impl)));
}

Result<std::int64_t> PartsExecutor::bytes_of_stage(std::shared_ptr<const program::Program> program,
                                                   const StepInputs& inputs, int threads, int rank, int ranks,
                                                   const std::vector<ValueIndex>& cuts,
                                                   const std::vector<std::int64_t>& bounds) {
  SilentRank alone(rank, ranks);
  ByStages impl(alone, cuts);
  impl.program = std::move(program);
  impl.inputs = inputs;
  impl.threads = threads;
  return impl.count_memory(bounds.empty() ? ranks / impl.stages() : std::ssize(bounds) - 1, bounds);
}

}  // namespace dgx::exec
