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

/// kUsage, naming the line, if parts cannot be made one after another.
Status check_parts(const program::Program& program, const program::Classes& classes) {
  const auto gather = program::first_obstacle(program, classes);
  if (!gather) return {};
  const std::string& made_for = program.values[gather->reader].provenance;
  return usage_error(
      fmt::format("parts cannot be made one after another: line {}{} of the program needs value {} of "
                  "all samples before a part can go on",
                  gather->reader, made_for.empty() ? "" : " (" + made_for + ")", gather->value),
      "leave --parts out; batch norm, for one, is over the whole batch");
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

/// The piece with the operands of those dots of class C gathered that are products only then, if they are not
/// large: others run element by element. Lines that are none of the step program's have the origin kNoValue.
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

/// Lines of all different local programs of a step. Three are always allowed: the first part's, and those of
/// the others, which have two sizes.
constexpr std::int64_t kMaxLinesOfBodies = 262'144;

/// The bytes that a piece, its plan and its machine take besides what planned_bytes() counts: between 0.6 and
/// all of these were measured, for lines of 90 to 970 characters.
std::int64_t bytes_of_code(const program::Program& program) {
  constexpr std::int64_t kOfLine = 4096, kOfCharacter = 64;
  const auto text = static_cast<std::int64_t>(program::print_program(program).size());
  return static_cast<std::int64_t>(program.values.size()) * kOfLine + text * kOfCharacter;
}

std::int64_t positions_of(const Primitive& line) {
  std::int64_t positions = 1;
  for (const std::int64_t extent : line.fold) positions *= extent;
  return positions;
}

}  // namespace

Status PartsExecutor::Impl::prepare(std::int64_t count) {
  DGX_TRY(const std::int64_t samples, program::batch_samples(*program));
  if (count < 1 || count > samples)
    return usage_error(fmt::format("a batch of {} samples cannot be cut into {} parts", samples, count));
  DGX_TRY(classes, program::classify(*program, samples));
  DGX_CHECK(check_parts(*program, classes));
  DGX_TRY(order, kernels::DataOrder::create(inputs.seed, samples_of(inputs), inputs.batch));
  for (std::int64_t q = 0; q < count; ++q)
    parts.push_back({{samples * q / count, samples * (q + 1) / count}});
  DGX_CHECK(find_bodies());
  DGX_TRY(Plan of_tail, plan_tail());
  DGX_CHECK(plan_head());
  for (const Part& part : parts) {
    if (part.body == bodies.size()) DGX_CHECK(add_body(part));
  }
  return take_memory(std::move(of_tail));
}

/// Plans the head, whose values that bodies read are kept.
Status PartsExecutor::Impl::plan_head() {
  DGX_TRY(head.piece, program::head_program(*program, classes));
  if (head.piece.program.values.empty()) return {};
  std::vector<ValueIndex> keep;
  for (const program::Gather& gather : classes.gathers) {
    const PieceLine line{gather.value, PieceLine::As::kMade};
    const auto found = std::ranges::find(head.piece.origins, line);
    if (classes.body[gather.reader])
      keep.push_back(static_cast<ValueIndex>(found - head.piece.origins.begin()));
  }
  DGX_TRY(head.plan, make_plan(std::make_shared<program::Program>(head.piece.program), Fusion::kFused,
                               tail->team->size(), keep));
  return {};
}

/// Makes what the bodies gather, from the inputs that prepare_step() has filled.
Status PartsExecutor::Impl::run_head() {
  if (!head.machine) return {};
  for (const ValueIndex line : head.piece.origins.indices()) {
    const ValueIndex v = head.piece.origins[line].value;
    if (at(v).kind == Kind::kInput) head.machine->set_memory(line, whole.at(v).bytes().data());
  }
  DGX_CHECK(head.machine->run([](int) {}));
  for (const ValueIndex line : head.piece.origins.indices()) {
    const auto gathered = whole.find(head.piece.origins[line].value);
    if (gathered == whole.end() || at(gathered->first).kind == Kind::kInput) continue;
    std::ranges::copy(head.machine->view(line).bytes, gathered->second.bytes().begin());
  }
  return {};
}

