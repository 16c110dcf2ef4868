#include "pointwise.h"

namespace dgx::lowering {

using kernels::NumberType;
using kernels::ScalarOp;

namespace {

void unary(Call& call, ScalarOp op) {
  Pointwise map(call);
  map.out(function(op, map.in("self")));
}

/// Rounding, which leaves integers as they are.
void rounding(Call& call, ScalarOp op) {
  if (call.result_dtype() == DType::kF32) return unary(call, op);
  call.give(call.tensor("self"));
}

void comparison(Call& call, ScalarOp op) {
  Pointwise map(call);
  map.out(compare(op, map.any("self"), map.any("other")));
}

/// Refuses u8, which also stands for torch's bool, whose sums and negations are not numbers.
bool is_number(Call& call) {
  return call.require(call.result_dtype() != DType::kU8, "arithmetic on u8 or bool");
}

/// self + alpha · other, the product and the sum in one rounding.
void scaled_add(Call& call, const TensorForm& self, const TensorForm& other, double alpha) {
  if (call.result_is_boolean() && alpha == 1) {
    Pointwise map(call);
    return map.out(step(ScalarOp::kOr, {map.read(self, "self"), map.read(other, "other")}));
  }
  if (!is_number(call)) return;
  if (splat_number(other) == 0 && give_unchanged(call, self)) return;
  if (splat_number(self) == 0 && alpha == 1 && give_unchanged(call, other)) return;
  Pointwise map(call);
  const Expression a = map.read(self, "self"), b = map.read(other, "other");
  const bool is_integer = call.result_dtype() == DType::kI64;
  if (alpha == 1) return map.out(a + b);
  if (alpha == -1) return map.out(a - b);
  if (is_integer) return map.out(a + b * static_cast<std::int64_t>(alpha));
  map.out(step(ScalarOp::kFma, {map.literal(static_cast<float>(alpha)), to_float(b), to_float(a)}));
}

Expression truth(const Expression& a) {
  if (a.type == NumberType::kFloat) return compare(ScalarOp::kNe, a, 0.0F);
  return compare(ScalarOp::kNe, a, std::int64_t{0});
}

void add(Call& call) {
  const Pieces *first = call.pieces("self"), *second = call.pieces("other");
  if (first && second && call.number("alpha", 1) == 1) {
    if (auto sum = sum_of_disjoint(*first, *second); sum && sum->pieces[0].form.shape == call.result_shape())
      return call.give_pieces(*std::move(sum));
  }
  scaled_add(call, call.number_or_tensor("self"), call.number_or_tensor("other"), call.number("alpha", 1));
}
void sub(Call& call) {
  scaled_add(call, call.number_or_tensor("self"), call.number_or_tensor("other"), -call.number("alpha", 1));
}
void rsub(Call& call) {
  scaled_add(call, call.number_or_tensor("other"), call.number_or_tensor("self"), -call.number("alpha", 1));
}

void mul(Call& call) {
  const TensorForm self = call.number_or_tensor("self"), other = call.number_or_tensor("other");
  if (splat_number(other) == 1 && give_unchanged(call, self)) return;
  if (splat_number(self) == 1 && give_unchanged(call, other)) return;
  if (!call.result_is_boolean() && !is_number(call)) return;
  Pointwise map(call);
  map.out(map.read(self, "self") * map.read(other, "other"));
}

void reciprocal(Call& call) {
  Pointwise map(call);
  map.out(1.0F / map.in("self"));
}

void neg(Call& call) {
  if (!is_number(call)) return;
  Pointwise map(call);
  map.out(-map.in("self"));
}

void abs(Call& call) {
  Pointwise map(call);
  map.out(abs(map.in("self")));
}

void exp(Call& call) { unary(call, ScalarOp::kExp); }
void expm1(Call& call) { unary(call, ScalarOp::kExpm1); }
void log(Call& call) { unary(call, ScalarOp::kLog); }
void log1p(Call& call) { unary(call, ScalarOp::kLog1p); }
void sqrt(Call& call) { unary(call, ScalarOp::kSqrt); }
void sin(Call& call) { unary(call, ScalarOp::kSin); }
void cos(Call& call) { unary(call, ScalarOp::kCos); }
void erf(Call& call) { unary(call, ScalarOp::kErf); }
void floor(Call& call) { rounding(call, ScalarOp::kFloor); }
void trunc(Call& call) { rounding(call, ScalarOp::kTrunc); }

void round(Call& call) {
  call.require(call.integer("decimals", 0) == 0, "rounding to decimals");
  rounding(call, ScalarOp::kRint);
}

void rsqrt(Call& call) {
  Pointwise map(call);
  map.out(1.0F / sqrt(map.in("self")));
}

void square(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  map.out(x * x);
}

void addcmul(Call& call) {
  Pointwise map(call);
  const Expression product = map.in("tensor1") * map.in("tensor2");
  const double value = call.number("value", 1);
  map.out(value == 1 ? fma(map.in("tensor1"), map.in("tensor2"), map.in("self"))
                     : fma(static_cast<float>(value), product, map.in("self")));
}

void addcdiv(Call& call) {
  Pointwise map(call);
  map.out(fma(map.number("value", 1), map.in("tensor1") / map.in("tensor2"), map.in("self")));
}

void lerp(Call& call) {
  Pointwise map(call);
  const Expression start = map.in("self");
  map.out(fma(map.any("weight"), map.in("end") - start, start));
}

void clamp(Call& call) {
  Pointwise map(call);
  Expression x = map.in("self");
  if (call.given("min")) x = max(x, map.any("min"));
  if (call.given("max")) x = min(x, map.any("max"));
  map.out(x);
}

void eq(Call& call) { comparison(call, ScalarOp::kEq); }
void ne(Call& call) { comparison(call, ScalarOp::kNe); }
void lt(Call& call) { comparison(call, ScalarOp::kLt); }
void le(Call& call) { comparison(call, ScalarOp::kLe); }
void gt(Call& call) { comparison(call, ScalarOp::kGt); }
void ge(Call& call) { comparison(call, ScalarOp::kGe); }

void logical_and(Call& call) {
  Pointwise map(call);
  map.out(step(ScalarOp::kAnd, {truth(map.any("self")), truth(map.any("other"))}));
}

void logical_or(Call& call) {
  Pointwise map(call);
  map.out(step(ScalarOp::kOr, {truth(map.any("self")), truth(map.any("other"))}));
}

void logical_not(Call& call) {
  Pointwise map(call);
  map.out(step(ScalarOp::kNot, {truth(map.in("self"))}));
}

void logical_xor(Call& call) {
  Pointwise map(call);
  map.out(compare(ScalarOp::kNe, truth(map.any("self")), truth(map.any("other"))));
}

/// Bitwise ops on torch.bool, whose bits are 0 and 1; numbers are refused.
void bitwise(Call& call, void (*logical)(Call&)) {
  if (call.require(call.result_is_boolean(), "bitwise operations on integers")) logical(call);
}

void bitwise_and(Call& call) { bitwise(call, &logical_and); }
void bitwise_or(Call& call) { bitwise(call, &logical_or); }
void bitwise_xor(Call& call) { bitwise(call, &logical_xor); }
void bitwise_not(Call& call) { bitwise(call, &logical_not); }

void where(Call& call) {
  if (!call.require(call.given("self") && call.given("other"), "the form that lists indices")) return;
  Pointwise map(call);
  map.out(select(truth(map.in("condition")), map.any("self"), map.any("other")));
}

void masked_fill(Call& call) {
  Pointwise map(call);
  map.out(select(truth(map.in("mask")), map.any("value"), map.in("self")));
}

void sign(Call& call) {
  Pointwise map(call);
  const Expression x = map.in("self");
  const Expression zero = x.type == NumberType::kFloat ? Expression(0.0F) : Expression(std::int64_t{0});
  const Expression above = compare(ScalarOp::kGt, x, zero), below = compare(ScalarOp::kLt, x, zero);
  map.out(x.type == NumberType::kFloat ? to_float(above) - to_float(below) : above - below);
}

/// One scalar expression per element.
constexpr LoweringRow kRows[] = {
    {"add", &add},
    {"sub", &sub},
    {"rsub", &rsub},
    {"mul", &mul},
    {"reciprocal", &reciprocal},
    {"neg", &neg},
    {"abs", &abs},
    {"exp", &exp},
    {"expm1", &expm1},
    {"log", &log},
    {"log1p", &log1p},
    {"sqrt", &sqrt},
    {"rsqrt", &rsqrt},
    {"sin", &sin},
    {"cos", &cos},
    {"erf", &erf},
    {"floor", &floor},
    {"trunc", &trunc},
    {"round", &round},
    {"square", &square},
    {"addcmul", &addcmul},
    {"addcdiv", &addcdiv},
    {"lerp", &lerp},
    {"clamp clamp_min clamp_max", &clamp},
    {"sign sgn", &sign},
    {"eq", &eq},
    {"ne", &ne},
    {"lt", &lt},
    {"le", &le},
    {"gt", &gt},
    {"ge", &ge},
    {"logical_and", &logical_and},
    {"logical_or", &logical_or},
    {"logical_not", &logical_not},
    {"logical_xor", &logical_xor},
    {"bitwise_and __and__", &bitwise_and},
    {"bitwise_or __or__", &bitwise_or},
    {"bitwise_xor __xor__", &bitwise_xor},
    {"bitwise_not", &bitwise_not},
    {"where", &where},
    {"masked_fill", &masked_fill},
};

}  // namespace

const std::span<const LoweringRow> kArithmeticRows = kRows;

}  // namespace dgx::lowering
