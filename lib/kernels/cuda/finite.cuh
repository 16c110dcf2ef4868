#pragma once

// Checks whether numbers are finite. All threads that find one that is not write the same 1, so their order
// does not matter.

#include "words.h"

#include "dgx/kernels/cuda/device.h"

namespace dgx::kernels::cuda {

/// x - x is 0 for a finite number, and NaN for others.
__device__ inline bool is_finite(float x) { return x - x == 0; }

__global__ void run_finite_check(FiniteCheck check) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t e = global_thread(); e < check.count; e += step) {
    if (!is_finite(check.numbers[e])) *check.not_finite = 1;
  }
}

}  // namespace dgx::kernels::cuda
