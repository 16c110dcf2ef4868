#include "dgx/jobs/cuda_module.h"

#include <dlfcn.h>

#include <string>

#include "dgx/core/beside.h"
#include "dgx/kernels/cuda/interface.h"

namespace dgx::jobs {

Result<std::unique_ptr<kernels::cuda::Device>> open_cuda_device() {
  const std::string path = beside_program("DGX_CUDA_MODULE", "lib/dgx/libdgx_cuda.so");
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open as long as the process lives
  if (handle == nullptr) {
    return internal_error(
        std::string("--device cuda: cannot open its module: ") + ::dlerror(),
        "use --device cpu, or install dgx-cuda, or build dgx where nvcc is found, or set DGX_CUDA_MODULE");
  }
  const auto open =
      reinterpret_cast<kernels::cuda::OpenDeviceFunction>(::dlsym(handle, kernels::cuda::kOpenDeviceSymbol));
  Result<std::unique_ptr<kernels::cuda::Device>> device = std::unique_ptr<kernels::cuda::Device>();
  if (open == nullptr || !open(kernels::cuda::kDeviceInterface, &device)) {
    return internal_error(path + ": it belongs to another version of dgx",
                          "build both together, or check DGX_CUDA_MODULE");
  }
  return device;
}

}  // namespace dgx::jobs
