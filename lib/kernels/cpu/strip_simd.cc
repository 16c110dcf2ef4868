// Strip instructions on vectors, for every instruction set that has them.
#include <cstdint>

#include "strip_table.h"

#define HWY_TARGET_INCLUDE "strip_simd.cc"
#include "instruction_sets.h"

#include <hwy/highway.h>

#include "functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dgx::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;
using U = hn::RebindToUnsigned<F>;

// Loads and stores the last, partial vector without touching memory beyond `count`.
HWY_INLINE V load_some(F f, const float* from, std::int64_t count) {
#if HWY_ARCH_X86
  return hn::MaskedLoad(hn::FirstN(f, static_cast<std::size_t>(count)), f, from);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(F{})] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(f, lanes);
#endif
}
HWY_INLINE void store_some(F f, V value, float* to, std::int64_t count) {
#if HWY_ARCH_X86
  hn::BlendedStore(value, hn::FirstN(f, static_cast<std::size_t>(count)), f, to);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(F{})];
  hn::Store(value, f, lanes);
  for (std::int64_t i = 0; i < count; ++i) to[i] = lanes[i];
#endif
}

// A strip operation of one, two or three float operands; masks travel as float lanes of all ones or all
// zeros.
template <class Function>
void strip1(void* out, const void* a, const void*, const void*, std::int64_t count) {
  const F f;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(f));
  auto* to = static_cast<float*>(out);
  const auto* x = static_cast<const float*>(a);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(Function{}(f, hn::LoadU(f, x + i)), f, to + i);
  if (i < count) store_some(f, Function{}(f, load_some(f, x + i, count - i)), to + i, count - i);
}

template <class Function>
void strip2(void* out, const void* a, const void* b, const void*, std::int64_t count) {
  const F f;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(f));
  auto* to = static_cast<float*>(out);
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(Function{}(f, hn::LoadU(f, x + i), hn::LoadU(f, y + i)), f, to + i);
  }
  if (i < count) {
    const std::int64_t rest = count - i;
    store_some(f, Function{}(f, load_some(f, x + i, rest), load_some(f, y + i, rest)), to + i, rest);
  }
}

template <class Function>
void strip3(void* out, const void* a, const void* b, const void* c, std::int64_t count) {
  const F f;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(f));
  auto* to = static_cast<float*>(out);
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  const auto* z = static_cast<const float*>(c);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(Function{}(f, hn::LoadU(f, x + i), hn::LoadU(f, y + i), hn::LoadU(f, z + i)), f, to + i);
  }
  if (i < count) {
    const std::int64_t rest = count - i;
    const V value =
        Function{}(f, load_some(f, x + i, rest), load_some(f, y + i, rest), load_some(f, z + i, rest));
    store_some(f, value, to + i, rest);
  }
}

#define DGX_STRIP1(name, expression)          \
  struct name {                               \
    HWY_INLINE V operator()(F f, V x) const { \
      (void)f;                                \
      return expression;                      \
    }                                         \
  }
#define DGX_STRIP2(name, expression)               \
  struct name {                                    \
    HWY_INLINE V operator()(F f, V x, V y) const { \
      (void)f;                                     \
      return expression;                           \
    }                                              \
  }
