#include <cmath>

#include "pointwise.h"

namespace dgx::lowering {

using kernels::NumberType;
using kernels::ScalarOp;

namespace {

constexpr double kLogTwo = 0.69314718055994530942;
constexpr double kLogTen = 2.30258509299404568402;
/// Integer powers up to this one are products.
constexpr std::int64_t kMaxProductPower = 64;

Expression both(const Expression& a, const Expression& b) { return step(ScalarOp::kAnd, {a, b}); }
Expression is_below_zero(const Expression& x) { return compare(ScalarOp::kLt, x, 0.0F); }

/// True if x is negative or minus zero, whose sign only its reciprocal shows.
Expression has_sign(const Expression& x) {
  return is_below_zero(select(compare(ScalarOp::kEq, x, 0.0F), 1.0F / x, x));
}

/// A map of `formula` of self, in f32.
template <class Formula>
void of_self(Call& call, Formula formula) {
  Pointwise map(call);
  map.out(formula(to_float(map.any("self"))));
}

/// x to a power of at least 1. Each binary digit of the power after the first, from the highest, gives a
/// square and, if it is 1, a product with x.
Expression product_power(const Expression& x, std::int64_t power) {
  int digit = 62;
  while ((power >> digit) == 0) --digit;
  Expression result = x;
  while (--digit >= 0) {
    result = result * result;
    if ((power >> digit) & 1) result = result * x;
  }
  return result;
}

/// exp(c · log x); for a negative x only if c is whole. An infinite c counts as whole and even, as in C's
/// pow().
Expression general_power(const Expression& x, double power) {
  const bool whole = std::floor(power) == power;
  const Expression size = exp(static_cast<float>(power) * log(whole ? abs(x) : x));
  if (std::isinf(power)) return select(compare(ScalarOp::kEq, abs(x), 1.0F), 1.0F, size);
  const bool odd = whole && std::fmod(power, 2.0) != 0;
  return odd ? select(is_below_zero(x), -size, size) : size;
}

Expression power_of(const Expression& x, double power) {
  if (power == 0.5) return sqrt(x);
  if (power == -0.5) return 1.0F / sqrt(x);
  const bool is_product = std::floor(power) == power && std::abs(power) <= kMaxProductPower;
  if (!is_product) return general_power(x, power);
  const Expression product = product_power(x, static_cast<std::int64_t>(std::abs(power)));
  return power > 0 ? product : 1.0F / product;
}

/// A number to the power of a tensor.
void pow_of_number(Call& call, double base, const TensorForm& power) {
  if (base == 1) return call.give(splat_form(DType::kF32, call.result_shape(), 1.0F));
  if (!call.require(base > 0 && std::isfinite(base), "a tensor power of a number that is not positive"))
    return;
  Pointwise map(call);
  map.out(exp(to_float(map.read(power, "exponent")) * static_cast<float>(std::log(base))));
}

/// A tensor to the power of a tensor: exp(y · log x); for a negative x only where y is whole.
void pow_of_tensors(Call& call, const TensorForm& base, const TensorForm& power) {
  Pointwise map(call);
  const Expression x = to_float(map.read(base, "self")), y = to_float(map.read(power, "exponent"));
  const Expression is_whole = compare(ScalarOp::kEq, floor(y), y);
  const Expression half = y / 2.0F;
  const Expression is_odd = compare(ScalarOp::kNe, floor(half), half);
  const Expression size = exp(y * log(select(is_whole, abs(x), x)));
  const Expression flips = step(ScalarOp::kAnd, {is_below_zero(x), is_odd});
  map.out(select(compare(ScalarOp::kEq, y, 0.0F), 1.0F, select(flips, -size, size)));
}

/// The remainder of division towards zero; exact where the quotient is below 2^24.
Expression truncated_remainder(const Expression& x, const Expression& y) {
  const Expression quotient = trunc(x / y);
  const Expression rest = fma(-quotient, y, x);
  // A quotient rounded up to the next integer leaves a remainder of the wrong sign.
  const Expression size = abs(y);
  const Expression mended = select(is_below_zero(x), rest - size, rest + size);
  return select(is_below_zero(rest * x), mended, rest);
}

Expression differ_in_sign(const Expression& a, const Expression& b) {
  const auto negative = [](const Expression& x) {
    return x.type == NumberType::kFloat ? is_below_zero(x) : compare(ScalarOp::kLt, x, std::int64_t{0});
  };
  return compare(ScalarOp::kNe, negative(a), negative(b));
}

/// The quotient rounded down; one less where a / b was rounded up to an integer.
Expression floored_quotient(const Expression& a, const Expression& b) {
  const Expression quotient = floor(a / b);
  const Expression rest = fma(-quotient, b, a);
  return select(is_below_zero(rest * b), quotient - 1.0F, quotient);
}

void exp2(Call& call) {
  of_self(call, [](const Expression& x) { return exp(x * static_cast<float>(kLogTwo)); });
}
void log2(Call& call) {
  of_self(call, [](const Expression& x) { return log(x) / static_cast<float>(kLogTwo); });
}
void log10(Call& call) {
  of_self(call, [](const Expression& x) { return log(x) / static_cast<float>(kLogTen); });
}
void erfc(Call& call) {
  of_self(call, [](const Expression& x) { return 1.0F - erf(x); });
}
void tan(Call& call) {
  of_self(call, [](const Expression& x) { return sin(x) / cos(x); });
}
void cosh(Call& call) {
  of_self(call, [](const Expression& x) { return 0.5F * exp(x) + 0.5F * exp(-x); });
}
/// Uses expm1 near 0, where the difference of exponentials would cancel.
void sinh(Call& call) {
  of_self(call, [](const Expression& x) {
    const Expression e = expm1(x);
    const Expression near = 0.5F * (e + e / (e + 1.0F));
    return select(compare(ScalarOp::kLt, abs(x), 1.0F), near, 0.5F * exp(x) - 0.5F * exp(-x));
  });
}
void asinh(Call& call) {
  of_self(call, [](const Expression& x) {
    const Expression size = abs(x), square = x * x;
    const Expression y = log1p(size + square / (1.0F + sqrt(square + 1.0F)));
    return select(is_below_zero(x), -y, y);
  });
}
void acosh(Call& call) {
  of_self(call, [](const Expression& x) {
    const Expression t = x - 1.0F;
    return log1p(t + sqrt(t * (t + 2.0F)));
  });
}
void atanh(Call& call) {
  of_self(call, [](const Expression& x) { return 0.5F * (log1p(x) - log1p(-x)); });
}

void ceil(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(x.type == NumberType::kFloat ? -floor(-x) : x);
}
void frac(Call& call) {
  of_self(call, [](const Expression& x) { return x - trunc(x); });
}

void logit(Call& call) {
  const double eps = call.number("eps", 0);
  const bool clamps = call.given("eps");
  of_self(call, [&](const Expression& x) {
    const Expression z = clamps ? min(max(x, static_cast<float>(eps)), static_cast<float>(1 - eps)) : x;
    return log(z / (1.0F - z));
  });
}

void logit_backward(Call& call) {
  Pointwise map(call);
  const Expression gradient = map.in("grad_output"), x = map.in("self");
  const Expression slope = gradient / (x * (1.0F - x));
  if (!call.given("eps")) return map.out(slope);
  const double eps = call.number("eps");
  const Expression outside = step(ScalarOp::kOr, {compare(ScalarOp::kLt, x, static_cast<float>(eps)),
                                                  compare(ScalarOp::kGt, x, static_cast<float>(1 - eps))});
  map.out(select(outside, 0.0F, slope));
}

/// Powers that are products, square roots, or exp(c · log x).
void pow(Call& call) {
  const TensorForm base = call.number_or_tensor("self"), power = call.number_or_tensor("exponent");
  const auto exponent = splat_number(power), number = splat_number(base);
  if (!call.ok()) return;
  if (!exponent && number && call.result_dtype() == DType::kF32) return pow_of_number(call, *number, power);
  const bool is_float = call.result_dtype() == DType::kF32;
  if (!exponent && is_float) return pow_of_tensors(call, base, power);
  if (!call.require(exponent.has_value(), "the exponent is a tensor of integers")) return;
  if (*exponent == 0)
    return call.give(
        splat_form(call.result_dtype(), call.result_shape(), literal_of(call.result_dtype(), 1)));
  if (*exponent == 1 && base.dtype == call.result_dtype())
    return call.give(broadcast_to(base, call.result_shape()));
  Pointwise map(call);
  const Expression x = map.read(base, "self");
  if (is_float) return map.out(power_of(to_float(x), *exponent));
  const bool is_product = *exponent >= 1 && *exponent <= static_cast<double>(kMaxProductPower);
  if (!call.require(is_product && call.result_dtype() == DType::kI64, "this power of integers")) return;
  map.out(product_power(x, static_cast<std::int64_t>(*exponent)));
}

void hypot(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self"), y = map.in("other");
  map.out(sqrt(fma(x, x, y * y)));
}

void xlogy(Call& call) {
  Pointwise map(call);
  const Expression x = to_float(map.any("self")), y = to_float(map.any("other"));
  const Expression is_nothing = both(compare(ScalarOp::kEq, x, 0.0F), compare(ScalarOp::kEq, y, y));
  map.out(select(is_nothing, 0.0F, x * log(y)));
}

void logaddexp(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self"), y = map.in("other");
  const Expression gap = select(compare(ScalarOp::kEq, x, y), 0.0F, abs(x - y));
  map.out(max(x, y) + log1p(exp(-gap)));
}

void fmod(Call& call) {
  Pointwise map(call);
  const Expression x = map.any("self"), y = map.any("other");
  if (call.result_dtype() == DType::kF32) return map.out(truncated_remainder(to_float(x), to_float(y)));
  const Expression size = step(ScalarOp::kImod, {abs(x), abs(y)});
  map.out(select(compare(ScalarOp::kLt, x, std::int64_t{0}), -size, size));
}

/// The remainder of division rounded down, with the divisor's sign.
void remainder(Call& call) {
  Pointwise map(call);
  const Expression x = map.any("self"), y = map.any("other");
  if (call.result_dtype() != DType::kF32) return map.out(step(ScalarOp::kImod, {x, y}));
  const Expression divisor = to_float(y);
  const Expression rest = truncated_remainder(to_float(x), divisor);
  const Expression is_other = both(compare(ScalarOp::kNe, rest, 0.0F), differ_in_sign(rest, divisor));
  map.out(select(is_other, rest + divisor, rest));
}

/// div with a rounding mode, and floor_divide.
void rounded_div(Call& call) {
  const std::string rounding = call.text("rounding_mode", "floor");
  Pointwise map(call);
  const Expression a = map.any("self"), b = map.any("other");
  if (call.result_dtype() == DType::kF32) {
    if (rounding == "trunc") return map.out(trunc(a / b));
    return map.out(floored_quotient(to_float(a), to_float(b)));
  }
  if (!call.require(call.result_dtype() == DType::kI64, "division of u8 or bool")) return;
  if (rounding == "floor") return map.out(step(ScalarOp::kIdiv, {a, b}));
  const Expression size = step(ScalarOp::kIdiv, {abs(a), abs(b)});
  map.out(select(differ_in_sign(a, b), -size, size));
}

void div(Call& call) {
  const TensorForm self = call.number_or_tensor("self"), other = call.number_or_tensor("other");
  if (call.given("rounding_mode")) return rounded_div(call);
  if (splat_number(other) == 1 && give_unchanged(call, self)) return;
  Pointwise map(call);
  map.out(map.read(self, "self") / map.read(other, "other"));
}

/// If one of the two is NaN, the result is the other.
void fmax(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self"), y = map.in("other");
  map.out(select(compare(ScalarOp::kNe, y, y), x, max(x, y)));
}
void fmin(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self"), y = map.in("other");
  map.out(select(compare(ScalarOp::kNe, y, y), x, min(x, y)));
}

void copysign(Call& call) {
  Pointwise map(call);
  const Expression size = abs(to_float(map.in("self"))), sign = to_float(map.any("other"));
  map.out(select(has_sign(sign), -size, size));
}
void signbit(Call& call) {
  Pointwise map(call);
  map.out(has_sign(to_float(map.in("self"))));
}

void isnan(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(compare(ScalarOp::kNe, x, x));
}
void isinf(Call& call) {
  Pointwise map(call);
  map.out(compare(ScalarOp::kEq, abs(to_float(map.in("self"))), HUGE_VALF));
}
void isfinite(Call& call) {
  Pointwise map(call);
  map.out(compare(ScalarOp::kLt, abs(to_float(map.in("self"))), HUGE_VALF));
}
void heaviside(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  const Expression side = select(compare(ScalarOp::kEq, x, x), to_float(compare(ScalarOp::kGt, x, 0.0F)), x);
  map.out(select(compare(ScalarOp::kEq, x, 0.0F), to_float(map.in("values")), side));
}

void deg2rad(Call& call) {
  of_self(call, [](const Expression& x) { return x * static_cast<float>(3.14159265358979323846 / 180); });
}
void rad2deg(Call& call) {
  of_self(call, [](const Expression& x) { return x * static_cast<float>(180 / 3.14159265358979323846); });
}
void sinc(Call& call) {
  of_self(call, [](const Expression& x) {
    const Expression angle = x * static_cast<float>(3.14159265358979323846);
    return select(compare(ScalarOp::kEq, x, 0.0F), 1.0F, sin(angle) / angle);
  });
}

/// Functions of one or two numbers.
constexpr LoweringRow kRows[] = {
    {"div", &div},
    {"floor_divide", &rounded_div},
    {"fmod", &fmod},
    {"remainder", &remainder},
    {"exp2", &exp2},
    {"log2", &log2},
    {"log10", &log10},
    {"erfc", &erfc},
    {"tan", &tan},
    {"sinh", &sinh},
    {"cosh", &cosh},
    {"asinh", &asinh},
    {"acosh", &acosh},
    {"atanh", &atanh},
    {"ceil", &ceil},
    {"frac", &frac},
    {"logit", &logit},
    {"logit_backward", &logit_backward},
    {"hypot", &hypot},
    {"xlogy", &xlogy},
    {"logaddexp", &logaddexp},
    {"deg2rad", &deg2rad},
    {"rad2deg", &rad2deg},
    {"sinc", &sinc},
    {"pow", &pow},
    {"signbit", &signbit},
    {"fmax", &fmax},
    {"fmin", &fmin},
    {"copysign", &copysign},
    {"isnan", &isnan},
    {"isinf", &isinf},
    {"isfinite", &isfinite},
    {"heaviside", &heaviside},
};

}  // namespace

const std::span<const LoweringRow> kFunctionRows = kRows;

}  // namespace dgx::lowering
