#pragma once

/// CUDA's keywords and built-in variables: the compiler's own under nvcc, those of the emulated device
/// elsewhere. Every kernel file includes this first.
#ifdef __CUDACC__
#include <cuda_runtime.h>
#define DGX_UNROLL _Pragma("unroll")
#define DGX_NOT_UNROLLED _Pragma("unroll 1")
#else
#include "emulated/words.h"
#define DGX_UNROLL
#define DGX_NOT_UNROLLED
#endif

#include <cstdint>

namespace dgx::kernels::cuda {

/// Grids and blocks have one dimension: the work of a block follows from its number, and the limit of 65,535
/// on further dimensions does not matter. A grid has at most 2^31 - 1 blocks.
struct Grid {
  std::int64_t blocks = 0;
  unsigned threads = 0;  ///< threads per block, at most 1,024
};

/// A grid of blocks of `threads` threads in which each of `count` elements has a thread.
[[nodiscard]] inline Grid grid_of(std::int64_t count, unsigned threads) {
  return {(count + threads - 1) / threads, threads};
}

/// The number of this thread in the grid.
__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace dgx::kernels::cuda