DGX_STRIP2(AddF, hn::Add(x, y));
DGX_STRIP2(SubF, hn::Sub(x, y));
DGX_STRIP2(MulF, hn::Mul(x, y));
DGX_STRIP2(DivF, hn::Div(x, y));
DGX_STRIP2(MaxF, hn::IfThenElse(hn::Gt(x, y), x, y));
DGX_STRIP2(MinF, hn::IfThenElse(hn::Lt(x, y), x, y));
DGX_STRIP2(EqF, hn::VecFromMask(f, hn::Eq(x, y)));
DGX_STRIP2(NeF, hn::Not(hn::VecFromMask(f, hn::Eq(x, y))));  // Ne is false for NaNs on some targets
DGX_STRIP2(LtF, hn::VecFromMask(f, hn::Lt(x, y)));
DGX_STRIP2(LeF, hn::VecFromMask(f, hn::Le(x, y)));
DGX_STRIP2(GtF, hn::VecFromMask(f, hn::Gt(x, y)));
DGX_STRIP2(GeF, hn::VecFromMask(f, hn::Ge(x, y)));
DGX_STRIP2(AndM, hn::And(x, y));
DGX_STRIP2(OrM, hn::Or(x, y));
DGX_STRIP1(NotM, hn::Not(x));
DGX_STRIP1(SqrtF, hn::Sqrt(x));
DGX_STRIP1(NegF, hn::Xor(x, hn::SignBit(f)));
DGX_STRIP1(AbsF, hn::AndNot(hn::SignBit(f), x));
DGX_STRIP1(FloorF, hn::Floor(x));
DGX_STRIP1(TruncF, hn::Trunc(x));
DGX_STRIP1(RintF, hn::Round(x));
#define DGX_FUNCTION(name, type) DGX_STRIP1(name##type, kernels::HWY_NAMESPACE::name(f, x));
DGX_STRIP_FUNCTIONS(DGX_FUNCTION)
#undef DGX_FUNCTION
#undef DGX_STRIP1
#undef DGX_STRIP2

// Twice the magnitude bits, less one: below kSubnormals for subnormal numbers alone, as ±0 wraps to the
// largest number.
HWY_INLINE hn::Vec<U> from_one(U u, hn::Vec<U> bits) {
  return hn::Sub(hn::ShiftLeft<1>(bits), hn::Set(u, 1));
}
inline constexpr std::uint32_t kSubnormals = 0x00ffffffu;
HWY_INLINE hn::Mask<U> is_subnormal(U u, hn::Vec<U> bits) {
  return hn::Lt(from_one(u, bits), hn::Set(u, kSubnormals));
}

// fma where x or y is subnormal, which costs processors a hundred cycles or more. The momentum of a unit that
// no longer fires stays subnormal for ever, so two cases are computed in another way that gives the same
// bits: z is so much larger that the product cannot change it; or z is 0, where the product of k · 2^-149 and
// |y| ≤ 1 is k · |y|, rounded to an integer, times 2^-149.
HWY_INLINE V fma_of_subnormals(F f, V a, V b, V z) {
  const U u;
  const hn::RebindToSigned<F> i;
  const auto first = hn::RebindMask(f, is_subnormal(u, hn::BitCast(u, a)));
  const V x = hn::IfThenElse(first, a, b);
  const V y = hn::IfThenElse(first, b, a);
  const auto x_bits = hn::BitCast(u, x);
  const auto magnitude = hn::Set(u, 0x7fffffffu);
  const auto y_size = hn::And(hn::BitCast(u, y), magnitude);
  const auto z_size = hn::And(hn::BitCast(u, z), magnitude);
  const auto tiny = is_subnormal(u, x_bits);
  const auto between = [u](auto size, std::uint32_t least, std::uint32_t most) HWY_ATTR {
    return hn::AndNot(hn::Lt(size, hn::Set(u, least)), hn::Lt(size, hn::Set(u, most + 1)));
  };
  // 2^-60 ≤ |z| < infinity and |y| ≤ 2^30: |x y| < 2^-96, below a quarter of z's last place.
  const auto adds_nothing =
      hn::And(tiny, hn::And(between(z_size, 0x21800000u, 0x7f7fffffu), between(y_size, 0, 0x4e800000u)));
  const auto scales =
      hn::And(tiny, hn::And(hn::Eq(z_size, hn::Zero(u)), between(y_size, 0x21800000u, 0x3f800000u)));

  const V k = hn::ConvertTo(f, hn::BitCast(i, hn::And(x_bits, hn::Set(u, 0x007fffffu))));
  const V y_abs = hn::BitCast(f, y_size);
  const V high = hn::Mul(k, y_abs);
  const V low = hn::MulSub(k, y_abs, high);  // exact: high + low = k |y|
  // Below 2^23 every half integer is a float, so `low` decides only where `high` is a half integer.
  const V floor = hn::Floor(high);
  const auto half = hn::Eq(hn::Sub(high, floor), hn::Set(f, 0.5F));
  const V towards_low = hn::IfThenElse(hn::Gt(low, hn::Zero(f)), hn::Add(floor, hn::Set(f, 1.0F)), floor);
  const auto decides = hn::And(half, hn::Ne(low, hn::Zero(f)));
  const V rounded = hn::IfThenElse(decides, towards_low, hn::Round(high));
  const auto sign = hn::And(hn::Xor(x_bits, hn::BitCast(u, y)), hn::Set(u, 0x80000000u));
  const V product = hn::BitCast(f, hn::Or(hn::BitCast(u, hn::ConvertTo(i, rounded)), sign));

  const V plain = hn::MulAdd(hn::IfThenZeroElse(hn::RebindMask(f, hn::Or(adds_nothing, scales)), x), y, z);
  return hn::IfThenElse(hn::RebindMask(f, scales), product, plain);
}

