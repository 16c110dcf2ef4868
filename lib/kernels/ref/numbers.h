#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "dgx/kernels/evaluate.h"
#include "element.h"
#include "plain_numbers.h"
#include "sources.h"

namespace dgx::kernels {

/// A number with its type, NaN canonical, as records show it.
[[nodiscard]] inline Number number_of(NumberType type, Slot slot) {
  return type == NumberType::kFloat ? Number::of(canonical_nan(slot.real)) : Number::of(slot.integer);
}

[[nodiscard]] inline Slot slot_of(const Number& number) {
  Slot slot;
  slot.integer = number.integer;
  if (number.type == NumberType::kFloat) slot.real = number.real;
  return slot;
}

/// The policy of ElementEvaluator (element.h) for traces: numbers with their origin, and a record of each
/// operation on them.
class TracedNumbers {
 public:
  using Value = OperandRecord;
  using Origin = OperandRecord::Origin;
  using Visit = std::function<void(const ScalarRecord&)>;

  /// `visit` is kept by reference.
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

  // Steps may be evaluated out of order if a select needs one; end_list() shows them in order.
  Value step(Place place, int n, std::int64_t position, const CompiledStep& step,
             const std::array<Value, 3>& operands) {
    ScalarRecord record{0,  place, n, position, step.op, step.op == ScalarOp::kSelect ? 2 : step.arity,
                        {}, {}};
    std::array<Slot, 3> slots{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(record.operand_count); ++i) {
      record.operands[i] = operands[i];
      slots[i] = slot_of(operands[i].number);
    }
    record.result = number_of(step.type, formula::apply_step(step, slots));
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
    const bool is_better_one = formula::is_better(type, slot_of(candidate.number), slot_of(best.number));
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

}  // namespace dgx::kernels
