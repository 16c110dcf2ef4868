#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "dgx/kernels/scalar.h"
#include "strip_table.h"

// Strip instructions in plain C++: the scalar set, and what the other sets have no vector form for.

namespace dgx::kernels::cpu {
namespace {

using Mask = std::int32_t;  // 0 or -1
using Integer = std::int64_t;

template <class Out, class In, auto Function>
void unary(void* out, const void* a, const void*, const void*, std::int64_t count) {
  auto* to = static_cast<Out*>(out);
  const auto* x = static_cast<const In*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = Function(x[i]);
}

template <class Out, class In, auto Function>
void binary(void* out, const void* a, const void* b, const void*, std::int64_t count) {
  auto* to = static_cast<Out*>(out);
  const auto* x = static_cast<const In*>(a);
  const auto* y = static_cast<const In*>(b);
  for (std::int64_t i = 0; i < count; ++i) to[i] = Function(x[i], y[i]);
}

template <class In, class Compare>
void compare(void* out, const void* a, const void* b, const void*, std::int64_t count) {
  auto* to = static_cast<Mask*>(out);
  const auto* x = static_cast<const In*>(a);
  const auto* y = static_cast<const In*>(b);
  for (std::int64_t i = 0; i < count; ++i) to[i] = Compare{}(x[i], y[i]) ? -1 : 0;
}

template <class T>
void select(void* out, const void* mask, const void* a, const void* b, std::int64_t count) {
  auto* to = static_cast<T*>(out);
  const auto* m = static_cast<const Mask*>(mask);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  for (std::int64_t i = 0; i < count; ++i) to[i] = m[i] != 0 ? x[i] : y[i];
}

void fma_float(void* out, const void* a, const void* b, const void* c, std::int64_t count) {
  auto* to = static_cast<float*>(out);
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  const auto* z = static_cast<const float*>(c);
  for (std::int64_t i = 0; i < count; ++i) to[i] = std::fma(x[i], y[i], z[i]);
}

Mask and_m(Mask a, Mask b) { return a & b; }
Mask or_m(Mask a, Mask b) { return a | b; }
Mask not_m(Mask a) { return ~a; }
float float_of_integer(Integer a) { return static_cast<float>(a); }
Integer byte_of_integer(Integer a) { return to_u8(a); }
Integer integer_of_mask(Mask a) { return -static_cast<Integer>(a); }
Mask mask_of_integer(Integer a) { return a != 0 ? -1 : 0; }
Integer integer_of_byte(std::uint8_t a) { return Integer{a}; }
float float_of_byte(std::uint8_t a) { return static_cast<float>(a); }
std::uint8_t store_byte(Integer a) { return static_cast<std::uint8_t>(a); }
float add_f(float a, float b) { return a + b; }
float sub_f(float a, float b) { return a - b; }
float mul_f(float a, float b) { return a * b; }
float div_f(float a, float b) { return a / b; }
float sqrt_f(float a) { return std::sqrt(a); }
float neg_f(float a) { return -a; }
float abs_f(float a) { return std::fabs(a); }
float floor_f(float a) { return std::floor(a); }
float trunc_f(float a) { return std::trunc(a); }
float rint_f(float a) { return std::nearbyint(a); }
Integer negate(Integer a) { return wrapping_sub(0, a); }
Integer magnitude(Integer a) { return a < 0 ? negate(a) : a; }

void check_finite(void* out, const void* a, const void*, const void*, std::int64_t count) {
  std::uint32_t bad = 0;
  const auto* x = static_cast<const std::uint32_t*>(a);
  for (std::int64_t i = 0; i < count; ++i) bad |= (x[i] & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  *static_cast<std::uint32_t*>(out) |= bad;
}

template <class T>
void copy(void* out, const void* a, const void*, const void*, std::int64_t count) {
  if (out != a) std::memmove(out, a, static_cast<std::size_t>(count) * sizeof(T));
}

StripFunction& at(StripTable& table, StripOp op) { return table[op]; }

void add_integers(StripTable& t) {
  at(t, StripOp::kAddI) = binary<Integer, Integer, wrapping_add>;
  at(t, StripOp::kSubI) = binary<Integer, Integer, wrapping_sub>;
  at(t, StripOp::kMulI) = binary<Integer, Integer, wrapping_mul>;
  at(t, StripOp::kNegI) = unary<Integer, Integer, negate>;
  at(t, StripOp::kAbsI) = unary<Integer, Integer, magnitude>;
  at(t, StripOp::kMaxI) = binary<Integer, Integer, max_of<Integer>>;
  at(t, StripOp::kMinI) = binary<Integer, Integer, min_of<Integer>>;
  at(t, StripOp::kIdivI) = binary<Integer, Integer, floor_div>;
  at(t, StripOp::kImodI) = binary<Integer, Integer, floor_mod>;
  at(t, StripOp::kEqI) = compare<Integer, std::equal_to<>>;
  at(t, StripOp::kNeI) = compare<Integer, std::not_equal_to<>>;
  at(t, StripOp::kLtI) = compare<Integer, std::less<>>;
  at(t, StripOp::kLeI) = compare<Integer, std::less_equal<>>;
  at(t, StripOp::kGtI) = compare<Integer, std::greater<>>;
  at(t, StripOp::kGeI) = compare<Integer, std::greater_equal<>>;
  at(t, StripOp::kSelectI) = select<Integer>;
}

void add_masks_and_conversions(StripTable& t) {
  at(t, StripOp::kSelectM) = select<Mask>;
  at(t, StripOp::kAndM) = binary<Mask, Mask, and_m>;
  at(t, StripOp::kOrM) = binary<Mask, Mask, or_m>;
  at(t, StripOp::kNotM) = unary<Mask, Mask, not_m>;
  at(t, StripOp::kFloatOfInteger) = unary<float, Integer, float_of_integer>;
  at(t, StripOp::kIntegerOfFloat) = unary<Integer, float, to_i64>;
  at(t, StripOp::kByteOfInteger) = unary<Integer, Integer, byte_of_integer>;
  at(t, StripOp::kIntegerOfMask) = unary<Integer, Mask, integer_of_mask>;
  at(t, StripOp::kMaskOfInteger) = unary<Mask, Integer, mask_of_integer>;
  at(t, StripOp::kIntegerOfByte) = unary<Integer, std::uint8_t, integer_of_byte>;
  at(t, StripOp::kFloatOfByte) = unary<float, std::uint8_t, float_of_byte>;
  at(t, StripOp::kStoreByte) = unary<std::uint8_t, Integer, store_byte>;
  at(t, StripOp::kCopyF) = copy<float>;
  at(t, StripOp::kCopyI) = copy<Integer>;
  at(t, StripOp::kCheckFinite) = check_finite;
}

void add_float_arithmetic(StripTable& t) {
  at(t, StripOp::kAddF) = binary<float, float, add_f>;
  at(t, StripOp::kSubF) = binary<float, float, sub_f>;
  at(t, StripOp::kMulF) = binary<float, float, mul_f>;
  at(t, StripOp::kDivF) = binary<float, float, div_f>;
  at(t, StripOp::kMaxF) = binary<float, float, max_of<float>>;
  at(t, StripOp::kMinF) = binary<float, float, min_of<float>>;
  at(t, StripOp::kFmaF) = fma_float;
  at(t, StripOp::kSqrtF) = unary<float, float, sqrt_f>;
  at(t, StripOp::kNegF) = unary<float, float, neg_f>;
  at(t, StripOp::kAbsF) = unary<float, float, abs_f>;
  at(t, StripOp::kFloorF) = unary<float, float, floor_f>;
  at(t, StripOp::kTruncF) = unary<float, float, trunc_f>;
  at(t, StripOp::kRintF) = unary<float, float, rint_f>;
  at(t, StripOp::kEqF) = compare<float, std::equal_to<>>;
  at(t, StripOp::kNeF) = compare<float, std::not_equal_to<>>;
  at(t, StripOp::kLtF) = compare<float, std::less<>>;
  at(t, StripOp::kLeF) = compare<float, std::less_equal<>>;
  at(t, StripOp::kGtF) = compare<float, std::greater<>>;
  at(t, StripOp::kGeF) = compare<float, std::greater_equal<>>;
  at(t, StripOp::kSelectF) = select<float>;
}

void add_functions(StripTable& t) {
  at(t, StripOp::kExpF) = unary<float, float, exp_f32>;
  at(t, StripOp::kExpm1F) = unary<float, float, expm1_f32>;
  at(t, StripOp::kLogF) = unary<float, float, log_f32>;
  at(t, StripOp::kLog1pF) = unary<float, float, log1p_f32>;
  at(t, StripOp::kSinF) = unary<float, float, sin_f32>;
  at(t, StripOp::kCosF) = unary<float, float, cos_f32>;
  at(t, StripOp::kTanhF) = unary<float, float, tanh_f32>;
  at(t, StripOp::kErfF) = unary<float, float, erf_f32>;
}

template <class T>
const void* repeat(T* to, const void* first, std::int64_t count) {
  std::fill_n(to, count, *static_cast<const T*>(first));
  return to;
}

/// Runs a chain's instructions one after the other, through memory.
void run_chain(const StripInstruction* first, std::int64_t instructions, void* const* registers,
               std::int64_t count) {
  float numbers[3][kStripLength];
  Integer integers[2][kStripLength];
  for (const StripInstruction* i = first; i != first + instructions; ++i) {
    const void* in[3];
    for (int n = 0; n < 3; ++n) {
      in[n] = registers[i->in[n]];
      if ((i->uniform >> n & 1) == 0) continue;
      const bool compares = i->op >= StripOp::kEqI && i->op <= StripOp::kGeI && n < 2;
      in[n] = compares ? repeat(integers[n], in[n], count) : repeat(numbers[n], in[n], count);
    }
    scalar_strip_table()[i->op](registers[i->out], in[0], in[1], in[2], count);
  }
}

}  // namespace

StripTable plain_strip_table() {
  StripTable table{};
  add_integers(table);
  add_masks_and_conversions(table);
  add_float_arithmetic(table);
  add_functions(table);
  return table;
}

const StripTable& scalar_strip_table() {
  static const StripTable table = [] {
    StripTable scalar = plain_strip_table();
    scalar.chain = run_chain;
    return scalar;
  }();
  return table;
}

}  // namespace dgx::kernels::cpu
