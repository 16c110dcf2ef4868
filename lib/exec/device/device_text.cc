#include "device/device_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

namespace dgx::exec {

using kernels::CompiledAccess;
using kernels::CompiledCoordinate;
using kernels::CompiledOperand;
using kernels::CompiledPrimitive;
using kernels::CompiledStep;
using kernels::CompiledSteps;
using kernels::CompiledTerm;
using kernels::Coordinate;
using kernels::NumberType;
using kernels::Operand;
using kernels::ScalarOp;

namespace {

// The largest magnitude that is computed in 32 bits.
constexpr std::int64_t kNarrow = (std::int64_t{1} << 31) - 1;
// The largest for which range_of() gives a range: sums of two such numbers still fit 64 bits.
constexpr std::int64_t kWide = std::int64_t{1} << 62;

const char* type_text(NumberType type) { return type == NumberType::kFloat ? "float" : "std::int64_t"; }

/// An operation's enumerator, such as "kExpm1".
std::string enumerator_of(ScalarOp op) {
  std::string name(name_of(op));
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return "k" + name;
}

}  // namespace

void Lines::add(const std::string& line) { text_ += std::string(2 * scopes_.size(), ' ') + line + "\n"; }

void Lines::open(const std::string& line) {
  add(line.empty() ? "{" : line + " {");
  scopes_.emplace_back();
}

void Lines::close(const std::string& end) {
  scopes_.pop_back();
  add("}" + end);
}

std::string Lines::constant(const std::string& type, const std::string& expression) {
  for (const auto& scope : scopes_) {
    if (const auto found = scope.find(type + " " + expression); found != scope.end()) return found->second;
  }
  const std::string name = prefix_ + std::to_string(names_++);
  add("const " + type + " " + name + " = " + expression + ";");
  scopes_.back().emplace(type + " " + expression, name);
  return name;
}

void Lines::append(const Lines& other) {
  const std::string indentation(2 * (scopes_.size() - 1), ' ');
  for (std::size_t begin = 0; begin < other.text_.size();) {
    const std::size_t end = other.text_.find('\n', begin) + 1;
    text_ += indentation + other.text_.substr(begin, end - begin);
    begin = end;
  }
}

std::string integer_text(std::int64_t number) {
  if (number >= -kNarrow && number <= kNarrow) return std::to_string(number);
  return fmt::format("static_cast<std::int64_t>({:#x}ULL)", static_cast<std::uint64_t>(number));
}

std::string real_text(float number) {
  if (!std::isfinite(number)) return fmt::format("float_of({:#x}U)", std::bit_cast<std::uint32_t>(number));
  return fmt::format("{:a}F", number);
}

Form form_of(const CompiledPrimitive& primitive, const std::vector<CompiledTerm>& terms, std::int64_t base) {
  Form form{base, std::vector<std::int64_t>(primitive.iteration.size() + primitive.fold.size())};
  for (const CompiledTerm& term : terms) {
    if (term.access >= 0) continue;
    const bool is_fold = term.slot >= kernels::kFirstFoldSlot;
    const auto d = static_cast<std::size_t>(is_fold ? term.slot - kernels::kFirstFoldSlot : term.slot) +
                   (is_fold ? primitive.iteration.size() : 0);
    form.strides[d] = kernels::wrapping_add(form.strides[d], term.coefficient);
  }
  return form;
}

namespace {

Form index_form(const CompiledPrimitive& primitive, std::int32_t slot) {
  CompiledTerm term;
  term.slot = slot;
  return form_of(primitive, {term}, 0);
}

/// The least and greatest value of a form over the primitive's indices; nullopt where they need more than 62
/// bits.
std::optional<Range> range_of(const Form& form, const CompiledPrimitive& primitive) {
  std::int64_t least = form.base, most = form.base, magnitude = form.base < 0 ? -form.base : form.base;
  if (form.base < -kWide || form.base > kWide) return std::nullopt;
  std::size_t number = 0;
  for (const Shape* shape : {&primitive.iteration, &primitive.fold}) {
    for (const std::int64_t extent : *shape) {
      const std::int64_t stride = form.strides[number++];
      std::int64_t reach = 0;
      if (extent < 2) continue;
      if (stride < -kWide || stride > kWide || __builtin_mul_overflow(stride, extent - 1, &reach))
        return std::nullopt;
      const std::int64_t size = reach < 0 ? -reach : reach;
      if (reach < -kWide || __builtin_add_overflow(magnitude, size, &magnitude) || magnitude > kWide)
        return std::nullopt;
      (reach < 0 ? least : most) += reach;
    }
  }
  return std::pair{least, most};
}

bool reads_access(const CompiledCoordinate& coordinate) {
  return std::any_of(coordinate.terms.begin(), coordinate.terms.end(),
                     [](const CompiledTerm& term) { return term.access >= 0; });
}

/// Collects all that a primitive's operands read, following them to accesses and indices.
class Reading {
 public:
  explicit Reading(const CompiledPrimitive& primitive) : primitive_(primitive) {}

