#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "element.h"
#include "sources.h"

namespace dgx::kernels {

/// Numbers (element.h) that are only values.
struct PlainNumbers {
  using Value = Slot;

  static Slot number(NumberType, Slot slot, Origin, std::int32_t = 0, ValueIndex = {}, std::int64_t = 0) {
    return slot;
  }
  static Slot as(Slot slot, Origin, std::int32_t = 0) { return slot; }
  static Slot slot(Slot slot) { return slot; }
  static Slot operation(const Operation&, const std::array<Slot, 3>&, NumberType, Slot result) {
    return result;
  }
  static void end_list() {}
};

/// Numbers (element.h) for traces: each with its origin, NaN canonical, and a record of each operation on
/// them.
class TracedNumbers {
 public:
  using Value = OperandRecord;
  using Visit = std::function<void(const ScalarRecord&)>;

  /// `visit` is kept by reference.
  explicit TracedNumbers(const Visit& visit) : visit_(visit) {}

  static Value number(NumberType type, Slot slot, Origin origin, std::int32_t index = 0,
                      ValueIndex value = {}, std::int64_t element = 0) {
    return {origin, index, value, element, number_of(type, slot)};
  }
  static Value as(const Value& value, Origin origin, std::int32_t index = 0) {
    return {origin, index, {}, 0, value.number};
  }
  static Slot slot(const Value& value) { return slot_of(value.number); }

  // Steps may be evaluated out of order if a select needs one; end_list() shows them in order.
  Value operation(const Operation& at, const std::array<Value, 3>& operands, NumberType type, Slot result) {
    const Number number = number_of(type, result);
    const ScalarRecord record{0, at.place, at.step, at.position, at.op, at.operand_count, operands, number};
    if (at.place != Place::kStep && at.place != Place::kWhen) {
      show(record);
      return {Origin::kAccumulator, 0, {}, 0, number};
    }
    pending_.push_back(record);
    return {Origin::kStep, at.step, {}, 0, number};
  }
  void end_list() {
    std::ranges::sort(pending_, {}, &ScalarRecord::step);
    for (const ScalarRecord& record : pending_) show(record);
    pending_.clear();
  }

  ElementTrace finish(const Number& result) {
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