/// Plans the tail, which has all entries. What is to be watched after a step, and is made in the body, is
/// given to it, too.
Result<Plan> PartsExecutor::Impl::plan_tail() {
  DGX_TRY(tail_piece, program::tail_program(*program, classes));
  StepInputs of_tail = inputs;
  of_tail.watched.clear();
  for (const ValueIndex v : inputs.watched) {
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

/// Takes the memory of the whole step: state, carries, inputs, and what the plans of all pieces need. All of
/// it must fit before any is taken.
Status PartsExecutor::Impl::take_memory(Plan of_tail) {
  std::vector<Body*> all;
  if (!head.piece.program.values.empty()) all.push_back(&head);
  for (Body& body : bodies) all.push_back(&body);
  std::int64_t size = 0, bytes = code_bytes;
  bytes += exec::planned_bytes(of_tail, tail->team->size()) + input_bytes(of_tail);
  Inputs read;
  for (const Body* const body : all) {
    DGX_CHECK(add_inputs(*body, read));
    size = std::max(size, body->plan.arena_bytes);
    bytes += exec::planned_bytes(body->plan, tail->team->size()) - body->plan.arena_bytes;
  }
  for (const auto* inputs_of : {&read.local, &read.whole}) {
    for (const auto& [v, input] : *inputs_of) bytes += bytes_of(*input);
  }
  for (const ValueIndex v : program->values.indices()) {
    if (classes.of[v] != SampleClass::kCarried) continue;
    plan_carried(v);
    bytes += carried.at(v).values() * bytes_of(at(v));
  }
  DGX_CHECK(check_memory(size + bytes));
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
  for (Body* const body : all)
    body->machine = std::make_unique<Machine>(std::move(body->plan), tail->team, arena);
  return {};
}

/// Numbers the different local programs, of which parts of equal size may share one, and counts what these
/// take before any is planned.
///
/// A local program has its place, if not 0, in constants that grow with it: if two places give one text, all
/// do (pieces of equal size). So three texts are enough to know which are equal.
Status PartsExecutor::Impl::find_bodies() {
  const auto size = [](const Part& part) { return part.slices.end - part.slices.begin; };
  const auto another = [&](std::size_t than) {
    const auto fits = [&](const Part& part) { return size(part) == size(parts[than]); };
    return std::find_if(parts.begin() + static_cast<std::ptrdiff_t>(than) + 1, parts.end(), fits);
  };
  const auto text_of = [&](const Part& part) -> Result<std::string> {
    DGX_TRY(const program::Piece local, program::local_program(*program, classes, part.slices));
    return program::print_program(local.program);
  };
  bool one_for_all_places = false, first_too = false;
  for (std::size_t n = 1; n < parts.size() && !one_for_all_places; ++n) {
    const auto second = another(n);
    if (second == parts.end()) continue;
    DGX_TRY(const std::string one, text_of(parts[n]));
    DGX_TRY(const std::string two, text_of(*second));
    if (one != two) break;
    one_for_all_places = true;
  }
  if (const auto second = another(0); one_for_all_places && second != parts.end()) {
    DGX_TRY(const std::string one, text_of(parts.front()));
    DGX_TRY(const std::string two, text_of(*second));
    first_too = one == two;
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> numbers;  // by size and place
  for (Part& part : parts) {
    const std::int64_t place = part.slices.begin;
    const bool is_shared = one_for_all_places && (place > 0 || first_too);
    part.body = numbers.try_emplace({size(part), is_shared ? -1 : place}, numbers.size()).first->second;
  }
  DGX_TRY(const program::Piece last, program::local_program(*program, classes, parts.back().slices));
  const program::Piece piece = with_products(last, classes);
  const auto count = static_cast<std::int64_t>(numbers.size());
  const auto lines = static_cast<std::int64_t>(piece.program.values.size());
  if (count > std::max(kMaxLinesOfBodies / lines, std::int64_t{3}))
    return usage_error(
        fmt::format("{} parts have {} different local programs of {} lines, in all more than {}",
                    parts.size(), count, lines, kMaxLinesOfBodies),
        "use fewer parts");
  // Head and tail have no line twice.
  code_bytes = count * bytes_of_code(piece.program) + bytes_of_code(*program);
  return check_memory(code_bytes);
}

/// Plans the part's body: the values that the tail reads are kept, and dots of class C resumed.
Status PartsExecutor::Impl::add_body(const Part& part) {
  DGX_TRY(const program::Piece local, program::local_program(*program, classes, part.slices));
  program::Piece piece = with_products(local, classes);
  std::vector<ValueIndex> keep, resumed;
  for (const ValueIndex line : piece.origins.indices()) {
    const auto& [v, as] = piece.origins[line];
    if (as != PieceLine::As::kMade || v == kernels::kNoValue || at(v).kind == Kind::kInput) continue;
    if (classes.of[v] != SampleClass::kCarried) {
      if (given.contains(v)) keep.push_back(line);
    } else if (at(v).kind == Kind::kDot) {
      resumed.push_back(line);
    }
  }
  DGX_TRY(Plan plan, make_plan(std::make_shared<program::Program>(piece.program), Fusion::kFused,
                               tail->team->size(), keep, resumed));
  bodies.push_back({std::move(piece), std::move(plan), nullptr});
  return {};
}

/// Adds the inputs of a body, or of the head, and opens the fields that it reads.
Status PartsExecutor::Impl::add_inputs(const Body& body, Inputs& read) {
  for (const ValueIndex line : body.piece.origins.indices()) {
    const auto& [v, as] = body.piece.origins[line];
    const Primitive& input = body.piece.program.values[line];
    if (input.kind != Kind::kInput || as == PieceLine::As::kCarry) continue;
    if (as == PieceLine::As::kMade && input.source.kind == Source::Kind::kState) continue;  // the tail's
    if (is_batch(at(v)) && !fields.contains(v)) {
      DGX_TRY(const RowView data, batch_field(at(v), inputs));
      fields.emplace(v, data);
    }
    const bool is_cut =
        &body != &head && as == PieceLine::As::kMade && classes.of[v] == SampleClass::kSharded;
    const Primitive*& largest = (is_cut ? read.local : read.whole)[v];
    if (largest == nullptr || bytes_of(*largest) < bytes_of(input)) largest = &input;
  }
  return {};
}

/// Finds what must be carried of the line.
void PartsExecutor::Impl::plan_carried(ValueIndex v) {
  const Primitive& line = at(v);
  Carried& fold = carried[v];
  fold.is_dot = line.kind == Kind::kDot;
  fold.is_read = given.contains(v);
  fold.positions = positions_of(line);
  if (!fold.is_dot) return;
  std::vector<std::int64_t> bounds{0};
  for (const Part& part : parts) bounds.push_back(fold.positions / classes.slices * part.slices.end);
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
