#include "dgx/program/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dgx::program {

using kernels::Access;
using kernels::Coordinate;
using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::Term;
using kernels::ValueIndex;

namespace {

using Wide = __int128;

bool has_slices(const Shape& shape, std::int64_t slices) { return !shape.empty() && shape[0] % slices == 0; }

/// The range of coordinate 0's sum stays within [0, extent) while the first of the indices `over` runs over
/// one slice, `within` of its values, and all other symbols over their whole ranges.
bool is_inside(const Coordinate& coordinate, const Primitive& line, Term::Symbol over, std::int64_t within,
               std::int64_t extent) {
  Wide low = coordinate.constant, high = coordinate.constant;
  for (const Term& term : coordinate.terms) {
    const Shape& sizes = term.symbol == Term::Symbol::kIndex ? line.iteration_shape() : line.fold;
    const bool first = term.symbol == over && term.index == 0;
    const std::int64_t size = first ? within : sizes[static_cast<std::size_t>(term.index)];
    const Wide most = Wide{term.coefficient} * (size - 1);
    (most < 0 ? low : high) += most;
  }
  return low >= 0 && high < extent;
}

/// True if the access stays in its slice by i or by k (dgx-placement(7), "Classes").
bool stays(const Program& program, const Primitive& line, const Access& access, Term::Symbol over,
           std::int64_t slices) {
  const Shape& seen = access.view ? *access.view : program.values[access.value].shape;
  const Shape& run = over == Term::Symbol::kIndex ? line.iteration_shape() : line.fold;
  if (!has_slices(seen, slices) || !has_slices(run, slices)) return false;
  const std::int64_t extent = seen[0] / slices, within = run[0] / slices;
  const Coordinate& first = access.coordinates.front();
  if (first.division != Coordinate::Division::kNone) return false;
  Wide coefficient = 0;
  for (const Term& term : first.terms) {
    if (term.symbol == Term::Symbol::kAccess) return false;
    if (term.symbol == over && term.index == 0) coefficient = term.coefficient;
  }
  return coefficient * within == extent && is_inside(first, line, over, within, extent);
}

SampleClass class_of_input(const Primitive& input, std::int64_t slices) {
  const bool cut = input.source.kind == Source::Kind::kBatch ||
                   (input.source.kind == Source::Kind::kUniform && has_slices(input.shape, slices));
  return cut ? SampleClass::kSharded : SampleClass::kWhole;
}

/// Finds the body and turns candidates that it needs into lines of class W. Readers treat C and W alike, so
/// this changes no other line's class: one pass back is enough.
void find_body(const Program& program, Classes& classes) {
  const std::size_t count = program.values.size();
  kernels::ByValue<bool> needed(count, false);
  classes.body.assign(count, false);
  for (std::size_t n = count; n-- > 0;) {
    const auto v = static_cast<ValueIndex>(n);
    const Primitive& line = program.values[v];
    const bool is_cut = line.kind != Kind::kInput && classes.of[v] != SampleClass::kWhole;
    if (!is_cut && !needed[v]) continue;
    classes.body[v] = true;
    for (const Access& access : line.accesses) needed[access.value] = true;
    if (classes.of[v] == SampleClass::kCarried && needed[v]) classes.of[v] = SampleClass::kWhole;
  }
}

}  // namespace

char letter_of(SampleClass of) {
  switch (of) {
    case SampleClass::kSharded: return 'S';
    case SampleClass::kCarried: return 'C';
    case SampleClass::kWhole: return 'W';
  }
  return '?';
}

Result<std::int64_t> batch_samples(const Program& program) {
  std::optional<std::int64_t> samples;
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (line.kind != Kind::kInput || line.source.kind != Source::Kind::kBatch) continue;
    if (line.shape.empty() || line.shape[0] != samples.value_or(line.shape[0]))
      return usage_error(
          fmt::format(
              "line {} of the program cannot be cut: the batch of '{}' is {}, another one has {} samples", v,
              line.source.name, to_string(line.shape), samples.value_or(0)),
          "leave --parts out");
    samples = line.shape[0];
  }
  if (!samples) return usage_error("program: reads no batch that could be cut", "leave --parts out");
  return *samples;
}

SampleClass class_by_reads(const Program& program, ValueIndex v, const kernels::ByValue<SampleClass>& of,
                           std::int64_t slices) {
  const Primitive& line = program.values[v];
  if (line.kind == Kind::kInput) return class_of_input(line, slices);
  std::vector<const Access*> sharded;
  for (const Access& access : line.accesses) {
    if (of[access.value] == SampleClass::kSharded) sharded.push_back(&access);
  }
  const auto stay = [&](Term::Symbol over) {
    return [&, over](const Access* access) { return stays(program, line, *access, over, slices); };
  };
  if (sharded.empty()) return SampleClass::kWhole;
  if (has_slices(line.shape, slices) && has_slices(line.iteration_shape(), slices) &&
      std::ranges::any_of(sharded, stay(Term::Symbol::kIndex)))
    return SampleClass::kSharded;
  // A fold of inputs alone is made whole: nothing has to be gathered for it.
  const bool made = std::ranges::any_of(
      sharded, [&](const Access* access) { return program.values[access->value].kind != Kind::kInput; });
  const bool resumes = line.kind == Kind::kDot || (line.kind == Kind::kChain && line.dtype != DType::kU8);
  if (made && resumes && has_slices(line.fold, slices) &&
      std::ranges::all_of(sharded, stay(Term::Symbol::kFold)))
    return SampleClass::kCarried;
  return SampleClass::kWhole;
}