  Reads all() {
    if (primitive_.kind == kernels::Kind::kDot) {
      access(0);
      access(1);
      return std::move(out_);
    }
    if (primitive_.kind == kernels::Kind::kChain) operand(primitive_.init);
    if (primitive_.has_when) list(primitive_.when);
    list(primitive_.steps);
    return std::move(out_);
  }

 private:
  void list(const CompiledSteps& list) {
    for (const CompiledStep& step : list.steps) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(step.arity); ++i) operand(step.operands[i]);
    }
    if (list.steps.empty()) operand(list.result);
  }
  void operand(const CompiledOperand& from) {
    if (from.kind == Operand::Kind::kAccess) access(from.index);
    if (from.kind == Operand::Kind::kIndex || from.kind == Operand::Kind::kFold) index(from.index);
  }
  void index(std::int32_t slot) { out_.forms.push_back(index_form(primitive_, slot)); }
  void access(std::int32_t n) {
    const CompiledAccess& from = primitive_.accesses[static_cast<std::size_t>(n)];
    out_.accesses.push_back(&from);
    if (from.is_linear) return out_.forms.push_back(form_of(primitive_, from.linear, from.offset));
    for (const CompiledCoordinate& coordinate : from.coordinates) {
      Form form = form_of(primitive_, coordinate.terms, coordinate.constant);
      if (!reads_access(coordinate) && range_of(form, primitive_)) {
        out_.forms.push_back(std::move(form));
        continue;
      }
      for (const CompiledTerm& term : coordinate.terms)
        term.access >= 0 ? access(term.access) : index(term.slot);
    }
  }

  const CompiledPrimitive& primitive_;
  Reads out_;
};

}  // namespace

Reads reads_of(const CompiledPrimitive& primitive) { return Reading(primitive).all(); }

Loops::Loops(const std::string& name, std::vector<Part> parts, const std::vector<Form>& forms)
    : parts_(std::move(parts)) {
  std::size_t number = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    std::int64_t count = 1;
    for (const std::int64_t extent : parts_[p].extents) count *= extent;
    for (const std::int64_t extent : parts_[p].extents) {
      const Dimension next{p, extent, {}, count > kNarrow, number++};
      if (extent == 1) continue;
      const bool joins = !dimensions_.empty() && dimensions_.back().part == p &&
                         std::all_of(forms.begin(), forms.end(), [&](const Form& form) {
                           return walks_as_one(form, dimensions_.back(), next);
                         });
      if (joins) {
        dimensions_.back().extent *= next.extent;
        dimensions_.back().innermost = next.innermost;
      } else {
        dimensions_.push_back(next);
      }
    }
  }
  for (std::size_t d = 0; d < dimensions_.size(); ++d) dimensions_[d].index = name + std::to_string(d);
}

bool Loops::walks_as_one(const Form& form, const Dimension& outer, const Dimension& inner) {
  std::int64_t walked = 0;
  return !__builtin_mul_overflow(stride_of(form, inner), inner.extent, &walked) &&
         stride_of(form, outer) == walked;
}

bool Loops::is_narrow(const Form& form) const {
  std::int64_t magnitude = form.base < 0 ? -form.base : form.base;
  for (const Dimension& dimension : dimensions_) {
    const std::int64_t stride = stride_of(form, dimension);
    if (stride != 0 && dimension.is_wide) return false;
    if (stride < -kNarrow || stride > kNarrow || magnitude > kNarrow) return false;
    magnitude += (stride < 0 ? -stride : stride) * (dimension.extent - 1);
  }
  return magnitude <= kNarrow;
}

std::string Loops::text(const Form& form) const {
  const bool is_narrow = this->is_narrow(form);
  std::string out;
  const auto add = [&](std::int64_t stride, std::string index, bool is_last) {
    if (is_last && !step_.empty()) index = "(" + index + " + " + step_ + ")";
    if (!is_narrow) index = "integer(" + index + ")";
    out += (out.empty() ? "" : " + ") + (stride == 1 ? index : integer_text(stride) + " * " + index);
  };
  for (std::size_t d = 0; d < dimensions_.size();) {
    const std::size_t end = end_of_part(d);
    if (end > d + 1 && walks_in_order(form, d, end)) {  // the part's number as it is
      const char* const type = dimensions_[d].is_wide ? "std::int64_t" : "std::int32_t";
      add(stride_of(form, dimensions_[end - 1]),
          fmt::format("static_cast<{}>({})", type, parts_[dimensions_[d].part].number),
          end == dimensions_.size());
      d = end;
      continue;
    }
    for (; d < end; ++d) {
      const std::int64_t stride = stride_of(form, dimensions_[d]);
      if (stride != 0) add(stride, dimensions_[d].index, d + 1 == dimensions_.size());
    }
  }
  if (form.base != 0 || out.empty()) out = integer_text(form.base) + (out.empty() ? "" : " + " + out);
  return is_narrow || out.find("integer(") != std::string::npos ? out : "integer(" + out + ")";
}