struct FmaF {
  HWY_INLINE V operator()(F f, V x, V y, V z) const {
    const U u;
    const auto tiny = hn::Or(is_subnormal(u, hn::BitCast(u, x)), is_subnormal(u, hn::BitCast(u, y)));
    if (HWY_UNLIKELY(!hn::AllFalse(u, tiny))) return fma_of_subnormals(f, x, y, z);
    return hn::MulAdd(x, y, z);
  }
};
struct SelectF {
  HWY_INLINE V operator()(F, V mask, V x, V y) const { return hn::IfThenElse(hn::MaskFromVec(mask), x, y); }
};

inline void float_of_byte(void* out, const void* a, const void*, const void*, std::int64_t count) {
  const F f;
  const hn::Rebind<std::int32_t, F> integers;
  const hn::Rebind<std::uint8_t, F> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(f));
  auto* to = static_cast<float*>(out);
  const auto* x = static_cast<const std::uint8_t*>(a);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::ConvertTo(f, hn::PromoteTo(integers, hn::LoadU(bytes, x + i))), f, to + i);
  }
  for (; i < count; ++i) to[i] = static_cast<float>(x[i]);
}

inline void check_finite(void* out, const void* a, const void*, const void*, std::int64_t count) {
  const F f;
  const U u;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(f));
  const auto* x = static_cast<const float*>(a);
  const auto exponent = hn::Set(u, 0x7f800000u);
  auto largest = hn::Zero(u);  // of the exponent fields: all ones only in infinities and NaNs
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(u, hn::LoadU(f, x + i)), exponent));
  }
  if (i < count)
    largest = hn::Max(largest, hn::And(hn::BitCast(u, load_some(f, x + i, count - i)), exponent));
  if (!hn::AllFalse(u, hn::Eq(largest, exponent))) *static_cast<std::uint32_t*>(out) = 1;
}

// Integers are 64 bits wide, masks 32: a vector of integers goes with half a vector of masks. The rest at the
// end of a strip is computed number by number.
using I = hn::ScalableTag<std::int64_t>;
using HalfMask = hn::Rebind<std::int32_t, I>;

HWY_INLINE hn::Vec<HalfMask> mask_of(I i, hn::Mask<I> mask) {
  const hn::RebindToUnsigned<I> wide;
  const hn::RebindToUnsigned<HalfMask> narrow;
  return hn::BitCast(HalfMask{}, hn::TruncateTo(narrow, hn::BitCast(wide, hn::VecFromMask(i, mask))));
}
HWY_INLINE hn::Mask<I> wide_mask(I i, const std::int32_t* from) {
  return hn::MaskFromVec(hn::PromoteTo(i, hn::LoadU(HalfMask{}, from)));
}

#define DGX_COMPARE(name, vectors, numbers)                                                 \
  struct name {                                                                             \
    HWY_INLINE hn::Mask<I> operator()(hn::Vec<I> x, hn::Vec<I> y) const { return vectors; } \
    HWY_INLINE bool operator()(std::int64_t x, std::int64_t y) const { return numbers; }    \
  }
DGX_COMPARE(EqI, hn::Eq(x, y), x == y);
DGX_COMPARE(NeI, hn::Not(hn::Eq(x, y)), x != y);
DGX_COMPARE(LtI, hn::Lt(x, y), x < y);
DGX_COMPARE(LeI, hn::Not(hn::Gt(x, y)), x <= y);
DGX_COMPARE(GtI, hn::Gt(x, y), x > y);
DGX_COMPARE(GeI, hn::Not(hn::Lt(x, y)), x >= y);
#undef DGX_COMPARE

