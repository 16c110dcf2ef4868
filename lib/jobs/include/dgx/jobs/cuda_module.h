#pragma once

#include <memory>

#include "dgx/core/result.h"
#include "dgx/kernels/cuda/device.h"

namespace dgx::jobs {

/// Opens libdgx_cuda.so, once per process ($DGX_CUDA_MODULE, else in ../lib/dgx from the program's folder),
/// and the device it finds. kInternal with a hint if the module, the driver or the GPU is missing.
[[nodiscard]] Result<std::unique_ptr<kernels::cuda::Device>> open_cuda_device();

}  // namespace dgx::jobs
