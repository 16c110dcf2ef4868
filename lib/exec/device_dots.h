#pragma once

#include <optional>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cuda/device.h"

namespace dgx::exec {

/// A dot as a device makes it in tiles: `dot` without the addresses of its values, and without `groups`.
struct DeviceDot {
  kernels::ValueIndex a = 0, b = 0;
  std::int64_t a_base = 0, b_base = 0;  ///< elements from the values' beginnings to the sides'
  kernels::cuda::Dot dot;
};

/// A dot each of whose iteration indices moves one side alone, or both without a coordinate that may lie outside; such coordinates, at most two,
/// on one side; everything in the ranges of Walk. Nullopt: it has another form, or too few rows or columns for tiles to be worth their while.
[[nodiscard]] std::optional<DeviceDot> recognise_device_dot(const kernels::CompiledPrimitive& primitive);

}  // namespace dgx::exec
