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

/// Memory to be set to zero.
struct DeviceClear {
  void* at = nullptr;
  std::int64_t size_bytes = 0;
};

using DeviceWork =
    std::variant<kernels::cuda::Generated, kernels::cuda::ElementProgram, kernels::cuda::MapProgram,
                 kernels::cuda::Product, kernels::cuda::Dot, kernels::cuda::Fold, kernels::cuda::ColumnSum,
                 kernels::cuda::KeyedChain, kernels::cuda::UniformNumbers, kernels::cuda::FiniteCheck,
                 DeviceCopy, DeviceClear>;

/// All of a step's work on the device, in order, and the tables that its launches read there.
struct DeviceStep {
  std::vector<DeviceWork> work;
  std::vector<std::int32_t> tasks;  ///< by work: its task's index in the plan, or -1
  std::vector<std::uint8_t> tables;
};

/// The addresses that a step is made for, and the text of its kernels.
struct DevicePlaces {
  std::uint8_t* memory = nullptr;  ///< start of the device's memory
  std::uint8_t* tables = nullptr;  ///< start of the tables there
  KernelText* kernels = nullptr;   ///< null: kernels are interpreted, not generated
  std::int32_t first_kernel = 0;   ///< the device's number of the text's first kernel
};

/// Makes a step, and adds its kernels to the text unless they are there. The tables' size and the kernels do
/// not depend on the addresses.
[[nodiscard]] DeviceStep make_device_step(const program::Program& program, const Plan& plan,
                                          const DeviceMemory& offsets, std::uint64_t seed,
                                          const DevicePlaces& places);

}  // namespace dgx::exec
