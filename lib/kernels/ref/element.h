#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/fold_order.h"
#include "scalar_formulas.h"

namespace dgx::kernels {

/// The definition of an element, to be read beside dgx-numerics(7): accesses, steps and folds are in the
/// order of its sections, a function for each rule. Plain evaluation, traces and single positions of a fold
/// all call these functions; operations happen in the order of "The order of scalar operations". An Element
/// holds what they work on, for one element at a time.
///
/// `Numbers` says what a number carries besides its value (numbers.h):
///   using Value;
///   Value number(NumberType, Slot, Origin, std::int32_t index, ValueIndex, std::int64_t element);
///   Value as(const Value&, Origin, std::int32_t index);   the same number in another role
///   Slot slot(const Value&);
///   Value operation(const Operation&, const std::array<Value, 3>& operands, NumberType, Slot result);
///   void end_list();   the steps of a list are done
/// where index, value and element are 0 if they are left out.
///
/// `Source` gives elements of earlier values (sources.h). It is told of every access that is evaluated, even
/// if that gives its fill:
///   void located(ValueIndex);
///   Slot read(std::size_t access, std::int64_t element);

using Origin = OperandRecord::Origin;

/// One scalar operation: a ScalarRecord's members of the same names.
struct Operation {
  Place place;
  std::int32_t step;
  std::int64_t position;
  ScalarOp op;
  std::int32_t operand_count;
};

/// Levels enough for a sum of fewer than 2^63 positions, and one more, which stays empty: each has one item
/// per 2,048 of the level below.
inline constexpr std::size_t kSumLevels = 7;

/// A primitive's element at the current indices, while it is evaluated.
template <class Numbers, class Source>
struct Element {
  using Value = typename Numbers::Value;
  /// A fold's running result: a dot's block, a sum's lane, the best so far and where it is, acc.
  struct Running {
    Value value;
    Value where;
  };
  /// A level of a sum: the fold's positions, the results of their blocks, and so on.
  struct Level {
    std::array<Value, kSumLanes> lanes;
    std::int64_t count;  // items so far
  };

  const CompiledPrimitive& primitive;
  Source& source;
  Numbers numbers;
  std::array<std::int64_t, kIndexSlots> index{};  // i0 … i7, k0 … k7
  std::array<Value, kMaxSteps> results{};         // of the steps in `done`
  std::uint64_t done = 0;
  Value accumulator{};  // acc
  std::array<Level, kSumLevels> levels{};
};

// Indices.

/// Sets indices to those of a row-major position of `shape`.
inline void seek(std::int64_t* index, const Shape& shape, std::int64_t position) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = position % shape[d];
    position /= shape[d];
  }
}
inline void advance(std::int64_t* index, const Shape& shape) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return;
    index[d] = 0;
  }
}

template <class E>
void seek_element(E& e, std::int64_t element) {
  seek(e.index.data(), e.primitive.iteration, element);
}
template <class E>
void next_element(E& e) {
  advance(e.index.data(), e.primitive.iteration);
}
template <class E>
void seek_position(E& e, std::int64_t position) {
  seek(e.index.data() + kFirstFoldSlot, e.primitive.fold, position);
}
/// After the last position of the fold comes the first.
template <class E>
void next_position(E& e) {
  advance(e.index.data() + kFirstFoldSlot, e.primitive.fold);
}

// Accesses.

template <class E>
std::int64_t locate_by_coordinates(E& e, const CompiledAccess& access);

/// Returns the element that an access reads at the current indices, or -1 if a coordinate is outside.
template <class E>
std::int64_t locate(E& e, const CompiledAccess& access) {
  e.source.located(access.value);
  if (!access.is_linear) return locate_by_coordinates(e, access);
  std::int64_t element = access.offset;
  for (const CompiledTerm& term : access.linear) {
    element += term.coefficient * e.index[static_cast<std::size_t>(term.slot)];
  }
  return element;
}

/// Returns an index, or for $j the integer that access j reads. That access has no $ of its own.
template <class E>
std::int64_t symbol(E& e, const CompiledTerm& term) {
  if (term.access < 0) return e.index[static_cast<std::size_t>(term.slot)];
  const auto j = static_cast<std::size_t>(term.access);
  const CompiledAccess& access = e.primitive.accesses[j];
  const std::int64_t element = locate(e, access);
  return element < 0 ? access.fill.integer : e.source.read(j, element).integer;
}

