// The elementary functions on vectors of floats, once for each instruction set. Include it where
// hwy/highway.h may be included, inside or outside foreach_target.h.
//
// Every function gives, in each lane, the bits that dgx/kernels/functions.h gives: both are correctly
// rounded, and the slow test compares them on all 2^32 arguments. The operations are those of
// dgx/kernels/function_formulas.h, which explains them, except for the reduction of angles. Instruction sets
// without fused multiply-add on doubles, or without a fixed vector size, call the scalar functions lane by
// lane.
//
// D is a tag of a whole vector of floats (ScalableTag<float>): with 512 bits the tables of 16 doubles fit two
// registers and a look-up is one permutation.

#if defined(DGX_KERNELS_CPU_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DGX_KERNELS_CPU_FUNCTIONS_INL_H_
#undef DGX_KERNELS_CPU_FUNCTIONS_INL_H_
#else
#define DGX_KERNELS_CPU_FUNCTIONS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

#include "dgx/kernels/function_exceptions.h"
#include "dgx/kernels/function_tables.h"
#include "dgx/kernels/functions.h"
#include "function_rows.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dgx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// `function` of the lanes set in `lanes`; the other lanes are those of `otherwise`.
template <class D, class V>
HWY_NOINLINE V CallScalar(D d, float (*function)(float), V x, hn::Mask<D> lanes, V otherwise) {
  HWY_ALIGN float arguments[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(hn::IfThenElseZero(lanes, x), d, arguments);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) values[i] = function(arguments[i]);
  return hn::IfThenElse(lanes, hn::Load(d, values), otherwise);
}

#if HWY_NATIVE_FMA && HWY_HAVE_FLOAT64 && !HWY_HAVE_SCALABLE

/// Looks up the sixteen doubles at `table` by the low four bits of each lane of `index`.
template <class DD>
HWY_INLINE hn::Vec<DD> Lookup16(DD dd, const double* HWY_RESTRICT table,
                                hn::Vec<hn::RebindToUnsigned<DD>> index) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (hn::MaxLanes(DD()) == 8) {
    return hn::Vec<DD>{
        _mm512_permutex2var_pd(hn::Load(dd, table).raw, index.raw, hn::Load(dd, table + 8).raw)};
  } else  // NOLINT: joined with the next line
#endif
  {
    const hn::RebindToUnsigned<DD> du;
    const hn::RebindToSigned<DD> di;
    return hn::GatherIndex(dd, table, hn::BitCast(di, hn::And(index, hn::Set(du, 15))));
  }
}

template <class VD>
struct Pair {
  VD first;
  VD second;
};

/// True if look-ups of several tables at one index should go through TableRows.
template <class DD>
constexpr bool HasTableRows() {
  return hn::MaxLanes(DD()) == 2 || hn::MaxLanes(DD()) == 4;
}

/// The rows of a table at the low four bits of each lane's index.
template <class DD, std::size_t Width>
class TableRows {
 public:
  HWY_INLINE TableRows(const cpu::FunctionRows<Width>& table, hn::Vec<hn::RebindToUnsigned<DD>> index)
      : table_(table) {
    const hn::RebindToUnsigned<DD> du;
    hn::Store(hn::And(index, hn::Set(du, 15)), du, index_);
  }

  /// Columns k and k + 1; k is even.
  HWY_INLINE Pair<hn::Vec<DD>> Columns(std::size_t k) const {
    const DD dd;
    const auto even = Load(k, 0);
    const auto odd = Load(k, 1);
    return {hn::InterleaveLower(dd, even, odd), hn::InterleaveUpper(dd, even, odd)};
  }

 private:
  /// Columns k and k + 1 of lanes `lane` and, if there are four, lane + 2.
  HWY_INLINE hn::Vec<DD> Load(std::size_t k, std::size_t lane) const {
    const DD dd;
    if constexpr (hn::MaxLanes(DD()) == 4) {
      const hn::Half<DD> dh;
      return hn::Combine(dd, hn::Load(dh, table_.at[index_[lane + 2]] + k),
                         hn::Load(dh, table_.at[index_[lane]] + k));
    } else {
      return hn::Load(dd, table_.at[index_[lane]] + k);
    }
  }