template <class Compare>
void compare_integers(void* out, const void* a, const void* b, const void*, std::int64_t count) {
  const I integers;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(integers));
  auto* to = static_cast<std::int32_t*>(out);
  const auto* x = static_cast<const std::int64_t*>(a);
  const auto* y = static_cast<const std::int64_t*>(b);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto holds = Compare{}(hn::LoadU(integers, x + i), hn::LoadU(integers, y + i));
    hn::StoreU(mask_of(integers, holds), HalfMask{}, to + i);
  }
  for (; i < count; ++i) to[i] = Compare{}(x[i], y[i]) ? -1 : 0;
}

inline void mask_of_integer(void* out, const void* a, const void*, const void*, std::int64_t count) {
  const I integers;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(integers));
  auto* to = static_cast<std::int32_t*>(out);
  const auto* x = static_cast<const std::int64_t*>(a);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto holds = hn::Not(hn::Eq(hn::LoadU(integers, x + i), hn::Zero(integers)));
    hn::StoreU(mask_of(integers, holds), HalfMask{}, to + i);
  }
  for (; i < count; ++i) to[i] = x[i] != 0 ? -1 : 0;
}

inline void select_integers(void* out, const void* mask, const void* a, const void* b, std::int64_t count) {
  const I integers;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(integers));
  auto* to = static_cast<std::int64_t*>(out);
  const auto* m = static_cast<const std::int32_t*>(mask);
  const auto* x = static_cast<const std::int64_t*>(a);
  const auto* y = static_cast<const std::int64_t*>(b);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto chosen =
        hn::IfThenElse(wide_mask(integers, m + i), hn::LoadU(integers, x + i), hn::LoadU(integers, y + i));
    hn::StoreU(chosen, integers, to + i);
  }
  for (; i < count; ++i) to[i] = m[i] != 0 ? x[i] : y[i];
}

inline void integer_of_byte(void* out, const void* a, const void*, const void*, std::int64_t count) {
  const I integers;
  const hn::Rebind<std::uint8_t, I> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(integers));
  auto* to = static_cast<std::int64_t*>(out);
  const auto* x = static_cast<const std::uint8_t*>(a);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::PromoteTo(integers, hn::PromoteTo(HalfMask{}, hn::LoadU(bytes, x + i))), integers, to + i);
  }
  for (; i < count; ++i) to[i] = x[i];
}

#include "strip_chain-inl.h"

const StripTable& strip_table() {
  static const StripTable kTable = [] {
    StripTable table = scalar_strip_table();  // for what has no vector form here
#define DGX_UNARY(name, type) table[StripOp::k##name##type] = strip1<name##type>;
#define DGX_BINARY(name, type) table[StripOp::k##name##type] = strip2<name##type>;
#define DGX_COMPARISON(name, type) table[StripOp::k##name##type] = compare_integers<name##type>;
    DGX_STRIP_UNARY(DGX_UNARY)
    DGX_STRIP_FUNCTIONS(DGX_UNARY)
    DGX_STRIP_BINARY(DGX_BINARY)
    DGX_STRIP_COMPARISONS(DGX_COMPARISON)
#undef DGX_UNARY
#undef DGX_BINARY
#undef DGX_COMPARISON
    table[StripOp::kFmaF] = strip3<FmaF>;
    table[StripOp::kSelectF] = strip3<SelectF>;
    table[StripOp::kSelectM] = strip3<SelectF>;
    table[StripOp::kSelectI] = select_integers;
    table[StripOp::kMaskOfInteger] = mask_of_integer;
    table[StripOp::kIntegerOfByte] = integer_of_byte;
    table[StripOp::kFloatOfByte] = float_of_byte;
    table[StripOp::kCheckFinite] = check_finite;
    table.chain = run_chain;
    return table;
  }();
  return kTable;
}

}  // namespace dgx::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dgx::kernels::cpu {

const StripTable& strip_table_of(InstructionSet set) {
  return DGX_OF_INSTRUCTION_SET(set, strip_table(), scalar_strip_table());
}

}  // namespace dgx::kernels::cpu
#endif