template <class E>
std::int64_t locate_by_coordinates(E& e, const CompiledAccess& access) {
  std::int64_t element = 0;
  for (const CompiledCoordinate& coordinate : access.coordinates) {
    std::int64_t at = coordinate.constant;
    for (const CompiledTerm& term : coordinate.terms) {
      at = wrapping_add(at, wrapping_mul(term.coefficient, symbol(e, term)));
    }
    if (coordinate.division == Coordinate::Division::kExact && at % coordinate.divisor != 0) return -1;
    if (coordinate.division != Coordinate::Division::kNone) at = floor_div(at, coordinate.divisor);
    if (at < 0 || at >= coordinate.size) return -1;
    element += at * coordinate.stride;
  }
  return element;
}

/// Returns what access n reads, or its fill.
template <class E>
typename E::Value read(E& e, std::int32_t n) {
  const auto access_number = static_cast<std::size_t>(n);
  const CompiledAccess& access = e.primitive.accesses[access_number];
  const NumberType type = number_type(access.dtype);
  const std::int64_t element = locate(e, access);
  if (element < 0) return e.numbers.number(type, access.fill, Origin::kFill, n, access.value);
  return e.numbers.number(type, e.source.read(access_number, element), Origin::kElement, n, access.value,
                          element);
}

// Elements: the steps of `do` or `when`.

/// A list of steps, run at a position of the fold.
struct StepsAt {
  const CompiledSteps& list;
  Place place;  ///< kStep or kWhen
  std::int64_t position;
};

template <class E>
void compute_step(E& e, const StepsAt& steps, std::size_t n);

/// Returns an operand's number. A step that is not done yet is computed now: a select has just taken it.
template <class E>
typename E::Value operand(E& e, const StepsAt& steps, const CompiledOperand& from) {
  const auto n = static_cast<std::size_t>(from.index);
  switch (from.kind) {
    case Operand::Kind::kAccess: return read(e, from.index);
    case Operand::Kind::kStep:
      if ((e.done >> n & 1) == 0) compute_step(e, steps, n);
      return e.results[n];
    case Operand::Kind::kIndex:
      return e.numbers.number(NumberType::kInteger, Slot::of(e.index[n]), Origin::kIndex, from.index);
    case Operand::Kind::kFold:
      return e.numbers.number(NumberType::kInteger, Slot::of(e.index[n]), Origin::kFold,
                              from.index - kFirstFoldSlot);
    case Operand::Kind::kAccumulator: return e.accumulator;
    default: return e.numbers.number(from.type, from.literal, Origin::kLiteral);
  }
}

/// Computes step n. Of a select's branches only the one that its condition takes is evaluated.
template <class E>
void compute_step(E& e, const StepsAt& steps, std::size_t n) {
  const CompiledStep& step = steps.list.steps[n];
  const bool selects = step.op == ScalarOp::kSelect;
  const std::int32_t count = selects ? 2 : step.arity;
  std::array<typename E::Value, 3> operands{};
  operands[0] = operand(e, steps, step.operands[0]);
  if (selects) {
    operands[1] = operand(e, steps, step.operands[e.numbers.slot(operands[0]).integer != 0 ? 1 : 2]);
  } else {
    for (std::size_t i = 1; i < static_cast<std::size_t>(count); ++i) {
      operands[i] = operand(e, steps, step.operands[i]);
    }
  }
  const Slot result =
      formula::apply(step.op, step.operand_type,
                     {e.numbers.slot(operands[0]), e.numbers.slot(operands[1]), e.numbers.slot(operands[2])});
  e.results[n] =
      e.numbers.operation({steps.place, static_cast<std::int32_t>(n), steps.position, step.op, count},
                          operands, step.type, result);
  e.done |= std::uint64_t{1} << n;
}

/// Returns the last step's result; without steps, what access 0 reads.
template <class E>
typename E::Value run(E& e, const StepsAt& steps) {
  const CompiledSteps& list = steps.list;
  if (list.steps.empty()) return operand(e, steps, list.result);
  e.done = 0;
  for (std::size_t n = 0; n < list.steps.size(); ++n) {
    if ((list.always >> n & 1) != 0) compute_step(e, steps, n);
  }
  e.numbers.end_list();
  return e.results[list.steps.size() - 1];
}

/// Returns the term of a position of the fold.
template <class E>
typename E::Value term(E& e, std::int64_t position) {
  return run(e, {e.primitive.steps, Place::kStep, position});
}

// Folds. take_…() updates a running result by one position, that of the current indices.

