// The pieces of a step and their plans, and the memory of what goes from part to part.
#include <fmt/format.h>

#include <algorithm>

#include "cpu/inputs.h"
#include "cpu/memory_limit.h"
#include "cpu/parts_executor_impl.h"
#include "plan/linear.h"
#include "plan/recognise.h"
#include "rewrite/gather_operands.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
using kernels::cpu::DotWord;
using kernels::cpu::kDotWords;
using program::PieceLine;
using program::SampleClass;

namespace {

bool is_batch(const Primitive& line) {
  return line.kind == Kind::kInput && line.source.kind == Source::Kind::kBatch;
}

/// True if the line is a dot that goes on with a running state as a matrix product or a window gradient.
bool resumes_fast(const Primitive& line, const kernels::ByValue<kernels::ValueType>& types) {
  const auto compiled = kernels::compile(line, types);
  if (!compiled.ok()) return false;
  const auto accesses = linear_accesses(*compiled);
  return (accesses && recognise_matmul(types.next(), *compiled, *accesses)) ||
         recognise_window_gradients(types.next(), *compiled);
}

/// Elements of the most that an operand may have to be gathered: 1 GiB.
constexpr std::int64_t kMaxGathered = std::int64_t{1} << 28;

/// True unless an operand has too many elements.
bool is_small(const GatheredDot& dot) {
  const auto fits = [](const Primitive& operand) {
    std::int64_t left = kMaxGathered;
    for (const std::int64_t extent : operand.shape) left /= extent;
    return left > 0;
  };
  return fits(dot.left) && fits(dot.right);
}

std::int64_t positions_of(const Primitive& line) {
  std::int64_t positions = 1;
  for (const std::int64_t extent : line.fold) positions *= extent;
  return positions;
}

}  // namespace

program::Piece with_products(const program::Piece& piece, const program::Classes& classes) {
  program::Piece out;
  kernels::ByValue<ValueIndex> number;
  kernels::ByValue<kernels::ValueType> types;
  const auto append = [&](Primitive line, const PieceLine& origin) {
    types.push_back({line.dtype, line.shape});
    out.program.values.push_back(std::move(line));
    out.origins.push_back(origin);
  };
  for (const ValueIndex old : piece.origins.indices()) {
    const PieceLine& origin = piece.origins[old];
    Primitive line = piece.program.values[old];
    for (kernels::Access& access : line.accesses) access.value = number[access.value];
    const bool resumes = line.kind == Kind::kDot && classes.of[origin.value] == SampleClass::kCarried;
    auto gathered =
        resumes && !resumes_fast(line, types) ? gather_operands(line, types.next()) : std::nullopt;
    if (gathered && is_small(*gathered)) {
      for (Primitive* const operand : {&gathered->left, &gathered->right})
        append(std::move(*operand), {kernels::kNoValue, PieceLine::As::kMade});
      line = std::move(gathered->dot);
    }
    number.push_back(types.next());
    append(std::move(line), origin);
  }
  for (Primitive& line : out.program.values) {
    if (line.next) line.next = number[*line.next];
  }
  return out;
}

std::int64_t bytes_of_code(const program::Program& program) {
  constexpr std::int64_t kOfLine = 4096, kOfCharacter = 64;
  const auto text = static_cast<std::int64_t>(program::print_program(program).size());
  return static_cast<std::int64_t>(program.values.size()) * kOfLine + text * kOfCharacter;
}

Result<Plan> PartsExecutor::Impl::plan(std::int64_t count, const std::vector<std::int64_t>& bounds) {
  DGX_TRY(const std::int64_t samples, program::batch_samples(*program));
  const std::int64_t slices = inputs.slices == 0 ? samples : inputs.slices;
  if (count < 1 || count > slices) {
    const char* const of = inputs.slices == 0 ? "samples" : "workers";
    return usage_error(fmt::format("a batch of {} {} cannot be cut into {} parts", slices, of, count));
  }
  DGX_TRY(classes, program::classify(*program, slices));
  const auto bound = [&](std::int64_t q) {
    return bounds.empty() ? slices * q / count : bounds[static_cast<std::size_t>(q)];
  };
  const bool is_cut =
      bounds.empty() || (std::ssize(bounds) == count + 1 && bounds.front() == 0 && bounds.back() == slices &&
                         std::ranges::is_sorted(bounds, std::less_equal()));
  if (!is_cut) return internal_error("bounds that do not cut a batch into parts");
  for (std::int64_t q = 0; q < count; ++q) parts.push_back({{bound(q), bound(q + 1)}});
  DGX_TRY(Plan of_tail, plan_tail());
  DGX_CHECK(plan_bodies());
  return of_tail;
}

