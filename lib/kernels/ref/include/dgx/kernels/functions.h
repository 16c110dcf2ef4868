#pragma once

namespace dgx::kernels {

/// The elementary functions of the numeric contract (dgx-numerics(7), "Elementary functions").
///
/// Each returns the correctly rounded binary32 value: the real value of the function at the argument, rounded
/// once to nearest, ties to even. So each has one answer, whoever implements it. Subnormals are kept, on both
/// sides; a NaN argument and an argument outside the domain give 0x7FC00000. All 2^32 arguments were compared
/// with MPFR (tests/slow/functions.cc).
///
/// They call no libm function but std::fma and read no global state; the processor must round to nearest even
/// and must not flush subnormals. Any thread may call them.

[[nodiscard]] float exp_f32(float x);    ///< exp(-inf) is +0, exp(+inf) is +inf.
[[nodiscard]] float expm1_f32(float x);  ///< exp(x) - 1; keeps the sign of a zero; expm1(-inf) is -1.
[[nodiscard]] float log_f32(float x);    ///< log(±0) is -inf; NaN below 0.
[[nodiscard]] float log1p_f32(
    float x);  ///< log(1 + x); keeps the sign of a zero; log1p(-1) is -inf; NaN below -1.
[[nodiscard]] float sin_f32(float x);   ///< Radians; keeps the sign of a zero; NaN at ±inf.
[[nodiscard]] float cos_f32(float x);   ///< Radians; NaN at ±inf.
[[nodiscard]] float tanh_f32(float x);  ///< Keeps the sign of a zero; tanh(±inf) is ±1.
[[nodiscard]] float erf_f32(float x);   ///< Keeps the sign of a zero; erf(±inf) is ±1.

}  // namespace dgx::kernels