  const cpu::FunctionRows<Width>& table_;
  HWY_ALIGN std::uint64_t index_[hn::MaxLanes(DD())];
};

/// Evaluates `f` in double on every lane and rounds to float.
template <class D, class V, class F>
HWY_INLINE V InDouble(D d, V x, const F& f) {
  const hn::Half<D> dh;
  const hn::RepartitionToWide<D> dd;
  const auto low = f(hn::PromoteTo(dd, hn::LowerHalf(dh, x)));
  const auto high = f(hn::PromoteTo(dd, hn::UpperHalf(dh, x)));
  return hn::Combine(d, hn::DemoteTo(dh, high), hn::DemoteTo(dh, low));
}

template <class D, class V>
HWY_INLINE V CanonicalNan(D d, V x, V value) {
  return hn::IfThenElse(hn::IsNaN(x), hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0x7FC00000U)), value);
}

template <class D, class V>
HWY_INLINE V Clamp(D d, V x, float low, float high) {
  return hn::Min(hn::Max(x, hn::Set(d, low)), hn::Set(d, high));
}

template <class VD>
struct Exponential {
  VD scale;
  VD tail;
  VD shifted;  ///< holds the index of the table entry in its low bits
};

template <class DD, class VD>
HWY_INLINE Exponential<VD> ExponentialOf(DD dd, VD x) {
  const hn::RebindToUnsigned<DD> du;
  const auto c = [&](int i) HWY_ATTR { return hn::Set(dd, kExpPolynomial[i]); };
  const VD shifted = hn::MulAdd(x, hn::Set(dd, kSixteenOverLn2), hn::Set(dd, 0x1.8p52));
  const VD k = hn::Sub(shifted, hn::Set(dd, 0x1.8p52));
  const VD r1 = hn::NegMulAdd(k, hn::Set(dd, kLn2Over16High), x);
  const VD r = hn::NegMulAdd(k, hn::Set(dd, kLn2Over16Low), r1);
  const VD r2 = hn::Mul(r, r);
  const VD a = hn::MulAdd(c(1), r, c(0));
  const VD b = hn::MulAdd(c(3), r, c(2));
  const VD e = hn::MulAdd(c(5), r, c(4));
  const VD q = hn::MulAdd(hn::MulAdd(e, r2, b), r2, a);
  const auto bits = hn::BitCast(du, shifted);
  const auto exponent = hn::ShiftLeft<48>(hn::AndNot(hn::Set(du, 15), bits));
  const auto table = hn::BitCast(du, Lookup16(dd, kExpTable, bits));
  return {hn::BitCast(dd, hn::Add(table, exponent)), hn::MulAdd(q, r2, r), shifted};
}

/// The relative error of e.scale: 2^(k/16) = e.scale · (1 + this).
template <class DD, class VD>
HWY_INLINE VD ScaleError(DD dd, const Exponential<VD>& e) {
  return Lookup16(dd, kExpTableError, hn::BitCast(hn::RebindToUnsigned<DD>(), e.shifted));
}

template <class DD, class VD>
HWY_INLINE VD MinusOne(DD dd, const Exponential<VD>& e, VD tail) {
  return hn::MulAdd(e.scale, tail, hn::Sub(e.scale, hn::Set(dd, 1.0)));
}

template <class VD>
struct Logarithm {
  VD exponent;
  VD r;
  VD table;
};

