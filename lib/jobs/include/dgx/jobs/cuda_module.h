#pragma once

#include <memory>

#include "dgx/core/result.h"
#include "dgx/kernels/cuda/device.h"

namespace dgx::jobs {

/// Opens libdgx_cuda.so, once a process: $DGX_CUDA_MODULE, else ../lib beside the program; and the device that it shows. kInternal with a hint if the
/// module, the driver or the GPU is not there.
[[nodiscard]] Result<std::unique_ptr<kernels::cuda::Device>> open_cuda_device();

}  // namespace dgx::jobs
