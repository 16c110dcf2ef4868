// Parts made by ranks: phases of a local program, gathers between them, and carries from rank to rank.
#include "cpu/parts_by_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "cpu/fault.h"
#include "cpu/silent_rank.h"
#include "dgx/kernels/dot_state.h"
#include "dgx/program/experts.h"
#include "rewrite/channels_last.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;
using program::PieceLine;
using program::SampleClass;

/// Finds what is divided, coded and at home elsewhere, and plans the tail, which has the other entries.
Result<Plan> PartsExecutor::ByRanks::plan_tail() {
  if (experts_ == ExpertsAt::kHome)
    DGX_CHECK(program::place_experts(*program, ranks_.ranks(), inputs.watched, classes));
  given_by_homes_ = program::given_by_homes(*program, classes, inputs.watched);
  const auto divided = program::divided_entries(*program, classes, inputs.watched);
  for (const ValueIndex v : program::sparse_lines(*program, classes, divided)) sparse_.insert(v);
  divided_.plan(*program, classes, own().slices, divided);
  DGX_TRY(tail_piece, program::tail_program(*program, classes, ranks_.rank()));
  return plan_tail_piece(inputs.watched);
}

Status PartsExecutor::ByRanks::plan_bodies() {
  DGX_TRY(const program::Piece local, program::local_program(*program, classes, own().slices, ranks_.rank()));
  local_piece_ = with_products(local, classes);
  const auto waits = program::waits_of(*program, classes);
  for (const ValueIndex v : program::gathered_in_body(classes)) gathered_.insert(v);
  plan_moves(waits);
  move_channels();
  code_bytes = bytes_of_code(local_piece_.program) + bytes_of_code(*program);
  phases_ = phases_of(local_piece_, waits, program::folds_behind_gathers(*program, classes, waits));
  find_kept();
  for (const Phase& phase : phases_) DGX_CHECK(plan_phase(bodies_.emplace_back(), phase));
  return {};
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
  std::vector<ValueIndex> seen;
  for (const ValueIndex line : local_piece_.origins.indices()) {
    const ValueIndex v = made_by(line);
    if (v == kernels::kNoValue) continue;
    if (gathered_.contains(v) || given.contains(v) || divided_.has_line(v) || moved_.contains(v))
      seen.push_back(line);
  }
  local_piece_.program = *with_channels_last(std::make_shared<program::Program>(local_piece_.program), seen);
}

/// Finds the lines that others than their phase read, and what is gathered behind each phase and for the
/// tail.
void PartsExecutor::ByRanks::find_kept() {
  for (const Phase& phase : phases_) {
    auto& behind = gathers_.emplace_back();
    for (const ValueIndex at_phase : phase.origin.indices()) {
      const ValueIndex line = phase.origin[at_phase], v = made_by(line);
      const bool is_read = phase.piece.program.values[at_phase].kind == Kind::kInput;
      if (is_read && local_piece_.program.values[line].kind != Kind::kInput) kept_.insert(line);
      if (is_read || v == kernels::kNoValue) continue;
      if (gathered_.contains(v)) behind.insert(v);
      if (moved_.contains(v)) moving_[v] = line;
      if (gathered_.contains(v) || given.contains(v) || divided_.has_line(v) || moved_.contains(v))
        kept_.insert(line);
      const bool is_sharded = classes.of[v] == SampleClass::kSharded;
      if (is_sharded && given.contains(v) && !gathered_.contains(v)) tail_gathers_.insert(v);
    }
  }
}

/// Plans a phase, of which what others read is kept, and dots of class C are resumed.
Status PartsExecutor::ByRanks::plan_phase(Body& body, const Phase& phase) {
  if (phase.origin.empty()) return {};  // its lines are other ranks' experts'
  std::vector<ValueIndex> keep;
  for (const ValueIndex line : phase.origin.indices()) {
    const bool is_made = phase.piece.program.values[line].kind != Kind::kInput;
    if (is_made && kept_.contains(phase.origin[line])) keep.push_back(line);
  }
  DGX_TRY(Plan plan, make_plan(std::make_shared<program::Program>(phase.piece.program), Fusion::kFused,
                               tail->team->size(), keep, resumed_lines(phase.piece), Channels::kLieRight));
  body.piece = phase.piece;
  body.plan = std::move(plan);
  return {};
}

std::vector<Body*> PartsExecutor::ByRanks::bodies_of_step() {
  std::vector<Body*> out;
  for (Body& body : bodies_) {
    if (!body.piece.origins.empty()) out.push_back(&body);
  }
  return out;
}