template <class DD, class VD>
HWY_INLINE Logarithm<VD> LogarithmOf(DD dd, VD x) {
  const hn::RebindToUnsigned<DD> du;
  // The exponent field is raised by 2048, so that it is positive: (x as an integer) + 2048 * 2^52 -
  // kLogLowBits.
  const auto offset = hn::Add(hn::BitCast(du, x), hn::Set(du, (std::uint64_t{1} << 63) - kLogLowBits));
  const auto fraction = hn::And(offset, hn::Set(du, 0x000FFFFFFFFFFFFFULL));
  const VD m = hn::BitCast(dd, hn::Add(fraction, hn::Set(du, kLogLowBits)));
  const auto index = hn::ShiftRight<48>(offset);
  // An integer n below 2^52 in the fraction bits of the double 2^52 makes it 2^52 + n.
  const auto biased = hn::Or(hn::ShiftRight<52>(offset), hn::Set(du, 0x4330000000000000ULL));
  const VD exponent = hn::Sub(hn::BitCast(dd, biased), hn::Set(dd, 0x1p52 + 2048.0));
  const VD one = hn::Set(dd, 1.0);
  if constexpr (HasTableRows<DD>()) {
    const Pair<VD> row = TableRows<DD, 2>(cpu::kLogRows, index).Columns(0);
    return {exponent, hn::MulSub(m, row.first, one), row.second};
  } else {
    return {exponent, hn::MulSub(m, Lookup16(dd, kLogReciprocal, index), one),
            Lookup16(dd, kLogTable, index)};
  }
}

template <class DD, class VD>
HWY_INLINE VD LogarithmSum(DD dd, VD r, VD exponent, VD head) {
  const auto c = [&](int i) HWY_ATTR { return hn::Set(dd, kLogPolynomial[i]); };
  const VD r2 = hn::Mul(r, r);
  const VD p0 = hn::MulAdd(c(1), r, c(0));
  const VD p1 = hn::MulAdd(c(3), r, c(2));
  const VD p2 = hn::MulAdd(c(5), r, c(4));
  const VD p3 = hn::MulAdd(c(7), r, c(6));
  const VD p4 = hn::MulAdd(c(9), r, c(8));
  const VD q = hn::MulAdd(hn::MulAdd(hn::MulAdd(hn::MulAdd(p4, r2, p3), r2, p2), r2, p1), r2, p0);
  const VD tail = hn::MulAdd(q, r2, r);
  return hn::Add(head, hn::MulAdd(exponent, hn::Set(dd, kLn2Low), tail));
}

template <class DD, class VD>
HWY_INLINE VD LogarithmHead(DD dd, const Logarithm<VD>& parts) {
  return hn::MulAdd(parts.exponent, hn::Set(dd, kLn2High), parts.table);
}

template <class DD, class VD>
HWY_INLINE VD ErfOfMagnitude(DD dd, VD a) {
  const VD eighth = hn::Set(dd, 0.125);
  const VD shifted = hn::Add(hn::Sub(a, eighth), hn::Set(dd, 0x1.8p50));
  const VD d = hn::Sub(hn::Sub(a, hn::Sub(shifted, hn::Set(dd, 0x1.8p50))), eighth);
  const VD d2 = hn::Mul(d, d);
  const auto index = hn::BitCast(hn::RebindToUnsigned<DD>(), shifted);
  if constexpr (HasTableRows<DD>()) {
    const TableRows<DD, 12> rows(cpu::kErfRows, index);
    Pair<VD> sum = rows.Columns(10);
    for (std::size_t k = 10; k > 0; k -= 2) {
      const Pair<VD> c = rows.Columns(k - 2);
      sum = {hn::MulAdd(sum.first, d2, c.first), hn::MulAdd(sum.second, d2, c.second)};
    }
    return hn::Mul(a, hn::MulAdd(sum.second, d, sum.first));
  } else {
    const auto c = [&](int k) HWY_ATTR { return Lookup16(dd, kErfPolynomial[k], index); };
    VD even = c(10);
    VD odd = c(11);
    for (int k = 8; k >= 0; k -= 2) {
      even = hn::MulAdd(even, d2, c(k));
      odd = hn::MulAdd(odd, d2, c(k + 1));
    }
    return hn::Mul(a, hn::MulAdd(odd, d, even));
  }
}

template <class DD, class VD>
HWY_INLINE VD SinePolynomial(DD dd, VD high, VD low) {
  const VD r2 = hn::Mul(high, high);
  VD q = hn::Set(dd, kSinPolynomial[6]);
  for (int i = 5; i >= 0; --i) q = hn::MulAdd(q, r2, hn::Set(dd, kSinPolynomial[i]));
  const VD correction = hn::MulAdd(hn::Mul(hn::Set(dd, -0.5), r2), low, low);
  return hn::Add(high, hn::MulAdd(q, hn::Mul(high, r2), correction));
}

