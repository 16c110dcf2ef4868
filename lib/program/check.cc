#include "dgx/program/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dgx/core/checked.h"
#include "dgx/core/text.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/scalar.h"
#include "dgx/kernels/schedule.h"
#include "dgx/program/leaves.h"
#include "dgx/program/line.h"
#include "line_text.h"

namespace dgx::program {

using kernels::Access;
using kernels::Coordinate;
using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::Source;
using kernels::Step;
using kernels::Term;
using kernels::ValueIndex;
using kernels::ValueType;

namespace {

using Wide = __int128;
struct Interval {
  Wide low = 0, high = 0;  // inclusive
};

/// The range of the sum, before it is divided.
Interval range_of(const Coordinate& coordinate, const Shape& iteration, const Shape& fold) {
  Interval range{coordinate.constant, coordinate.constant};
  for (const Term& term : coordinate.terms) {
    const Shape& sizes = term.symbol == Term::Symbol::kIndex ? iteration : fold;
    const Wide most = Wide{term.coefficient} * (sizes[static_cast<std::size_t>(term.index)] - 1);
    range.low += std::min(most, Wide{0});
    range.high += std::max(most, Wide{0});
  }
  return range;
}

Interval divided(const Interval& range, const Coordinate& coordinate) {
  if (coordinate.division == Coordinate::Division::kNone) return range;
  const auto floor_div = [&](Wide a) {
    return a / coordinate.divisor - (a % coordinate.divisor < 0 ? 1 : 0);
  };
  return {floor_div(range.low), floor_div(range.high)};
}

bool reads_access(const Coordinate& coordinate) {
  return std::any_of(coordinate.terms.begin(), coordinate.terms.end(),
                     [](const Term& term) { return term.symbol == Term::Symbol::kAccess; });
}

/// True if no range bounds the coordinate: `$j` may be any integer, and `/d` may miss.
bool may_miss(const Coordinate& coordinate) {
  return reads_access(coordinate) || coordinate.division == Coordinate::Division::kExact;
}

Status check_coordinate(const Coordinate& coordinate, std::int64_t size, bool has_fill,
                        const Primitive& line) {
  if (reads_access(coordinate) &&
      (coordinate.terms.size() != 1 || coordinate.terms[0].coefficient != 1 || coordinate.constant != 0 ||
       coordinate.division != Coordinate::Division::kNone)) {
    return malformed("$ must stand alone");
  }
  if (may_miss(coordinate)) {
    if (!has_fill) return malformed("may be outside: a fill is needed");
    if (reads_access(coordinate)) return {};
  }
  const Interval sum = range_of(coordinate, line.iteration_shape(), line.fold);
  if (sum.low < -kMaxInteger || sum.high > kMaxInteger) return malformed("exceeds 2^53");
  const Interval range = divided(sum, coordinate);
  if (!has_fill && (range.low < 0 || range.high >= size)) {
    return malformed(fmt::format("reaches {} to {}, outside 0 to {}, without a fill",
                                 static_cast<std::int64_t>(range.low), static_cast<std::int64_t>(range.high),
                                 size - 1));
  }
  return {};
}

/// Checks that the line's result depends on every access and every step.
class Usage {
 public:
  explicit Usage(const Primitive& line) : line_(line), accesses_(line.accesses.size(), false) {}

  Status check() {
    if (line_.kind == Kind::kDot) {
      take_access(0);
      take_access(1);
    } else {
      DGX_CHECK(take_steps(line_.steps, "do"));
    }
    if (!line_.when.empty()) DGX_CHECK(take_steps(line_.when, "when"));
    if (line_.init) take_operand(*line_.init, nullptr);
    for (std::size_t n = 0; n < accesses_.size(); ++n) {
      if (!accesses_[n]) return malformed(fmt::format("x: access {} is not used", n));
    }
    return {};
  }

