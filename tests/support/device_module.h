#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/cuda/interface.h"
#include "skip.h"

namespace dgx::test {

/// Opens a module's device (dgx/kernels/cuda/device.h), as programs do, or that of DGX_TEST_DEVICE, so that
/// tests of the emulated device can run on a GPU. Ends the test as skipped where the device lacks what it
/// needs: a GPU, its driver, NVRTC. Users of this header link the system's dl.
inline Result<std::unique_ptr<kernels::cuda::Device>> open_device(std::string module) {
  if (const char* const other = std::getenv("DGX_TEST_DEVICE"); other != nullptr) module = other;
  void* const handle = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return internal_error(::dlerror());
  const auto open =
      reinterpret_cast<kernels::cuda::OpenDeviceFunction>(::dlsym(handle, kernels::cuda::kOpenDeviceSymbol));
  Result<std::unique_ptr<kernels::cuda::Device>> device = std::unique_ptr<kernels::cuda::Device>();
  if (open == nullptr || !open(kernels::cuda::kDeviceInterface, &device))
    return internal_error(module + " was not built with this test");
  if (!device.ok() && device.error().message.starts_with("--device cuda: ")) skip(device.error().message);
  return device;
}

}  // namespace dgx::test