Status PartsExecutor::Impl::prepare(std::int64_t count, const std::vector<std::int64_t>& bounds) {
  DGX_TRY(Plan of_tail, plan(count, bounds));
  return take_memory(std::move(of_tail));
}

Result<std::int64_t> PartsExecutor::Impl::count_memory(std::int64_t count,
                                                       const std::vector<std::int64_t>& bounds) {
  DGX_TRY(const Plan of_tail, plan(count, bounds));
  DGX_TRY(const Needs needs, needs_of(of_tail));
  return needs.arena + needs.beside;
}

/// Plans the tail, which has all entries. What is to be watched after a step, and is made in the body, is
/// given to it, too.
Result<Plan> PartsExecutor::Impl::plan_tail() {
  DGX_TRY(tail_piece, program::tail_program(*program, classes));
  return plan_tail_piece(inputs.watched);
}

/// Plans tail_piece.
Result<Plan> PartsExecutor::Impl::plan_tail_piece(const std::vector<ValueIndex>& watched) {
  StepInputs of_tail = inputs;
  of_tail.watched.clear();
  for (const ValueIndex v : watched) {
    const auto& origins = tail_piece.origins;
    auto found = std::ranges::find(origins, v, &PieceLine::value);
    if (found == origins.end()) {
      Primitive input;
      input.kind = Kind::kInput;
      input.shape = at(v).shape;
      input.source = {Source::Kind::kState, program::value_name(v), {}};
      tail_piece.program.values.push_back(std::move(input));
      tail_piece.origins.push_back({v, PieceLine::As::kWhole});
      found = std::prev(origins.end());
    }
    of_tail.watched.push_back(static_cast<ValueIndex>(found - origins.begin()));
  }
  tail = std::make_unique<Step>();
  tail->program = std::make_shared<program::Program>(tail_piece.program);
  tail->inputs = of_tail;
  tail->team = std::make_shared<ThreadTeam>(std::max(threads, 1));
  tail->gathered.resize(static_cast<std::size_t>(tail->team->size()));
  gathered.resize(tail->gathered.size());
  for (const PieceLine& origin : tail_piece.origins) {
    if (origin.as == PieceLine::As::kWhole) given[origin.value] = nullptr;
  }
  return tail->plan_step(Step::Entries::kInRows);
}

/// The memory of the whole step: state, carries, inputs, and what the plans of all pieces need.
Result<PartsExecutor::Impl::Needs> PartsExecutor::Impl::needs_of(const Plan& of_tail) {
  Needs out;
  out.beside = code_bytes + own_bytes();
  out.beside += exec::planned_bytes(of_tail, tail->team->size()) + input_bytes(of_tail);
  for (const Body* const body : bodies_of_step()) {
    DGX_CHECK(add_inputs(*body, out.inputs));
    out.arena = std::max(out.arena, body->plan.arena_bytes);
    out.beside += exec::planned_bytes(body->plan, tail->team->size()) - body->plan.arena_bytes;
  }
  for (const auto* inputs_of : {&out.inputs.local, &out.inputs.whole}) {
    for (const auto& [v, input] : *inputs_of) out.beside += bytes_of(*input);
  }
  for (const ValueIndex v : program->values.indices()) {
    if (classes.of[v] != SampleClass::kCarried || !makes(v)) continue;
    plan_carried(v);
    out.beside += carried.at(v).values() * bytes_of(at(v));
  }
  return out;
}

/// Takes the memory of the whole step, if all of it fits.
Status PartsExecutor::Impl::take_memory(Plan of_tail) {
  DGX_TRY(const Needs needs, needs_of(of_tail));
  const Inputs& read = needs.inputs;
  const std::int64_t size = needs.arena;
  DGX_CHECK(check_memory(needs.arena + needs.beside, processes_here()));
  DGX_CHECK(tail->take_memory(std::move(of_tail)));
  for (auto& [line, tensor] : tail->given) given[tail_piece.origins[line].value] = tensor.bytes().data();
  for (const auto& [v, fold] : carried) take_carried(v);
  const auto tensor_of = [](const Primitive& input) {
    return input.source.kind == Source::Kind::kConstant ? constant_tensor(input)
                                                        : Tensor(input.dtype, input.shape);
  };
  for (const auto& [v, input] : read.local) local.emplace(v, tensor_of(*input));
  for (const auto& [v, input] : read.whole) whole.emplace(v, tensor_of(*input));
  arena = std::make_shared<Tensor>(DType::kU8, Shape{size});
  for (Body* const body : bodies_of_step())
    body->machine = std::make_unique<Machine>(std::move(body->plan), tail->team, arena);
  return take_own_memory();
}

