#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <limits>
#include <vector>

#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels {

/// The result of a sum's block from its lanes, which it uses up.
template <class Policy>
typename Policy::Value combine(Policy& policy, NumberType type,
                               std::array<typename Policy::Value, kSumLanes>& lanes, int level,
                               std::int64_t block) {
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    lanes[lane] = policy.partial(lanes[lane], static_cast<int>(lane));
  }
  for (std::size_t distance = kSumLanes / 2; distance > 0; distance /= 2) {
    for (std::size_t lane = 0; lane < distance; ++lane) {
      const auto& other = lanes[lane + distance];
      const auto sum =
          policy.fold(Place::kSumCombine, level, block, ScalarOp::kAdd, type, lanes[lane], other, other);
      lanes[lane] = policy.partial(sum, static_cast<int>(lane));
    }
  }
  return lanes[0];
}

/// The evaluator of one element (evaluate.h has the rules), over what a number is.
///
/// Policy says what a number is and what happens at each scalar operation:
///   using Value;
///   Value element(int access, const CompiledAccess&, std::int64_t element, Slot);   read
///   Value fill(int access, const CompiledAccess&);
///   Value index(const CompiledOperand&, std::int64_t);                              iN, kN
///   Value literal(const CompiledOperand&);
///   Value start(NumberType, Slot);                  what a fold's accumulator starts from
///   std::int64_t integer(const Value&);             of an integer: conditions
///   Value step(Place, int step, std::int64_t position, const CompiledStep&, const std::array<Value, 3>&);
///   Value fold(Place, int level, std::int64_t position, ScalarOp, NumberType, const Value& a, const Value&
///   b, const Value& c); Value best(Place, std::int64_t position, NumberType, const Value& candidate, const
///   Value& best, Value& where); Value partial(const Value&, int lane);          a finished part of a fold
///   Value accumulator(const Value&);                what acc is from now on
///   void end_list();                                the steps of one list are done
/// Source gives elements: Slot read(std::size_t access, std::int64_t element); it hears of every access that
/// is evaluated, also of one that gives its fill: void located(ValueIndex).
template <class Policy, class Source>
class ElementEvaluator {
 public:
  using Value = typename Policy::Value;

  ElementEvaluator(const CompiledPrimitive& primitive, Source& source, Policy& policy)
      : primitive_(primitive), source_(source), policy_(policy) {}

  /// Sets the iteration indices to those of a row-major position.
  void seek(std::int64_t element) {
    for (std::size_t d = primitive_.iteration.size(); d-- > 0;) {
      index_[d] = element % primitive_.iteration[d];
      element /= primitive_.iteration[d];
    }
  }
  /// Moves to the next element.
  void advance() { advance(primitive_.iteration, 0); }

  /// The same for the fold's position.
  void seek_fold(std::int64_t position) {
    for (std::size_t d = primitive_.fold.size(); d-- > 0;) {
      index_[kFirstFoldSlot + d] = position % primitive_.fold[d];
      position /= primitive_.fold[d];
    }
  }
  void advance_fold() { advance(primitive_.fold, kFirstFoldSlot); }

  /// A fold's running result: a dot's block, a sum's lane, the best so far and where it is, acc.
  struct Running {
    Value value;
    Value where;
  };
  /// What a fold starts from, before any position.
  Running start() {
    Running out{zero(), policy_.start(NumberType::kInteger, integer(0))};
    if (primitive_.kind == Kind::kMax || primitive_.kind == Kind::kArgmax) out.value = least();
    if (primitive_.kind == Kind::kChain) out.value = initial();
    return out;
  }
  /// What it is after the position that the fold's indices are at. A map has one position, its element.
  void take(std::int64_t position, Running& running) {
    switch (primitive_.kind) {
      case Kind::kDot:
        take_product(position, running.value);
        break;
      case Kind::kSum:
        running.value = into_lane(0, position, running.value, term(position));
        break;
      case Kind::kMax:
      case Kind::kArgmax:
        take_candidate(comparison(), primitive_.steps.result.type, position, running.value, running.where);
        break;
      case Kind::kChain:
        accumulator_ = running.value;
        take_link(position);
        running.value = accumulator_;
        break;
      default:
        running.value = run(primitive_.steps, Place::kStep, position);
    }
  }