std::int64_t PartsExecutor::ByRanks::own_bytes() const {
  std::int64_t bytes = 0;
  for (const ValueIndex v : program::state_inputs(*program)) {
    if (ranks_.rank() == 0 || classes.is_on(v, ranks_.rank())) bytes += bytes_of(at(v));  // that is loaded
  }
  for (const ValueIndex line : kept_) bytes += bytes_of(local_piece_.program.values[line]);
  for (const ValueIndex line : local_piece_.origins.indices()) {
    if (local_piece_.origins[line].as == PieceLine::As::kSlices)
      bytes += bytes_of(local_piece_.program.values[line]);
  }
  bytes += bytes_of_moves();
  std::int64_t longest = 0;
  for (const ValueIndex v : sparse_) {
    const kernels::DotWords words = kernels::dot_words_at(own().slices.end);  // a position is a slice
    bytes += bytes_of(at(v)) * (1 + (words.block && words.group ? 1 : 0));
    longest = std::max(longest, bytes_of(at(v)));
  }
  return bytes + divided_.bytes() + longest;
}

Status PartsExecutor::ByRanks::take_own_memory() {
  divided_.take_memory();
  for (const ValueIndex line : kept_) {
    const ValueIndex v = local_piece_.origins[line].value;
    const Primitive& made = local_piece_.program.values[line];
    if (v == kernels::kNoValue || (!whole.contains(v) && !given.contains(v) && !divided_.has_line(v)))
      kept_apart_.emplace(line, Tensor(made.dtype, made.shape));
  }
  for (const ValueIndex line : local_piece_.origins.indices()) {
    const auto& [v, as] = local_piece_.origins[line];
    const Primitive& slices = local_piece_.program.values[line];
    if (as == PieceLine::As::kSlices) received_.emplace(v, Tensor(slices.dtype, slices.shape));
  }
  for (Body* const body : bodies_of_step()) {
    body->machine->call_between([this] { ranks_.progress(); });
    DGX_CHECK(surround_carried(neighbours(), *body, own()));
  }
  for (std::size_t n = 0; n < bodies_.size(); ++n) {
    const auto values = given_behind(n);
    if (values.empty()) continue;
    DGX_CHECK(bodies_[n].machine->call_behind(values, [this, n] {
      begin_gathers(gathers_[n]);
      send_moves(n);
    }));
  }
  return {};
}

/// The lines of a phase whose values this rank gathers with others, or sends them.
std::vector<ValueIndex> PartsExecutor::ByRanks::given_behind(std::size_t phase) const {
  std::vector<ValueIndex> out;
  const auto& origin = phases_[phase].origin;
  const program::Program& lines = phases_[phase].piece.program;
  for (const ValueIndex line : origin.indices()) {
    const ValueIndex v = lines.values[line].kind == Kind::kInput ? kernels::kNoValue : made_by(origin[line]);
    if (v != kernels::kNoValue && (gathers_[phase].contains(v) || moved_.contains(v))) out.push_back(line);
  }
  return out;
}

std::uint8_t* PartsExecutor::ByRanks::memory_of_kept(ValueIndex line) {
  if (const auto apart = kept_apart_.find(line); apart != kept_apart_.end())
    return apart->second.bytes().data();
  const ValueIndex v = local_piece_.origins[line].value;
  if (std::uint8_t* const next = divided_.of_line(v)) return next;
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
    if (std::uint8_t* const slices = is_input ? divided_.of_entry(origin.value) : nullptr) {
      body.machine->set_memory(line, slices);
    } else if (origin.as == PieceLine::As::kSlices) {
      body.machine->set_memory(line, received_.at(origin.value).bytes().data());
    } else if (kept_.contains(phase.origin[line])) {
      body.machine->set_memory(line, memory_of_kept(phase.origin[line]));
    } else if (origin.as == PieceLine::As::kCarry) {
      Carried& fold = carried.at(origin.value);
      body.machine->set_memory(line, fold.is_dot ? fold.value : fold.other.bytes().data());
    } else if (is_input) {
      body.machine->set_memory(line, memory_of(origin));
    } else if (origin.value != kernels::kNoValue && classes.of[origin.value] == SampleClass::kCarried) {
      connect_carried_once(own(), *body.machine, line, origin.value);
    }
  }
}

Neighbours PartsExecutor::ByRanks::neighbours() const {
  Neighbours out{&ranks_, std::nullopt, std::nullopt};
  if (ranks_.rank() > 0) out.before = ranks_.rank() - 1;
  if (!is_last()) out.behind = ranks_.rank() + 1;
  return out;
}

