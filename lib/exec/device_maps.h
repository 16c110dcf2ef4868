#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dgx/kernels/cuda/device.h"
#include "plan.h"

namespace dgx::exec {

/// Fused maps in the form of kernels::cuda::MapProgram, but without addresses.
struct DeviceMaps {
  struct Load {
    kernels::ValueIndex value = -1;  ///< -1: an index or a literal
    kernels::cuda::MapLoad load;
  };
  struct Store {
    kernels::ValueIndex value = 0;
    std::uint8_t in = 0;
  };
  std::vector<Load> loads;
  std::vector<kernels::cuda::MapOperation> operations;
  std::vector<Store> stores;
  Shape extents;
};

/// Compiles `members`, in order, of which `stored` lie in memory. Nullopt if an access is not linear or
/// registers do not suffice: they must be made element by element then.
[[nodiscard]] std::optional<DeviceMaps> compile_device_maps(const Plan& plan,
                                                            std::span<const kernels::ValueIndex> members,
                                                            std::span<const kernels::ValueIndex> stored);

}  // namespace dgx::exec
