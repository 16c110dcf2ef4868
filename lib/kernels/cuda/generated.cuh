#pragma once

// The vocabulary of generated kernels (exec/device/device_source.h), for NVRTC and for the compiler of the
// emulated device. It includes nothing that needs a library beyond nvrtc/standard.h, and repeats no formula:
// numbers are computed by those of kernels/ref.

#ifdef __CUDACC__
#define DGX_UNROLL _Pragma("unroll")
#define DGX_UNROLL_FOUR _Pragma("unroll 4")
#define DGX_UNROLL_ONCE _Pragma("unroll 1")
#else
#include "emulated/generated_words.h"
#define DGX_UNROLL
#define DGX_UNROLL_FOUR
#define DGX_UNROLL_ONCE
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

/// Defines a kernel: DGX_KERNEL(name, threads of a block, number of arguments) { … `at` … }
#ifdef __CUDACC__
#define DGX_KERNEL(name, threads, count) \
  extern "C" __global__ void __launch_bounds__(threads) name(const dgx::kernels::cuda::Addresses<count> at)
#else
#define DGX_KERNEL(name, threads, count)                                               \
  static void name##_body(const dgx::kernels::cuda::Addresses<count>& at);             \
  extern "C" __attribute__((visibility("default"))) void name(const void* arguments) { \
    name##_body(*static_cast<const dgx::kernels::cuda::Addresses<count>*>(arguments)); \
  }                                                                                    \
  static void name##_body(const dgx::kernels::cuda::Addresses<count>& at)
#endif

using enum ScalarOp;

template <class T, int kCount>
__device__ T* address(const Addresses<kCount>& at, int n) {
  return static_cast<T*>(at.of[n]);
}

// Scalar operations on numbers.

/// Used once in a text, to say how elementary functions are computed: formula::DefinedFunctions or
/// formula::PairFunctions.
#define DGX_FUNCTIONS(functions)                             \
  template <ScalarOp kOp>                                    \
  __device__ float real(float a, float b = 0, float c = 0) { \
    return formula::apply_real<functions>(kOp, a, b, c);     \
  }
template <ScalarOp kOp>
__device__ std::int64_t whole(std::int64_t a, std::int64_t b = 0) {
  return formula::apply_integer(kOp, a, b);
}
/// A float literal, by its bits.
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

/// A number as it is stored in a value of the type.
__device__ inline float as_f32(float x) { return canonical_nan(x); }
__device__ inline std::int64_t as_i64(std::int64_t x) { return x; }
__device__ inline std::uint8_t as_u8(std::int64_t x) { return static_cast<std::uint8_t>(to_u8(x)); }

/// Reads a number from memory that the kernel never writes, so the read may be moved ahead of earlier writes.
template <class T>
__device__ T fixed(const T* from) {
#ifdef __CUDACC__
  return __ldg(from);
#else
  return *from;
#endif
}

/// Four adjacent numbers, read and written at once.
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

// Lane groups, which the names below call teams: 32 consecutive threads, one for each lane of
// dgx-numerics(7), "Folds". All threads of a block must call these functions together.

#ifdef __CUDACC__
/// The number of the group's thread whose lane differs in the bit `distance`.
template <class T>
__device__ T beyond(T mine, int distance) {
  return __shfl_xor_sync(0xffffffffU, mine, distance);
}
/// A mask, by lane, of the group's threads for which `holds` is true.
__device__ inline std::uint32_t votes(bool holds) { return __ballot_sync(0xffffffffU, holds); }
__device__ inline std::uint32_t lowest(std::uint32_t all) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(all)) - 1);
}
#else
template <class T>
T beyond(T mine, int distance) {
  static T numbers[1024];
  numbers[threadIdx.x] = mine;
  __syncthreads();
  const T other = numbers[threadIdx.x ^ static_cast<unsigned>(distance)];
  __syncthreads();
  return other;
}
inline std::uint32_t votes(bool holds) {
  static bool all[1024];
  all[threadIdx.x] = holds;
  __syncthreads();
  std::uint32_t mask = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    mask |= static_cast<std::uint32_t>(all[threadIdx.x / 32 * 32 + lane]) << lane;
  __syncthreads();
  return mask;
}
inline std::uint32_t lowest(std::uint32_t all) { return static_cast<std::uint32_t>(__builtin_ctz(all)); }
#endif

/// Transposes the numbers of 32 groups: that of thread t of group u goes to thread u of group t.
template <class T>
__device__ T exchanged(T mine) {
  __shared__ T numbers[32][33];
  const unsigned team = threadIdx.x / 32, lane = threadIdx.x % 32;
  numbers[team][lane] = mine;
  __syncthreads();
  const T other = numbers[lane][team];
  __syncthreads();
  return other;
}

/// The best number so far and where it is.
template <class T>
struct Best {
  T value;
  std::int64_t where;
};
template <class T>
__device__ Best<T> beyond(Best<T> mine, int distance) {
  return {beyond(mine.value, distance), beyond(mine.where, distance)};
}

/// The initial value of max and argmax.
struct Least {
  __device__ operator float() const { return -std::numeric_limits<float>::infinity(); }
  __device__ operator std::int64_t() const { return std::numeric_limits<std::int64_t>::min(); }
  template <class T>
  __device__ operator Best<T>() const {
    return {*this, 0};
  }
};
template <class T>
__device__ Least least() {
  return {};
}

__device__ inline float sum_of(float a, float b) { return a + b; }
__device__ inline std::int64_t sum_of(std::int64_t a, std::int64_t b) { return wrapping_add(a, b); }
template <class T>
__device__ T best_of(T a, T b) {
  return formula::is_better(b, a) ? b : a;
}
/// Prefers the first of equal numbers.
template <class T>
__device__ Best<T> best_of(Best<T> a, Best<T> b) {
  if (formula::is_better(b.value, a.value)) return b;
  if (formula::is_better(a.value, b.value)) return a;
  return b.where < a.where ? b : a;
}

/// The lanes combined at distance 16, 8, 4, 2, 1. Every thread of the group gets the result, because a + b is
/// b + a.
template <class T>
__device__ T sum_of_team(T mine) {
  DGX_UNROLL for (int distance = 16; distance > 0; distance /= 2) mine = sum_of(mine, beyond(mine, distance));
  return mine;
}
template <class T>
__device__ T best_of_team(T mine) {
  DGX_UNROLL for (int distance = 16; distance > 0; distance /= 2) mine =
      best_of(mine, beyond(mine, distance));
  return mine;
}
/// The sum of sum_of_team(), by one thread that has all lanes. Missing lanes are +0, and adding them changes
/// nothing: no lane is -0.
template <class T, int kCount>
__device__ T sum_of_lanes(T (&lanes)[kCount]) {
  DGX_UNROLL for (int distance = 16; distance > 0; distance /= 2) {
    DGX_UNROLL for (int lane = 0; lane < distance; ++lane) {
      if (lane + distance < kCount) lanes[lane] = sum_of(lanes[lane], lanes[lane + distance]);
    }
  }
  return lanes[0];
}

}  // namespace dgx::kernels::cuda
