#include <algorithm>
#include <cmath>
#include <cstring>

#include "dgx/kernels/scalar.h"
#include "strip_table.h"

// Strip instructions in plain C++: the scalar set, and what the other sets have no vector form for.

namespace dgx::kernels::cpu {
namespace {

using Mask = std::int32_t;  // 0 or -1
using Integer = std::int64_t;

// Each operation's formula for one element, named as in StripOp. Its signature gives the types in memory.
constexpr Mask mask(bool holds) { return holds ? -1 : 0; }
constexpr auto kAddF = [](float x, float y) { return x + y; };
constexpr auto kSubF = [](float x, float y) { return x - y; };
constexpr auto kMulF = [](float x, float y) { return x * y; };
constexpr auto kDivF = [](float x, float y) { return x / y; };
constexpr auto kMaxF = [](float x, float y) { return max_of(x, y); };
constexpr auto kMinF = [](float x, float y) { return min_of(x, y); };
constexpr auto kFmaF = [](float x, float y, float z) { return std::fma(x, y, z); };
constexpr auto kSqrtF = [](float x) { return std::sqrt(x); };
constexpr auto kNegF = [](float x) { return -x; };
constexpr auto kAbsF = [](float x) { return std::fabs(x); };
constexpr auto kFloorF = [](float x) { return std::floor(x); };
constexpr auto kTruncF = [](float x) { return std::trunc(x); };
constexpr auto kRintF = [](float x) { return std::nearbyint(x); };
constexpr auto kExpF = [](float x) { return exp_f32(x); };
constexpr auto kExpm1F = [](float x) { return expm1_f32(x); };
constexpr auto kLogF = [](float x) { return log_f32(x); };
constexpr auto kLog1pF = [](float x) { return log1p_f32(x); };
constexpr auto kSinF = [](float x) { return sin_f32(x); };
constexpr auto kCosF = [](float x) { return cos_f32(x); };
constexpr auto kTanhF = [](float x) { return tanh_f32(x); };
constexpr auto kErfF = [](float x) { return erf_f32(x); };
constexpr auto kEqF = [](float x, float y) { return mask(x == y); };
constexpr auto kNeF = [](float x, float y) { return mask(x != y); };
constexpr auto kLtF = [](float x, float y) { return mask(x < y); };
constexpr auto kLeF = [](float x, float y) { return mask(x <= y); };
constexpr auto kGtF = [](float x, float y) { return mask(x > y); };
constexpr auto kGeF = [](float x, float y) { return mask(x >= y); };
constexpr auto kSelectF = [](Mask m, float x, float y) { return m != 0 ? x : y; };
constexpr auto kAddI = [](Integer x, Integer y) { return wrapping_add(x, y); };
constexpr auto kSubI = [](Integer x, Integer y) { return wrapping_sub(x, y); };
constexpr auto kMulI = [](Integer x, Integer y) { return wrapping_mul(x, y); };
constexpr auto kNegI = [](Integer x) { return wrapping_sub(0, x); };
constexpr auto kAbsI = [](Integer x) { return x < 0 ? wrapping_sub(0, x) : x; };
constexpr auto kMaxI = [](Integer x, Integer y) { return max_of(x, y); };
constexpr auto kMinI = [](Integer x, Integer y) { return min_of(x, y); };
constexpr auto kIdivI = [](Integer x, Integer y) { return floor_div(x, y); };
constexpr auto kImodI = [](Integer x, Integer y) { return floor_mod(x, y); };
constexpr auto kEqI = [](Integer x, Integer y) { return mask(x == y); };
constexpr auto kNeI = [](Integer x, Integer y) { return mask(x != y); };
constexpr auto kLtI = [](Integer x, Integer y) { return mask(x < y); };
constexpr auto kLeI = [](Integer x, Integer y) { return mask(x <= y); };
constexpr auto kGtI = [](Integer x, Integer y) { return mask(x > y); };
constexpr auto kGeI = [](Integer x, Integer y) { return mask(x >= y); };
constexpr auto kSelectI = [](Mask m, Integer x, Integer y) { return m != 0 ? x : y; };
constexpr auto kSelectM = [](Mask m, Mask x, Mask y) { return m != 0 ? x : y; };
constexpr auto kAndM = [](Mask x, Mask y) { return x & y; };
constexpr auto kOrM = [](Mask x, Mask y) { return x | y; };
constexpr auto kNotM = [](Mask x) { return ~x; };
constexpr auto kFloatOfInteger = [](Integer x) { return static_cast<float>(x); };
constexpr auto kIntegerOfFloat = [](float x) { return to_i64(x); };
constexpr auto kByteOfInteger = [](Integer x) { return to_u8(x); };
constexpr auto kIntegerOfMask = [](Mask x) { return -static_cast<Integer>(x); };
constexpr auto kMaskOfInteger = [](Integer x) { return mask(x != 0); };
constexpr auto kIntegerOfByte = [](std::uint8_t x) { return Integer{x}; };
constexpr auto kFloatOfByte = [](std::uint8_t x) { return static_cast<float>(x); };
constexpr auto kStoreByte = [](Integer x) { return static_cast<std::uint8_t>(x); };

// The strip form of a formula: one loop over the elements.
template <class Formula, class Out, class A>
constexpr StripFunction strip_form(Out (Formula::*)(A) const) {
  return [](void* out, const void* a, const void*, const void*, std::int64_t count) {
    auto* to = static_cast<Out*>(out);
    const auto* x = static_cast<const A*>(a);
    for (std::int64_t i = 0; i < count; ++i) to[i] = Formula{}(x[i]);
  };
}
template <class Formula, class Out, class A, class B>
constexpr StripFunction strip_form(Out (Formula::*)(A, B) const) {
  return [](void* out, const void* a, const void* b, const void*, std::int64_t count) {
    auto* to = static_cast<Out*>(out);
    const auto* x = static_cast<const A*>(a);
    const auto* y = static_cast<const B*>(b);
    for (std::int64_t i = 0; i < count; ++i) to[i] = Formula{}(x[i], y[i]);
  };
}
template <class Formula, class Out, class A, class B, class C>
constexpr StripFunction strip_form(Out (Formula::*)(A, B, C) const) {
  return [](void* out, const void* a, const void* b, const void* c, std::int64_t count) {
    auto* to = static_cast<Out*>(out);
    const auto* x = static_cast<const A*>(a);
    const auto* y = static_cast<const B*>(b);
    const auto* z = static_cast<const C*>(c);
    for (std::int64_t i = 0; i < count; ++i) to[i] = Formula{}(x[i], y[i], z[i]);
  };
}
template <class Formula>
constexpr StripFunction strip_form(Formula) {
  return strip_form(&Formula::operator());
}

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

constexpr StripTable table() {
  StripTable table;
#define DGX_SET(name, type) table[StripOp::k##name##type] = strip_form(k##name##type);
  DGX_STRIP_SCALAR_OPS(DGX_SET)
  DGX_STRIP_CONVERSIONS(DGX_SET)
#undef DGX_SET
  table[StripOp::kCopyF] = copy<float>;
  table[StripOp::kCopyI] = copy<Integer>;
  table[StripOp::kCheckFinite] = check_finite;
  table.chain = run_chain;
  return table;
}

}  // namespace

const StripTable& scalar_strip_table() {
  static constexpr StripTable kTable = table();
  return kTable;
}

}  // namespace dgx::kernels::cpu
