#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "device/device_memory.h"
#include "device/device_source.h"
#include "dgx/kernels/cuda/device.h"

namespace dgx::exec {

/// A copy from one place of the device to another.
struct DeviceCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t size_bytes = 0;
};

/// Memory to be set to zero.
struct DeviceClear {
  void* at = nullptr;
  std::int64_t size_bytes = 0;
};

using DeviceWork = std::variant<kernels::cuda::Generated, kernels::cuda::Product, kernels::cuda::Dot,
                                kernels::cuda::ColumnSum, kernels::cuda::UniformNumbers,
                                kernels::cuda::FiniteCheck, DeviceCopy, DeviceClear>;

/// All of a step's work on the device, in order.
struct DeviceStep {
  std::vector<DeviceWork> work;          ///< Generated::kernel is an index into `kernels`
  std::vector<std::int32_t> operations;  ///< one per work: its operation's index in the plan, or -1
  KernelText kernels;
};

/// Makes a step for a device whose memory, laid out as `offsets` says, begins at `memory`. The kernels do not
/// depend on the address.
[[nodiscard]] DeviceStep make_device_step(const Plan& plan, const DeviceMemory& offsets, std::uint64_t seed,
                                          std::uint8_t* memory);

}  // namespace dgx::exec
