#include "dgx/program/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dgx/core/checked.h"
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

/// The accesses and steps that the line's result depends on.
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

class Checker {
 public:
  Checker(const Program& program, ProgramRole role) : program_(program), role_(role) {}

  Status run() {
    if (program_.values.empty()) return malformed("program: is empty");
    if (program_.values.size() > kMaxLines)
      return malformed(fmt::format("program: more than {} lines", kMaxLines));
    for (std::size_t n = 0; n < program_.values.size(); ++n) {
      if (Status status = line(program_.values[n]); !status.ok())
        return within(fmt::format("line {}", n), status.error());
    }
    for (std::size_t n = 0; n < program_.values.size(); ++n) {
      if (Status status = next_of(program_.values[n]); !status.ok())
        return within(fmt::format("line {}", n), status.error());
    }
    DGX_CHECK(nested_entries());
    return role_ == ProgramRole::kTraining ? training() : evaluation();
  }

 private:
  Status line(const Primitive& primitive) {
    auto count = element_count(primitive.shape);
    if (!count) return within("s", count.error());
    if (*count == 0) return malformed("s: has no elements");
    DGX_CHECK(account(primitive, *count));
    DGX_CHECK(primitive.kind == Kind::kInput ? input(primitive, *count) : operation(primitive));
    table_.push_back({primitive.dtype, primitive.shape});
    return {};
  }

  /// Bounds the bytes of all values and the operations of a step. Sizes multiplied after this have been
  /// checked.
  Status account(const Primitive& primitive, std::int64_t count) {
    const auto size = checked_mul(count, static_cast<std::int64_t>(size_of(primitive.dtype)));
    const auto total = size ? checked_add(bytes_, *size) : std::nullopt;
    if (!total || *total > kMaxValueBytes)
      return malformed(fmt::format("s: all values together exceed {} bytes", kMaxValueBytes));
    bytes_ = *total;
    auto positions = element_count(primitive.fold);
    if (!positions) return within("f", positions.error());
    if (*positions == 0) return malformed("f: has no positions");
    const auto terms = checked_mul(count, *positions);
    const auto operations = terms ? checked_mul(*terms, static_cast<std::int64_t>(primitive.steps.size() +
                                                                                  primitive.when.size() + 1))
                                  : std::nullopt;
    const auto all = operations ? checked_add(operations_, *operations) : std::nullopt;
    if (!all || *all > kMaxOperations) return malformed("f: too many operations in one step");
    operations_ = *all;
    return {};
  }

  Status input(const Primitive& primitive, std::int64_t count) {
    const Source& source = primitive.source;
    if (source.kind != Source::Kind::kState && primitive.next)
      return malformed("next: only state entries have one");
    const bool changes = source.kind == Source::Kind::kSchedule || source.kind == Source::Kind::kUniform;
    if (changes && role_ == ProgramRole::kEvaluation)
      return malformed("src: an evaluation program has no schedule and no random numbers");
    switch (source.kind) {
      case Source::Kind::kState: return state_input(primitive);
      case Source::Kind::kSchedule: return schedule_input(primitive);
      case Source::Kind::kConstant: return constant_input(primitive, count);
      case Source::Kind::kBatch: return once("src", "batch " + source.name);
      case Source::Kind::kUniform:
        if (primitive.dtype != DType::kF32) return malformed("t: random numbers are f32");
        return once("src", "uniform " + source.name);
    }
    return malformed("src: unknown");
  }

  Status once(std::string_view field, const std::string& what) {
    if (inputs_.insert(what).second) return {};
    return malformed(fmt::format("{}: a second '{}'", field, what));
  }