std::size_t Loops::end_of_part(std::size_t first) const {
  std::size_t end = first;
  while (end < dimensions_.size() && dimensions_[end].part == dimensions_[first].part) ++end;
  return end;
}

/// True if the form has one stride, not 0, over dimensions [begin, end) taken together.
bool Loops::walks_in_order(const Form& form, std::size_t begin, std::size_t end) const {
  if (stride_of(form, dimensions_[end - 1]) == 0) return false;
  for (std::size_t d = begin; d + 1 < end; ++d) {
    if (!walks_as_one(form, dimensions_[d], dimensions_[d + 1])) return false;
  }
  return true;
}

void Loops::declare(Lines& lines, std::size_t part) const {
  std::string rest = parts_[part].number;
  std::vector<const Dimension*> own;
  for (const Dimension& dimension : dimensions_) {
    if (dimension.part == part) own.push_back(&dimension);
  }
  for (std::size_t d = own.size(); d-- > 0;) {
    const char* const index = own[d]->is_wide ? "std::int64_t" : "std::int32_t";
    const char* const number = own[d]->is_wide ? "std::uint64_t" : "std::uint32_t";
    const std::string extent = std::to_string(own[d]->extent) + (own[d]->is_wide ? "ULL" : "U");
    lines.add(fmt::format("const {} {} = static_cast<{}>({}{});", index, own[d]->index, index, rest,
                          d == 0 ? "" : " % " + extent));
    if (d > 0) rest = lines.constant(number, rest + " / " + extent);
  }
}

std::int64_t Loops::inner_stride(const Form& form) const {
  return dimensions_.empty() ? 0 : stride_of(form, dimensions_.back());
}
std::int64_t Loops::inner_extent() const { return dimensions_.empty() ? 1 : dimensions_.back().extent; }

bool Loops::is_aligned(const Form& form, std::int64_t divisor) const {
  if (form.base % divisor != 0) return false;
  for (std::size_t d = 0; d + 1 < dimensions_.size(); ++d) {
    if (stride_of(form, dimensions_[d]) % divisor != 0) return false;
  }
  return true;
}

std::string ElementWriter::access(std::int32_t n) {
  const CompiledAccess& access = primitive_.accesses[static_cast<std::size_t>(n)];
  if (access.is_linear)
    return reader_.inside(access.value, access.dtype, form_of(primitive_, access.linear, access.offset));
  return guarded(access);
}

/// Writes a read of the element if all coordinates are inside, else its fill.
std::string ElementWriter::guarded(const CompiledAccess& access) {
  std::string place, condition;
  for (const CompiledCoordinate& coordinate : access.coordinates) {
    const Located at = locate(coordinate);
    for (const std::string& one : at.conditions) condition += (condition.empty() ? "" : " && ") + one;
    if (coordinate.stride == 0) continue;
    const bool is_narrow = at.is_narrow && access.count <= kNarrow;
    const std::string number = is_narrow ? at.place : "integer(" + at.place + ")";
    place += (place.empty() ? "" : " + ") +
             (coordinate.stride == 1 ? number : integer_text(coordinate.stride) + " * " + number);
  }
  const bool is_real = access.dtype == DType::kF32;
  const std::string number = reader_.at(access.value, access.dtype, place.empty() ? "0" : place);
  const char* const type = is_real ? "float" : "std::int64_t";
  if (condition.empty()) return lines_.constant(type, number);
  const std::string fill =
      is_real ? real_text(access.fill.real) : "integer(" + integer_text(access.fill.integer) + ")";
  return lines_.constant(type, condition + " ? " + number + " : " + fill);
}