std::vector<ValueIndex> PartsExecutor::Impl::resumed_lines(const program::Piece& piece) const {
  std::vector<ValueIndex> out;
  for (const ValueIndex line : piece.origins.indices()) {
    const auto& [v, as] = piece.origins[line];
    if (as != PieceLine::As::kMade || v == kernels::kNoValue) continue;
    if (classes.of[v] == SampleClass::kCarried && at(v).kind == Kind::kDot) out.push_back(line);
  }
  return out;
}

/// Adds the inputs of a body, or of the head, and opens the fields that it reads.
Status PartsExecutor::Impl::add_inputs(const Body& body, Inputs& read) {
  for (const ValueIndex line : body.piece.origins.indices()) {
    const auto& [v, as] = body.piece.origins[line];
    const Primitive& input = body.piece.program.values[line];
    if (input.kind != Kind::kInput || as == PieceLine::As::kCarry || as == PieceLine::As::kSlices) continue;
    if (as == PieceLine::As::kMade && input.source.kind == Source::Kind::kState) continue;  // kept elsewhere
    if (is_batch(at(v)) && !fields.contains(v)) {
      DGX_TRY(const RowView data, batch_field(at(v), inputs));
      fields.emplace(v, data);
    }
    const bool is_cut = body.of_part && as == PieceLine::As::kMade && classes.of[v] == SampleClass::kSharded;
    const Primitive*& largest = (is_cut ? read.local : read.whole)[v];
    if (largest == nullptr || bytes_of(*largest) < bytes_of(input)) largest = &input;
  }
  return {};
}

std::vector<std::int64_t> PartsExecutor::Impl::carry_bounds() const {
  std::vector<std::int64_t> out{0};
  for (const Part& part : parts) out.push_back(part.slices.end);
  return out;
}

/// Finds what must be carried of the line.
void PartsExecutor::Impl::plan_carried(ValueIndex v) {
  const Primitive& line = at(v);
  Carried& fold = carried[v];
  fold.is_dot = line.kind == Kind::kDot;
  fold.is_read = given.contains(v);
  fold.positions = positions_of(line);
  if (!fold.is_dot) return;
  std::vector<std::int64_t> bounds = carry_bounds();
  for (std::int64_t& bound : bounds) bound *= fold.positions / classes.slices;
  const auto used = kernels::cpu::words_used(bounds);
  const DotWord total = kernels::cpu::place_of(DotWord::kTotal, fold.positions);
  for (const DotWord word : {DotWord::kBlock, DotWord::kGroup, DotWord::kTotal}) {
    const DotWord place = kernels::cpu::place_of(word, fold.positions);
    const auto at_place = static_cast<std::size_t>(place);
    if (place != total && used[at_place]) fold.used[at_place] = true;
  }
}

/// Takes its memory. The total of a dot is its value.
void PartsExecutor::Impl::take_carried(ValueIndex v) {
  const Primitive& line = at(v);
  Carried& fold = carried.at(v);
  if (fold.is_read) {
    fold.value = given.at(v);
  } else {
    fold.words.back() = Tensor(line.dtype, line.shape);
    fold.value = fold.words.back().bytes().data();
  }
  if (!fold.is_dot) {
    fold.other = Tensor(line.dtype, line.shape);
    return;
  }
  const DotWord total = kernels::cpu::place_of(DotWord::kTotal, fold.positions);
  for (std::size_t w = 0; w < kDotWords; ++w) {
    const DotWord place = kernels::cpu::place_of(static_cast<DotWord>(w), fold.positions);
    Tensor& word = fold.words[static_cast<std::size_t>(place)];
    if (place == total) {
      fold.places[w] = reinterpret_cast<float*>(fold.value);
    } else if (fold.used[static_cast<std::size_t>(place)]) {
      if (word.bytes().empty()) word = Tensor(line.dtype, line.shape);
      fold.places[w] = word.as<float>().data();
    }
  }
}

}  // namespace dgx::exec