  Status state_input(const Primitive& primitive) {
    const std::string& name = primitive.source.name;
    const bool is_step = name == "step", is_loss = name == "loss";
    if (!is_step && !is_loss && !name.starts_with("model/") && !name.starts_with("optimizer/")) {
      return malformed(fmt::format("src: no state entry may be called '{}'", name),
                       "model/NAME, optimizer/KIND/NAME, step or loss");
    }
    if (is_step && (primitive.dtype != DType::kI64 || !primitive.shape.empty()))
      return malformed("src: state step must be i64 []");
    if (is_loss && (primitive.dtype != DType::kF32 || !primitive.shape.empty()))
      return malformed("src: state loss must be f32 []");
    DGX_CHECK(entry_name(name));
    if (primitive.next.has_value() != (role_ == ProgramRole::kTraining)) {
      return malformed(primitive.next ? "next: an evaluation program changes no state" : "next: is missing");
    }
    return once("src", "state " + name);
  }

  /// A bundle has a group for each part of a name (dgx-bundle(5), "Names").
  Status entry_name(const std::string& name) {
    if (!entries_.insert(name).second) return {};  // a second one is refused by once()
    std::size_t parts = 0;
    for (std::size_t begin = 0; begin <= name.size(); ++parts) {
      const std::size_t end = std::min(name.find('/', begin), name.size());
      const std::string_view part = std::string_view(name).substr(begin, end - begin);
      if (part.empty() || part == "." || part == "..")
        return malformed(fmt::format("src: state entry '{}' has an empty, \".\" or \"..\" part", name));
      begin = end + 1;
    }
    if (parts <= kMaxNameParts) return {};
    return malformed(fmt::format("src: state entry '{}' has more than {} parts", name, kMaxNameParts));
  }

  /// No entry may have the name of another one's group. Names that begin with NAME/ are together in order of
  /// bytes.
  Status nested_entries() const {
    for (const std::string& name : entries_) {
      const auto inside = entries_.lower_bound(name + '/');
      if (inside != entries_.end() && inside->starts_with(name + '/'))
        return malformed(fmt::format("program: state entry '{}' is the beginning of '{}'", name, *inside));
    }
    return {};
  }

  Status schedule_input(const Primitive& primitive) {
    static const std::set<std::string_view> kNames = {"lr", "-lr", "lr/(1-b1^t)", "1/sqrt(1-b2^t)",
                                                      "1-lr*wd"};
    const auto count = static_cast<std::int64_t>(primitive.source.of.size());
    if (primitive.dtype != DType::kF32 || primitive.shape != Shape{count})
      return malformed(fmt::format("s: a schedule of {} names is f32 [{}]", count, count));
    for (const std::string& name : primitive.source.of) {
      if (!kNames.contains(name)) return malformed(fmt::format("of: no schedule is called '{}'", name));
    }
    return once("src", "schedule");
  }

  static Status constant_input(const Primitive& primitive, std::int64_t count) {
    if (count != static_cast<std::int64_t>(primitive.source.of.size())) {
      return malformed(fmt::format("of: has {} numbers for {} elements", primitive.source.of.size(), count));
    }
    for (const std::string& text : primitive.source.of) {
      auto literal = parse_literal(text);
      if (!literal) return within("of", literal.error());
      const bool is_float = std::holds_alternative<float>(*literal);
      if (is_float != (primitive.dtype == DType::kF32))
        return malformed(fmt::format("of: '{}' is no {}", text, name_of(primitive.dtype)));
      if (primitive.dtype == DType::kU8 &&
          kernels::to_u8(std::get<std::int64_t>(*literal)) != std::get<std::int64_t>(*literal)) {
        return malformed(fmt::format("of: '{}' is no u8", text));
      }
    }
    return {};
  }