 private:
  void take_access(std::size_t n) {
    accesses_[n] = true;
    for (const Coordinate& coordinate : line_.accesses[n].coordinates) {
      for (const Term& term : coordinate.terms) {
        if (term.symbol == Term::Symbol::kAccess) accesses_[static_cast<std::size_t>(term.index)] = true;
      }
    }
  }
  void take_operand(const Operand& operand, std::vector<bool>* steps) {
    if (operand.kind == Operand::Kind::kAccess) take_access(static_cast<std::size_t>(operand.index));
    if (operand.kind == Operand::Kind::kStep && steps)
      (*steps)[static_cast<std::size_t>(operand.index)] = true;
  }
  Status take_steps(const std::vector<Step>& list, std::string_view field) {
    if (list.empty()) {
      if (!line_.accesses.empty()) take_access(0);
      return {};
    }
    std::vector<bool> used(list.size(), false);
    used.back() = true;
    for (std::size_t n = list.size(); n-- > 0;) {
      if (!used[n]) return malformed(fmt::format("{}: step {} is not used", field, n));
      for (int m = 0; m < arity_of(list[n].op); ++m)
        take_operand(list[n].operands[static_cast<std::size_t>(m)], &used);
    }
    return {};
  }

  const Primitive& line_;
  std::vector<bool> accesses_;
};

/// The bytes of all values and the operations of one step, so far.
struct Totals {
  std::int64_t bytes = 0;
  std::int64_t operations = 0;
};

/// Adds a line of `count` elements, within the limits. The line's sizes can then be multiplied without
/// overflow.
Status add_line(Totals& totals, const Primitive& line, std::int64_t count) {
  const auto size = checked_mul(count, static_cast<std::int64_t>(size_of(line.dtype)));
  const auto total = size ? checked_add(totals.bytes, *size) : std::nullopt;
  if (!total || *total > kMaxValueBytes)
    return malformed(fmt::format("s: all values together exceed {} bytes", kMaxValueBytes));
  totals.bytes = *total;
  auto positions = element_count(line.fold);
  if (!positions) return within("f", positions.error());
  if (*positions == 0) return malformed("f: has no positions");
  const auto terms = checked_mul(count, *positions);
  const auto operations =
      terms ? checked_mul(*terms, static_cast<std::int64_t>(line.steps.size() + line.when.size() + 1))
            : std::nullopt;
  const auto all = operations ? checked_add(totals.operations, *operations) : std::nullopt;
  if (!all || *all > kMaxOperations) return malformed("f: too many operations in one step");
  totals.operations = *all;
  return {};
}

/// The inputs so far, each of which may occur once.
struct Inputs {
  ProgramRole role;
  std::set<std::string> sources = {};  ///< "state step", "batch x", …
  std::set<std::string> entries = {};  ///< names of the state entries
};

Status take_once(Inputs& inputs, const std::string& source) {
  if (inputs.sources.insert(source).second) return {};
  return malformed(fmt::format("src: a second '{}'", source));
}

/// True for `value/N` and `carry/N`, N the number of a line.
bool is_of_another_program(std::string_view name) {
  if (!name.starts_with("value/") && !name.starts_with("carry/")) return false;
  const auto number = parse_integer(name.substr(6));
  return number.ok() && *number >= 0 && *number < static_cast<std::int64_t>(kMaxLines);
}

Status check_state_input(const Primitive& line, Inputs& inputs) {
  const std::string& name = line.source.name;
  const bool is_step = name == "step", is_loss = name == "loss";
  const bool is_piece = inputs.role == ProgramRole::kPiece;
  if (!is_step && !is_loss && !name.starts_with("model/") && !name.starts_with("optimizer/") &&
      !(is_piece && is_of_another_program(name))) {
    return malformed(fmt::format("src: no state entry may be called '{}'", name),
                     "use model/NAME, optimizer/KIND/NAME, step or loss");
  }
  if (is_step && (line.dtype != DType::kI64 || !line.shape.empty()))
    return malformed("src: state step must be i64 []");
  if (is_loss && (line.dtype != DType::kF32 || !line.shape.empty()))
    return malformed("src: state loss must be f32 []");
  if (Status named = check_entry_name(name); !named.ok()) return malformed("src: " + named.error().message);
  if (!is_piece && line.next.has_value() != (inputs.role == ProgramRole::kTraining)) {
    return malformed(line.next ? "next: an evaluation program changes no state" : "next: is missing");
  }
  inputs.entries.insert(name);
  return take_once(inputs, "state " + name);
}

Status check_schedule_input(const Primitive& line, Inputs& inputs) {
  const auto count = static_cast<std::int64_t>(line.source.of.size());
  if (line.dtype != DType::kF32 || line.shape != Shape{count})
    return malformed(fmt::format("s: a schedule of {} names is f32 [{}]", count, count));
  for (const std::string& name : line.source.of) {
    if (!kernels::parse_schedule_name(name)) return malformed(fmt::format("of: unknown schedule '{}'", name));
  }
  return take_once(inputs, "schedule");
}

Status check_constant_input(const Primitive& line, std::int64_t count) {
  if (count != static_cast<std::int64_t>(line.source.of.size())) {
    return malformed(fmt::format("of: has {} numbers for {} elements", line.source.of.size(), count));
  }
  for (const std::string& text : line.source.of) {
    auto literal = parse_literal(text);
    if (!literal) return within("of", literal.error());
    const bool is_float = std::holds_alternative<float>(*literal);
    if (is_float != (line.dtype == DType::kF32))
      return malformed(fmt::format("of: '{}' is not of type {}", text, name_of(line.dtype)));
    if (line.dtype == DType::kU8 &&
        kernels::to_u8(std::get<std::int64_t>(*literal)) != std::get<std::int64_t>(*literal)) {
      return malformed(fmt::format("of: '{}' is not of type u8", text));
    }
  }
  return {};
}

Status check_input(const Primitive& line, std::int64_t count, Inputs& inputs) {
  const Source& source = line.source;
  if (source.kind != Source::Kind::kState && line.next) return malformed("next: only state entries have one");
  const bool changes = source.kind == Source::Kind::kSchedule || source.kind == Source::Kind::kUniform;
  if (changes && inputs.role == ProgramRole::kEvaluation)
    return malformed("src: an evaluation program has no schedule and no random numbers");
  switch (source.kind) {
    case Source::Kind::kState: return check_state_input(line, inputs);
    case Source::Kind::kSchedule: return check_schedule_input(line, inputs);
    case Source::Kind::kConstant: return check_constant_input(line, count);
    case Source::Kind::kBatch: return take_once(inputs, "batch " + source.name);
    case Source::Kind::kUniform:
      if (line.dtype != DType::kF32) return malformed("t: random numbers are f32");
      return take_once(inputs, "uniform " + source.name);
  }
  return malformed("src: unknown");
}

using Table = kernels::ByValue<ValueType>;

Status check_access(const Access& access, const Primitive& line, const Table& table) {
  if (access.view && access.view->empty()) return malformed("a view without dimensions cannot be written");
  const Shape& sizes = access.view ? *access.view : table[access.value].shape;
  for (std::size_t n = 0; n < access.coordinates.size(); ++n) {
    Status status = check_coordinate(access.coordinates[n], sizes[n], access.fill.has_value(), line);
    if (!status.ok()) return within(fmt::format("coordinate {}", n), status.error());
  }
  return {};
}

Status check_operation(const Primitive& line, const Table& table, ProgramRole role) {
  if (line.steps.size() > kMaxSteps || line.when.size() > kMaxSteps)
    return malformed(fmt::format("do: more than {} steps", kMaxSteps));
  if (line.accesses.size() > kMaxAccesses)
    return malformed(fmt::format("x: more than {} accesses", kMaxAccesses));
  for (std::size_t n = 0; n < line.accesses.size(); ++n) {
    if (const ValueIndex value = line.accesses[n].value; !table.contains(value))
      return malformed(fmt::format("x: access {}: value {} is not defined before", n, value));
  }
  DGX_TRY([[maybe_unused]] const auto compiled, kernels::compile(line, table));
  for (std::size_t n = 0; n < line.accesses.size(); ++n) {
    if (Status status = check_access(line.accesses[n], line, table); !status.ok())
      return within(fmt::format("x: access {}", n), status.error());
  }
  DGX_CHECK(Usage(line).check());
  if (line.kind == Kind::kChain && !line.init) return malformed("init: is missing");
  if (role == ProgramRole::kPiece) return {};  // nobody disputes one
  return check_leaves(line, [&](ValueIndex value) {
    const ValueType& type = table[value];
    return *element_count(type.shape) * static_cast<std::int64_t>(size_of(type.dtype));
  });
}

Status check_next(const Primitive& line, const Table& table) {
  if (!line.next) return {};
  const ValueIndex next = *line.next;
  if (!table.contains(next)) return malformed(fmt::format("next: there is no value {}", next));
  const ValueType& type = table[next];
  if (type.dtype == line.dtype && type.shape == line.shape) return {};
  return malformed(fmt::format("next: value {} is {} {}, the entry {} {}", next, name_of(type.dtype),
                               to_string(type.shape), name_of(line.dtype), to_string(line.shape)));
}

/// Checks that the entry `step` counts up by one: it is the number of the step to come, from which batches,
/// schedule and random numbers follow.
Status check_counter(const Program& program) {
  const ValueIndex step = *find_state_input(program, "step");
  const ValueIndex next = *program.values[step].next;
  const Primitive& line = program.values[next];
  Primitive expected;
  expected.dtype = DType::kI64;
  expected.accesses = {Access{step, std::nullopt, {}, std::nullopt}};
  expected.steps = {Step{kernels::ScalarOp::kAdd, {Operand::access(0), Operand::literal(std::int64_t{1})}}};
  expected.provenance = line.provenance;
  if (line == expected) return {};
  return malformed(
      fmt::format("line {}: next: of state step it must be the map \"add x0 1\" of {}[], line {} is not",
                  step, step, next));
}

}  // namespace

Status check_entry_name(std::string_view name) {
  if (name.size() > kMaxNameBytes)
    return malformed(fmt::format("state entry '{}…' has {} bytes, at most {} are allowed",
                                 printable(name.substr(0, 32)), name.size(), kMaxNameBytes));
  if (!std::ranges::all_of(name, [](char letter) { return letter > ' ' && letter <= '~'; }))
    return malformed(
        fmt::format("state entry '{}' has a space, or a letter that is not ASCII", printable(name)));
  std::size_t parts = 0;
  for (std::size_t begin = 0; begin <= name.size(); ++parts) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..")
      return malformed(fmt::format("state entry '{}' has an empty, \".\" or \"..\" part", name));
    begin = end + 1;
  }
  if (parts <= kMaxNameParts) return {};
  return malformed(fmt::format("state entry '{}' has more than {} parts", name, kMaxNameParts));
}