  /// The element at the current indices, not yet stored.
  Value evaluate() {
    switch (primitive_.kind) {
      case Kind::kDot:
        return dot();
      case Kind::kSum:
        return sum();
      case Kind::kMax:
      case Kind::kArgmax:
        return greatest();
      case Kind::kChain:
        return chain();
      default:
        return run(primitive_.steps, Place::kStep, 0);
    }
  }

 private:
  // One level of a sum: the fold's positions, the results of their blocks, and so on.
  struct Level {
    std::array<Value, kSumLanes> lanes;
    std::int64_t count = 0;  // items so far
  };

  void advance(const Shape& shape, std::size_t first) {
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index_[first + d] < shape[d]) return;
      index_[first + d] = 0;
    }
  }
  void start_fold() {
    for (std::size_t d = 0; d < primitive_.fold.size(); ++d) index_[kFirstFoldSlot + d] = 0;
  }

  static Slot real(float value) {
    Slot slot;
    slot.integer = 0;
    slot.real = value;
    return slot;
  }
  static Slot integer(std::int64_t value) {
    Slot slot;
    slot.integer = value;
    return slot;
  }
  Value zero() {
    const NumberType type = number_type(primitive_.dtype);
    return policy_.start(type, type == NumberType::kFloat ? real(0) : integer(0));
  }
  Value add(Place place, int level, std::int64_t position, const Value& a, const Value& b) {
    const NumberType type = place == Place::kMaxOperand ? NumberType::kFloat : number_type(primitive_.dtype);
    return policy_.fold(place, level, position, ScalarOp::kAdd, type, a, b, b);
  }

  // Accesses.

  // The element an access reads at the current indices, or -1 if a coordinate is outside.
  std::int64_t locate(const CompiledAccess& access) {
    source_.located(access.value);
    std::int64_t element = access.offset;
    if (access.is_linear) {
      for (const CompiledTerm& term : access.linear) {
        element += term.coefficient * index_[static_cast<std::size_t>(term.slot)];
      }
      return element;
    }
    element = 0;
    for (const CompiledCoordinate& coordinate : access.coordinates) {
      std::int64_t at = coordinate.constant;
      for (const CompiledTerm& term : coordinate.terms) {
        const std::int64_t symbol =
            term.access >= 0 ? integer_at(term.access) : index_[static_cast<std::size_t>(term.slot)];
        at = wrapping_add(at, wrapping_mul(term.coefficient, symbol));
      }
      if (coordinate.division == Coordinate::Division::kExact && at % coordinate.divisor != 0) return -1;
      if (coordinate.division != Coordinate::Division::kNone) at = floor_div(at, coordinate.divisor);
      if (at < 0 || at >= coordinate.size) return -1;
      element += at * coordinate.stride;
    }
    return element;
  }
  std::int64_t integer_at(std::int32_t n) {
    const CompiledAccess& access = primitive_.accesses[static_cast<std::size_t>(n)];
    const std::int64_t element = locate(access);
    return element < 0 ? access.fill.integer : source_.read(static_cast<std::size_t>(n), element).integer;
  }
  Value read(std::int32_t n) {
    const CompiledAccess& access = primitive_.accesses[static_cast<std::size_t>(n)];
    const std::int64_t element = locate(access);
    if (element < 0) return policy_.fill(n, access);
    return policy_.element(n, access, element, source_.read(static_cast<std::size_t>(n), element));
  }

  // Steps.

  Value run(const CompiledSteps& list, Place place, std::int64_t position) {
    if (list.steps.empty()) return operand(list, list.result, place, position);
    done_ = 0;
    for (std::size_t n = 0; n < list.steps.size(); ++n) {
      if ((list.always >> n & 1) != 0) compute(list, n, place, position);
    }
    policy_.end_list();
    return results_[list.steps.size() - 1];
  }
  // At most as deep as there are steps: a step names earlier ones only.
  void compute(const CompiledSteps& list, std::size_t n, Place place, std::int64_t position) {
    const CompiledStep& step = list.steps[n];
    std::array<Value, 3> operands;
    operands[0] = operand(list, step.operands[0], place, position);
    if (step.op == ScalarOp::kSelect) {
      const std::size_t taken = policy_.integer(operands[0]) != 0 ? 1 : 2;
      operands[1] = operand(list, step.operands[taken], place, position);
    } else {
      for (std::size_t i = 1; i < static_cast<std::size_t>(step.arity); ++i) {
        operands[i] = operand(list, step.operands[i], place, position);
      }
    }
    results_[n] = policy_.step(place, static_cast<int>(n), position, step, operands);
    done_ |= std::uint64_t{1} << n;
  }
  Value operand(const CompiledSteps& list, const CompiledOperand& from, Place place, std::int64_t position) {
    switch (from.kind) {
      case Operand::Kind::kAccess:
        return read(from.index);
      case Operand::Kind::kStep: {
        const auto n = static_cast<std::size_t>(from.index);
        if ((done_ >> n & 1) == 0) compute(list, n, place, position);
        return results_[n];
      }
      case Operand::Kind::kIndex:
      case Operand::Kind::kFold:
        return policy_.index(from, index_[static_cast<std::size_t>(from.index)]);
      case Operand::Kind::kAccumulator:
        return accumulator_;
      default:
        return policy_.literal(from);
    }
  }

  // Folds: what one position does, and the whole of them from it.

  [[gnu::always_inline]] void take_product(std::int64_t p, Value& block) {
    const Value a = read(0);
    block = policy_.fold(Place::kDotTerm, 0, p, ScalarOp::kFma, NumberType::kFloat, a, read(1), block);
  }
  Value dot() {
    start_fold();
    const std::int64_t n = primitive_.fold_count;
    Value total = zero();
    std::int64_t p = 0;
    for (std::int64_t group_number = 0; p < n; ++group_number) {
      Value group = zero();
      for (std::int64_t b = 0; b < kDotGroup && p < n; ++b) {
        Value block = zero();
        const std::int64_t end = n - p < kDotBlock ? n : p + kDotBlock;
        for (; p < end; ++p, advance_fold()) take_product(p, block);
        group = add(Place::kDotBlock, 0, group_number * kDotGroup + b, group, policy_.partial(block, 0));
      }
      total = add(Place::kDotGroup, 0, group_number, total, policy_.partial(group, 0));
    }
    return total;
  }

  [[gnu::always_inline]] Value term(std::int64_t p) { return run(primitive_.steps, Place::kStep, p); }
  Value into_lane(int level, std::int64_t item, const Value& lane, const Value& value) {
    return add(Place::kSumLane, level, item, lane, value);
  }
  Value sum() {
    start_fold();
    if (primitive_.fold_count == 0) return zero();
    levels_.clear();
    open_level();
    for (std::int64_t p = 0; p < primitive_.fold_count; ++p, advance_fold()) {
      make_room(0);
      put(0, term(p));
    }
    // Close the last blocks, from the positions up: a level with one block gives the sum.
    for (std::size_t level = 0;; ++level) {
      const Value result = close_block(level);
      if (level + 1 == levels_.size()) return result;
      make_room(level + 1);
      put(level + 1, result);
    }
  }
  void open_level() {
    Level level;
    level.lanes.fill(zero());
    levels_.push_back(level);
  }
  void put(std::size_t level, const Value& value) {
    Level& at = levels_[level];
    Value& lane = at.lanes[static_cast<std::size_t>(at.count) % kSumLanes];
    lane = into_lane(static_cast<int>(level), at.count, lane, value);
    ++at.count;
  }
  // A full block moves up only when another item comes, so that a single block is the sum itself.
  void make_room(std::size_t level) {
    if (levels_[level].count == 0 || levels_[level].count % kSumBlock != 0) return;
    if (level + 1 == levels_.size()) open_level();
    const Value result = close_block(level);
    make_room(level + 1);
    put(level + 1, result);
    levels_[level].lanes.fill(zero());
  }
  Value close_block(std::size_t level) {
    Level& at = levels_[level];
    const std::int64_t block = at.count == 0 ? 0 : (at.count - 1) / kSumBlock;
    return combine(policy_, number_type(primitive_.dtype), at.lanes, static_cast<int>(level), block);
  }

  Value least() {
    const NumberType type = primitive_.steps.result.type;
    return policy_.start(type, type == NumberType::kFloat
                                   ? real(-std::numeric_limits<float>::infinity())
                                   : integer(std::numeric_limits<std::int64_t>::min()));
  }
  [[nodiscard]] Place comparison() const {
    return primitive_.kind == Kind::kArgmax ? Place::kArgmax : Place::kMax;
  }
  void take_candidate(Place place, NumberType type, std::int64_t p, Value& best, Value& where) {
    Value candidate = run(primitive_.steps, Place::kStep, p);
    if (type == NumberType::kFloat) {
      candidate = add(Place::kMaxOperand, 0, p, candidate, policy_.start(type, real(0)));
    }
    best = policy_.best(place, p, type, candidate, best, where);
  }
  Value greatest() {
    start_fold();
    const Place place = comparison();
    const NumberType type = primitive_.steps.result.type;
    Value best = least();
    Value where = policy_.start(NumberType::kInteger, integer(0));
    for (std::int64_t p = 0; p < primitive_.fold_count; ++p, advance_fold()) {
      take_candidate(place, type, p, best, where);
    }
    return place == Place::kArgmax ? where : best;
  }

  Value initial() { return policy_.accumulator(operand(primitive_.steps, primitive_.init, Place::kStep, 0)); }
  [[gnu::always_inline]] void take_link(std::int64_t p) {
    if (primitive_.has_when && policy_.integer(run(primitive_.when, Place::kWhen, p)) == 0) return;
    accumulator_ = policy_.accumulator(run(primitive_.steps, Place::kStep, p));
  }
  Value chain() {
    start_fold();
    accumulator_ = initial();
    for (std::int64_t p = 0; p < primitive_.fold_count; ++p, advance_fold()) take_link(p);
    return accumulator_;
  }

  const CompiledPrimitive& primitive_;
  Source& source_;
  Policy& policy_;
  std::array<std::int64_t, kIndexSlots> index_{};
  std::array<Value, kMaxSteps> results_{};
  std::uint64_t done_ = 0;
  Value accumulator_{};
  std::vector<Level> levels_;
};