void PartsExecutor::ByRanks::begin_gathers(const Values& values) {
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
    lie_in(RankLie::In::kGather, v, mine, *element_count(at(v).shape) / classes.slices * own().slices.begin);
    begun_gathers_.push_back(ranks_.gather(mine, all, sizes));
  }
}

Status PartsExecutor::ByRanks::end_gathers(const Values& values) {
  for (const exchange::Request request : std::exchange(begun_gathers_, {})) wait_for(ranks_, request);
  for (const ValueIndex v : values) {
    const auto found = whole.find(v);
    if (found != whole.end() && given.contains(v)) std::ranges::copy(found->second.bytes(), given.at(v));
  }
  return failed;
}

/// Gives all ranks the values of class C, which the last has, and what experts' homes have for all.
Status PartsExecutor::ByRanks::share_carried() {
  std::vector<exchange::Request> requests;
  std::vector<std::span<std::uint8_t>> sparse;
  const int last = ranks_.ranks() - 1;
  for (auto& [v, fold] : carried) {
    const std::span<std::uint8_t> bytes{fold.value, static_cast<std::size_t>(bytes_of(at(v)))};
    if (!fold.is_read) continue;
    if (is_last()) lie_in(RankLie::In::kBroadcast, v, bytes, 0);
    if (sparse_.contains(v))
      sparse.push_back(bytes);
    else
      requests.push_back(ranks_.broadcast(last, bytes));
  }
  give_by_homes(requests);
  wait_for([&] { return sparse_messages_.broadcast(last, floats_of(sparse)); });
  for (const exchange::Request request : requests) wait_for(ranks_, request);
  return failed;
}

void PartsExecutor::ByRanks::lie_in(RankLie::In in, ValueIndex v, std::span<std::uint8_t> bytes,
                                    std::int64_t first) const {
  if (!lies_now || lie->rank != ranks_.rank() || lie->in != in || lie->value != v) return;
  flip_bit(bytes, at(v).dtype, lie->element - first, lie->bit);
}

/// kUsage if a line of a part reads its own slices of a value before they are gathered, in any phase of what
/// is gathered for the tail: it would have made something of the truth.
Status PartsExecutor::ByRanks::check_gathered(ValueIndex v) const {
  const auto is_gathered = [&](const Values& values) { return values.contains(v); };
  if (!std::ranges::any_of(gathers_, is_gathered) && !tail_gathers_.contains(v))
    return usage_error(fmt::format("value {} is none that the ranks gather", v));
  if (moved_.contains(v))
    return usage_error(fmt::format("value {} goes to an expert's rank, too, which has the truth", v));
  for (std::size_t n = 0; n < phases_.size(); ++n) {
    const Phase& phase = phases_[n];
    for (const ValueIndex line : phase.origin.indices()) {
      const auto reads = [&](const kernels::Access& access) {
        return made_by(phase.origin[access.value]) == v;
      };
      if (!std::ranges::any_of(phase.piece.program.values[line].accesses, reads)) continue;
      return usage_error(fmt::format("value {} is read by line {} of each rank before it is gathered", v,
                                     phase.piece.origins[line].value));
    }
    if (gathers_[n].contains(v)) break;
  }
  return {};
}

Result<Fault> PartsExecutor::ByRanks::fault_of(const RankLie& told) const {
  Fault fault{told.value, told.element, told.bit};
  if (told.rank < 0 || told.rank >= ranks_.ranks())
    return usage_error(fmt::format("there is no rank {}, there are {}", told.rank, ranks_.ranks()));
  DGX_CHECK(check_fault(*program, fault));
  const program::SliceRange slices = parts[static_cast<std::size_t>(told.rank)].slices;
  if (told.in == RankLie::In::kGather) {
    DGX_CHECK(check_gathered(told.value));
    const std::int64_t each = *element_count(at(told.value).shape) / classes.slices;
    if (told.element >= each * slices.begin && told.element < each * slices.end) return fault;
    return usage_error(fmt::format("rank {} has elements {} to {} of value {}", told.rank,
                                   each * slices.begin, each * slices.end - 1, told.value));
  }
  const auto fold = carried.find(told.value);
  if (fold == carried.end())
    return usage_error(
        fmt::format("value {} is no fold that the ranks carry (dgx-placement(7))", told.value));
  const bool is_last = told.rank + 1 == ranks_.ranks();
  if (told.in == RankLie::In::kBroadcast) {
    if (is_last && fold->second.is_read) return fault;
    return usage_error(fmt::format("rank {} broadcasts no value, the last rank does", told.rank));
  }
  if (is_last) return usage_error(fmt::format("rank {} is the last, which carries nothing on", told.rank));
  fault.position = fold->second.positions / classes.slices * slices.end;
  return fault;
}

