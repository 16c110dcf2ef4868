#pragma once

#include "place.h"

/// CUDA's keywords and built-in variables in a library of generated kernels, which the emulated device
/// compiles and opens. As in words.h, these macros shadow names in all that follows. The library is told of
/// the device when it is opened (dgx_meet).

namespace dgx::kernels::cuda::emulated {

static const Host* host = nullptr;

[[maybe_unused]] static void barrier(const char* file, int line) { host->barrier(file, line); }

}  // namespace dgx::kernels::cuda::emulated

extern "C" __attribute__((visibility("default"))) void dgx_meet(
    const dgx::kernels::cuda::emulated::Host* host) {
  dgx::kernels::cuda::emulated::host = host;
}

#define __device__
#define __shared__ static
#define __syncthreads() ::dgx::kernels::cuda::emulated::barrier(__FILE__, __LINE__)
#define threadIdx (::dgx::kernels::cuda::emulated::host->place->thread)
#define blockIdx (::dgx::kernels::cuda::emulated::host->place->block)
#define blockDim (::dgx::kernels::cuda::emulated::host->place->threads)
#define gridDim (::dgx::kernels::cuda::emulated::host->place->blocks)
