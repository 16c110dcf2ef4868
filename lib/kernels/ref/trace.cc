#include <fmt/format.h>

#include <algorithm>

#include "dgx/kernels/evaluate.h"
#include "numbers.h"

namespace dgx::kernels {
namespace {

using Origin = OperandRecord::Origin;
using Visit = TracedNumbers::Visit;

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
    case Origin::kFill: return fmt::format("x{} = fill = {}", operand.index, number);
    case Origin::kStep: return fmt::format("t{} = {}", operand.index, number);
    case Origin::kIndex: return fmt::format("i{} = {}", operand.index, number);
    case Origin::kFold: return fmt::format("k{} = {}", operand.index, number);
    case Origin::kAccumulator: return fmt::format("acc = {}", number);
    case Origin::kPartial: return fmt::format("part {} = {}", operand.index, number);
    case Origin::kLiteral: return number;
  }
  return number;
}

// The digest of one operation by which two evaluations are compared: 24 bytes.
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
