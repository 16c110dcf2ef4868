#include "dgx/kernels/position.h"

#include <fmt/format.h>

#include "numbers.h"

namespace dgx::kernels {
namespace {

// `number` with only the member that `type` names.
Number typed(NumberType type, const Number& number) {
  return type == NumberType::kFloat ? Number::of(canonical_nan(number.real)) : Number::of(number.integer);
}

OperandRecord traced(const Number& number) { return {Origin::kAccumulator, 0, {}, 0, number}; }

using Plain = Element<PlainNumbers, const TensorSource>;

// Sets `out` to the running results after each position from the one that the element is at. If `block` is
// above 0, the running result restarts where a block of that many positions begins, except at `begin`.
void follow(Plain& element, NumberType type, std::int64_t begin, std::int64_t block, Plain::Running running,
            std::span<Running> out) {
  const Plain::Running first = block > 0 ? start(element) : running;
  std::int64_t p = begin;
  for (Running& after : out) {
    if (block > 0 && p != begin && p % block == 0) running = first;
    take(element, p++, running);
    next_position(element);
    after = {number_of(type, running.value), running.where.integer};
  }
}

// follow() for a sum: all lanes restart where a block begins.
void follow_lanes(Plain& element, NumberType type, std::int64_t begin, std::span<Running> out) {
  const Plain::Running first = start(element);
  std::array<Plain::Running, kSumLanes> lanes;
  std::int64_t p = begin;
  for (Running& after : out) {
    if (p % kSumBlock == 0) lanes.fill(first);
    Plain::Running& lane = lanes[static_cast<std::size_t>(p) % kSumLanes];
    take(element, p++, lane);
    next_position(element);
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
  Element<PlainNumbers, LookupSource> plain{primitive, lookup, {}};
  seek_element(plain, element);
  return {number_of(running_type(primitive), start(plain).value), 0};
}

PositionTrace trace_position(const CompiledPrimitive& primitive, ValueSource& source, std::int64_t element,
                             std::int64_t position, const Running& before) {
  assert(element >= 0 && element < primitive.count);
  assert(position >= 0 && position < primitive.fold_count);
  LookupSource lookup(primitive, source);
  const TracedNumbers::Visit nobody;
  using Traced = Element<TracedNumbers, LookupSource>;
  Traced one{primitive, lookup, TracedNumbers(nobody)};
  seek_element(one, element);
  seek_position(one, position);
  Traced::Running running{traced(typed(running_type(primitive), before.value)),
                          traced(Number::of(before.where))};
  take(one, position, running);
  const ElementTrace trace = one.numbers.finish(running.value.number);
  return {{running.value.number, running.where.number.integer}, trace.last};
}

Result<std::vector<Running>> running_results(const CompiledPrimitive& primitive,
                                             const ByValue<TensorView>& values, std::int64_t element,
                                             std::int64_t begin, std::int64_t end, const Running& before) {
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  assert(element >= 0 && element < primitive.count);
  const bool is_sum = primitive.kind == Kind::kSum;
  if (begin < 0 || end > primitive.fold_count || begin > end || (is_sum && begin % kSumBlock != 0)) {
    return internal_error(fmt::format("no positions {} to {} in {}", begin, end, primitive.fold_count));
  }
  std::vector<Running> out(static_cast<std::size_t>(end - begin));
  if (out.empty()) return out;
  Plain plain{primitive, source, {}};
  seek_element(plain, element);
  seek_position(plain, begin);
  const NumberType type = running_type(primitive);
  if (is_sum) {
    follow_lanes(plain, type, begin, out);
  } else {
    const std::int64_t block = primitive.kind == Kind::kDot ? kDotBlock : 0;
    follow(plain, type, begin, block, {slot_of(typed(type, before.value)), Slot::of(before.where)}, out);
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
