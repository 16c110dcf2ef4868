#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/cuda/interface.h"

namespace dgx::test {

/// The device of a module (dgx/kernels/cuda/device.h), as programs open it, or of the one that DGX_TEST_DEVICE names: so that what tests say of the
/// emulated device is said of a GPU, too. Who includes this links the system's dl.
inline Result<std::unique_ptr<kernels::cuda::Device>> open_device(std::string module) {
  if (const char* const other = std::getenv("DGX_TEST_DEVICE"); other != nullptr) module = other;
  void* const handle = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return internal_error(::dlerror());
  const auto open = reinterpret_cast<kernels::cuda::OpenDeviceFunction>(::dlsym(handle, kernels::cuda::kOpenDeviceSymbol));
  Result<std::unique_ptr<kernels::cuda::Device>> device = std::unique_ptr<kernels::cuda::Device>();
  if (open == nullptr || !open(kernels::cuda::kDeviceInterface, &device)) return internal_error(module + " was not built with this test");
  return device;
}

}  // namespace dgx::test
