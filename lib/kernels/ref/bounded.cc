#include "dgx/kernels/bounded.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dgx/kernels/element.h"
#include "sources.h"

namespace dgx::kernels {
namespace {

constexpr double kUnit = 0x1p-24;             // half a unit in the last place of 1, binary32
constexpr double kSubnormal = 0x1p-150;       // the same for subnormal numbers
constexpr double kFunctionUnits = 8;          // 4 units in the last place, in halves
constexpr double kOwnRounding = 1 + 0x1p-40;  // covers the binary64 computations here
constexpr double kUnknown = std::numeric_limits<double>::infinity();

double rounding(double result, double units = 1) { return units * (kUnit * std::fabs(result) + kSubnormal); }

// The largest error of a sum of `terms` products or numbers of total magnitude `mass`, in any order.
double sum_error(double terms, double mass) {
  const double units = (terms + 1) * kUnit;
  return units < 0.5 ? units / (1 - units) * mass + terms * kSubnormal : kUnknown;
}

double quotient_error(double a, double ea, double b, double eb) {
  if (ea == 0 && eb == 0) return 0;
  const double least = std::fabs(b) - eb;
  return least > 0 ? (ea + std::fabs(a / b) * eb) / least : kUnknown;
}

double root_error(double a, double ea) {
  if (ea == 0) return 0;
  return a >= ea ? ea / (std::sqrt(a) + std::sqrt(a - ea)) : kUnknown;
}

double log_error(double a, double ea) {
  if (ea == 0) return 0;
  return a > ea ? std::log1p(ea / (a - ea)) : kUnknown;
}

// The range of a step function's result over [a − ea, a + ea].
double stair_error(ScalarOp op, double a, double ea) {
  const auto of = [op](double x) {
    return op == ScalarOp::kFloor   ? std::floor(x)
           : op == ScalarOp::kTrunc ? std::trunc(x)
                                    : std::nearbyint(x);
  };
  return of(a + ea) - of(a - ea);
}

// The error bound of a float operation's result, from its operands and their bounds.
double step_error(ScalarOp op, const std::array<double, 3>& x, const std::array<double, 3>& e,
                  double result) {
  const auto product = [&] { return std::fabs(x[0]) * e[1] + std::fabs(x[1]) * e[0] + e[0] * e[1]; };
  switch (op) {
    case ScalarOp::kNeg:
    case ScalarOp::kAbs: return e[0];
    case ScalarOp::kMax:
    case ScalarOp::kMin: return std::max(e[0], e[1]);
    case ScalarOp::kFloor:
    case ScalarOp::kTrunc:
    case ScalarOp::kRint: return stair_error(op, x[0], e[0]);
    case ScalarOp::kAdd:
    case ScalarOp::kSub: return e[0] + e[1] + rounding(result);
    case ScalarOp::kMul: return product() + rounding(result);
    case ScalarOp::kFma: return product() + e[2] + rounding(x[0] * x[1]) + rounding(result);
    case ScalarOp::kDiv: return quotient_error(x[0], e[0], x[1], e[1]) + rounding(result);
    case ScalarOp::kSqrt: return root_error(x[0], e[0]) + rounding(result);
    case ScalarOp::kExp:
    case ScalarOp::kExpm1: return std::exp(x[0]) * std::expm1(e[0]) + rounding(result, kFunctionUnits);
    case ScalarOp::kLog: return log_error(x[0], e[0]) + rounding(result, kFunctionUnits);
    case ScalarOp::kLog1p: return log_error(1 + x[0], e[0]) + rounding(result, kFunctionUnits);
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTanh: return e[0] + rounding(result, kFunctionUnits);
    case ScalarOp::kErf:
      return 1.13 * e[0] + rounding(result, kFunctionUnits);  // its slope is at most 2/sqrt(pi)
    default: return kUnknown;
  }
}

// Numbers with an error bound. In a fold, `mass` is the total magnitude of the terms added so far and `terms`
// their number: together they bound the error of any order of addition.
class BoundedNumbers {
 public:
  struct Value {
    Slot slot;
    double error = 0;
    double mass = 0;
    double terms = 0;
  };

  static Value element(std::int32_t, const CompiledAccess&, std::int64_t, Slot slot) { return {slot}; }
  static Value fill(std::int32_t, const CompiledAccess& access) { return {access.fill}; }
  static Value index(const CompiledOperand&, std::int64_t value) {
    Value out;
    out.slot.integer = value;
    return out;
  }
  static Value literal(const CompiledOperand& from) { return {from.literal}; }
  static Value start(NumberType, Slot slot) { return {slot}; }
  static Value partial(const Value& value, int) { return value; }
  static Value accumulator(const Value& value) { return value; }
  static void end_list() {}

