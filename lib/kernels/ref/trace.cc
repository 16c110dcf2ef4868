#include <fmt/format.h>

#include <algorithm>

#include "element.h"

namespace dgx::kernels {
namespace {

using Origin = OperandRecord::Origin;
using Visit = std::function<void(const ScalarRecord&)>;

Number number_of(NumberType type, Slot slot) {
  return type == NumberType::kFloat ? Number::of(canonical_nan(slot.real)) : Number::of(slot.integer);
}

Slot slot_of(const Number& number) {
  Slot slot;
  slot.integer = number.integer;
  if (number.type == NumberType::kFloat) slot.real = number.real;
  return slot;
}

// Numbers that know where they come from, and a record of what is done with them.
class TracedNumbers {
 public:
  using Value = OperandRecord;

  explicit TracedNumbers(const Visit& visit) : visit_(visit) {}

  static Value element(std::int32_t n, const CompiledAccess& access, std::int64_t element, Slot slot) {
    return {Origin::kElement, n, access.value, element, number_of(number_type(access.dtype), slot)};
  }
  static Value fill(std::int32_t n, const CompiledAccess& access) {
    return {Origin::kFill, n, access.value, 0, number_of(number_type(access.dtype), access.fill)};
  }
  static Value index(const CompiledOperand& from, std::int64_t value) {
    const bool is_fold = from.kind == Operand::Kind::kFold;
    return {is_fold ? Origin::kFold : Origin::kIndex, is_fold ? from.index - kFirstFoldSlot : from.index, 0,
            0, Number::of(value)};
  }
  static Value literal(const CompiledOperand& from) {
    return {Origin::kLiteral, 0, 0, 0, number_of(from.type, from.literal)};
  }
  static Value start(NumberType type, Slot slot) {
    return {Origin::kAccumulator, 0, 0, 0, number_of(type, slot)};
  }
  static std::int64_t integer(const Value& value) { return value.number.integer; }
  static Value partial(const Value& value, int lane) { return {Origin::kPartial, lane, 0, 0, value.number}; }
  static Value accumulator(const Value& value) { return {Origin::kAccumulator, 0, 0, 0, value.number}; }

  // Steps may be evaluated out of order, when a select asks for one; they are shown in theirs.
  Value step(Place place, int n, std::int64_t position, const CompiledStep& step,
             const std::array<Value, 3>& operands) {
    ScalarRecord record{0,  place, n, position, step.op, step.op == ScalarOp::kSelect ? 2 : step.arity,
                        {}, {}};
    std::array<Slot, 3> slots{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(record.operand_count); ++i) {
      record.operands[i] = operands[i];
      slots[i] = slot_of(operands[i].number);
    }
    record.result = number_of(step.type, apply_step(step, slots));
    pending_.push_back(record);
    return {Origin::kStep, n, 0, 0, record.result};
  }
  void end_list() {
    std::ranges::sort(pending_, {}, &ScalarRecord::step);
    for (const ScalarRecord& record : pending_) show(record);
    pending_.clear();
  }

  Value fold(Place place, int level, std::int64_t position, ScalarOp op, NumberType type, const Value& a,
             const Value& b, const Value& c) {
    const bool is_fma = op == ScalarOp::kFma;
    ScalarRecord record{0, place, level, position, op, is_fma ? 3 : 2, {a, b, is_fma ? c : Value{}}, {}};
    if (place == Place::kMaxOperand) record.operands[1].origin = Origin::kLiteral;
    if (is_fma) {
      record.result = Number::of(canonical_nan(std::fma(a.number.real, b.number.real, c.number.real)));
    } else if (type == NumberType::kFloat) {
      record.result = Number::of(canonical_nan(a.number.real + b.number.real));
    } else {
      record.result = Number::of(wrapping_add(a.number.integer, b.number.integer));
    }
    show(record);
    return {Origin::kAccumulator, 0, 0, 0, record.result};
  }
  Value best(Place place, std::int64_t position, NumberType type, const Value& candidate, const Value& best,
             Value& where) {
    const bool is_better_one = is_better(type, slot_of(candidate.number), slot_of(best.number));
    if (is_better_one) where.number = Number::of(position);
    const Value kept{Origin::kAccumulator, 0, 0, 0, is_better_one ? candidate.number : best.number};
    const bool is_argmax = place == Place::kArgmax;
    show({0,
          place,
          0,
          position,
          is_argmax ? ScalarOp::kGt : ScalarOp::kMax,
          2,
          {candidate, best, {}},
          is_argmax ? where.number : kept.number});
    return kept;
  }

  ElementTrace finish(const Number& result) {
    end_list();
    trace_.result = result;
    return trace_;
  }

 private:
  void show(ScalarRecord record) {
    record.index = trace_.operations++;
    if (visit_) visit_(record);
    trace_.last = record;
  }