Result<Classes> classify(const Program& program, std::int64_t slices) {
  DGX_TRY(const std::int64_t samples, batch_samples(program));
  if (slices < 1 || samples % slices != 0)
    return usage_error(fmt::format("a batch of {} samples has no {} equal slices", samples, slices));
  Classes classes;
  classes.slices = slices;
  for (const ValueIndex v : program.values.indices())
    classes.of.push_back(class_by_reads(program, v, classes.of, slices));
  find_body(program, classes);
  classes.gathers = gathers_of(program, classes);
  return classes;
}

std::vector<Gather> gathers_of(const Program& program, const Classes& classes) {
  std::vector<Gather> out;
  for (const ValueIndex v : program.values.indices()) {
    const std::size_t before = out.size();
    for (std::size_t n = 0; n < program.values[v].accesses.size(); ++n) {
      const Gather gather{program.values[v].accesses[n].value, v};
      if (program.values[gather.value].kind == Kind::kInput || !needs_whole(program, classes, v, n)) continue;
      const auto first = out.begin() + static_cast<std::ptrdiff_t>(before);
      if (std::find(first, out.end(), gather) == out.end()) out.push_back(gather);
    }
  }
  return out;
}

std::vector<ValueIndex> divided_entries(const Program& program, const Classes& classes,
                                        const std::vector<ValueIndex>& watched) {
  const auto count = program.values.size();
  kernels::ByValue<bool> is_divided(count, false), is_needed(count, false);
  kernels::ByValue<int> becoming(count, 0);  // entries that become the line
  for (const ValueIndex v : watched) is_needed[v] = true;
  for (const Gather& gather : classes.gathers) is_needed[gather.value] = true;
  for (const Primitive& line : program.values) {
    if (line.next) ++becoming[*line.next];
  }
  const std::vector<ValueIndex> entries = state_inputs(program);
  for (const ValueIndex v : entries) {
    const auto next = program.values[v].next;
    is_divided[v] = next && has_slices(program.values[v].shape, classes.slices) && !is_needed[*next] &&
                    program.values[*next].kind != Kind::kInput &&
                    classes.of[*next] == SampleClass::kSharded && becoming[*next] == 1;
  }
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    for (const Access& access : line.accesses) {
      if (!is_divided[access.value]) continue;
      is_divided[access.value] = classes.of[v] == SampleClass::kSharded &&
                                 stays(program, line, access, Term::Symbol::kIndex, classes.slices);
    }
  }
  std::vector<ValueIndex> out;
  for (const ValueIndex v : program.values.indices()) {
    if (is_divided[v]) out.push_back(v);
  }
  return out;
}

std::vector<ValueIndex> sparse_lines(const Program& program, const Classes& classes,
                                     const std::vector<ValueIndex>& divided) {
  kernels::ByValue<bool> is_kept(program.values.size(), false);
  for (const ValueIndex v : divided) {
    for (const Access& access : program.values[*program.values[v].next].accesses)
      is_kept[access.value] = true;
  }
  const auto is_sent = [&](ValueIndex v) {
    const Primitive& line = program.values[v];
    if (!is_kept[v] || line.dtype != DType::kF32 || line.steps.empty()) return false;
    const kernels::Step& last = line.steps.back();
    const kernels::Operand& otherwise = last.operands.back();
    return last.op == kernels::ScalarOp::kSelect && otherwise.kind == kernels::Operand::Kind::kFloat &&
           otherwise.real == 0 && !std::signbit(otherwise.real);
  };
  std::vector<ValueIndex> out;
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (classes.of[v] != SampleClass::kCarried || line.kind != Kind::kDot) continue;
    const bool is_sparse = std::ranges::all_of(line.accesses, [&](const Access& access) {
      return classes.of[access.value] != SampleClass::kSharded || is_sent(access.value);
    });
    if (is_sparse && line.fold == Shape{classes.slices}) out.push_back(v);
  }
  return out;
}

bool needs_whole(const Program& program, const Classes& classes, ValueIndex line, std::size_t access) {
  const Primitive& reader = program.values[line];
  const Access& read = reader.accesses[access];
  if (classes.of[read.value] != SampleClass::kSharded || classes.of[line] == SampleClass::kCarried)
    return false;
  return classes.of[line] == SampleClass::kWhole ||
         !stays(program, reader, read, Term::Symbol::kIndex, classes.slices);
}

}  // namespace dgx::program
