#pragma once

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

#include "device_module.h"

namespace dgx::test {

/// The emulated device, opened with DGX_EMULATED_DEVICE=`behaves`. Asserts with Catch that it opens.
inline std::unique_ptr<kernels::cuda::Device> emulated_device(const std::string& behaves = "") {
  ::setenv("DGX_EMULATED_DEVICE", behaves.c_str(), 1);
  auto device = open_device(DGX_EMULATED_MODULE);
  ::unsetenv("DGX_EMULATED_DEVICE");
  if (!device.ok()) FAIL(device.error().message);
  return std::move(device).value();
}

}  // namespace dgx::test