template <class DD, class VD>
HWY_INLINE VD CosinePolynomial(DD dd, VD high, VD low) {
  const VD one = hn::Set(dd, 1.0);
  const VD r2 = hn::Mul(high, high);
  VD q = hn::Set(dd, kCosPolynomial[6]);
  for (int i = 5; i >= 0; --i) q = hn::MulAdd(q, r2, hn::Set(dd, kCosPolynomial[i]));
  const VD half = hn::Mul(hn::Set(dd, 0.5), r2);
  const VD head = hn::Sub(one, half);
  const VD lost = hn::Sub(hn::Sub(one, head), half);
  const VD small = hn::MulAdd(q, hn::Mul(r2, r2), hn::Neg(hn::Mul(high, low)));
  return hn::Add(head, hn::Add(lost, small));
}

/// sin(x + quarters pi/2) for |x| < 2^17, where k pi/2 can be subtracted in three parts, the first exactly.
template <class DD, class VD>
HWY_INLINE VD SineOfModerate(DD dd, VD x, std::uint64_t quarters) {
  const hn::RebindToUnsigned<DD> du;
  const VD shifted = hn::MulAdd(x, hn::Set(dd, kTwoOverPi), hn::Set(dd, 0x1.8p52));
  const VD k = hn::Sub(shifted, hn::Set(dd, 0x1.8p52));
  const VD second = hn::Set(dd, kHalfPiSecond);
  const VD r1 = hn::NegMulAdd(k, hn::Set(dd, kHalfPiFirst), x);
  const VD high = hn::NegMulAdd(k, second, r1);
  const VD lost = hn::NegMulAdd(k, second, hn::Sub(r1, high));  // exact
  const VD low = hn::NegMulAdd(k, hn::Set(dd, kHalfPiThird), lost);
  const auto quadrant = hn::Add(hn::BitCast(du, shifted), hn::Set(du, quarters));
  const auto odd = hn::MaskFromVec(
      hn::BitCast(dd, hn::Neg(hn::BitCast(hn::RebindToSigned<DD>(), hn::And(quadrant, hn::Set(du, 1))))));
  const VD value = hn::IfThenElse(odd, CosinePolynomial(dd, high, low), SinePolynomial(dd, high, low));
  const auto sign = hn::And(hn::ShiftLeft<62>(quadrant), hn::Set(du, std::uint64_t{1} << 63));
  return hn::BitCast(dd, hn::Xor(hn::BitCast(du, value), sign));
}

/// Computes lanes in SineOfModerate's range as vectors, the others (rare: huge, infinite, NaN, exceptional)
/// by the scalar function.
template <class D, class V>
HWY_INLINE V SineOrCosine(D d, V x, std::uint64_t quarters, float (*scalar)(float)) {
  const hn::RepartitionToWide<D> dd;
  static_assert(std::size(kSinExceptions) == 1 && kCosExceptions[0].argument >= 0x1p17F);
  const V magnitude = hn::Abs(x);
  const auto moderate = hn::And(hn::Lt(magnitude, hn::Set(d, 0x1p17F)),
                                hn::Ne(magnitude, hn::Set(d, kSinExceptions[0].argument)));
  const V value = InDouble(d, hn::IfThenElseZero(moderate, x),
                           [&](auto v) HWY_ATTR { return SineOfModerate(dd, v, quarters); });
  if (HWY_LIKELY(hn::AllTrue(d, moderate))) return value;
  return CallScalar(d, scalar, x, hn::Not(moderate), value);
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  const hn::RepartitionToWide<D> dd;
  const V y = InDouble(d, Clamp(d, x, -105.0F, 89.0F), [&](auto v) HWY_ATTR {
    const auto e = ExponentialOf(dd, v);
    return hn::MulAdd(e.scale, e.tail, e.scale);
  });
  return CanonicalNan(d, x, y);
}

