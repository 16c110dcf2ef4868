#include "dgx/kernels/position.h"

#include <fmt/format.h>

#include "numbers.h"

namespace dgx::kernels {
namespace {

// `number` with only the member that `type` names.
Number typed(NumberType type, const Number& number) {
  return type == NumberType::kFloat ? Number::of(canonical_nan(number.real)) : Number::of(number.integer);
}

OperandRecord traced(const Number& number) { return {OperandRecord::Origin::kAccumulator, 0, 0, 0, number}; }

Slot plain(std::int64_t integer) {
  Slot slot;
  slot.integer = integer;
  return slot;
}

using Plain = ElementEvaluator<PlainNumbers, const TensorSource>;

// Sets `out` to the running results after each position from the one that the evaluator is at. If `block` is
// above 0, the running result restarts where a block begins, except at `begin`.
void follow(Plain& evaluator, NumberType type, std::int64_t begin, std::int64_t block, Plain::Running running,
            std::span<Running> out) {
  const Plain::Running start = block > 0 ? evaluator.start() : running;
  std::int64_t p = begin;
  for (Running& after : out) {
    if (block > 0 && p != begin && p % block == 0) running = start;
    evaluator.take(p++, running);
    evaluator.advance_fold();
    after = {number_of(type, running.value), running.where.integer};
  }
}

// As follow for a sum: all lanes restart where a block begins.
void follow_lanes(Plain& evaluator, NumberType type, std::int64_t begin, std::span<Running> out) {
  const Plain::Running start = evaluator.start();
  std::array<Plain::Running, kSumLanes> lanes;
  std::int64_t p = begin;
  for (Running& after : out) {
    if (p % kSumBlock == 0) lanes.fill(start);
    Plain::Running& lane = lanes[static_cast<std::size_t>(p) % kSumLanes];
    evaluator.take(p++, lane);
    evaluator.advance_fold();
    after = {number_of(type, lane.value), 0};
  }
}

}  // namespace

NumberType running_type(const CompiledPrimitive& primitive) {
  const bool is_greatest = primitive.kind == Kind::kMax || primitive.kind == Kind::kArgmax;
  return is_greatest ? primitive.steps.result.type : number_type(primitive.dtype);
}

Running fold_start(const CompiledPrimitive& primitive, ValueSource& source, std::int64_t element) {
  assert(element >= 0 && element < primitive.count);
  LookupSource lookup(primitive, source);
  PlainNumbers numbers;
  ElementEvaluator evaluator(primitive, lookup, numbers);
  evaluator.seek(element);
  return {number_of(running_type(primitive), evaluator.start().value), 0};
}

PositionTrace trace_position(const CompiledPrimitive& primitive, ValueSource& source, std::int64_t element,
                             std::int64_t position, const Running& before) {
  assert(element >= 0 && element < primitive.count);
  assert(position >= 0 && position < primitive.fold_count);
  LookupSource lookup(primitive, source);
  const TracedNumbers::Visit nobody;
  TracedNumbers numbers(nobody);
  ElementEvaluator evaluator(primitive, lookup, numbers);
  evaluator.seek(element);
  evaluator.seek_fold(position);
  decltype(evaluator)::Running running{traced(typed(running_type(primitive), before.value)),
                                       traced(Number::of(before.where))};
  evaluator.take(position, running);
  const ElementTrace trace = numbers.finish(running.value.number);
  return {{running.value.number, running.where.number.integer}, trace.last};
}

Result<std::vector<Running>> running_results(const CompiledPrimitive& primitive,
                                             std::span<const TensorView> values, std::int64_t element,
                                             std::int64_t begin, std::int64_t end, const Running& before) {
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  assert(element >= 0 && element < primitive.count);
  const bool is_sum = primitive.kind == Kind::kSum;
  if (begin < 0 || end > primitive.fold_count || begin > end || (is_sum && begin % kSumBlock != 0)) {
    return internal_error(fmt::format("no positions {} to {} in {}", begin, end, primitive.fold_count));
  }
  std::vector<Running> out(static_cast<std::size_t>(end - begin));
  if (out.empty()) return out;
  PlainNumbers numbers;
  Plain evaluator(primitive, source, numbers);
  evaluator.seek(element);
  evaluator.seek_fold(begin);
  const NumberType type = running_type(primitive);
  if (is_sum) {
    follow_lanes(evaluator, type, begin, out);
  } else {
    const std::int64_t block = primitive.kind == Kind::kDot ? kDotBlock : 0;
    follow(evaluator, type, begin, block, {slot_of(typed(type, before.value)), plain(before.where)}, out);
  }
  return out;
}

LaneSum combine_lanes(NumberType type, std::span<const Number, 32> lanes) {
  static_assert(kSumLanes == 32);
  const TracedNumbers::Visit nobody;
  TracedNumbers numbers(nobody);
  std::array<OperandRecord, kSumLanes> parts;
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) parts[lane] = traced(typed(type, lanes[lane]));
  const Number result = combine(numbers, type, parts, 0, 0).number;
  return {result, *numbers.finish(result).last};
}

}  // namespace dgx::kernels