/// Elements of values in memory, one pointer an access.
class TensorSource {
 public:
  /// kMalformed unless every value accessed is there with the dtype and count compiled for.
  static Result<TensorSource> bind(const CompiledPrimitive& primitive, std::span<const TensorView> values);

  void located(ValueIndex /*value*/) const {}

  [[nodiscard]] Slot read(std::size_t access, std::int64_t element) const {
    const Bound& bound = bound_[access];
    Slot slot;
    slot.integer = 0;
    switch (bound.dtype) {
      case DType::kF32:
        slot.real = static_cast<const float*>(bound.data)[element];
        break;
      case DType::kI64:
        slot.integer = static_cast<const std::int64_t*>(bound.data)[element];
        break;
      case DType::kU8:
        slot.integer = static_cast<const std::uint8_t*>(bound.data)[element];
        break;
    }
    return slot;
  }

 private:
  struct Bound {
    DType dtype = DType::kF32;
    const void* data = nullptr;
  };
  std::vector<Bound> bound_;
};

/// Elements given by a ValueSource.
class LookupSource {
 public:
  LookupSource(const CompiledPrimitive& primitive, ValueSource& source)
      : primitive_(primitive), source_(source) {}

  void located(ValueIndex value) { source_.located(value); }
  [[nodiscard]] Slot read(std::size_t access, std::int64_t element) {
    const Number number = source_.element(primitive_.accesses[access].value, element);
    Slot slot;
    slot.integer = number.integer;
    if (number.type == NumberType::kFloat) slot.real = number.real;
    return slot;
  }

 private:
  const CompiledPrimitive& primitive_;
  ValueSource& source_;
};

/// The scalar operation of a step on numbers without types.
[[nodiscard]] Slot apply_step(const CompiledStep& step, const std::array<Slot, 3>& operands);

/// Whether a candidate of max or argmax replaces the best so far: a NaN beats all but a NaN, else the
/// greater.
[[nodiscard]] inline bool is_better(NumberType type, Slot candidate, Slot best) {
  if (type == NumberType::kInteger) return candidate.integer > best.integer;
  const bool is_nan = candidate.real != candidate.real;
  const bool best_is_nan = best.real != best.real;
  return is_nan ? !best_is_nan : candidate.real > best.real;
}

/// A number as it is stored in a value of `dtype`.
[[nodiscard]] Number stored(DType dtype, Slot slot);

}  // namespace dgx::kernels