Status PartsExecutor::ByRanks::run_bodies() {
  failed = {};
  expect_carries(neighbours(), own());
  expect_moves();
  for (std::size_t n = 0; n < phases_.size(); ++n) {
    const auto make_inputs = [&](int member) {
      if (n == 0) gather(own(), member);
    };
    if (bodies_[n].machine) {
      connect(bodies_[n], phases_[n]);
      DGX_CHECK(bodies_[n].machine->run(make_inputs));
      for (const Status& status : gathered) DGX_CHECK(status);
    }
    DGX_CHECK(end_gathers(gathers_[n]));
    DGX_CHECK(end_moves(n));
  }
  end_carries(neighbours());
  wait_for([&] { return sparse_messages_.wait_for_sent(); });
  DGX_CHECK(share_carried());
  begin_gathers(tail_gathers_);
  DGX_CHECK(end_gathers(tail_gathers_));
  return divided_.check_finite(tail->position);
}

void PartsExecutor::ByRanks::end_step() {
  Impl::end_step();
  divided_.advance();
}

Status PartsExecutor::ByRanks::load(const State& state) {
  DGX_CHECK(Impl::load(state));
  divided_.load(state);
  return {};
}

/// Gives each rank this one's numbers of the entries that it has; it knows their names, types and shapes.
Status PartsExecutor::ByRanks::give(const State& state) {
  for (const Entry& entry : state) {
    const ByteView bytes = entry.tensor.bytes();  // the root's are only read
    const ValueIndex v = *program::find_state_input(*program, entry.name);
    const int home = classes.home_of(v);
    if (home == ranks_.rank()) continue;
    DGX_CHECK(ranks_.wait(home == program::Classes::kEveryRank
                              ? ranks_.broadcast(0, {const_cast<std::uint8_t*>(bytes.data()), bytes.size()})
                              : ranks_.send(home, to_number(v), bytes)));
  }
  return {};
}

Status PartsExecutor::ByRanks::take() {
  State state;
  for (const ValueIndex v : program::state_inputs(*program)) {
    if (!classes.is_on(v, ranks_.rank())) continue;
    state.push_back({at(v).source.name, Tensor(at(v).dtype, at(v).shape)});
    const auto bytes = state.back().tensor.bytes();
    DGX_CHECK(ranks_.wait(classes.home_of(v) == program::Classes::kEveryRank
                              ? ranks_.broadcast(0, bytes)
                              : ranks_.receive(0, to_number(v), bytes)));
  }
  DGX_TRY(tail->position, step_of(state));
  tail->take_entries(state);
  divided_.load(state);
  return {};
}

Result<State> PartsExecutor::ByRanks::collect() {
  std::vector<program::SliceRange> slices;
  for (const Part& part : parts) slices.push_back(part.slices);
  State out;
  for (const ValueIndex v : program::state_inputs(*program)) {
    if (ranks_.rank() == 0) out.push_back({at(v).source.name, Tensor(at(v).dtype, at(v).shape)});
    Tensor* const all = out.empty() ? nullptr : &out.back().tensor;
    DGX_CHECK(divided_.has_entry(v) ? divided_.collect(v, ranks_, slices, all) : collect_entry(v, all));
  }
  return out;
}

Result<std::int64_t> PartsExecutor::bytes_of_rank(std::shared_ptr<const program::Program> program,
                                                  const StepInputs& inputs, int threads, int rank,
                                                  const std::vector<std::int64_t>& bounds,
                                                  ExpertsAt experts) {
  SilentRank alone(rank, static_cast<int>(bounds.size()) - 1);
  ByRanks impl(alone, experts);
  impl.program = std::move(program);
  impl.inputs = inputs;
  impl.threads = threads;
  return impl.count_memory(alone.ranks(), bounds);
}

Result<std::unique_ptr<PartsExecutor>> PartsExecutor::create_on(
    exchange::Exchange& ranks, std::shared_ptr<const program::Program> program, const StepInputs& inputs,
    int threads, const std::vector<std::int64_t>& bounds, ExpertsAt experts) {
  auto impl = std::make_unique<ByRanks>(ranks, experts);
  impl->program = std::move(program);
  impl->inputs = inputs;
  impl->threads = threads;
  DGX_CHECK(impl->prepare(ranks.ranks(), bounds));
  return std::unique_ptr<PartsExecutor>(new PartsExecutor(std::move(impl)));
}

}  // namespace dgx::exec
