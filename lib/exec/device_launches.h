#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "device_memory.h"
#include "dgx/kernels/cuda/device.h"

namespace dgx::exec {

/// A copy from one place of the device to another.
struct DeviceCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t size_bytes = 0;
};

/// Zeros.
struct DeviceClear {
  void* at = nullptr;
  std::int64_t size_bytes = 0;
};

using DeviceWork = std::variant<kernels::cuda::ElementProgram, kernels::cuda::MapProgram, kernels::cuda::Product, kernels::cuda::Dot,
                                kernels::cuda::Fold, kernels::cuda::ColumnSum, kernels::cuda::KeyedChain, kernels::cuda::UniformNumbers,
                                kernels::cuda::FiniteCheck, DeviceCopy, DeviceClear>;

/// All that a step does on the device, in order, and the tables that its launches read there.
struct DeviceStep {
  std::vector<DeviceWork> work;
  std::vector<std::int32_t> tasks;  ///< by work: of the plan, or -1
  std::vector<std::uint8_t> tables;
};

/// `memory` and `tables` are where the device's memory and these tables (of the size that any call says) begin.
[[nodiscard]] DeviceStep make_device_step(const program::Program& program, const Plan& plan, const DeviceMemory& offsets, std::uint64_t seed,
                                          std::uint8_t* memory, std::uint8_t* tables);

}  // namespace dgx::exec
