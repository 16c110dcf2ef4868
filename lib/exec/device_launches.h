#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "device_memory.h"
#include "device_source.h"
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

using DeviceWork = std::variant<kernels::cuda::Generated, kernels::cuda::ElementProgram, kernels::cuda::MapProgram, kernels::cuda::Product, kernels::cuda::Dot,
                                kernels::cuda::Fold, kernels::cuda::ColumnSum, kernels::cuda::KeyedChain, kernels::cuda::UniformNumbers,
                                kernels::cuda::FiniteCheck, DeviceCopy, DeviceClear>;

/// All that a step does on the device, in order, and the tables that its launches read there.
struct DeviceStep {
  std::vector<DeviceWork> work;
  std::vector<std::int32_t> tasks;  ///< by work: of the plan, or -1
  std::vector<std::uint8_t> tables;
};

/// Where a step is made for.
struct DevicePlaces {
  std::uint8_t* memory = nullptr;  ///< where the device's memory begins
  std::uint8_t* tables = nullptr;  ///< and these tables
  KernelText* kernels = nullptr;   ///< null: what would be generated is interpreted
  std::int32_t first_kernel = 0;   ///< the device's number of the text's first
};

/// Adds the step's kernels to the text, if they are not there. The tables' size and the kernels are the same wherever it is made for.
[[nodiscard]] DeviceStep make_device_step(const program::Program& program, const Plan& plan, const DeviceMemory& offsets, std::uint64_t seed,
                                          const DevicePlaces& places);

}  // namespace dgx::exec
