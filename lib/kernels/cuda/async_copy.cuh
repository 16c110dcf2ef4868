#pragma once

// Copies from global to shared memory that nobody waits for until wait_for_copies(): they pass no registers. Where a device is too old for them, and on
// the emulated one, they are done at once.

#include "words.h"

#include <cstdint>

namespace dgx::kernels::cuda {

/// Neighbouring numbers that are moved at once; aligned to their size.
template <int kCount>
struct alignas(kCount * 4) Numbers {
  float at[kCount];
};

/// Copies 1 or 4 numbers, or sets them to 0 without reading if `exists` is false.
template <int kCount>
__device__ inline void copy_async(float* to_shared, const float* from, bool exists) {
  static_assert(kCount == 1 || kCount == 4);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared));
  const int size = exists ? kCount * 4 : 0;
  if constexpr (kCount == 1) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
  } else {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
  }
#else
  Numbers<kCount> numbers{};
  if (exists) numbers = *reinterpret_cast<const Numbers<kCount>*>(from);
  *reinterpret_cast<Numbers<kCount>*>(to_shared) = numbers;
#endif
}

/// Ends a batch of this thread's copies, which may be empty.
__device__ inline void end_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until of this thread's batches at most the last `kBatches` are not done. Other threads see them after a barrier.
template <int kBatches>
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kBatches) : "memory");
#endif
}

}  // namespace dgx::kernels::cuda