  const Visit& visit_;
  std::vector<ScalarRecord> pending_;
  ElementTrace trace_;
};

template <class Source>
ElementTrace trace_with(const CompiledPrimitive& primitive, Source& source, std::int64_t element,
                        const Visit& visit) {
  assert(element >= 0 && element < primitive.count);
  TracedNumbers numbers(visit);
  ElementEvaluator evaluator(primitive, source, numbers);
  evaluator.seek(element);
  const OperandRecord result = evaluator.evaluate();
  return numbers.finish(stored(primitive.dtype, slot_of(result.number)));
}

std::string operand_text(const OperandRecord& operand) {
  const std::string number = to_string(operand.number);
  switch (operand.origin) {
    case Origin::kElement:
      return fmt::format("x{} = value {}[{}] = {}", operand.index, operand.value, operand.element, number);
    case Origin::kFill:
      return fmt::format("x{} = fill = {}", operand.index, number);
    case Origin::kStep:
      return fmt::format("t{} = {}", operand.index, number);
    case Origin::kIndex:
      return fmt::format("i{} = {}", operand.index, number);
    case Origin::kFold:
      return fmt::format("k{} = {}", operand.index, number);
    case Origin::kAccumulator:
      return fmt::format("acc = {}", number);
    case Origin::kPartial:
      return fmt::format("part {} = {}", operand.index, number);
    case Origin::kLiteral:
      return number;
  }
  return number;
}

// What two evaluations are compared by; 24 bytes an operation.
struct Mark {
  std::uint64_t what, operands, result;
  bool operator==(const Mark&) const = default;
};

Mark mark_of(const ScalarRecord& record) {
  constexpr std::uint64_t kPrime =
      0x100000001B3U;  // FNV-1a's; a collision only hides a difference between equal results
  Mark mark{0xCBF29CE484222325U, 0xCBF29CE484222325U, record.result.bits()};
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(record.place), static_cast<std::uint64_t>(record.step),
        static_cast<std::uint64_t>(record.position), static_cast<std::uint64_t>(record.op)}) {
    mark.what = (mark.what ^ word) * kPrime;
  }
  for (const OperandRecord& operand : record.operands)
    mark.operands = (mark.operands ^ operand.number.bits()) * kPrime;
  return mark;
}

Result<std::vector<Mark>> marks(const CompiledPrimitive& primitive, std::span<const TensorView> values,
                                std::int64_t element) {
  std::vector<Mark> all;
  DGX_CHECK(trace_element(primitive, values, element,
                          [&all](const ScalarRecord& record) { all.push_back(mark_of(record)); }));
  return all;
}

Result<std::optional<ScalarRecord>> record_at(const CompiledPrimitive& primitive,
                                              std::span<const TensorView> values, std::int64_t element,
                                              std::int64_t index) {
  std::optional<ScalarRecord> found;
  DGX_CHECK(trace_element(primitive, values, element, [&](const ScalarRecord& record) {
    if (record.index == index) found = record;
  }));
  return found;
}

}  // namespace

std::string_view name_of(Place place) {
  constexpr std::array<std::string_view, 10> kNames = {"step",      "when",     "dot term",    "dot block",
                                                       "dot group", "sum lane", "sum combine", "max operand",
                                                       "max",       "argmax"};
  return kNames[static_cast<std::size_t>(place)];
}

std::string to_string(const ScalarRecord& record) {
  std::string text = fmt::format("{} {} at position {}: {}", name_of(record.place), record.step,
                                 record.position, name_of(record.op));
  for (std::int32_t i = 0; i < record.operand_count; ++i) {
    text +=
        fmt::format("{} {}", i == 0 ? "" : ",", operand_text(record.operands[static_cast<std::size_t>(i)]));
  }
  return text + " gives " + to_string(record.result);
}

ElementTrace trace_element(const CompiledPrimitive& primitive, ValueSource& source, std::int64_t element,
                           const Visit& visit) {
  LookupSource lookup(primitive, source);
  return trace_with(primitive, lookup, element, visit);
}

Result<ElementTrace> trace_element(const CompiledPrimitive& primitive, std::span<const TensorView> values,
                                   std::int64_t element, const Visit& visit) {
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  return trace_with(primitive, source, element, visit);
}

Result<std::optional<ScalarDifference>> first_difference(const CompiledPrimitive& primitive,
                                                         std::span<const TensorView> ours,
                                                         std::span<const TensorView> theirs,
                                                         std::int64_t element) {
  DGX_TRY(const std::vector<Mark> our_marks, marks(primitive, ours, element));
  DGX_TRY(const std::vector<Mark> their_marks, marks(primitive, theirs, element));
  const auto at = std::ranges::mismatch(our_marks, their_marks);
  if (at.in1 == our_marks.end() && at.in2 == their_marks.end()) return std::optional<ScalarDifference>{};
  ScalarDifference difference;
  difference.index = at.in1 - our_marks.begin();
  DGX_TRY(difference.ours, record_at(primitive, ours, element, difference.index));
  DGX_TRY(difference.theirs, record_at(primitive, theirs, element, difference.index));
  return std::optional(difference);
}

}  // namespace dgx::kernels