  Status operation(const Primitive& primitive) {
    if (primitive.steps.size() > kMaxSteps || primitive.when.size() > kMaxSteps)
      return malformed(fmt::format("do: more than {} steps", kMaxSteps));
    if (primitive.accesses.size() > kMaxAccesses)
      return malformed(fmt::format("x: more than {} accesses", kMaxAccesses));
    for (std::size_t n = 0; n < primitive.accesses.size(); ++n) {
      if (const ValueIndex value = primitive.accesses[n].value;
          value < 0 || value >= static_cast<ValueIndex>(table_.size())) {
        return malformed(fmt::format("x: access {}: value {} is not defined before", n, value));
      }
    }
    DGX_TRY([[maybe_unused]] const auto compiled, kernels::compile(primitive, table_));
    for (std::size_t n = 0; n < primitive.accesses.size(); ++n) {
      if (Status status = access(primitive.accesses[n], primitive); !status.ok()) {
        return within(fmt::format("x: access {}", n), status.error());
      }
    }
    DGX_CHECK(Usage(primitive).check());
    if (primitive.kind == Kind::kChain && !primitive.init) return malformed("init: is missing");
    return check_leaves(primitive, [&](ValueIndex value) { return bytes_of(value); });
  }

  Status access(const Access& access, const Primitive& primitive) {
    if (access.view && access.view->empty()) return malformed("a view without dimensions has no spelling");
    const Shape& sizes = access.view ? *access.view : table_[static_cast<std::size_t>(access.value)].shape;
    for (std::size_t n = 0; n < access.coordinates.size(); ++n) {
      Status status = check_coordinate(access.coordinates[n], sizes[n], access.fill.has_value(), primitive);
      if (!status.ok()) return within(fmt::format("coordinate {}", n), status.error());
    }
    return {};
  }

  [[nodiscard]] std::int64_t bytes_of(ValueIndex value) const {
    const ValueType& type = table_[static_cast<std::size_t>(value)];
    return *element_count(type.shape) * static_cast<std::int64_t>(size_of(type.dtype));
  }

  Status next_of(const Primitive& primitive) {
    if (!primitive.next) return {};
    const ValueIndex next = *primitive.next;
    if (next < 0 || next >= static_cast<ValueIndex>(table_.size()))
      return malformed(fmt::format("next: there is no value {}", next));
    const ValueType& type = table_[static_cast<std::size_t>(next)];
    if (type.dtype == primitive.dtype && type.shape == primitive.shape) return {};
    return malformed(fmt::format("next: value {} is {} {}, the entry {} {}", next, name_of(type.dtype),
                                 to_string(type.shape), name_of(primitive.dtype),
                                 to_string(primitive.shape)));
  }

  Status training() const {
    for (const char* name : {"state step", "state loss"}) {
      if (!inputs_.contains(name)) return malformed(fmt::format("program: no input '{}'", name));
    }
    return counts_steps();
  }

  /// Checks that the entry `step` counts up by one: it is the number of the step to come, and others rely on
  /// it.
  [[nodiscard]] Status counts_steps() const {
    const ValueIndex step = *find_state_input(program_, "step");
    const ValueIndex next = *program_.values[static_cast<std::size_t>(step)].next;
    Primitive expected;
    expected.dtype = DType::kI64;
    expected.accesses = {Access{step, std::nullopt, {}, std::nullopt}};
    expected.steps = {Step{kernels::ScalarOp::kAdd, {Operand::access(0), Operand::literal(std::int64_t{1})}}};
    expected.provenance = program_.values[static_cast<std::size_t>(next)].provenance;
    if (program_.values[static_cast<std::size_t>(next)] == expected) return {};
    return malformed(
        fmt::format("line {}: next: of state step it must be the map \"add x0 1\" of {}[], line {} is not",
                    step, step, next));
  }

  Status evaluation() const {
    const ValueType& last = table_.back();
    if (last.dtype == DType::kF32 && last.shape.size() == 1) return {};
    return malformed("program: the last value of an evaluation program is f32 [batch]");
  }

  const Program& program_;
  const ProgramRole role_;
  std::vector<ValueType> table_;
  std::set<std::string> inputs_;
  std::set<std::string> entries_;
  std::int64_t bytes_ = 0;
  std::int64_t operations_ = 0;
};

}  // namespace

Status check_program(const Program& program, ProgramRole role) { return Checker(program, role).run(); }

}  // namespace dgx::program