template <class E>
typename E::Value zero(E& e) {
  const NumberType type = number_type(e.primitive.dtype);
  return e.numbers.number(type, type == NumberType::kFloat ? Slot::of(0.0F) : Slot::of(std::int64_t{0}),
                          Origin::kAccumulator);
}

/// Returns a + b: binary32, or integers modulo 2^64.
template <class Numbers>
typename Numbers::Value add(Numbers& numbers, Place place, std::int32_t level, std::int64_t position,
                            NumberType type, const typename Numbers::Value& a,
                            const typename Numbers::Value& b) {
  const Slot x = numbers.slot(a), y = numbers.slot(b);
  const Slot sum =
      type == NumberType::kFloat ? Slot::of(x.real + y.real) : Slot::of(wrapping_add(x.integer, y.integer));
  return numbers.operation({place, level, position, ScalarOp::kAdd, 2}, {a, b, {}}, type, sum);
}

/// One position of a dot: block = fma(a, b, block).
template <class E>
void take_product(E& e, std::int64_t p, typename E::Value& block) {
  const auto a = read(e, 0), b = read(e, 1);
  const float sum = std::fma(e.numbers.slot(a).real, e.numbers.slot(b).real, e.numbers.slot(block).real);
  block = e.numbers.operation({Place::kDotTerm, 0, p, ScalarOp::kFma, 3}, {a, b, block}, NumberType::kFloat,
                              Slot::of(sum));
}

template <class E>
typename E::Value dot(E& e) {
  const NumberType type = number_type(e.primitive.dtype);
  const std::int64_t n = e.primitive.fold_count;
  auto total = zero(e);
  for (std::int64_t first = 0; first < n; first += kDotGroupPositions) {
    const std::int64_t group_end = std::min(n, first + kDotGroupPositions);
    auto group = zero(e);
    for (std::int64_t p = first; p < group_end;) {
      const std::int64_t number = p / kDotBlock, end = std::min(n, p + kDotBlock);
      auto block = zero(e);
      for (; p < end; ++p, next_position(e)) take_product(e, p, block);
      group = add(e.numbers, Place::kDotBlock, 0, number, type, group, e.numbers.as(block, Origin::kPartial));
    }
    total = add(e.numbers, Place::kDotGroup, 0, first / kDotGroupPositions, type, total,
                e.numbers.as(group, Origin::kPartial));
  }
  return total;
}

/// Returns the result of a sum's block from its lanes, which it overwrites.
template <class Numbers>
typename Numbers::Value combine(Numbers& numbers, NumberType type,
                                std::array<typename Numbers::Value, kSumLanes>& lanes, std::int32_t level,
                                std::int64_t block) {
  const auto as_lane = [&](const auto& value, std::size_t lane) {
    return numbers.as(value, Origin::kPartial, static_cast<std::int32_t>(lane));
  };
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] = as_lane(lanes[lane], lane);
  for (std::size_t d = kSumLanes / 2; d > 0; d /= 2) {
    for (std::size_t l = 0; l < d; ++l) {
      lanes[l] = as_lane(add(numbers, Place::kSumCombine, level, block, type, lanes[l], lanes[l + d]), l);
    }
  }
  return lanes[0];
}

/// Ends a level's last block.
template <class E>
typename E::Value close_block(E& e, std::size_t level) {
  auto& at = e.levels[level];
  return combine(e.numbers, number_type(e.primitive.dtype), at.lanes, static_cast<std::int32_t>(level),
                 (at.count - 1) / kSumBlock);
}

/// Adds an item to its lane: a term, or on a level above the result of a block.
template <class E>
void add_item(E& e, std::size_t level, const typename E::Value& item) {
  auto& at = e.levels[level];
  auto& lane = at.lanes[static_cast<std::size_t>(at.count) % kSumLanes];
  lane = add(e.numbers, Place::kSumLane, static_cast<std::int32_t>(level), at.count,
             number_type(e.primitive.dtype), lane, item);
  ++at.count;
}

/// Begins a block if the next item of a level needs one. A full block moves up only now, when another item
/// comes, because a single block is the sum itself; before it the block above, if that is full too.
template <class E>
void make_room(E& e, std::size_t level) {
  auto& at = e.levels[level];
  if (at.count % kSumBlock != 0) return;
  if (at.count != 0) {
    const auto result = close_block(e, level);
    make_room(e, level + 1);
    add_item(e, level + 1, result);
  }
  at.lanes.fill(zero(e));
}