Status check_entry_groups(const std::set<std::string>& names) {
  // Names that begin with NAME/ follow each other in byte order, so one look-up finds them.
  for (const std::string& name : names) {
    const auto inside = names.lower_bound(name + '/');
    if (inside != names.end() && inside->starts_with(name + '/'))
      return malformed(fmt::format("state entry '{}' is a prefix of '{}'", name, *inside));
  }
  return {};
}

Status check_program(const Program& program, ProgramRole role) {
  const auto& lines = program.values;
  if (lines.empty()) return malformed("program: is empty");
  if (lines.size() > kMaxLines) return malformed(fmt::format("program: more than {} lines", kMaxLines));
  Table table;
  Totals totals;
  Inputs inputs{role};
  const auto check_line = [&](const Primitive& line) -> Status {
    auto count = element_count(line.shape);
    if (!count) return within("s", count.error());
    if (*count == 0) return malformed("s: has no elements");
    DGX_CHECK(add_line(totals, line, *count));
    return line.kind == Kind::kInput ? check_input(line, *count, inputs) : check_operation(line, table, role);
  };
  for (const ValueIndex v : lines.indices()) {
    if (Status status = check_line(lines[v]); !status.ok())
      return within(fmt::format("line {}", v), status.error());
    table.push_back({lines[v].dtype, lines[v].shape});
  }
  for (const ValueIndex v : lines.indices()) {
    if (Status status = check_next(lines[v], table); !status.ok())
      return within(fmt::format("line {}", v), status.error());
  }
  if (Status apart = check_entry_groups(inputs.entries); !apart.ok())
    return malformed("program: " + apart.error().message);
  if (role == ProgramRole::kPiece) return {};
  if (role == ProgramRole::kTraining) {
    for (const char* source : {"state step", "state loss"}) {
      if (!inputs.sources.contains(source)) return malformed(fmt::format("program: no input '{}'", source));
    }
    return check_counter(program);
  }
  if (table.back().dtype == DType::kF32 && table.back().shape.size() <= 1) return {};
  return malformed("program: the last value of an evaluation program is f32 [batch] or f32 []");
}

}  // namespace dgx::program
