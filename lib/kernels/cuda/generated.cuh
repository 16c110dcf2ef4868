#pragma once

// What the text of a generated kernel (exec/device_source.h) stands on, for NVRTC and for the emulated device's compiler. It includes nothing that needs
// a library beyond nvrtc/standard.h, and says no formula anew: numbers are made by kernels/ref's.

#ifdef __CUDACC__
#define DGX_UNROLL _Pragma("unroll")
#define DGX_UNROLL_FOUR _Pragma("unroll 4")
#else
#include "emulated/generated_words.h"
#define DGX_UNROLL
#define DGX_UNROLL_FOUR
#endif

#include <cstdint>
#include <limits>

#include "dgx/kernels/fold_order.h"
#include "dgx/kernels/function_pairs.h"
#include "dgx/kernels/operation_formulas.h"

namespace dgx::kernels::cuda {

/// A kernel's arguments.
template <int kCount>
struct Addresses {
  void* of[kCount];
};

/// DGX_KERNEL(name, threads of a block, arguments) { … `at` … }
#ifdef __CUDACC__
#define DGX_KERNEL(name, threads, count) extern "C" __global__ void __launch_bounds__(threads) name(const dgx::kernels::cuda::Addresses<count> at)
#else
#define DGX_KERNEL(name, threads, count)                                                         \
  static void name##_body(const dgx::kernels::cuda::Addresses<count>& at);                       \
  extern "C" __attribute__((visibility("default"))) void name(const void* arguments) {           \
    name##_body(*static_cast<const dgx::kernels::cuda::Addresses<count>*>(arguments));           \
  }                                                                                              \
  static void name##_body(const dgx::kernels::cuda::Addresses<count>& at)
#endif

using enum ScalarOp;

template <class T, int kCount>
__device__ T* address(const Addresses<kCount>& at, int n) {
  return static_cast<T*>(at.of[n]);
}

// Numbers of steps.

/// Says once in a text how elementary functions are computed: formula::DefinedFunctions or formula::PairFunctions.
#define DGX_FUNCTIONS(functions)                                     \
  template <ScalarOp kOp>                                            \
  __device__ float real(float a, float b = 0, float c = 0) {         \
    return formula::apply_real<functions>(kOp, a, b, c);             \
  }
template <ScalarOp kOp>
__device__ std::int64_t whole(std::int64_t a, std::int64_t b = 0) {
  return formula::apply_integer(kOp, a, b);
}
/// A literal.
__device__ inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
__device__ constexpr std::int64_t integer(std::int64_t x) { return x; }

/// x - x is 0 for a finite number, and NaN for others.
__device__ inline bool is_finite(float x) { return x - x == 0; }

template <class Numbers>
__device__ bool are_finite(const Numbers& numbers) {
  bool all = true;
  DGX_UNROLL for (const float x : numbers.of) all = all && is_finite(x);
  return all;
}

/// A number as a value of its type holds it.
__device__ inline float as_f32(float x) { return canonical_nan(x); }
__device__ inline std::int64_t as_i64(std::int64_t x) { return x; }
__device__ inline std::uint8_t as_u8(std::int64_t x) { return static_cast<std::uint8_t>(to_u8(x)); }

/// Four neighbours, read and written at once.
template <class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Four {
  T of[4];
};
template <class T>
__device__ Four<T> four(const T* from) {
  return *reinterpret_cast<const Four<T>*>(from);
}
template <class T>
__device__ void store(T* to, const Four<T>& numbers) {
  *reinterpret_cast<Four<T>*>(to) = numbers;
}

}  // namespace dgx::kernels::cuda