  // Called for conditions: a branch that rounding may have chosen makes everything unknown.
  std::int64_t integer(const Value& value) {
    is_certain_ = is_certain_ && value.error == 0;
    return value.slot.integer;
  }

  Value step(Place, int, std::int64_t, const CompiledStep& step, const std::array<Value, 3>& operands) {
    Value out{formula::apply_step(step, {operands[0].slot, operands[1].slot, operands[2].slot})};
    if (step.op == ScalarOp::kSelect) {
      out.error = operands[1].error;
    } else if (step.operand_type == NumberType::kFloat) {
      out.error = float_step_error(step, operands, out.slot) * kOwnRounding;
    } else {
      bool exact = true;
      for (std::size_t i = 0; i < static_cast<std::size_t>(step.arity); ++i)
        exact = exact && operands[i].error == 0;
      const double converted = step.op == ScalarOp::kF32 ? rounding(out.slot.real) : 0;
      out.error = exact ? converted : kUnknown;
    }
    if (std::isnan(out.error)) out.error = kUnknown;
    return out;
  }

  Value fold(Place place, int level, std::int64_t, ScalarOp op, NumberType type, const Value& a,
             const Value& b, const Value& c) {
    if (place == Place::kMaxOperand) {
      Value out = a;
      out.slot.real = a.slot.real + b.slot.real;
      return out;
    }
    if (type == NumberType::kInteger) {
      Value out = a;
      out.slot.integer = wrapping_add(a.slot.integer, b.slot.integer);
      out.error = a.error + b.error;
      return out;
    }
    if (op == ScalarOp::kFma) {
      Value out = c;
      out.slot.real = std::fma(a.slot.real, b.slot.real, c.slot.real);
      out.mass += std::fabs(static_cast<double>(a.slot.real) * static_cast<double>(b.slot.real));
      out.terms += 1;
      return out;
    }
    const bool is_term = place == Place::kSumLane && level == 0;
    Value out = a;
    out.slot.real = a.slot.real + b.slot.real;
    out.error += b.error;
    out.mass += is_term ? std::fabs(static_cast<double>(b.slot.real)) + b.error : b.mass;
    out.terms += is_term ? 1 : b.terms;
    return out;
  }

  static Value best(Place, std::int64_t position, NumberType type, const Value& candidate, const Value& best,
                    Value& where) {
    const bool is_better_one = formula::is_better(type, candidate.slot, best.slot);
    Value kept = is_better_one ? candidate : best;
    kept.error = std::max(candidate.error, best.error);
    const double apart =
        std::fabs(static_cast<double>(candidate.slot.real) - static_cast<double>(best.slot.real));
    const double unsure = candidate.error + best.error;
    if (unsure > 0 && !(type == NumberType::kFloat && apart > unsure)) where.error = kUnknown;
    if (is_better_one) where.slot.integer = position;
    return kept;
  }

  [[nodiscard]] BoundedNumber finish(DType dtype, const Value& value) const {
    double bound = value.error;
    if (value.terms > 0) bound += sum_error(value.terms, value.mass) * kOwnRounding;
    if (!is_certain_ || std::isnan(bound)) bound = kUnknown;
    return {stored(dtype, value.slot), bound};
  }

 private:
  static double float_step_error(const CompiledStep& step, const std::array<Value, 3>& operands,
                                 Slot result) {
    std::array<double, 3> x{};
    std::array<double, 3> e{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(step.arity); ++i) {
      x[i] = static_cast<double>(operands[i].slot.real);
      e[i] = operands[i].error;
    }
    switch (step.op) {
      case ScalarOp::kEq:
      case ScalarOp::kNe:
      case ScalarOp::kLt:
      case ScalarOp::kLe:
      case ScalarOp::kGt:
      case ScalarOp::kGe: return e[0] + e[1] == 0 || std::fabs(x[0] - x[1]) > e[0] + e[1] ? 0 : kUnknown;
      case ScalarOp::kF32: return e[0];
      case ScalarOp::kI64:
      case ScalarOp::kU8: return stair_error(ScalarOp::kTrunc, x[0], e[0]) == 0 ? 0 : kUnknown;
      default: return step_error(step.op, x, e, static_cast<double>(result.real));
    }
  }

  bool is_certain_ = true;
};

}  // namespace

Result<BoundedNumber> bound_element(const CompiledPrimitive& primitive, std::span<const TensorView> values,
                                    std::int64_t element) {
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  assert(element >= 0 && element < primitive.count);
  BoundedNumbers numbers;
  ElementEvaluator evaluator(primitive, source, numbers);
  evaluator.seek(element);
  return numbers.finish(primitive.dtype, evaluator.evaluate());
}

}  // namespace dgx::kernels