template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  const hn::RepartitionToWide<D> dd;
  const V y = InDouble(d, Clamp(d, x, -30.0F, 89.0F), [&](auto v) HWY_ATTR {
    const auto e = ExponentialOf(dd, v);
    return MinusOne(dd, e, hn::Add(e.tail, ScaleError(dd, e)));
  });
  return CanonicalNan(d, x, hn::CopySign(y, x));
}

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  const hn::RepartitionToWide<D> dd;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V y = InDouble(d, x, [&](auto v) HWY_ATTR {
    const auto parts = LogarithmOf(dd, v);
    return LogarithmSum(dd, parts.r, parts.exponent, LogarithmHead(dd, parts));
  });
  const auto ordinary = hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, infinity));
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return y;
  return CallScalar(d, &log_f32, x, hn::Not(ordinary), y);
}

template <class D, class V>
HWY_INLINE V Log1p(D d, V x) {
  const hn::RepartitionToWide<D> dd;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V y = InDouble(d, x, [&](auto v) HWY_ATTR {
    const auto parts = LogarithmOf(dd, hn::Add(v, hn::Set(dd, 1.0)));
    const auto head = LogarithmHead(dd, parts);
    const auto near = hn::Eq(head, hn::Zero(dd));
    return LogarithmSum(dd, hn::IfThenElse(near, v, parts.r), parts.exponent, head);
  });
  auto ordinary = hn::And(hn::Gt(x, hn::Set(d, -1.0F)), hn::Lt(x, infinity));
  for (const FunctionException& e : kLog1pExceptions)
    ordinary = hn::And(ordinary, hn::Ne(x, hn::Set(d, e.argument)));
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return hn::CopySign(y, x);
  return CallScalar(d, &log1p_f32, x, hn::Not(ordinary), hn::CopySign(y, x));
}

template <class D, class V>
HWY_INLINE V Sin(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, SineOrCosine(d, x, 0, &sin_f32));
}

template <class D, class V>
HWY_INLINE V Cos(D d, V x) {
  return SineOrCosine(d, x, 1, &cos_f32);
}

template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  const hn::RepartitionToWide<D> dd;
  const V y = InDouble(d, hn::Min(hn::Abs(x), hn::Set(d, 10.0F)), [&](auto a) HWY_ATTR {
    const auto e = ExponentialOf(dd, hn::Add(a, a));
    const auto numerator = MinusOne(dd, e, e.tail);
    return hn::Div(numerator, hn::Add(numerator, hn::Set(dd, 2.0)));
  });
  return CanonicalNan(d, x, hn::CopySignToAbs(y, x));
}

template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  const hn::RepartitionToWide<D> dd;
  const V y = InDouble(d, hn::Min(hn::Abs(x), hn::Set(d, 3.9999F)),
                       [&](auto a) HWY_ATTR { return ErfOfMagnitude(dd, a); });
  return CanonicalNan(d, x, hn::CopySignToAbs(y, x));
}

#else  // no fused multiply-add on doubles, or vectors without a fixed size

#define DGX_SCALAR_FUNCTION(Name, scalar)                                       \
  template <class D, class V>                                                   \
  HWY_INLINE V Name(D d, V x) {                                                 \
    return CallScalar(d, &scalar, x, hn::FirstN(d, hn::Lanes(d)), hn::Zero(d)); \
  }
DGX_SCALAR_FUNCTION(Exp, exp_f32)
DGX_SCALAR_FUNCTION(Expm1, expm1_f32)
DGX_SCALAR_FUNCTION(Log, log_f32)
DGX_SCALAR_FUNCTION(Log1p, log1p_f32)
DGX_SCALAR_FUNCTION(Sin, sin_f32)
DGX_SCALAR_FUNCTION(Cos, cos_f32)
DGX_SCALAR_FUNCTION(Tanh, tanh_f32)
DGX_SCALAR_FUNCTION(Erf, erf_f32)
#undef DGX_SCALAR_FUNCTION

#endif

}  // namespace HWY_NAMESPACE
}  // namespace dgx::kernels
HWY_AFTER_NAMESPACE();

#endif
