// The head, local programs, and chains that go on in memory: shared by the forms whose process makes all
// parts.
#include <fmt/format.h>

#include <algorithm>

#include "cpu/memory_limit.h"
#include "cpu/parts_executor_impl.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;
using program::PieceLine;

namespace {

/// Lines of all different local programs of a step. Three are always allowed: the first part's, and those of
/// the others, which have two sizes.
constexpr std::int64_t kMaxLinesOfBodies = 262'144;

}  // namespace

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

void PartsExecutor::Impl::connect_carried(const Part& part, Machine& machine, ValueIndex line, ValueIndex v) {
  Carried& fold = carried.at(v);
  if (fold.is_dot) {
    machine.resume(line, resumed(part, fold));
    machine.set_memory(line, fold.value);
    return;
  }
  // Such that the last part leaves acc in `value`: from there, parts alternate backwards.
  const auto behind = static_cast<std::size_t>(&part - parts.data());
  const bool to_value = (parts.size() - 1 - behind) % 2 == 0;
  machine.set_memory(line, to_value ? fold.value : fold.other.bytes().data());
  fold.before = to_value ? fold.other.bytes().data() : fold.value;
}

}  // namespace dgx::exec
