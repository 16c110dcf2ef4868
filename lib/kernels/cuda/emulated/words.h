#pragma once

#include "block.h"

/// CUDA's keywords and built-in variables for the emulated device. Shared memory is static: blocks run one
/// after another. These macros shadow the names of other code, so only kernel files may include this.

#define __global__ inline
#define __device__
#define __constant__ inline
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __syncthreads() ::dgx::kernels::cuda::emulated::barrier(__FILE__, __LINE__)
#define threadIdx (::dgx::kernels::cuda::emulated::place.thread)
#define blockIdx (::dgx::kernels::cuda::emulated::place.block)
#define blockDim (::dgx::kernels::cuda::emulated::place.threads)
#define gridDim (::dgx::kernels::cuda::emulated::place.blocks)
