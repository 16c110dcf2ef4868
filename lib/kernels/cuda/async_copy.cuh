#pragma once

// Asynchronous copies from global to shared memory, which bypass registers; wait_for_copies() waits for them.
// On devices too old for them, and on the emulated one, they are done at once.

#include "words.h"

#include <cstdint>

namespace dgx::kernels::cuda {

/// Adjacent numbers that are moved at once; aligned to their size.
template <int kCount>
struct alignas(kCount * 4) Numbers {
  float at[kCount];
};

/// Keeps the compiler from recomputing a number round after round to save registers.
__device__ inline void keep_in_register([[maybe_unused]] std::uint32_t& number) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(number));
#endif
}

__device__ inline void keep_in_register([[maybe_unused]] const float*& place) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(place));
#endif
}

/// The same number, from which the compiler computes nothing ahead of this call. It would else compute
/// addresses before the loops, and keep them through these in registers, or in local memory.
__device__ inline int not_before_here(int number) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(number));
#endif
  return number;
}

/// An address in shared memory. Copies on a GPU take it as 32 bits, which are computed once.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
struct SharedPlace {
  __device__ explicit SharedPlace(float* at) {
    asm volatile("mov.u32 %0, %1;"
                 : "=r"(address)
                 : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(at))));
  }
  __device__ void move(int bytes) { address += static_cast<std::uint32_t>(bytes); }
  std::uint32_t address;
};
#else
struct SharedPlace {
  __device__ explicit SharedPlace(float* at) : address(at) {}
  __device__ void move(int bytes) { address += bytes / static_cast<int>(sizeof(float)); }
  float* address;
};
#endif

/// Copies 1 or 4 numbers to the place `numbers` floats after `to`, or sets them to 0 without reading if
/// `exists` is false.
template <int kCount>
__device__ inline void copy_async(SharedPlace to, int numbers, const float* from, bool exists) {
  static_assert(kCount == 1 || kCount == 4);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const std::uint32_t at = to.address + static_cast<std::uint32_t>(numbers) * 4;
  const int size = exists ? kCount * 4 : 0;
  if constexpr (kCount == 1) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(size) : "memory");
  } else {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(size) : "memory");
  }
#else
  Numbers<kCount> copied{};
  if (exists) copied = *reinterpret_cast<const Numbers<kCount>*>(from);
  *reinterpret_cast<Numbers<kCount>*>(to.address + numbers) = copied;
#endif
}

/// Ends a batch of this thread's copies, which may be empty.
__device__ inline void end_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most the last `kBatches` of this thread's batches are pending. Other threads see the copies
/// after a barrier.
template <int kBatches>
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kBatches) : "memory");
#endif
}

}  // namespace dgx::kernels::cuda
