// Parts made one after another: the head, local programs that parts share, and what is carried in memory.
#include "cpu/parts_in_turn.h"

#include <fmt/format.h>

#include <algorithm>

#include "cpu/memory_limit.h"
#include "dgx/core/pages.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Source;
using kernels::ValueIndex;
using program::PieceLine;
using program::SampleClass;

namespace {

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

}  // namespace

Status PartsExecutor::InTurn::plan_bodies() {
  DGX_CHECK(check_parts(*program, classes));
  DGX_CHECK(find_bodies());
  DGX_CHECK(plan_head());
  for (const Part& part : parts) {
    if (part.body == bodies.size()) DGX_CHECK(add_body(part));
  }
  return {};
}

std::vector<Body*> PartsExecutor::InTurn::bodies_of_step() {
  std::vector<Body*> out;
  if (!head.piece.program.values.empty()) out.push_back(&head);
  for (Body& body : bodies) out.push_back(&body);
  return out;
}

void PartsExecutor::InTurn::make_room() {
  give_back_pages(arena->bytes());
  for (auto& [line, tensor] : tail->given) give_back_pages(tensor.bytes());
}

double PartsExecutor::InTurn::runs_of(const Body& body) const {
  if (&body == &head) return 1;
  return static_cast<double>(std::ranges::count(parts, &body - bodies.data(), &Part::body));
}

/// Plans the part's body: the values that the tail reads are kept, and dots of class C resumed.
Status PartsExecutor::InTurn::add_body(const Part& part) {
  DGX_TRY(const program::Piece local, program::local_program(*program, classes, part.slices));
  program::Piece piece = with_products(local, classes);
  std::vector<ValueIndex> keep;
  for (const ValueIndex line : piece.origins.indices()) {
    const auto& [v, as] = piece.origins[line];
    if (as != PieceLine::As::kMade || v == kernels::kNoValue || at(v).kind == Kind::kInput) continue;
    if (classes.of[v] != SampleClass::kCarried && given.contains(v)) keep.push_back(line);
  }
  DGX_TRY(Plan plan, make_plan(std::make_shared<program::Program>(piece.program), Fusion::kFused,
                               tail->team->size(), keep, resumed_lines(piece)));
  bodies.push_back({std::move(piece), std::move(plan)});
  return {};
}

/// Tells the part's machine the memory of all inputs, and of the folds that it goes on with.
void PartsExecutor::InTurn::connect(const Part& part, Machine& machine) {
  const program::Piece& piece = bodies[part.body].piece;
  for (const ValueIndex line : piece.origins.indices()) {
    const PieceLine& origin = piece.origins[line];
    if (piece.program.values[line].kind == Kind::kInput) {
      if (origin.as != PieceLine::As::kCarry) machine.set_memory(line, memory_of(origin));
    } else if (origin.value != kernels::kNoValue && classes.of[origin.value] == SampleClass::kCarried) {
      connect_carried(part, machine, line, origin.value);
    }
  }
  // A chain's carry comes before its line.
  for (const ValueIndex line : piece.origins.indices()) {
    const auto& [v, as] = piece.origins[line];
    if (as != PieceLine::As::kCarry) continue;
    const Carried& fold = carried.at(v);
    machine.set_memory(line, fold.is_dot ? fold.value : fold.before);
  }
}

/// Copies the part's slices of what the tail reads, or all of a value that every part makes.
void PartsExecutor::InTurn::keep_values(const Part& part, const Machine& machine) {
  const program::Piece& piece = bodies[part.body].piece;
  for (const ValueIndex line : piece.origins.indices()) {
    const auto& [v, as] = piece.origins[line];
    if (as != PieceLine::As::kMade || v == kernels::kNoValue || at(v).kind == Kind::kInput) continue;
    if (classes.of[v] == SampleClass::kCarried || !given.contains(v)) continue;
    const std::int64_t first =
        classes.of[v] == SampleClass::kSharded ? bytes_of(at(v)) / classes.slices * part.slices.begin : 0;
    const ByteView made = machine.view(line).bytes;
    std::copy(made.begin(), made.end(), given.at(v) + first);
  }
}

Status PartsExecutor::InTurn::run(const Part& part) {
  Machine& machine = *bodies[part.body].machine;
  connect(part, machine);
  DGX_CHECK(machine.run([&](int member) { gather(part, member); }));
  for (const Status& status : gathered) DGX_CHECK(status);
  keep_values(part, machine);
  return {};
}

Status PartsExecutor::InTurn::run_bodies() {
  DGX_CHECK(run_head());
  for (const Part& part : parts) DGX_CHECK(run(part));
  return {};
}

}  // namespace dgx::exec