template <class E>
typename E::Value sum(E& e) {
  if (e.primitive.fold_count == 0) return zero(e);
  for (auto& level : e.levels) level.count = 0;
  for (std::int64_t p = 0; p < e.primitive.fold_count; ++p, next_position(e)) {
    make_room(e, 0);
    add_item(e, 0, term(e, p));
  }
  for (std::size_t level = 0;; ++level) {
    const auto result = close_block(e, level);
    if (e.levels[level + 1].count == 0) return result;
    make_room(e, level + 1);
    add_item(e, level + 1, result);
  }
}

/// One position of max or argmax: the term, with +0 added if it is a float, may replace the best.
template <class E>
void take_candidate(E& e, std::int64_t p, typename E::Running& best) {
  const NumberType type = e.primitive.steps.result.type;
  auto x = term(e, p);
  if (type == NumberType::kFloat) {
    x = add(e.numbers, Place::kMaxOperand, 0, p, type, x,
            e.numbers.number(type, Slot::of(0.0F), Origin::kLiteral));
  }
  const bool replaces = formula::is_better(type, e.numbers.slot(x), e.numbers.slot(best.value));
  const std::array<typename E::Value, 3> operands{x, best.value, {}};
  const Slot value = e.numbers.slot(replaces ? x : best.value);
  const Slot where = replaces ? Slot::of(p) : e.numbers.slot(best.where);
  best.value = e.numbers.number(type, value, Origin::kAccumulator);
  best.where = e.numbers.number(NumberType::kInteger, where, Origin::kAccumulator);
  if (e.primitive.kind == Kind::kArgmax) {
    e.numbers.operation({Place::kArgmax, 0, p, ScalarOp::kGt, 2}, operands, NumberType::kInteger, where);
  } else {
    e.numbers.operation({Place::kMax, 0, p, ScalarOp::kMax, 2}, operands, type, value);
  }
}

/// One position of a chain: `do`, where `when` allows it.
template <class E>
void take_link(E& e, std::int64_t p, typename E::Value& acc) {
  e.accumulator = acc;
  if (e.primitive.has_when && e.numbers.slot(run(e, {e.primitive.when, Place::kWhen, p})).integer == 0) {
    return;
  }
  acc = e.numbers.as(term(e, p), Origin::kAccumulator);
}

/// Returns the running result before any position.
template <class E>
typename E::Running start(E& e) {
  const auto number = [&](NumberType type, Slot slot) {
    return e.numbers.number(type, slot, Origin::kAccumulator);
  };
  const auto first = number(NumberType::kInteger, Slot::of(std::int64_t{0}));
  const CompiledPrimitive& primitive = e.primitive;
  switch (primitive.kind) {
    case Kind::kMax:
    case Kind::kArgmax:
      if (primitive.steps.result.type == NumberType::kFloat) {
        return {number(NumberType::kFloat, Slot::of(-std::numeric_limits<float>::infinity())), first};
      }
      return {number(NumberType::kInteger, Slot::of(std::numeric_limits<std::int64_t>::min())), first};
    case Kind::kChain:
      return {
          e.numbers.as(operand(e, {primitive.steps, Place::kStep, 0}, primitive.init), Origin::kAccumulator),
          first};
    default: return {zero(e), first};
  }
}

/// Updates the running result by the position that the indices are at. A map has one position, its element.
template <class E>
void take(E& e, std::int64_t position, typename E::Running& running) {
  switch (e.primitive.kind) {
    case Kind::kDot: return take_product(e, position, running.value);
    case Kind::kSum:
      running.value = add(e.numbers, Place::kSumLane, 0, position, number_type(e.primitive.dtype),
                          running.value, term(e, position));
      return;
    case Kind::kMax:
    case Kind::kArgmax: return take_candidate(e, position, running);
    case Kind::kChain: return take_link(e, position, running.value);
    default: running.value = term(e, position);
  }
}

/// Returns the element at the current indices, whose fold indices are 0; not yet as it is stored.
template <class E>
typename E::Value evaluate(E& e) {
  switch (e.primitive.kind) {
    case Kind::kDot: return dot(e);
    case Kind::kSum: return sum(e);
    case Kind::kMax:
    case Kind::kArgmax:
    case Kind::kChain: {
      auto running = start(e);
      for (std::int64_t p = 0; p < e.primitive.fold_count; ++p, next_position(e)) take(e, p, running);
      return e.primitive.kind == Kind::kArgmax ? running.where : running.value;
    }
    default: return term(e, 0);
  }
}

}  // namespace dgx::kernels