ElementWriter::Located ElementWriter::locate(const CompiledCoordinate& coordinate) {
  const Form form = form_of(primitive_, coordinate.terms, coordinate.constant);
  const auto range = range_of(form, primitive_);
  if (!reads_access(coordinate) && range) {
    const bool is_narrow = loops_.is_narrow(form);
    const std::string at = lines_.constant(is_narrow ? "std::int32_t" : "std::int64_t", loops_.text(form));
    return divided(coordinate, {at, {}, is_narrow}, range);
  }
  // Sums and products wrap modulo 2^64, as in the definition.
  std::string at = "integer(" + integer_text(coordinate.constant) + ")";
  for (const CompiledTerm& term : coordinate.terms) {
    const std::string symbol = term.access >= 0
                                   ? access(term.access)
                                   : "integer(" + loops_.text(index_form(primitive_, term.slot)) + ")";
    const std::string product = term.coefficient == 1
                                    ? symbol
                                    : "wrapping_mul(" + integer_text(term.coefficient) + ", " + symbol + ")";
    at = "wrapping_add(" + at + ", " + product + ")";
  }
  return divided(coordinate, {lines_.constant("std::int64_t", at), {}, false}, std::nullopt);
}

/// Writes the coordinate's division and the conditions under which it is inside; those that `range` proves
/// are left out.
ElementWriter::Located ElementWriter::divided(const CompiledCoordinate& coordinate, Located at,
                                              std::optional<Range> range) {
  const char* const type = at.is_narrow ? "std::int32_t" : "std::int64_t";
  if (coordinate.division != Coordinate::Division::kNone && coordinate.divisor != 1) {
    const std::string divisor = integer_text(coordinate.divisor);
    const bool fits = at.is_narrow && coordinate.divisor <= kNarrow;
    const bool is_plain = fits && range && range->first >= 0;  // then / rounds towards minus infinity
    const std::string from = is_plain ? "static_cast<std::uint32_t>(" + at.place + ")" : at.place;
    if (coordinate.division == Coordinate::Division::kExact)
      at.conditions.push_back(from + " % " + divisor + " == 0");
    at.place = lines_.constant(
        type, is_plain ? fmt::format("static_cast<std::int32_t>({} / {})", from, divisor)
                       : fmt::format("static_cast<{}>(floor_div({}, {}))", type, at.place, divisor));
    if (range)
      range = std::pair{kernels::floor_div(range->first, coordinate.divisor),
                        kernels::floor_div(range->second, coordinate.divisor)};
  }
  const bool below = !range || range->first < 0, above = !range || range->second >= coordinate.size;
  if (below && above) {
    const char* const number = at.is_narrow ? "std::uint32_t" : "std::uint64_t";
    at.conditions.push_back(fmt::format("static_cast<{}>({}) < {}U", number, at.place, coordinate.size) +
                            (at.is_narrow ? "" : "LL"));
  } else if (below) {
    at.conditions.push_back(at.place + " >= 0");
  } else if (above) {
    at.conditions.push_back(at.place + " < " + integer_text(coordinate.size));
  }
  return at;
}

std::string ElementWriter::operand(const CompiledOperand& from, const std::vector<std::string>& steps) {
  switch (from.kind) {
    case Operand::Kind::kAccess: return access(from.index);
    case Operand::Kind::kStep: return steps[static_cast<std::size_t>(from.index)];
    case Operand::Kind::kIndex:
    case Operand::Kind::kFold:
      return lines_.constant("std::int64_t", loops_.text(index_form(primitive_, from.index)));
    case Operand::Kind::kAccumulator: return accumulator;
    case Operand::Kind::kFloat: return real_text(from.literal.real);
    default: return "integer(" + integer_text(from.literal.integer) + ")";
  }
}

std::string ElementWriter::step(const CompiledStep& step, const std::vector<std::string>& steps) {
  std::vector<std::string> in;
  for (std::size_t i = 0; i < static_cast<std::size_t>(step.arity); ++i)
    in.push_back(operand(step.operands[i], steps));
  const bool is_real = step.operand_type == NumberType::kFloat;
  switch (step.op) {
    case ScalarOp::kSelect: return fmt::format("{} != 0 ? {} : {}", in[0], in[1], in[2]);
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe: return fmt::format("compare({}, {}, {})", enumerator_of(step.op), in[0], in[1]);
    case ScalarOp::kF32: return is_real ? in[0] : "to_f32(" + in[0] + ")";
    case ScalarOp::kI64: return is_real ? "to_i64(" + in[0] + ")" : in[0];
    case ScalarOp::kU8: return "to_u8(" + in[0] + ")";
    default: break;
  }
  return fmt::format("{}<{}>({})", is_real ? "real" : "whole", enumerator_of(step.op), fmt::join(in, ", "));
}

std::string ElementWriter::run(const CompiledSteps& list) {
  std::vector<std::string> steps;
  for (const CompiledStep& one : list.steps)
    steps.push_back(lines_.constant(type_text(one.type), step(one, steps)));
  return steps.empty() ? operand(list.result, steps) : steps.back();
}

}  // namespace dgx::exec
